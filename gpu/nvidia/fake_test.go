package nvidia_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/gputest"
	"pvdrm/gpu/nvidia"
	"pvdrm/gpu/points"
)

// fakeSource declares the kernels that the fake driver has.
const fakeSource = `.version 6.0
.target sm_50
.address_size 64
.visible .entry store(.param .u64 p, .param .u32 v) { ret; }
.visible .entry idle() { ret; }
.visible .entry count(.param .u64 p) { ret; }
.visible .entry talks(.param .u64 p) { .reg .u64 %a; .reg .u32 %r; ld.param.u64 %a, [p]; ld.volatile.global.u32 %r, [%a]; ret; }
.visible .entry frees() { ret; }
.visible .entry stays() { ret; }
.visible .entry spin() { ret; }
.visible .entry once(.param .u64 p, .param .u32 hang) { ret; }
.visible .entry trapped() { ret; }
.visible .entry says(.param .u8 more) { ret; }
.visible .entry asserts() { ret; }
.visible .entry dies() { ret; } .visible .entry mark(.param .u64 p) { ret; }
`

// fakeClient is a context on the fake driver, with granted pages at the start of
// the window.
type fakeClient struct {
	*testing.T
	dev   gpu.Device
	ctx   gpu.Context
	ch    gpu.Channel
	mod   gpu.Module
	props gpu.Properties
	polls bool // it helps its channel while it waits
}

// bothWays runs a test with clients that only wait, and with clients that poll meanwhile.
func bothWays(t *testing.T, test func(t *testing.T, polls bool)) {
	t.Run("waiting", func(t *testing.T) { test(t, false) })
	t.Run("polling", func(t *testing.T) { test(t, true) })
}

// receive waits for what the channel of a client tells.
func receive[T any](c *fakeClient, from chan T) T {
	c.Helper()
	late := time.After(5 * time.Minute)
	for {
		select {
		case v := <-from:
			return v
		case <-late:
			require.FailNow(c, "a batch has not ended")
		default:
		}
		if c.polls {
			for range 100 {
				c.ch.(gpu.Poller).Poll()
			}
		}
		runtime.Gosched()
	}
}

// wrapper wraps a device; nil leaves it as it is.
type wrapper func(*testing.T, gpu.Device) gpu.Device

func (w wrapper) of(t *testing.T, dev gpu.Device) gpu.Device {
	if w == nil {
		return dev
	}
	return w(t, dev)
}

// wrappedToo runs a test on contexts as they are, and on those whose kernels run in pieces.
func wrappedToo(t *testing.T, test func(*testing.T, wrapper)) {
	t.Run("as they are", func(t *testing.T) { test(t, nil) })
	t.Run("points", func(t *testing.T) {
		test(t, func(t *testing.T, dev gpu.Device) gpu.Device {
			d, err := points.New(dev, points.Config{Force: true, Short: -1, Area: 4 << 20, Far: true})
			require.NoError(t, err)
			return d
		})
	})
}

func newFakeClient(t *testing.T, config nvidia.Config) *fakeClient {
	return newFakeClientOf(t, config, fakeWorker)
}

func newFakeClientOf(t *testing.T, config nvidia.Config, kind string) *fakeClient {
	return newFakeClientOn(t, config, kind, nil)
}

// newFakeClientOn has the device wrapped, unless there is nothing to wrap it with.
func newFakeClientOn(t *testing.T, config nvidia.Config, kind string, wrap wrapper) *fakeClient {
	config.Keeper = keeperCommand(kind)
	dev, err := nvidia.New(config)
	require.NoError(t, err)
	dev = wrap.of(t, dev)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	c := &fakeClient{T: t, dev: dev, props: dev.Properties()}
	c.open()
	return c
}

func (c *fakeClient) open() {
	var err error
	c.ctx, err = c.dev.NewContext("fake")
	require.NoError(c, err)
	c.ch, err = c.ctx.NewChannel()
	require.NoError(c, err)
	c.mod, err = c.ctx.LoadModule(context.Background(), "fake.ptx", []byte(fakeSource), nil)
	require.NoError(c, err)
}

func (c *fakeClient) launch(name string, params ...byte) *gpu.Launch {
	f, err := c.mod.Function(name)
	require.NoError(c, err)
	return &gpu.Launch{Func: f, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}, Params: params}
}

func (c *fakeClient) do(cmds ...gpu.Command) gpu.Result {
	done := make(chan gpu.Result, 1)
	require.NoError(c, c.ch.Submit(cmds, func(r gpu.Result) { done <- r }))
	return receive(c, done)
}

// TestBookkeeping runs those groups of the suite that need a driver but no kernels:
// what is mapped where, what commands may touch, and how they are cut into pieces.
func TestBookkeeping(t *testing.T) {
	gputest.Run(t, func(t *testing.T) gpu.Device {
		d, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(fakeWorker)})
		require.NoError(t, err)
		return d
	}, "properties", "copy", "fill", "timestamp", "words", "model", "snapshot")
}

func TestFaultEndsItsContextOnly(t *testing.T) {
	for _, test := range []struct {
		name   string
		kernel string
		params []byte
		want   gpu.LostCause
		limit  time.Duration // zero: one that a busy machine does not reach
	}{
		{name: "trap", kernel: "trapped", params: nil, want: gpu.LostTrap},
		{name: "address", kernel: "store", params: make([]byte, 12), want: gpu.LostAddress},
		{name: "worker died", kernel: "dies", params: nil, want: gpu.LostDevice},
		{name: "endless", kernel: "spin", params: nil, want: gpu.LostTimeout, limit: 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, polls bool) {
				c := newFakeClient(t, nvidia.Config{LaunchLimit: test.limit})
				c.polls = polls
				r := c.do(c.launch(test.kernel, test.params...))
				var lost *gpu.LostError
				require.ErrorAs(t, r.Err, &lost)
				require.Equal(t, test.want, lost.Cause, "%v", lost)
				if test.want != gpu.LostDevice {
					require.Equal(t, test.kernel, lost.Kernel)
				}
				require.Equal(t, uint64(1), c.dev.Stats().Faults)
				require.Equal(t, r.Err, c.do().Err, "it stays")
				require.NoError(t, c.ctx.Close())
				c.open()
				require.NoError(t, c.do(&gpu.Fill{Dst: c.vram(), Size: 4, Width: 4, Height: 1}).Err, "the device lives")
			})
		})
	}
}

// vram maps a page of VRAM at the start of the window.
func (c *fakeClient) vram() uint64 {
	m, err := c.ctx.NewVRAM(c.props.VRAM.Page)
	require.NoError(c, err)
	require.NoError(c, c.ctx.Map(c.props.VRAM.Base, m, 0, m.Size(), gpu.ProtRead|gpu.ProtWrite))
	return c.props.VRAM.Base
}

func TestRefusalByTheDriverLeavesTheContextAlive(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	va := c.vram()
	l := c.launch("store", binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, va), 7)...)
	require.NoError(t, c.do(l).Err)
	l.Block[0] = 1023 // too many for the fake
	r := c.do(&gpu.Fill{Dst: va, Size: 4, Width: 4, Height: 1}, l, l)
	require.ErrorIs(t, r.Err, gpu.ErrInvalid)
	require.Equal(t, 1, r.Index)
	require.ErrorIs(t, c.do().Err, gpu.ErrCanceled)
	require.NoError(t, c.ctx.Err())
}

func TestCompilerRefusalIsABuildError(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	_, err := c.ctx.LoadModule(context.Background(), "x.ptx", []byte(strings.ReplaceAll(fakeSource, "trapped", "refused_by_driver")), nil)
	var build *gpu.BuildError
	require.ErrorAs(t, err, &build)
	require.Equal(t, "x.ptx", build.Diagnostics[0].File)
}

// The backend knows neither these instructions nor that directive of a kernel, and leaves both
// to the driver.
func TestInstructionsAreTheDriversMatter(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	mod, err := c.ctx.LoadModule(context.Background(), "new.ptx", []byte(`.version 8.7
.target sm_90a
.address_size 64
.global .texref picture;
.visible .entry store(.param .u64 p, .param .align 64 .b8 map[128]) .future 1, 2 .reqnctapercluster 2 {
	{ mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2}, {%r1}, {%r2}, {%f3}; } // }
	tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [picture, {%f5, %f6}];
	cp.async.ca.shared.global [%r1], [%rd1], 16;
	tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 64;
	futuristic.instruction "}" {%r1, %r2}; /* } */
	ret;
}
.visible .entry idle() { ret; }
.visible .entry count(.param .u64 p) { ret; }
.visible .entry frees() { ret; }
.visible .entry stays() { ret; }
`), nil)
	require.NoError(t, err)
	f, err := mod.Function("store")
	require.NoError(t, err)
	require.Equal(t, []gpu.Param{{Offset: 0, Size: 8}, {Offset: 64, Size: 128}}, f.Attributes().Params)
	_, err = mod.Function("idle")
	require.NoError(t, err)
	_, _, err = mod.Global("picture")
	require.ErrorIs(t, err, gpu.ErrNotFound)
}

// The compiler's complaints keep their lines.
func TestComplaintsOfTheCompiler(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	_, err := c.ctx.LoadModule(context.Background(), "x.ptx", []byte(fakeSource+".entry wrong() {\nbogus;\nret;\nbogus;\n}\n"), nil)
	var build *gpu.BuildError
	require.ErrorAs(t, err, &build)
	const text = "error: Not a name of any known instruction: 'bogus'"
	require.Equal(t, []gpu.Diagnostic{
		{File: "x.ptx", Line: 17, Col: 1, Message: text},
		{File: "x.ptx", Line: 19, Col: 1, Message: text},
	}, build.Diagnostics)
}

// Where the driver refuses PTX without a word, package ptx may know why: its complaints have columns.
func TestDeclarationsAreChecked(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	for source, want := range map[string]string{
		"hello":                               `x.ptx:1:1: error: `,
		fakeSource + ".entry cut() { {ret;}":  `error: function cut is not closed`,
		fakeSource + ".entry idle() { ret; }": `error: duplicate definition of 'idle'`,
	} {
		_, err := c.ctx.LoadModule(context.Background(), "x.ptx", []byte(source+" // refused_by_driver"), nil)
		var build *gpu.BuildError
		require.ErrorAs(t, err, &build)
		require.Contains(t, build.Error(), want)
	}
}

func TestSystemMemoryMustBeAFile(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	_, err := c.ctx.NewSystem([][]byte{make([]byte, 1<<16)[:4096]})
	require.ErrorIs(t, err, gpu.ErrInvalid)
}

func TestNoWorker(t *testing.T) {
	for kind, want := range map[string]string{
		missingWorker: "no such file or directory",
		falseWorker:   "exit status 1",
	} {
		_, err := nvidia.New(nvidia.Config{Keeper: keeperCommand(kind)})
		require.ErrorContains(t, err, "starting a CUDA worker")
		require.ErrorContains(t, err, want)
	}
}

func TestNoKeeper(t *testing.T) {
	_, err := nvidia.New(nvidia.Config{Keeper: []string{"/nonexistent/keeper"}})
	require.ErrorContains(t, err, "starting the keeper of CUDA workers")
	_, err = nvidia.New(nvidia.Config{Keeper: []string{"/bin/false"}})
	require.ErrorContains(t, err, "the keeper of CUDA workers has ended")
}

// Workers end with their keeper: the context that had one is lost, and there are no
// others.
func TestKeeperIsKilled(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	worker := workerOf(t)
	require.NoError(t, unix.Kill(keeperOf(t), unix.SIGKILL))
	require.Eventually(t, func() bool { return c.ctx.Err() != nil }, 5*time.Minute, time.Millisecond)
	var lost *gpu.LostError
	require.ErrorAs(t, c.ctx.Err(), &lost)
	require.Eventually(t, func() bool { return unix.Kill(worker, 0) == unix.ESRCH }, 5*time.Minute, time.Millisecond)
	_, err := c.dev.NewContext("another")
	require.ErrorContains(t, err, "the keeper of CUDA workers has ended")
}

// The filters leave keepers, workers and compilers what they need.
func TestConfinedProcessesServe(t *testing.T) {
	c := newFakeClientOf(t, nvidia.Config{}, confinedFake)
	for _, pid := range []int{keeperOf(t), workerOf(t), compilerOf(t)} {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		require.NoError(t, err)
		require.Contains(t, string(status), "Seccomp:\t2\n")
	}
	require.NoError(t, c.do(c.launch("idle")).Err)
	mod, err := c.ctx.LoadModule(context.Background(), "next.ptx", []byte(fakeSource+"// another\n"), nil)
	require.NoError(t, err)
	require.NoError(t, mod.Close())
}

// Nothing is left of a device that was closed.
func TestNoProcessIsLeft(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	worker, keeper := workerOf(t), keeperOf(t)
	c.ctx.Close()
	require.NoError(t, c.dev.Close())
	require.ErrorIs(t, unix.Kill(worker, 0), unix.ESRCH)
	require.ErrorIs(t, unix.Kill(keeper, 0), unix.ESRCH)
}

// The number of a device reaches the driver, for contexts and for the compiler.
func TestNumberedDevice(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{Number: 1})
	require.Equal(t, 1, c.props.Number)
	for number, want := range map[int]string{2: "there is no CUDA device 2; nvidia-smi -L lists", -1: "device number -1; choose 0 or more"} {
		_, err := nvidia.New(nvidia.Config{Number: number, Keeper: keeperCommand(fakeWorker)})
		require.ErrorContains(t, err, want)
	}
}

// The user's order of GPUs stays; else that of nvidia-smi holds.
func TestInOrder(t *testing.T) {
	require.Equal(t, []string{"A=b", "CUDA_DEVICE_ORDER=PCI_BUS_ID"}, nvidia.InOrder([]string{"A=b"}))
	chosen := []string{"CUDA_DEVICE_ORDER=FASTEST_FIRST", "A=b"}
	require.Equal(t, chosen, nvidia.InOrder(chosen))
}

func TestNoSnapshots(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	var state bytes.Buffer
	_, err := c.ctx.(gpu.Snapshotter).Snapshot(context.Background(), &state)
	require.ErrorIs(t, err, gpu.ErrUnsupported)
	require.Empty(t, state.Bytes())
	_, err = c.dev.(gpu.Restorer).Restore(context.Background(), "another", &state, gpu.Owner{})
	require.ErrorIs(t, err, gpu.ErrUnsupported)
	require.NoError(t, c.do(c.launch("idle")).Err)
}
