package pvdrm_test

import (
	"context"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"pvdrm/backend/carrier/virtio"
	"pvdrm/backend/virtio/component/pvdrm"
	"pvdrm/backend/virtio/vhostuser/vhosttest"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
	"pvdrm/hypercall"
)

// Commands of virtio-gpu, and their answer.
const (
	unref         = 0x102
	attachBacking = 0x106
	ctxCreate     = 0x200
	ctxDestroy    = 0x201
	ctxAttach     = 0x202
	ctxDetach     = 0x203
	create3D      = 0x204
	submit3D      = 0x207
	respOK        = 0x1100
)

// heldDevice is a device whose contexts do not allocate until the test lets them, or they are closed.
type heldDevice struct {
	gpu.Device
	allocating chan chan struct{} // gets a channel for each allocation, which the test closes
}

type heldContext struct {
	gpu.Context
	device *heldDevice
	ended  chan struct{}
}

func (d *heldDevice) NewContext(label string) (gpu.Context, error) {
	ctx, err := d.Device.NewContext(label)
	return &heldContext{Context: ctx, device: d, ended: make(chan struct{}, 1)}, err
}

func (c *heldContext) NewVRAM(size uint64) (gpu.Memory, error) {
	goOn := make(chan struct{})
	select {
	case c.device.allocating <- goOn:
	case <-c.ended:
		return nil, gpu.ErrClosed
	}
	select {
	case <-goOn:
		return c.Context.NewVRAM(size)
	case <-c.ended:
		return nil, gpu.ErrClosed
	}
}

func (c *heldContext) Close() error {
	select {
	case c.ended <- struct{}{}:
	default:
	}
	return c.Context.Close()
}

// machine is a guest with a driver for virtio-gpu.
type machine struct {
	*vhosttest.Frontend
	t       testing.TB
	control *vhosttest.Queue
	guest   *virtio.Guest
}

func newMachine(t testing.TB, device gpu.Device, limits quota.Limits) *machine {
	t.Helper()
	guest := &virtio.Guest{Device: device, Log: zap.NewNop()}
	guest.SetLimits(limits)
	dev, err := virtgpu.New(virtgpu.Config{Components: []virtgpu.Component{pvdrm.Component{Guest: guest}}})
	require.NoError(t, err)
	front, back := vhosttest.Pair(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = dev.ServeConn(context.Background(), back) // tests look at what the guest sees
	}()
	t.Cleanup(func() {
		_ = front.Close() // may be closed already
		<-ended
		require.Zero(t, guest.Open())
		require.Zero(t, dev.Stats().Entries)
		for _, q := range guest.Sessions().Quotas {
			require.Zero(t, q.Used, q.Resource)
		}
		require.NoError(t, device.Close())
	})
	m := &machine{Frontend: vhosttest.New(t, front), t: t, guest: guest}
	m.Hello(vhosttest.Features | 3)
	m.ShareMemory()
	m.control = m.NewQueue(0, 64)
	m.control.Start(0)
	return m
}

func command(typ, ctx uint32, body ...[]byte) []byte {
	b := vhosttest.Words(typ, 0, 0, 0, ctx, 0)
	for _, part := range body {
		b = append(b, part...)
	}
	return b
}

// ok sends a command, waits for its answer, which must come next, and demands success.
func (m *machine) ok(typ, ctx uint32, body ...[]byte) {
	m.t.Helper()
	answer := m.control.Do(command(typ, ctx, body...), 24)
	require.EqualValues(m.t, respOK, binary.LittleEndian.Uint32(answer))
}

// object makes an object of size bytes in a context.
func (m *machine) object(ctx, id uint32, addr uint64, size int) {
	m.t.Helper()
	words := vhosttest.Words
	m.ok(create3D, 0, words(id, 0, 0, 0, 0, 0, 0, 0, 0, 0, hypercall.ResourceFlag, 0))
	m.ok(attachBacking, 0, words(id, 1), vhosttest.Longs(addr), words(uint32(size), 0))
	m.ok(ctxAttach, ctx, words(id, 0))
}

func (m *machine) doorbell(ctx uint32, d hypercall.Doorbell) {
	m.t.Helper()
	b := d.Encode()
	m.ok(submit3D, ctx, vhosttest.Words(uint32(len(b)), 0), b)
}

// file is a DRM file of the guest.
type file struct {
	*machine
	ctx, res uint32 // its context, and the resource of its ring
	ring     *hypercall.Ring
	requests *hypercall.Producer
	answers  *hypercall.Consumer
	sent     uint32
}

func (m *machine) open(ctx uint32) *file {
	m.t.Helper()
	layout := hypercall.DefaultLayout
	size := (layout.Bytes() + 4095) &^ 4095
	f := &file{machine: m, ctx: ctx, res: 100 * ctx}
	m.ok(ctxCreate, ctx, make([]byte, 72))
	addr := m.Alloc(size, 4096)
	m.object(ctx, f.res, addr, int(size))
	var err error
	f.ring, err = hypercall.New(m.Bytes(addr, size), layout)
	require.NoError(m.t, err)
	m.doorbell(ctx, hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: f.res, Layout: layout})
	f.requests, f.answers = f.ring.Requests(), f.ring.Completions()
	return f
}

// send sends a request.
func (f *file) send(op hypercall.Op, payload []byte) {
	f.t.Helper()
	f.sent++
	ok, err := f.requests.Put(hypercall.Header{Op: op, ID: f.sent, Flags: hypercall.FlagAnswer}, payload)
	require.NoError(f.t, err)
	require.True(f.t, ok)
	f.requests.Publish()
	f.doorbell(f.ctx, hypercall.Doorbell{Op: hypercall.DoorbellKick})
}

// ask sends a request and waits for its success.
func (f *file) ask(op hypercall.Op, payload []byte) {
	f.t.Helper()
	f.send(op, payload)
	buf := make([]byte, hypercall.MaxMessage)
	for end := time.Now().Add(time.Minute); ; runtime.Gosched() {
		h, _, ok, err := f.answers.Get(buf)
		require.NoError(f.t, err)
		if ok {
			require.Zero(f.t, h.Errno)
			return
		}
		require.True(f.t, time.Now().Before(end), "%v is not answered", op)
	}
}

// allocateAndFree grants memory to the GPU, as a program does for pinned memory, and frees it.
func (f *file) allocateAndFree(id uint32, addr uint64, size int) {
	words := vhosttest.Words
	f.object(f.ctx, id, addr, size)
	f.ask(hypercall.OpGemGrant, hypercall.GemGrant{Handle: id, Resource: id, Size: uint64(size)}.Append(nil))
	f.ok(ctxDetach, f.ctx, words(id, 0))
	f.ok(unref, 0, words(id, 0))
}

func softDevice(t testing.TB) gpu.Device {
	t.Helper()
	d, err := softgpu.New(softgpu.Config{VRAMBytes: 64 << 20})
	require.NoError(t, err)
	return d
}

// While the session of one file is busy, what that file gives back is answered later, and another
// file allocates, frees, opens and closes.
func TestBusyFileHoldsNobodyUp(t *testing.T) {
	device := &heldDevice{Device: softDevice(t), allocating: make(chan chan struct{})}
	m := newMachine(t, device, quota.Limits{})
	words := vhosttest.Words
	busy := m.open(1)
	page := m.Alloc(4096, 4096)
	m.object(1, 10, page, 4096)
	busy.ask(hypercall.OpGemGrant, hypercall.GemGrant{Handle: 1, Resource: 10, Size: 4096}.Append(nil))
	busy.send(hypercall.OpGemNew, hypercall.GemNew{Handle: 2, Size: 64 << 10}.Append(nil))
	goOn := <-device.allocating // its pump is held

	detach, answer := m.control.Send(command(ctxDetach, 1, words(10, 0)), 24)
	free, _ := m.control.Send(command(unref, 0, words(10, 0)), 24)
	other := m.open(2)
	other.allocateAndFree(20, m.Alloc(4096, 4096), 4096)
	busy.doorbell(1, hypercall.Doorbell{Op: hypercall.DoorbellKick})
	m.object(1, 11, m.Alloc(4096, 4096), 4096) // the busy file goes on, too
	m.ok(ctxDestroy, 2)
	require.NotZero(t, m.guest.Sessions().Clients, "nothing is detached yet")

	close(goOn)
	head, _ := m.control.Wait()
	require.Equal(t, detach, head)
	require.EqualValues(t, respOK, binary.LittleEndian.Uint32(answer))
	head, _ = m.control.Wait()
	require.Equal(t, free, head)

	// A file that is closed while its session is busy: what was begun is aborted.
	busy.send(hypercall.OpGemNew, hypercall.GemNew{Handle: 3, Size: 64 << 10}.Append(nil))
	<-device.allocating
	m.ok(ctxDestroy, 1)
	m.ok(unref, 0, words(busy.res, 0))
	m.open(1)
}

// A file whose session cannot be made is told in its ring, and a fence that it waits for signals.
func TestNoSession(t *testing.T) {
	m := newMachine(t, softDevice(t), quota.Limits{quota.Contexts: 1})
	m.open(1).ask(hypercall.OpNop, nil)
	refused := m.open(2)
	require.Eventually(t, func() bool { return refused.ring.State() == hypercall.StateEnded }, time.Minute, time.Millisecond)
	arm := hypercall.Doorbell{Op: hypercall.DoorbellArm}.Encode()
	fenced := append(vhosttest.Words(submit3D, 1, 7, 0, 2, 0, uint32(len(arm)), 0), arm...)
	answer := m.control.Do(fenced, 24)
	require.Equal(t, vhosttest.Words(respOK, 1, 7, 0, 2, 0), answer)
	refused.doorbell(2, hypercall.Doorbell{Op: hypercall.DoorbellKick})
	m.ok(ctxDestroy, 2)
	m.ok(ctxDestroy, 1)
	m.open(3).ask(hypercall.OpNop, nil)
}

// BenchmarkAllocateAndFree is how long one file takes to grant memory to the GPU and to take it
// back: alone, and while another one does the same and compiles.
func BenchmarkAllocateAndFree(b *testing.B) {
	device := &heldDevice{Device: softDevice(b), allocating: make(chan chan struct{})}
	m := newMachine(b, device, quota.Limits{})
	f, busy := m.open(1), m.open(2)
	page, held := m.Alloc(4096, 4096), m.Alloc(4096, 4096)
	run := func(b *testing.B) {
		for b.Loop() {
			f.allocateAndFree(10, page, 4096)
		}
	}
	b.Run("alone", run)
	m.object(2, 20, held, 4096)
	busy.send(hypercall.OpGemNew, hypercall.GemNew{Handle: 2, Size: 64 << 10}.Append(nil))
	goOn := <-device.allocating
	m.control.Send(command(ctxDetach, 2, vhosttest.Words(20, 0)), 24)
	b.Run("beside a busy file", run)
	close(goOn)
	m.control.Wait()
}

// BenchmarkDoorbell measures what the device does for the only exit on the data path.
func BenchmarkDoorbell(b *testing.B) {
	m := newMachine(b, softDevice(b), quota.Limits{})
	f := m.open(1)
	kick := hypercall.Doorbell{Op: hypercall.DoorbellKick}.Encode()
	b.ReportAllocs()
	for b.Loop() {
		m.ok(submit3D, f.ctx, vhosttest.Words(uint32(len(kick)), 0), kick)
	}
}
