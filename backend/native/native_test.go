package native_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	backend "pvdrm/backend/carrier/local"
	"pvdrm/backend/native"
	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/frontend/carrier/local"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// source has a kernel that adds one to each word, one that traps, and a variable.
const source = `
.version 6.3
.target sm_70
.address_size 64
.global .align 4 .u32 answer = 42;
.visible .entry addone(.param .u64 p, .param .u32 n)
{
	.reg .pred %p<2>;
	.reg .b32 %r<7>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [p];
	ld.param.u32 %r1, [n];
	mov.u32 %r2, %ctaid.x;
	mov.u32 %r3, %ntid.x;
	mov.u32 %r4, %tid.x;
	mad.lo.s32 %r5, %r2, %r3, %r4;
	setp.ge.u32 %p1, %r5, %r1;
	@%p1 bra DONE;
	cvta.to.global.u64 %rd2, %rd1;
	mul.wide.u32 %rd3, %r5, 4;
	add.s64 %rd4, %rd2, %rd3;
	ld.global.u32 %r6, [%rd4];
	add.u32 %r6, %r6, 1;
	st.global.u32 [%rd4], %r6;
DONE:
	ret;
}
.visible .entry stop()
{
	trap;
}
.visible .entry forever()
{
LOOP:
	bra LOOP;
}
`

func softGPU(t testing.TB) gpu.Device {
	dev, err := softgpu.New(softgpu.Config{VRAMBytes: 256 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	return dev
}

func openNative(t testing.TB, dev gpu.Device) drm.File {
	f, err := native.Open(dev, "test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() }) // a test may have closed it
	return f
}

// serveLocal starts a local backend on a device and returns how to open its files.
func serveLocal(t testing.TB, dev gpu.Device) (open func() (drm.File, error)) {
	dir, err := os.MkdirTemp("", "pvdrm-native-") // a short path: sockets need one
	require.NoError(t, err)
	socket := filepath.Join(dir, "gpu")
	l, err := backend.Listen(socket)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := backend.NewServer(backend.Config{Device: dev, Log: zap.NewNop()}).Serve(ctx, l); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		served.Wait()
		require.NoError(t, os.RemoveAll(dir))
	})
	return func() (drm.File, error) {
		c, err := local.Open(socket)
		if err != nil {
			return nil, err
		}
		return frontend.New(c)
	}
}

// program is a file with a channel, a mapped buffer in system memory and the module.
type program struct {
	drm.File
	t                       testing.TB
	channel, handle, module uint32
	mem                     []byte
	addr                    uint64
	addone, stop, forever   uint32
}

const bufferBytes = 64 << 10

func newProgram(t testing.TB, f drm.File) *program {
	p := &program{File: f, t: t}
	var err error
	p.channel, err = f.ChannelAlloc()
	require.NoError(t, err)
	p.handle, err = f.GemNew(bufferBytes, drm.DomainSystem, 0)
	require.NoError(t, err)
	p.mem, err = f.GemMap(p.handle)
	require.NoError(t, err)
	p.addr = p.param(drm.ParamSystemBase)
	require.NoError(t, f.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: p.handle, Addr: p.addr, Range: bufferBytes}}, true))
	p.module, err = f.ModuleLoad("test.ptx", []byte(source))
	require.NoError(t, err)
	for name, id := range map[string]*uint32{"addone": &p.addone, "stop": &p.stop, "forever": &p.forever} {
		*id, _, err = f.ModuleFunction(p.module, name)
		require.NoError(t, err)
	}
	return p
}

func (p *program) param(which drm.Param) uint64 {
	v, err := p.GetParam(which)
	require.NoError(p.t, err)
	return v
}

func (p *program) fill(word uint32) []byte {
	return drm.FillCmd{Dst: p.addr, Size: 4, Pattern: word, Width: bufferBytes, Height: 1}.Append(nil)
}

func launch(function uint32) []byte {
	return drm.LaunchCmd{Function: function, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}.Append(nil)
}

func (p *program) exec(channel uint32, stream []byte, waits ...drm.Point) drm.Point {
	seqno, err := p.Exec(channel, stream, waits)
	require.NoError(p.t, err)
	return drm.Point{Channel: channel, Seqno: seqno}
}

func (p *program) other() uint32 {
	id, err := p.ChannelAlloc()
	require.NoError(p.t, err)
	return id
}

// both runs a test on the native file and on one of a local guest.
func both(t *testing.T, test func(t *testing.T, p *program)) {
	t.Run("native", func(t *testing.T) { test(t, newProgram(t, openNative(t, softGPU(t)))) })
	t.Run("guest", func(t *testing.T) {
		f, err := serveLocal(t, softGPU(t))()
		require.NoError(t, err)
		t.Cleanup(func() { _ = f.Close() }) // the test may have closed it
		test(t, newProgram(t, f))
	})
}

func TestWork(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		params := make([]byte, 12)
		for i := range 8 {
			params[i] = byte(p.addr >> (8 * i))
		}
		params[8] = 3 // words
		stream := drm.LaunchCmd{Function: p.addone, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{32, 1, 1}, Params: params}.Append(p.fill(7))
		require.NoError(t, p.Wait(p.exec(p.channel, stream), -1))
		require.Equal(t, []byte{8, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 7, 0, 0, 0}, p.mem[:16])
		cause, text, err := p.LostStatus()
		require.NoError(t, err)
		require.Zero(t, cause)
		require.Empty(t, text)
	})
}

// A batch runs after the points that it waits for, whichever channel they are of.
func TestPoints(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		const rounds = 50
		other := p.other()
		var last drm.Point
		for i := range uint32(rounds) {
			a := p.exec(p.channel, p.fill(2*i), last2(last)...)
			last = p.exec(other, p.fill(2*i+1), a)
		}
		require.NoError(t, p.Wait(last, -1))
		require.Equal(t, byte(2*rounds-1), p.mem[0])
	})
}

func last2(p drm.Point) []drm.Point {
	if p.Seqno == 0 {
		return nil
	}
	return []drm.Point{p}
}

// Work that waits for a channel goes on when that channel is freed, and work
// that waits on a freed channel is dropped.
func TestFreedChannels(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		busy, other := p.other(), p.other()
		held := p.exec(busy, p.fill(1))
		first := p.exec(other, p.fill(2), held)
		p.exec(p.channel, p.fill(3), first)
		require.NoError(t, p.ChannelFree(other))
		require.NoError(t, p.ChannelFree(busy))
		require.NoError(t, p.Wait(p.exec(p.channel, p.fill(4)), -1))
		require.Equal(t, byte(4), p.mem[0])
		_, err := p.Exec(busy, nil, nil)
		require.ErrorIs(t, err, syscall.ENOENT)
	})
}

func TestTimeouts(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		at := p.exec(p.channel, launch(p.forever))
		require.ErrorIs(t, p.Wait(at, 0), syscall.ETIME)
		require.ErrorIs(t, p.Wait(at, time.Microsecond), syscall.ETIME)
		require.ErrorIs(t, p.Wait(at, time.Millisecond), syscall.ETIME)
		require.NoError(t, p.Close()) // aborts it
		require.ErrorIs(t, p.Close(), syscall.EBADF)
	})
}

func TestNothingWaitsForItself(t *testing.T) {
	p := newProgram(t, openNative(t, softGPU(t)))
	at := p.exec(p.channel, nil, drm.Point{Channel: p.channel, Seqno: 1})
	require.ErrorIs(t, p.Wait(at, -1), syscall.EINVAL)
}

// Close ends what runs and what waits for it, in the device and in the program.
func TestCloseEndsWaits(t *testing.T) {
	p := newProgram(t, openNative(t, softGPU(t)))
	at := p.exec(p.channel, launch(p.forever))
	second := p.exec(p.other(), p.fill(1), at) // a feeder waits for it
	done := make(chan error, 1)
	go func() { done <- p.Wait(second, -1) }()
	require.NoError(t, p.Close())
	require.Error(t, <-done)
}

// A failure of queued work that has no other place is told by the next wait, once.
func TestLateErrors(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		require.NoError(t, p.VMBind([]drm.BindOp{{Op: drm.BindUnmap, Addr: p.addr + bufferBytes, Range: 4096}}, true))
		p.param(drm.ParamVRAMUsed) // an answer: by now it has been tried
		at := p.exec(p.channel, p.fill(1))
		require.ErrorIs(t, p.Wait(at, -1), syscall.ENOENT)
		require.NoError(t, p.Wait(at, -1))
	})
}

func TestFailures(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		good := p.exec(p.channel, p.fill(1))
		bad := p.exec(p.channel, append(p.fill(2), launch(9999)...))
		after := p.exec(p.channel, p.fill(3))
		require.NoError(t, p.Wait(good, -1))
		require.ErrorIs(t, p.Wait(bad, -1), syscall.ENOENT)
		require.ErrorContains(t, p.Wait(bad, -1), "failed at command 1")
		require.ErrorContains(t, p.Wait(after, -1), "was canceled: batch 2 failed")
		require.Equal(t, byte(1), p.mem[0], "a batch with an error in it does nothing")

		other := p.other()
		require.ErrorIs(t, p.Wait(p.exec(other, launch(p.stop)), -1), syscall.EIO)
		cause, text, err := p.LostStatus()
		require.NoError(t, err)
		require.EqualValues(t, gpu.LostTrap, cause)
		require.Contains(t, text, "trap")
		require.ErrorIs(t, p.Wait(p.exec(other, p.fill(4)), -1), syscall.EIO)
	})
}

func newObject(size uint64, d drm.Domain, flags drm.GemFlags) func(p *program) error {
	return func(p *program) error { _, err := p.GemNew(size, d, flags); return err }
}

// bindChanged maps the program's object, with a change that makes the mapping wrong.
func bindChanged(change func(p *program, op *drm.BindOp)) func(p *program) error {
	return func(p *program) error {
		op := drm.BindOp{Op: drm.BindMap, Handle: p.handle, Addr: p.addr + bufferBytes, Range: bufferBytes}
		change(p, &op)
		return p.VMBind([]drm.BindOp{op}, false)
	}
}

func execAndWait(stream []byte, waits ...drm.Point) func(p *program) error {
	return func(p *program) error {
		at, err := p.Exec(p.channel, stream, waits)
		if err != nil {
			return err
		}
		return p.Wait(drm.Point{Channel: p.channel, Seqno: at}, -1)
	}
}

// refusals are calls that fail.
var refusals = []struct {
	name string
	do   func(p *program) error
}{
	{name: "object of nothing", do: newObject(0, drm.DomainVRAM, 0)},
	{name: "object of a world", do: newObject(1<<47, drm.DomainVRAM, 0)},
	{name: "object larger than VRAM", do: newObject(1<<40, drm.DomainVRAM, 0)},
	{name: "object nowhere", do: newObject(4096, 0, 0)},
	{name: "object in both domains", do: newObject(4096, drm.DomainVRAM|drm.DomainSystem, 0)},
	{name: "object with strange flags", do: newObject(4096, drm.DomainSystem, 1<<30)},
	{name: "map what is not there", do: func(p *program) error { _, err := p.GemMap(9999); return err }},
	{name: "size of what is not there", do: func(p *program) error { _, err := p.GemSize(9999); return err }},
	{name: "close what is not there", do: func(p *program) error { return p.GemClose(9999) }},
	{name: "map VRAM into the program", do: func(p *program) error {
		h, err := p.GemNew(1, drm.DomainVRAM, 0)
		if err == nil {
			_, err = p.GemMap(h)
		}
		return err
	}},
	{name: "close twice", do: func(p *program) error { return errors.Join(p.GemClose(p.handle), p.GemClose(p.handle)) }},
	{name: "bind unknown operation", do: bindChanged(func(_ *program, op *drm.BindOp) { op.Op = 9 })},
	{name: "bind unknown flags", do: bindChanged(func(_ *program, op *drm.BindOp) { op.Flags = 2 })},
	{name: "bind unknown object", do: bindChanged(func(_ *program, op *drm.BindOp) { op.Handle = 9999 })},
	{name: "bind on top", do: bindChanged(func(p *program, op *drm.BindOp) { op.Addr = p.addr })},
	{name: "bind nothing", do: bindChanged(func(_ *program, op *drm.BindOp) { op.Range = 0 })},
	{name: "bind past the end", do: bindChanged(func(_ *program, op *drm.BindOp) { op.BOOffset = 4096 })},
	{name: "bind askew", do: bindChanged(func(_ *program, op *drm.BindOp) { op.Addr++ })},
	{name: "bind around", do: bindChanged(func(_ *program, op *drm.BindOp) { op.Addr = ^uint64(0) &^ 4095 })},
	{name: "bind outside of the window", do: bindChanged(func(_ *program, op *drm.BindOp) { op.Addr = 4096 })},
	{name: "unmap nothing", do: bindChanged(func(_ *program, op *drm.BindOp) { *op = drm.BindOp{Op: drm.BindUnmap, Addr: op.Addr, Range: 4096} })},
	{name: "unmap with a handle", do: bindChanged(func(_ *program, op *drm.BindOp) { op.Op = drm.BindUnmap })},
	{name: "free unknown channel", do: func(p *program) error { return p.ChannelFree(9999) }},
	{name: "free channel 0", do: func(p *program) error { return p.ChannelFree(0) }},
	{name: "channels without end", do: func(p *program) error {
		for range 100_000 {
			if _, err := p.ChannelAlloc(); err != nil {
				return err
			}
		}
		return nil
	}},
	{name: "exec too long", do: execAndWait(make([]byte, drm.MaxExecBytes+8))},
	{name: "exec too many waits", do: execAndWait(nil, make([]drm.Point, drm.MaxWaits+1)...)},
	{name: "exec garbage", do: execAndWait([]byte{1, 2, 3, 4, 5, 6, 7, 8})},
	{name: "exec unknown function", do: execAndWait(launch(9999))},
	{name: "exec waits for an unknown channel", do: execAndWait(nil, drm.Point{Channel: 9999, Seqno: 1})},
	{name: "exec with an unaligned timestamp", do: execAndWait(drm.TimestampCmd{Addr: 1}.Append(nil))},
	{name: "exec to where nothing is mapped", do: execAndWait(drm.TimestampCmd{Addr: 8}.Append(nil))},
	{name: "wait for the future", do: func(p *program) error { return p.Wait(drm.Point{Channel: p.channel, Seqno: 99}, 0) }},
	{name: "wait on an unknown channel", do: func(p *program) error { return p.Wait(drm.Point{Channel: 9999}, 0) }},
	{name: "load nothing", do: func(p *program) error { _, err := p.ModuleLoad("a", nil); return err }},
	{name: "load too much", do: func(p *program) error { _, err := p.ModuleLoad("a", make([]byte, 1<<30)); return err }},
	{name: "load garbage", do: func(p *program) error { _, err := p.ModuleLoad("a", []byte("fnord")); return err }},
	{name: "unload what is not there", do: func(p *program) error { return p.ModuleUnload(9999) }},
	{name: "unload twice", do: func(p *program) error { return errors.Join(p.ModuleUnload(p.module), p.ModuleUnload(p.module)) }},
	{name: "launch what was unloaded", do: func(p *program) error { return errors.Join(p.ModuleUnload(p.module), execAndWait(launch(p.stop))(p)) }},
	{name: "function without name", do: func(p *program) error { _, _, err := p.ModuleFunction(p.module, ""); return err }},
	{name: "function that is not there", do: func(p *program) error { _, _, err := p.ModuleFunction(p.module, "no"); return err }},
	{name: "function of no module", do: func(p *program) error { _, _, err := p.ModuleFunction(9999, "addone"); return err }},
	{name: "variable without name", do: func(p *program) error { _, _, err := p.ModuleGlobal(p.module, ""); return err }},
	{name: "variable that is not there", do: func(p *program) error { _, _, err := p.ModuleGlobal(p.module, "no"); return err }},
	{name: "unknown parameter", do: func(p *program) error { _, err := p.GetParam(9999); return err }},
	{name: "parameter 0", do: func(p *program) error { _, err := p.GetParam(0); return err }},
}

// Every refusal has the same errno with and without a guest between.
func TestRefusals(t *testing.T) {
	for _, a := range refusals {
		t.Run(a.name, func(t *testing.T) {
			seen := map[string]string{}
			both(t, func(t *testing.T, p *program) {
				err := a.do(p)
				require.Error(t, err)
				var no syscall.Errno
				require.ErrorAs(t, err, &no)
				var mod *drm.ModuleError
				seen[no.Error()] = fmt.Sprintf("%s: %v (a module error: %v)", t.Name(), err, errors.As(err, &mod))
			})
			require.Len(t, seen, 1, "%v", seen)
		})
	}
}

func TestModules(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		_, size, err := p.ModuleGlobal(p.module, "answer")
		require.NoError(t, err)
		require.EqualValues(t, 4, size)
		a, attr, err := p.ModuleFunction(p.module, "addone")
		require.NoError(t, err)
		require.NotEqual(t, p.addone, a, "each look-up is a function of its own")
		require.Equal(t, []drm.FunctionParam{{Offset: 0, Size: 8}, {Offset: 8, Size: 4}}, attr.Params)
		require.EqualValues(t, 12, attr.ParamBytes)
		_, err = p.ModuleLoad("wrong.ptx", []byte(".version 6.3\n.target sm_70\n.address_size 64\nfnord"))
		var refused *drm.ModuleError
		require.ErrorAs(t, err, &refused)
		require.ErrorIs(t, err, syscall.ENOEXEC)
		require.Contains(t, refused.Log, "wrong.ptx:4:1")
	})
}

func TestProperties(t *testing.T) {
	dev := softGPU(t)
	f := openNative(t, dev)
	guest, err := serveLocal(t, dev)()
	require.NoError(t, err)
	for p := drm.Param(1); int(p) <= drm.NumParams; p++ {
		if p == drm.ParamVRAMUsed {
			continue // the other file uses some
		}
		want, err := guest.GetParam(p)
		require.NoError(t, err)
		got, err := f.GetParam(p)
		require.NoError(t, err)
		require.Equal(t, want, got, "parameter %d", p)
	}
	want, err := guest.Version()
	require.NoError(t, err)
	got, err := f.Version()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, guest.Close())
}

// What a file had is given back when it is closed.
func TestCloseGivesAllBack(t *testing.T) {
	dev := softGPU(t)
	before := dev.Stats()
	p := newProgram(t, openNative(t, dev))
	p.exec(p.channel, p.fill(1))
	require.NoError(t, p.Close())
	after := dev.Stats()
	require.Equal(t, before.VRAMUsed, after.VRAMUsed)
	require.Equal(t, before.Channels, after.Channels)
	_, err := p.GemNew(1, drm.DomainVRAM, 0)
	require.Error(t, err)
	_, err = p.GemMap(p.handle)
	require.ErrorIs(t, err, syscall.EBADF)
}

func TestManyThreads(t *testing.T) {
	both(t, func(t *testing.T, p *program) {
		const threads, rounds = 8, 100
		failed := make(chan error, threads)
		for range threads {
			go func() {
				ch, err := p.ChannelAlloc()
				for range rounds {
					var at uint64
					if err == nil {
						at, err = p.Exec(ch, p.fill(1), []drm.Point{{Channel: p.channel, Seqno: 1}})
					}
					if err == nil {
						err = p.Wait(drm.Point{Channel: ch, Seqno: at}, -1)
					}
				}
				failed <- errors.Join(err, p.ChannelFree(ch))
			}()
		}
		require.NoError(t, p.Wait(p.exec(p.channel, p.fill(2)), -1))
		for range threads {
			if err := <-failed; err != nil { // the first point may not have been there yet
				require.ErrorIs(t, err, syscall.EINVAL)
			}
		}
	})
}
