// Package fakegpu has a GPU without engines for tests of what drives a gpu.Device. Hooks stop its
// calls, make them fail, and end batches when a test wants them to.
package fakegpu

import (
	"context"
	"fmt"
	"sync"

	"pvdrm/gpu"
)

// Device is a GPU without engines. Hooks that are nil do nothing; they are called on the goroutines
// of the caller and are set before the first call.
type Device struct {
	Load    func(ctx context.Context, name string, source []byte, reserve gpu.Reserve) error
	Closing func() // of a context
	NewVRAM func()
	// Submit gets a batch and ends it with done, any time. Nil: batches end at once.
	Submit func(cmds []gpu.Command, done func(gpu.Result))
	// Follow, if it is not nil, gets batches behind points, and says whether it takes them.
	Follow func(points []gpu.Point, done func(gpu.Result)) (bool, error)
	// Freed is called while a channel closes.
	Freed func()
	// Fail is asked before each call, by its name in gpu.Context, such as "Map".
	Fail    func(call string) error
	Keeps   uint64      // HostBytes of modules
	Retains uint64      // Retained of modules
	Params  []gpu.Param // of kernels
	Lost    *gpu.LostError
	Number  int  // of the device
	Images  bool // it takes machine code
	// VRAMBytes is of Properties, and Occupied what each of two contexts occupies, of which the other one is not seen.
	VRAMBytes, Occupied uint64

	// order is locked and unlocked on both sides of a ring, which the race detector does
	// not see: what a test sets before it sends is seen by the hooks.
	order sync.Mutex
	mu    sync.Mutex
	calls []string
}

// Pass orders what the caller did before against what hooks do later.
func (d *Device) Pass() {
	d.order.Lock()
	defer d.order.Unlock()
}

// Calls returns the calls so far that changed something, with their arguments, and forgets them.
func (d *Device) Calls() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

// enter notes a call, or makes it fail.
func (d *Device) enter(name, format string, args ...any) error {
	d.Pass()
	if d.Fail != nil {
		if err := d.Fail(name); err != nil {
			return err
		}
	}
	d.note(name, format, args...)
	return nil
}

func (d *Device) note(name, format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.calls) < 1000 { // those of a benchmark are of no interest
		d.calls = append(d.calls, name+fmt.Sprintf(format, args...))
	}
}

// Properties implements gpu.Device.
func (d *Device) Properties() gpu.Properties {
	return gpu.Properties{Name: "fake", Number: d.Number, Images: d.Images, VRAMBytes: d.VRAMBytes}
}

// NewContext implements gpu.Device.
func (d *Device) NewContext(string) (gpu.Context, error) {
	if err := d.enter("NewContext", ""); err != nil {
		return nil, err
	}
	return &fakeContext{dev: d}, nil
}

// Stats implements gpu.Device.
func (d *Device) Stats() gpu.Stats {
	return gpu.Stats{VRAMUsed: d.VRAMUsed(), VRAMOccupied: 2 * d.Occupied}
}

// VRAMUsed implements gpu.Device.
func (*Device) VRAMUsed() uint64 { return 12345 }

// Close implements gpu.Device.
func (d *Device) Close() error { return nil }

type fakeContext struct{ dev *Device }

func (c *fakeContext) Occupied() uint64 { return c.dev.Occupied }

func (c *fakeContext) NewVRAM(size uint64) (gpu.Memory, error) {
	if err := c.dev.enter("NewVRAM", " %d", size); err != nil {
		return nil, err
	}
	if c.dev.NewVRAM != nil {
		c.dev.NewVRAM()
	}
	return &fakeMemory{dev: c.dev, size: size}, nil
}

func (c *fakeContext) NewSystem(runs [][]byte) (gpu.Memory, error) {
	m := &fakeMemory{dev: c.dev}
	for _, r := range runs {
		m.size += uint64(len(r))
	}
	if err := c.dev.enter("NewSystem", " %d", m.size); err != nil {
		return nil, err
	}
	return m, nil
}

func (c *fakeContext) Map(va uint64, m gpu.Memory, off, n uint64, prot gpu.Prot) error {
	return c.dev.enter("Map", " %x %d+%d of %d, rights %d", va, off, n, m.Size(), prot)
}

func (c *fakeContext) Unmap(va, n uint64) error { return c.dev.enter("Unmap", " %x %d", va, n) }

func (c *fakeContext) LoadModule(ctx context.Context, name string, source []byte, reserve gpu.Reserve) (gpu.Module, error) {
	if err := c.dev.enter("LoadModule", " %s %s", name, source); err != nil {
		return nil, err
	}
	defer c.dev.Pass()
	if c.dev.Load != nil {
		if err := c.dev.Load(ctx, name, source, reserve); err != nil {
			return nil, err
		}
	}
	return &fakeModule{dev: c.dev}, nil
}

func (c *fakeContext) NewChannel() (gpu.Channel, error) {
	if err := c.dev.enter("NewChannel", ""); err != nil {
		return nil, err
	}
	return &fakeChannel{dev: c.dev}, nil
}

func (c *fakeContext) Err() error {
	if c.dev.Lost != nil {
		return c.dev.Lost
	}
	return nil
}

func (c *fakeContext) Close() error {
	c.dev.Pass()
	if c.dev.Closing != nil {
		c.dev.Closing()
	}
	return nil
}

// fakeMemory is compared by pointer, so it is not of size 0.
type fakeMemory struct {
	dev  *Device
	size uint64
}

func (m *fakeMemory) Size() uint64 { return m.size }
func (m *fakeMemory) Close() error { return m.dev.enter("Memory.Close", " %d", m.size) }

// Share implements gpu.Sharer.
func (c *fakeContext) Share(m gpu.Memory) (gpu.Shared, error) {
	if err := c.dev.enter("Share", " %d", m.Size()); err != nil {
		return nil, err
	}
	return &fakeShared{dev: c.dev, size: m.Size()}, nil
}

// Adopt implements gpu.Sharer.
func (c *fakeContext) Adopt(s gpu.Shared) (gpu.Memory, error) {
	if err := c.dev.enter("Adopt", " %d", s.Size()); err != nil {
		return nil, err
	}
	return &fakeMemory{dev: c.dev, size: s.Size()}, nil
}

type fakeShared struct {
	dev  *Device
	size uint64
}

func (s *fakeShared) Size() uint64 { return s.size }
func (s *fakeShared) Close()       { s.dev.note("Shared.Close", " %d", s.size) }

type fakeModule struct{ dev *Device }

// Function finds kernels but those called "none".
func (m *fakeModule) Function(name string) (gpu.Function, error) {
	if name == "none" {
		return nil, gpu.ErrNotFound
	}
	return fakeFunction{name: name, params: m.dev.Params}, nil
}

// Global finds the variable "v".
func (m *fakeModule) Global(name string) (addr, size uint64, err error) {
	if name != "v" {
		return 0, 0, gpu.ErrNotFound
	}
	return 0x1000, 4, nil
}

func (m *fakeModule) HostBytes() uint64 { return m.dev.Keeps }
func (m *fakeModule) Retained() uint64  { return m.dev.Retains }
func (m *fakeModule) Close() error      { return m.dev.enter("Module.Close", "") }

type fakeFunction struct {
	name   string
	params []gpu.Param
}

func (f fakeFunction) Attributes() gpu.FunctionAttributes {
	return gpu.FunctionAttributes{Name: f.name, Params: f.params, ParamBytes: 8, SharedBytes: 1, LocalBytes: 2, ConstBytes: 3, Regs: 4, MaxThreads: 5}
}

type fakeChannel struct{ dev *Device }

func (c *fakeChannel) Submit(cmds []gpu.Command, done func(gpu.Result)) error {
	c.dev.Pass()
	if c.dev.Fail != nil {
		if err := c.dev.Fail("Submit"); err != nil {
			return err
		}
	}
	if c.dev.Submit != nil {
		c.dev.Submit(cmds, done)
		return nil
	}
	done(gpu.Result{})
	return nil
}

// Follows implements gpu.Follower.
func (c *fakeChannel) Follows() bool { return c.dev.Follow != nil }

// SubmitBehind implements gpu.Follower.
func (c *fakeChannel) SubmitBehind(points []gpu.Point, _ []gpu.Command, done func(gpu.Result)) (bool, error) {
	c.dev.Pass()
	return c.dev.Follow(points, done)
}

func (c *fakeChannel) Close() error {
	if c.dev.Freed != nil {
		c.dev.Freed()
	}
	return c.dev.enter("Channel.Close", "")
}
