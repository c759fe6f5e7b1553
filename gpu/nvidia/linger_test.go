package nvidia_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
)

// lingerGate counts turns, and says that others wait for the end of one.
type lingerGate struct {
	wantedGate
	entered, left [gpu.Engines]atomic.Int32
	alone         atomic.Bool
}

func (g *lingerGate) Turn(gpu.Engine) bool { return !g.alone.Load() }

func (g *lingerGate) Alone(gpu.Engine) bool { return g.alone.Load() }

// Enter is part of gpu.Gate.
func (g *lingerGate) Enter(e gpu.Engine, _ bool) <-chan struct{} {
	g.entered[e].Add(1)
	return nil
}

// Leave is part of gpu.Gate.
func (g *lingerGate) Leave(e gpu.Engine, _ time.Duration, _ uint64, _ bool) { g.left[e].Add(1) }

// A program that waits for each kernel has several in a turn, until it does something else, ends, or has
// had its turn.
func TestTurnOfAProgramThatWaits(t *testing.T) { bothWays(t, turnOfAProgramThatWaits) }

func turnOfAProgramThatWaits(t *testing.T, polls bool) {
	t.Cleanup(nvidia.SetLinger(time.Hour))
	g := &lingerGate{}
	c := newFakeClient(t, nvidia.Config{Gate: g})
	c.polls = polls
	va := c.vram()
	const kernels = 200
	for i := range kernels {
		require.NoError(t, c.do(c.store(va, uint32(i))).Err)
	}
	require.Less(t, g.entered[gpu.EngineCompute].Load(), int32(kernels))
	entered := g.entered[gpu.EngineCompute].Load()
	require.NoError(t, c.do(&gpu.Fill{Dst: va, Size: 4, Width: 4, Height: 1}).Err)
	require.NoError(t, c.do(c.store(va, 1)).Err)
	require.Equal(t, entered, g.entered[gpu.EngineCompute].Load(), "a small fill is part of the turn")
	require.Zero(t, g.entered[gpu.EngineCopy].Load())
	_, host := c.granted(4 << 20)
	require.NoError(t, c.do(&gpu.Fill{Dst: host, Size: 4, Width: 4 << 20, Height: 1}).Err)
	require.Equal(t, g.entered[gpu.EngineCompute].Load(), g.left[gpu.EngineCompute].Load(), "it copies")
	require.NoError(t, c.do().Err, "nothing to do ends a turn no later than anything else")
	require.NoError(t, c.do(c.store(va, 1)).Err)
	require.NoError(t, c.ch.Close())
	for e := range gpu.Engines {
		require.Equal(t, g.entered[e].Load(), g.left[e].Load(), "it is closed")
	}
}

// A channel keeps the engine for a moment only, and not at all where that was in vain, or no one waits.
func TestTurnOfAProgramThatPauses(t *testing.T) {
	t.Cleanup(nvidia.SetLinger(time.Millisecond))
	g := &lingerGate{}
	c := newFakeClient(t, nvidia.Config{Gate: g})
	va := c.vram()
	rests := func() bool { return g.entered[gpu.EngineCompute].Load() == g.left[gpu.EngineCompute].Load() }
	for i := range 40 {
		require.NoError(t, c.do(c.store(va, uint32(i))).Err)
		require.Eventually(t, rests, 5*time.Minute, time.Millisecond)
	}
	g.alone.Store(true)
	require.NoError(t, c.do(c.store(va, 1)).Err)
	require.Eventually(t, rests, 5*time.Minute, time.Millisecond)
}

// While no one else wants the GPU, launches at a gate begin and end as without one, and each use of an engine
// ends. Then others come and go.
func TestLaunchesOfAGuestThatIsAlone(t *testing.T) { bothWays(t, launchesOfAGuestThatIsAlone) }

func launchesOfAGuestThatIsAlone(t *testing.T, polls bool) {
	g := &lingerGate{}
	c := newFakeClient(t, nvidia.Config{Gate: g})
	c.polls = polls
	va := c.vram()
	for i := range 1000 {
		g.alone.Store(i%300 < 200)
		cmds := []gpu.Command{c.store(va, uint32(i)), c.store(va+4, uint32(i))}
		if i%7 == 0 {
			cmds = append(cmds, &gpu.Copy{Src: va, Dst: va + 8, Width: 8, Height: 1})
		}
		require.NoError(t, c.do(cmds...).Err)
	}
	require.NoError(t, c.ch.Close())
	for e := range gpu.Engines {
		require.Equal(t, g.entered[e].Load(), g.left[e].Load())
	}
}
