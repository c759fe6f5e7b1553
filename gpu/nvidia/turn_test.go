package nvidia_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/hostmem"
)

func (g *turnGate) left() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.leaves
}

// What is expected to end soon ends; what takes longer, or longer than expected, is stopped.
func TestDrains(t *testing.T) {
	for in, drains := range map[time.Duration]bool{
		time.Hour: false, 3 * time.Millisecond: false, time.Millisecond: true, 0: true, -400 * time.Microsecond: true, -time.Millisecond: false,
	} {
		require.Equal(t, drains, nvidia.Drains(in), "%v", in)
	}
}

// A guest does not pay for the time in which the GPU turns to it, as far as that is known, and bounded.
func TestTurningIsFree(t *testing.T) {
	const us = time.Microsecond
	for _, c := range []struct {
		took, free time.Duration
		costs      []time.Duration
	}{
		{took: 200 * us, free: 180 * us, costs: []time.Duration{20 * us}}, {took: 200 * us, free: 120 * us, costs: []time.Duration{20 * us, 60 * us}},
		{took: 200 * us, costs: []time.Duration{200 * us}}, {took: 100 * us, costs: []time.Duration{200 * us}},
		{took: 10000 * us, free: 300 * us, costs: []time.Duration{20 * us}}, {took: 10000 * us, costs: []time.Duration{20 * us, -1}},
	} {
		first, later := nvidia.Turning(c.took, c.costs...)
		require.Equal(t, c.free, first, "%+v", c)
		require.Zero(t, later)
	}
}

// A channel whose turn is over gives its engine back when its kernel is about to end. One that goes on all the same is stopped,
// and goes on when its channel has the engine again.
func TestEngineIsGivenBackBeforeTheEnd(t *testing.T) {
	t.Cleanup(nvidia.SetHand(time.Hour, time.Hour))
	g := &turnGate{admitted: make(chan struct{}, 1)}
	c := newFakeClientOf(t, nvidia.Config{Gate: g, LaunchLimit: -1}, guardedFake)
	mem, at := c.granted(4096)
	done := c.countsAt(mem, at)
	time.Sleep(20 * time.Millisecond)
	hostmem.SwapUint32(mem, 64, 1)
	require.NoError(t, receive(c, done).Err) // it is known how long it takes, more or less
	require.Eventually(t, func() bool { return g.left() == 1 }, 5*time.Minute, time.Millisecond)

	g.preempts[gpu.EngineCompute].Store(true)
	g.admitted <- struct{}{}
	done = c.countsAt(mem, at)
	require.Eventually(t, func() bool { return g.left() == 2 }, 5*time.Minute, time.Millisecond)
	goesOn(t, mem)
	require.Zero(t, c.dev.Stats().Preemptions)
	hostmem.SwapUint32(mem, 64, 1)
	require.NoError(t, receive(c, done).Err)

	nvidia.SetHand(time.Hour, time.Millisecond)
	g.preempts[gpu.EngineCompute].Store(true)
	g.admitted <- struct{}{}
	done = c.submitCount(mem, at)
	require.Eventually(t, func() bool { return g.left() == 3 }, 5*time.Minute, time.Millisecond)
	require.Eventually(t, func() bool { return g.entries(gpu.EngineCompute) == 4 }, 5*time.Minute, time.Millisecond)
	standsStill(t, mem)
	require.Empty(t, done)
	g.admitted <- struct{}{}
	goesOn(t, mem)
	hostmem.SwapUint32(mem, 64, 1)
	require.NoError(t, receive(c, done).Err)
	require.Equal(t, uint64(1), c.dev.Stats().Preemptions)
	require.NoError(t, c.ch.Close())
	require.Equal(t, uint64(4), g.left())
	require.Equal(t, uint64(3), g.commands)
}

// Kernels whose engine was given back before they ended end, in order, and the next ones wait for the engine.
func TestTurnsOfShortKernels(t *testing.T) { bothWays(t, turnsOfShortKernels) }

func turnsOfShortKernels(t *testing.T, polls bool) {
	t.Cleanup(nvidia.SetHand(time.Hour, time.Millisecond))
	g := &turnGate{}
	c := newFakeClientOf(t, nvidia.Config{Gate: g}, guardedFake)
	c.polls = polls
	va := c.vram()
	const batches = 300
	results := make(chan int, batches)
	for i := range batches {
		if i%3 == 0 {
			g.preempts[gpu.EngineCompute].Store(true)
		}
		require.NoError(t, c.ch.Submit([]gpu.Command{c.store(va, uint32(i)), c.launch("idle")}, func(r gpu.Result) {
			if r.Err == nil {
				results <- i
			}
		}))
	}
	for i := range batches {
		require.Equal(t, i, receive(c, results))
	}
	require.NoError(t, c.ch.Close())
	require.Equal(t, uint64(2*batches), g.commands)
	require.Equal(t, uint64(g.entries(gpu.EngineCompute)), g.left())
}
