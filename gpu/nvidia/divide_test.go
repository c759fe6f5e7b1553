package nvidia_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// markWave is how many blocks of mark the fake GPU runs at a time, as its properties say.
const markWave = 1024

// marks is a launch of three waves and a bit that marks its blocks.
func (c *fakeClient) marks(va uint64) *gpu.Launch {
	l := c.launch("mark", words(va)...)
	l.Grid, l.Block = [3]uint32{97, 8, 4}, [3]uint32{nvidia.MarkThreads, 1, 1}
	return l
}

// marked returns how many launches marked the blocks, all of which are marked so often.
func (c *fakeClient) marked(mem []byte, times, mark int) (launches int) {
	c.Helper()
	const blocks = 97 * 8 * 4
	for i := range nvidia.MarkBytes / 4 {
		v := int(hostmem.LoadUint32(mem, 4*i))
		first := v % nvidia.WholeMark / nvidia.PartMark
		launches += first
		want := times * mark
		if i >= blocks {
			want = 0
		}
		require.Equal(c, want, v-first*nvidia.PartMark, "block %d", i)
	}
	return launches
}

// A launch that others wait for is cut into parts where the driver cannot stop it: whole waves, of
// which the first shows how long they take. It stays one command, of one guest.
func TestDivided(t *testing.T) {
	g := &turnGate{}
	c := newFakeClient(t, nvidia.Config{Gate: g})
	mem, va := c.granted(nvidia.MarkBytes)
	require.NoError(t, c.do(c.marks(va)).Err)
	require.Greater(t, c.marked(mem, 1, 1), 1)
	require.NotZero(t, hostmem.LoadUint32(mem, 4*markWave)/nvidia.PartMark, "the second part begins behind one wave")
	require.NoError(t, c.do(c.marks(va), c.launch("idle"), c.marks(va), &gpu.Copy{Src: va, Dst: va, Width: 4, Height: 1}).Err)
	require.Greater(t, c.marked(mem, 3, 1), 3)
	s := c.dev.Stats()
	require.EqualValues(t, 4, s.Launches)
	require.EqualValues(t, 4, s.LaunchTimes.Count())
	c.Close()
	require.EqualValues(t, 5, g.commands)
}

// Close closes the context, so that the gate has all of what was used.
func (c *fakeClient) Close() { require.NoError(c, c.ctx.Close()) }

// A kernel that can be stopped is not divided unless that is asked for.
func TestDividedOnDemand(t *testing.T) {
	for divide, mark := range map[bool]int{false: nvidia.WholeMark, true: 1} {
		c := newFakeClientOf(t, nvidia.Config{Gate: &turnGate{}, Divide: divide}, guardedFake)
		mem, va := c.granted(nvidia.MarkBytes)
		require.NoError(t, c.do(c.marks(va)).Err)
		require.Equal(t, divide, c.marked(mem, 1, mark) > 1)
	}
}

// aloneGate tells whether its device is alone.
type aloneGate struct {
	turnGate
	alone atomic.Bool
}

// Alone is part of gpu.Gate.
func (g *aloneGate) Alone(gpu.Engine) bool { return g.alone.Load() }

// A guest that is alone has its kernels whole, but for long ones.
func TestUndividedAlone(t *testing.T) {
	for _, test := range []struct {
		block time.Duration // that a block is expected to take; 0: not known
		alone bool
		mark  int
	}{
		{block: time.Nanosecond, alone: true, mark: nvidia.WholeMark},
		{block: time.Millisecond, alone: true, mark: 1},
		{block: 0, alone: true, mark: 1},
		{block: time.Nanosecond, alone: false, mark: nvidia.WholeMark},
		{block: time.Microsecond, alone: false, mark: 1},
		{block: time.Microsecond, alone: true, mark: nvidia.WholeMark},
	} {
		g := &aloneGate{}
		g.alone.Store(test.alone)
		c := newFakeClient(t, nvidia.Config{Gate: g})
		mem, va := c.granted(nvidia.MarkBytes)
		l := c.marks(va)
		nvidia.ExpectBlocks(l.Func, test.block)
		require.NoError(t, c.do(l).Err)
		require.Equal(t, test.mark == 1, c.marked(mem, 1, test.mark) > 1)
		c.Close()
	}
}

// Between two parts the engine goes to others when the gate wants it.
func TestDividedGivesWay(t *testing.T) {
	g := &turnGate{admitted: make(chan struct{})}
	c := newFakeClient(t, nvidia.Config{Gate: g})
	mem, va := c.granted(nvidia.MarkBytes)
	g.preempts[gpu.EngineCompute].Store(true)
	done := make(chan gpu.Result, 1)
	require.NoError(t, c.ch.Submit([]gpu.Command{c.marks(va)}, func(r gpu.Result) { done <- r }))
	require.Eventually(t, func() bool { return g.entries(gpu.EngineCompute) == 2 }, 5*time.Minute, time.Millisecond)
	require.Empty(t, done, "parts are left")
	require.Zero(t, hostmem.LoadUint32(mem, 4*(97*8*4-1)))
	closed := make(chan error, 1)
	go func() { closed <- c.ch.Close() }() // which waits for the launch that has begun
	g.admitted <- struct{}{}
	close(g.admitted)
	require.NoError(t, (<-done).Err)
	require.NoError(t, <-closed)
	require.Greater(t, c.marked(mem, 1, 1), 1)
}

// A task whose worker ends between two parts begins again.
func TestDividedTaskRunsAgain(t *testing.T) {
	g := &turnGate{admitted: make(chan struct{})}
	c := newFakeClient(t, nvidia.Config{Gate: g})
	mem, va := c.granted(nvidia.MarkBytes)
	g.preempts[gpu.EngineCompute].Store(true)
	done := make(chan gpu.Result, 1)
	require.NoError(t, c.ch.Submit([]gpu.Command{&gpu.Task{}, c.marks(va)}, func(r gpu.Result) { done <- r }))
	require.Eventually(t, func() bool { return g.entries(gpu.EngineCompute) == 2 }, 5*time.Minute, time.Millisecond)
	first := hostmem.LoadUint32(mem, 4)
	require.EqualValues(t, 1, first)
	require.NoError(t, unix.Kill(workerOf(t), unix.SIGKILL))
	require.Eventually(t, func() bool { return c.dev.Stats().Replays == 1 }, 5*time.Minute, time.Millisecond)
	close(g.admitted)
	require.NoError(t, (<-done).Err)
	require.EqualValues(t, 2, hostmem.LoadUint32(mem, 4))
	require.EqualValues(t, 1, hostmem.LoadUint32(mem, 4*(97*8*4-1)))
}

// A module whose twins the driver does not take runs whole. So does one that this tree cannot read.
func TestTwinsRefused(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{Gate: &turnGate{}})
	mem, va := c.granted(nvidia.MarkBytes)
	for n, source := range []string{fakeSource + "// twins_refused", strings.Replace(fakeSource, "mark(.param .u64 p) { ret; }", "mark(.param .u64 p) { unheard.of; ret; }", 1)} {
		var err error
		c.mod, err = c.ctx.LoadModule(context.Background(), "fake.ptx", []byte(source), nil)
		require.NoError(t, err)
		require.NoError(t, c.do(c.marks(va)).Err)
		require.Equal(t, n+1, c.marked(mem, n+1, nvidia.WholeMark))
	}
	_, err := c.ctx.LoadModule(context.Background(), "fake.ptx", []byte(fakeSource+"// refused_by_driver"), nil)
	var refused *gpu.BuildError
	require.ErrorAs(t, err, &refused)
}
