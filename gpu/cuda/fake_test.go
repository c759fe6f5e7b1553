package cuda_test

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/cuda"
	"pvdrm/gpu/gputest"
)

// fakeSource declares the kernels that the fake driver has.
const fakeSource = `.version 6.0
.target sm_50
.address_size 64
.visible .entry store(.param .u64 p, .param .u32 v) { ret; }
.visible .entry spin() { ret; }
.visible .entry once(.param .u64 p, .param .u32 hang) { ret; }
.visible .entry trapped() { ret; }
.visible .entry dies() { ret; }
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
	late := time.After(20 * time.Second)
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

func newFakeClient(t *testing.T, config cuda.Config) *fakeClient {
	config.Keeper = keeperCommand(fakeWorker)
	dev, err := cuda.New(config)
	require.NoError(t, err)
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
	c.mod, err = c.ctx.LoadModule("fake.ptx", []byte(fakeSource))
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
		d, err := cuda.New(cuda.Config{Keeper: keeperCommand(fakeWorker)})
		require.NoError(t, err)
		return d
	}, "properties", "copy", "fill", "timestamp", "model")
}

func TestFaultEndsItsContextOnly(t *testing.T) {
	for _, test := range []struct {
		name   string
		kernel string
		params []byte
		want   gpu.LostCause
	}{
		{"trap", "trapped", nil, gpu.LostTrap},
		{"address", "store", make([]byte, 12), gpu.LostAddress},
		{"worker died", "dies", nil, gpu.LostDevice},
		{"endless", "spin", nil, gpu.LostTimeout},
	} {
		t.Run(test.name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, polls bool) {
				c := newFakeClient(t, cuda.Config{LaunchLimit: 200 * time.Millisecond})
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
	c := newFakeClient(t, cuda.Config{})
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
	c := newFakeClient(t, cuda.Config{})
	_, err := c.ctx.LoadModule("x.ptx", []byte(strings.ReplaceAll(fakeSource, "trapped", "refused_by_driver")))
	var build *gpu.BuildError
	require.ErrorAs(t, err, &build)
	require.Equal(t, "x.ptx", build.Diagnostics[0].File)
}

func TestSystemMemoryMustBeAFile(t *testing.T) {
	c := newFakeClient(t, cuda.Config{})
	_, err := c.ctx.NewSystem([][]byte{make([]byte, 1<<16)[:4096]})
	require.ErrorIs(t, err, gpu.ErrInvalid)
}

func TestNoWorker(t *testing.T) {
	for kind, want := range map[string]string{
		missingWorker: "no such file or directory",
		falseWorker:   "exit status 1",
	} {
		_, err := cuda.New(cuda.Config{Keeper: keeperCommand(kind)})
		require.ErrorContains(t, err, "starting a CUDA worker")
		require.ErrorContains(t, err, want)
	}
}

func TestNoKeeper(t *testing.T) {
	_, err := cuda.New(cuda.Config{Keeper: []string{"/nonexistent/keeper"}})
	require.ErrorContains(t, err, "starting the keeper of CUDA workers")
	_, err = cuda.New(cuda.Config{Keeper: []string{"/bin/false"}})
	require.ErrorContains(t, err, "the keeper of CUDA workers has ended")
}

// Workers end with their keeper: the context that had one is lost, and there are no
// others.
func TestKeeperIsKilled(t *testing.T) {
	c := newFakeClient(t, cuda.Config{})
	worker := workerOf(t)
	require.NoError(t, unix.Kill(keeperOf(t), unix.SIGKILL))
	require.Eventually(t, func() bool { return c.ctx.Err() != nil }, 10*time.Second, time.Millisecond)
	var lost *gpu.LostError
	require.ErrorAs(t, c.ctx.Err(), &lost)
	require.Eventually(t, func() bool { return unix.Kill(worker, 0) == unix.ESRCH }, 10*time.Second, time.Millisecond)
	_, err := c.dev.NewContext("another")
	require.ErrorContains(t, err, "the keeper of CUDA workers has ended")
}

// Nothing is left of a device that was closed.
func TestNoProcessIsLeft(t *testing.T) {
	c := newFakeClient(t, cuda.Config{})
	worker, keeper := workerOf(t), keeperOf(t)
	c.ctx.Close()
	require.NoError(t, c.dev.Close())
	require.ErrorIs(t, unix.Kill(worker, 0), unix.ESRCH)
	require.ErrorIs(t, unix.Kill(keeper, 0), unix.ESRCH)
}
