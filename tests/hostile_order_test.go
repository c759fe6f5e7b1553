package tests

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/carrier"
	"pvdrm/frontend/carrier/local"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	guestimage "pvdrm/guest-image"
	"pvdrm/tests/hostile"
)

// holdingDevice is a device that compiles the module hostile.HeldModule when it is let.
type holdingDevice struct {
	gpu.Device
	entered chan struct{} // closed when that module is to be compiled
	enter   *sync.Once
	let     chan struct{} // closed to let it
}

func holding(d gpu.Device) *holdingDevice {
	return &holdingDevice{Device: d, entered: make(chan struct{}), enter: &sync.Once{}, let: make(chan struct{})}
}

// NewContext is part of gpu.Device.
func (d *holdingDevice) NewContext(label string) (gpu.Context, error) {
	c, err := d.Device.NewContext(label)
	if err != nil {
		return nil, err
	}
	return &holdingContext{Context: c, device: d}, nil
}

type holdingContext struct {
	gpu.Context
	device *holdingDevice
}

// LoadModule is part of gpu.Context.
func (c *holdingContext) LoadModule(ctx context.Context, name string, source []byte, reserve gpu.Reserve) (gpu.Module, error) {
	if name == hostile.HeldModule {
		c.device.enter.Do(func() { close(c.device.entered) })
		select {
		case <-c.device.let:
		case <-ctx.Done():
		}
	}
	return c.Context.LoadModule(ctx, name, source, reserve)
}

// runBeside runs AllocateBeside while the compiler is held by HoldTheCompiler, and lets
// that go on when the other has ended.
func runBeside(t *testing.T, d *holdingDevice, run func(name string) error) {
	t.Helper()
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- run(hostile.HoldTheCompiler) }()
	receive(t, d.entered, "the module does not come to the compiler")
	go func() { second <- run(hostile.AllocateBeside) }()
	err := receive(t, second, "another file waits for the compiler")
	close(d.let)
	require.NoError(t, err)
	require.NoError(t, receive(t, first, "the module is not compiled"))
}

// receive waits for what is not to wait for the compiler.
func receive[T any](t *testing.T, c <-chan T, otherwise string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Error(otherwise)
	}
	return v
}

// freeing tells when pages have been taken back.
type freeing struct {
	carrier.Carrier
	freed chan<- error
}

// Free is part of carrier.Carrier.
func (f freeing) Free(p *carrier.Pages) error {
	err := f.Carrier.Free(p)
	f.freed <- err
	return err
}

// While a module is compiled, its file takes pages back, and what other files of a local
// guest allocate and free is done.
func TestNobodyWaitsForTheCompiler(t *testing.T) {
	device, err := softgpu.New(softgpu.Config{VRAMBytes: 256 << 20})
	require.NoError(t, err)
	d := holding(device)
	h := startHostOn(t, d)
	freed := make(chan error, 1)
	runBeside(t, d, func(name string) error {
		open := func() (carrier.Carrier, error) { return local.Open(h.socket) }
		if name == hostile.HoldTheCompiler {
			open = func() (carrier.Carrier, error) {
				c, err := local.Open(h.socket)
				return freeing{Carrier: c, freed: freed}, err
			}
		} else if err := receive(t, freed, "the file that compiles waits for its pages"); err != nil {
			return err
		}
		for _, a := range hostile.Orders() {
			if a.Name == name {
				return a.Run(open, 1)
			}
		}
		return nil
	})
}

// The same in a virtual machine, where all files share a queue of commands.
func TestNobodyInAMachineWaitsForTheCompiler(t *testing.T) {
	program, err := hostileProgram()
	require.NoError(t, err)
	var d *holdingDevice
	g, err := bootOn(30*time.Second, func(inner gpu.Device) gpu.Device {
		d = holding(inner)
		return d
	}, nil, guestimage.Program{Name: filepath.Base(program), Path: program})
	require.NoError(t, err)
	runBeside(t, d, func(name string) error {
		var out bytes.Buffer
		code, err := g.Run(t.Context(), []string{"hostile", name}, nil, &out, &out)
		if err == nil && code != 0 {
			err = errors.New(out.String())
		}
		return err
	})
	require.NoError(t, g.close(), "something of the guest is left")
}
