package nvidia_test

import (
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

// repeats is a client with VRAM and granted memory that submits batches again and again.
type repeats struct {
	*fakeClient
	mem  []byte
	va   uint64
	vram uint64
}

func newRepeats(t *testing.T, config nvidia.Config) *repeats {
	t.Cleanup(nvidia.SetGraphTime(time.Hour)) // this machine may be busy
	c := &repeats{fakeClient: newFakeClientOf(t, config, guardedFake)}
	c.vram = c.fakeClient.vram()
	c.mem, c.va = c.granted(4096)
	return c
}

// stores is a batch that fills a part of the VRAM, stores n words there, and brings them to granted memory.
func (c *repeats) stores(n int, first uint32) (cmds []gpu.Command) {
	cmds = append(cmds, &gpu.Fill{Dst: c.vram, Size: 4, Width: 4 * uint64(n), Height: 1})
	for i := range n {
		params := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, c.vram+4*uint64(i)), first+uint32(i))
		cmds = append(cmds, c.launch("store", params...))
	}
	return append(cmds, &gpu.Copy{Dst: c.va, Src: c.vram, Width: 4 * uint64(n), Height: 1}, &gpu.Timestamp{VA: c.va + 2048})
}

// works runs a batch of stores, and looks at what it stored.
func (c *repeats) works(n int, first uint32) {
	c.Helper()
	clear(c.mem)
	require.NoError(c, c.do(c.stores(n, first)...).Err)
	for i := range n {
		require.EqualValues(c, first+uint32(i), hostmem.LoadUint32(c.mem, 4*i), "word %d", i)
	}
	require.NotZero(c, binary.LittleEndian.Uint64(c.mem[2048:]))
}

// graphs returns how many graphs the driver launched, and how many it refused.
func (c *repeats) graphs() [2]uint64 {
	s := c.dev.Stats()
	return [2]uint64{s.Graphs, s.GraphsApart}
}

// A batch that comes again is one graph from the third time on, and does the same.
func TestGraphOfTheDriver(t *testing.T) { bothWays(t, graphOfTheDriver) }

func graphOfTheDriver(t *testing.T, polls bool) {
	c := newRepeats(t, nvidia.Config{})
	c.polls = polls
	for i := range uint64(6) {
		c.works(10, 100)
		require.Equal(t, [2]uint64{max(i, 1) - 1, 0}, c.graphs())
		require.Eventually(t, func() bool { // who waits is told first
			stats := c.dev.Stats()
			return stats.Launches == 10*(i+1) && stats.LaunchTimes.Count() == 10*(i+1)
		}, 5*time.Minute, time.Millisecond)
	}
	// Other parameters are another graph, and the first one stays.
	for range 3 {
		c.works(10, 7)
	}
	require.Equal(t, [2]uint64{5, 0}, c.graphs())
	c.works(10, 100)
	require.Equal(t, [2]uint64{6, 0}, c.graphs())
	// Short batches are none, and those of which the device knows no graphs: a task.
	for range 4 {
		require.NoError(t, c.do(c.stores(1, 5)[1:3]...).Err)
		require.NoError(t, c.do(append([]gpu.Command{&gpu.Task{}}, c.stores(10, 100)...)...).Err)
	}
	require.Equal(t, [2]uint64{6, 0}, c.graphs())
}

func TestNoGraphsOfTheDriver(t *testing.T) {
	for _, config := range []nvidia.Config{{NoGraphs: true}, {Replays: true}} {
		c := newRepeats(t, config)
		for range 5 {
			c.works(10, 3)
		}
		require.Zero(t, c.graphs())
	}
}

// Many batches are in flight at once, on two channels.
func TestGraphsInFlight(t *testing.T) {
	c := newRepeats(t, nvidia.Config{})
	other, err := c.ctx.NewChannel()
	require.NoError(t, err)
	for range 2 {
		c.works(10, 9)
	}
	const n = 200
	done := make(chan gpu.Result, 2*n)
	for range n {
		for _, ch := range []gpu.Channel{c.ch, other} {
			require.NoError(t, ch.Submit(c.stores(10, 9), func(r gpu.Result) { done <- r }))
		}
	}
	for range 2 * n {
		require.NoError(t, receive(c.fakeClient, done).Err)
	}
	require.EqualValues(t, 10*(2*n+2), c.dev.Stats().Launches)
	require.Equal(t, [2]uint64{2 * n, 0}, c.graphs())
	c.works(10, 9)
}

// Whatever the driver refuses of a graph, its commands run.
func TestGraphThatTheDriverRefuses(t *testing.T) {
	for _, test := range []struct {
		fails string
		want  [2]uint64 // after six launches
	}{
		{fails: "capture:0", want: [2]uint64{0, 0}},
		{fails: "instantiate:0", want: [2]uint64{0, 0}},
		{fails: "launch:0", want: [2]uint64{0, 0}}, // found out when the worker starts
		{fails: "capture:1", want: [2]uint64{0, 4}},
		{fails: "captured:1", want: [2]uint64{0, 4}},
		{fails: "instantiate:1", want: [2]uint64{0, 4}},
		{fails: "launch:1", want: [2]uint64{0, 4}},
		{fails: "launch:3", want: [2]uint64{2, 2}},
	} {
		t.Run(test.fails, func(t *testing.T) {
			t.Setenv(nvidia.FakeGraphsEnv, test.fails)
			c := newRepeats(t, nvidia.Config{})
			for range 6 {
				c.works(10, 100)
			}
			require.Equal(t, test.want, c.graphs())
		})
	}
}

// A graph goes with what it was checked against.
func TestStaleGraph(t *testing.T) {
	c := newRepeats(t, nvidia.Config{})
	again := func(times int, graphs uint64) {
		t.Helper()
		for range times {
			c.works(10, 100)
		}
		require.Equal(t, [2]uint64{graphs, 0}, c.graphs())
	}
	again(4, 2)
	require.NoError(t, c.ctx.Unmap(c.vram, c.props.VRAM.Page))
	c.vram = c.fakeClient.vram() // other memory at the same address
	again(1, 2)                  // the run was forgotten, but not that it was seen
	again(1, 3)

	// Memory that only kernels use may be unmapped.
	far, err := c.ctx.NewVRAM(c.props.VRAM.Page)
	require.NoError(t, err)
	at := c.props.VRAM.Base + 4*c.props.VRAM.Page
	require.NoError(t, c.ctx.Map(at, far, 0, far.Size(), gpu.ProtRead|gpu.ProtWrite))
	require.NoError(t, c.ctx.Unmap(at, far.Size()))
	again(1, 4)

	// A module that is closed takes its graphs with it, and its launches are refused.
	old := c.mod
	cmds := c.stores(10, 100)
	c.mod, err = c.ctx.LoadModule(context.Background(), "again.ptx", []byte(fakeSource), nil)
	require.NoError(t, err)
	again(2, 4)
	again(2, 6)
	require.NoError(t, old.Close())
	again(1, 7)
	require.NoError(t, c.mod.Close())
	require.ErrorIs(t, c.do(cmds...).Err, gpu.ErrInvalid)
	require.NoError(t, c.ctx.Err())
}

// Commands that cannot be in a graph part a batch, and commands that are wrong fail as they do alone.
func TestRunsOfABatch(t *testing.T) {
	c := newRepeats(t, nvidia.Config{})
	signal := c.launch("idle")
	signal.Signal = c.va + 3072
	cmds := append(append(c.stores(10, 20), signal), c.stores(5, 20)...)
	for range 4 {
		require.NoError(t, c.do(cmds...).Err)
	}
	require.Equal(t, [2]uint64{4, 0}, c.graphs())
	bad := c.launch("idle")
	bad.Block[0] = 4096
	r := c.do(append(append(c.stores(10, 20), bad), c.stores(5, 20)...)...)
	require.ErrorIs(t, r.Err, gpu.ErrInvalid)
	require.Equal(t, 13, r.Index)
	require.NoError(t, c.ctx.Err())
}

// A graph is one command for the launch limit. The error names its kernels.
func TestLimitOfAGraph(t *testing.T) {
	c := newRepeats(t, nvidia.Config{LaunchLimit: 2 * time.Second})
	cmds := c.counting()
	for range 3 {
		require.NoError(t, c.do(cmds...).Err)
	}
	require.Equal(t, [2]uint64{1, 0}, c.graphs())
	hostmem.SwapUint32(c.mem, 64, 0)
	var lost *gpu.LostError
	require.ErrorAs(t, c.do(cmds...).Err, &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
	require.Equal(t, "count, or another of the 4 of its graph", lost.Kernel)
}

// counting is a batch whose kernels count until they are told to end, as they are now.
func (c *repeats) counting() (cmds []gpu.Command) {
	hostmem.SwapUint32(c.mem, 64, 1)
	for range nvidia.GraphLeast {
		cmds = append(cmds, c.launch("count", binary.LittleEndian.AppendUint64(nil, c.va)...))
	}
	return cmds
}

// A graph that runs can be stopped, and goes on.
func TestPreemptedGraph(t *testing.T) {
	c := newRepeats(t, nvidia.Config{LaunchLimit: -1})
	cmds := c.counting()
	for range 2 {
		require.NoError(t, c.do(cmds...).Err)
	}
	hostmem.SwapUint32(c.mem, 64, 0)
	done := make(chan gpu.Result, 1)
	require.NoError(t, c.ch.Submit(cmds, func(r gpu.Result) { done <- r }))
	goesOn(t, c.mem)
	p := c.ctx.(gpu.Preempter)
	require.NoError(t, p.Preempt(context.Background()))
	standsStill(t, c.mem)
	require.NoError(t, p.Resume())
	goesOn(t, c.mem)
	hostmem.SwapUint32(c.mem, 64, 1)
	require.NoError(t, receive(c.fakeClient, done).Err)
	require.Equal(t, [2]uint64{1, 0}, c.graphs())
}

// A context ends with a graph in flight, and a worker that dies with one.
func TestGraphOfALostContext(t *testing.T) {
	c := newRepeats(t, nvidia.Config{LaunchLimit: -1})
	cmds := c.counting()
	for range 2 {
		require.NoError(t, c.do(cmds...).Err)
	}
	hostmem.SwapUint32(c.mem, 64, 0)
	done := make(chan gpu.Result, 1)
	require.NoError(t, c.ch.Submit(cmds, func(r gpu.Result) { done <- r }))
	goesOn(t, c.mem)
	require.NoError(t, c.ctx.Close())
	require.ErrorIs(t, receive(c.fakeClient, done).Err, gpu.ErrClosed)
	c.open()
	require.NoError(t, c.do(c.launch("idle")).Err)
}

// Kernels that others would wait for long are launched one by one.
func TestLongRunsAreCut(t *testing.T) {
	c := newRepeats(t, nvidia.Config{})
	t.Cleanup(nvidia.SetGraphTime(time.Nanosecond))
	for range 4 {
		c.works(10, 1)
	}
	require.Zero(t, c.graphs())
}

// gemms is a batch of calls of a library, each of which writes a product of its own, and where the products lie.
func gemms(c *caller, rows uint64) (cmds []gpu.Command, products [][]byte) {
	h := c.made("cublasCreate_v2")
	one, _ := c.Floats(false, 2)
	zero, _ := c.Floats(false, 0)
	a, _ := c.Floats(true, 1, 2, 3, 4)
	b, _ := c.Floats(true, 1, 0, 0, 1)
	for i := range nvidia.GraphLeast {
		to, mem := c.Room(16, true)
		m := uint64(2)
		if i == 1 {
			m = rows
		}
		cmd, _ := c.command("cublasSgemm_v2", h, 0, 0, m, 2, 2, one, a, 2, b, 2, zero, to, 2)
		cmds, products = append(cmds, cmd), append(products, mem)
	}
	return cmds, products
}

// Calls of libraries are captured: the driver repeats what they have queued, and they are not made again. The
// library of libstest queues nothing.
func TestCallsInAGraph(t *testing.T) {
	t.Cleanup(nvidia.SetGraphTime(time.Hour))
	c := newCaller(t)
	cmds, products := gemms(c, 2)
	for i := range uint64(5) {
		for _, p := range products {
			clear(p)
		}
		require.NoError(t, c.do(cmds...).Err)
		s := c.dev.Stats()
		require.Equal(t, [2]uint64{max(i, 1) - 1, 0}, [2]uint64{s.Graphs, s.GraphsApart})
		for _, p := range products {
			require.Equal(t, i < 2, binary.LittleEndian.Uint32(p) != 0)
		}
	}
	// Other kinds of calls part batches.
	version, _ := c.Room(4, false)
	ask, _ := c.command("cublasGetVersion_v2", c.made("cublasCreate_v2"), version)
	for range 4 {
		require.NoError(t, c.do(cmds[0], cmds[1], ask, cmds[2], cmds[3]).Err)
	}
	require.EqualValues(t, 3, c.dev.Stats().Graphs)
}

// A call that fails is made at each launch, and its error told.
func TestFailingCallInAGraph(t *testing.T) {
	t.Cleanup(nvidia.SetGraphTime(time.Hour))
	c := newCaller(t)
	cmds, products := gemms(c, 1<<32-1)
	for i := range uint64(5) {
		clear(c.mem[resultsAt:][:24])
		clear(products[3])
		require.NoError(t, c.do(cmds...).Err)
		require.EqualValues(t, 7, binary.LittleEndian.Uint32(c.mem[resultsAt+8:]), "its status")
		require.NotZero(t, products[3])
		s := c.dev.Stats()
		require.Equal(t, [2]uint64{0, max(i, 1) - 1}, [2]uint64{s.Graphs, s.GraphsApart})
	}
}
