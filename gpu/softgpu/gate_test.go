package softgpu

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// testGate counts, and keeps the engine back while it is shut.
type testGate struct {
	revoked  atomic.Bool
	mu       sync.Mutex
	shut     bool
	waiting  chan struct{} // of the Enter that waits
	asked    chan struct{} // gets a token when one waits
	entered  map[gpu.Engine]int
	left     map[gpu.Engine]int
	canceled int
}

func newTestGate() *testGate {
	return &testGate{asked: make(chan struct{}, 10), entered: map[gpu.Engine]int{}, left: map[gpu.Engine]int{}}
}

func (g *testGate) Enter(e gpu.Engine, _ bool) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entered[e]++
	if !g.shut {
		return nil
	}
	g.waiting = make(chan struct{})
	g.asked <- struct{}{}
	return g.waiting
}

func (g *testGate) Cancel(e gpu.Engine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.entered[e]--
	g.canceled++
}

func (g *testGate) Wanted(gpu.Engine) bool                 { return false }
func (g *testGate) Alone(gpu.Engine) bool                  { return true }
func (g *testGate) Turn(gpu.Engine) bool                   { return false }
func (g *testGate) Revoked(gpu.Engine, time.Duration) bool { return g.revoked.Load() }
func (g *testGate) Preempted(gpu.Engine) bool              { return false }

func (g *testGate) Charge(gpu.Engine, time.Duration, uint64) {}

func (g *testGate) Leave(e gpu.Engine, used time.Duration, _ uint64, _ bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.left[e]++
}

// sharedGate is one at which others wait.
type sharedGate struct{ *testGate }

func (sharedGate) Alone(gpu.Engine) bool { return false }

// open opens the gate for who waits and who comes.
func (g *testGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = false
	close(g.waiting)
}

func TestGate(t *testing.T) {
	g := newTestGate()
	dev, err := New(Config{VRAMBytes: 16 << 20, Gate: g})
	require.NoError(t, err)
	ctx, err := dev.NewContext("gated")
	require.NoError(t, err)
	mem, err := ctx.NewVRAM(4096)
	require.NoError(t, err)
	va := dev.Properties().VRAM.Base
	require.NoError(t, ctx.Map(va, mem, 0, 4096, gpu.ProtRead|gpu.ProtWrite))
	ch, err := ctx.NewChannel()
	require.NoError(t, err)
	done := make(chan gpu.Result, 10)
	fill := func() {
		t.Helper()
		cmd := &gpu.Fill{Dst: va, Size: 4, Width: 4096, Height: 1}
		require.NoError(t, ch.Submit([]gpu.Command{cmd}, func(r gpu.Result) { done <- r }))
	}

	fill()
	require.NoError(t, (<-done).Err)
	g.mu.Lock()
	require.Equal(t, 1, g.entered[gpu.EngineCopy])
	require.Equal(t, 1, g.left[gpu.EngineCopy])
	g.shut = true
	g.mu.Unlock()

	busy := dev.Stats().CopyBusy
	fill()
	<-g.asked
	require.Empty(t, done, "it ran through a shut gate")
	require.Equal(t, busy, dev.Stats().CopyBusy, "to wait is no use of the engine")
	g.open()
	require.NoError(t, (<-done).Err)

	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	fill()
	<-g.asked
	require.NoError(t, ctx.Close(), "who waits at the gate can be stopped")
	require.Error(t, (<-done).Err)
	require.NoError(t, dev.Close())
	require.Equal(t, 1, g.canceled)
	require.Equal(t, g.entered, g.left)
}
