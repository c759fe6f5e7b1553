package gpu_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/gpu"
)

// oneGate is a gate for one user. It opens at once or after a time.
type oneGate struct {
	t     require.TestingT
	delay func() time.Duration
	open  [gpu.Engines]bool // an Enter was not left or canceled
	timer [gpu.Engines]*time.Timer
	used  time.Duration
	turn  bool
	parts []int // asked for
}

func (g *oneGate) Enter(e gpu.Engine, _ bool) <-chan struct{} {
	require.False(g.t, g.open[e], "two Enters of %v", e)
	g.open[e] = true
	d := g.delay()
	if d == 0 {
		return nil
	}
	c := make(chan struct{})
	g.timer[e] = time.AfterFunc(d, func() { close(c) })
	return c
}

func (g *oneGate) EnterPart(e gpu.Engine, processors, _ int) <-chan struct{} {
	g.parts = append(g.parts, processors)
	return g.Enter(e, false)
}

func (g *oneGate) Part(gpu.Engine) int { return 2 }

func (g *oneGate) Cancel(e gpu.Engine) {
	require.True(g.t, g.open[e])
	g.open[e] = false
	if g.timer[e] != nil {
		g.timer[e].Stop()
	}
}

func (g *oneGate) Wanted(e gpu.Engine) bool {
	require.True(g.t, g.open[e])
	return false
}

func (g *oneGate) Alone(gpu.Engine) bool                  { return true }
func (g *oneGate) Preempted(gpu.Engine) bool              { return false }
func (g *oneGate) Revoked(gpu.Engine, time.Duration) bool { return false }
func (g *oneGate) Turn(gpu.Engine) bool                   { return g.turn }

func (g *oneGate) Charge(gpu.Engine, time.Duration, uint64) {}

func (g *oneGate) Leave(e gpu.Engine, used time.Duration, _ uint64, _ bool) {
	require.True(g.t, g.open[e])
	g.open[e] = false
	g.used += used
}

// Two users of a split gate are never in at once, both go on, and the gate sees
// one well-behaved user.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		delays := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 20).Draw(r, "delays")
		patience := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 20).Draw(r, "patience")
		synctest.Test(t, func(t *testing.T) {
			i := 0
			g := &oneGate{t: t, delay: func() time.Duration {
				i++
				return time.Duration(delays[i%len(delays)]) * time.Millisecond
			}}
			a, b := gpu.Split(g)
			inside, entries, want := 0, 0, time.Duration(0)
			use := func(p gpu.Gate, done chan<- struct{}) {
				defer close(done)
				for n := range 50 {
					if open := p.Enter(gpu.EngineCompute, false); open != nil {
						select {
						case <-open:
						case <-time.After(time.Duration(patience[n%len(patience)])*time.Millisecond + time.Microsecond):
							p.Cancel(gpu.EngineCompute)
							continue
						}
					}
					inside++
					entries++
					assertOne(t, inside)
					time.Sleep(time.Millisecond)
					inside--
					want += time.Millisecond
					p.Leave(gpu.EngineCompute, time.Millisecond, 1, n%2 == 0)
				}
			}
			doneA, doneB := make(chan struct{}), make(chan struct{})
			go use(a, doneA)
			go use(b, doneB)
			<-doneA
			<-doneB
			require.Equal(t, want, g.used)
			require.False(t, g.open[gpu.EngineCompute])
		})
	})
}

func assertOne(t *testing.T, inside int) {
	if inside != 1 {
		t.Errorf("%d users are in", inside)
	}
}

// What a user asks for reaches the gate, also after a wait; one without a number of processors gets all.
func TestSplitProcessors(t *testing.T) {
	g := &oneGate{t: t, delay: func() time.Duration { return 0 }}
	a, b := gpu.Split(g)
	require.Nil(t, gpu.EnterPart(a, gpu.EngineCompute, 3, 1))
	wait := gpu.EnterPart(b, gpu.EngineCompute, 5, 1)
	require.Equal(t, 2, gpu.PartOf(a, gpu.EngineCompute))
	a.Leave(gpu.EngineCompute, 0, 1, false)
	<-wait
	b.Leave(gpu.EngineCompute, 0, 1, false)
	require.Equal(t, []int{3, 5}, g.parts)
	whole := struct{ gpu.Gate }{g}
	require.Nil(t, gpu.EnterPart(whole, gpu.EngineCompute, 3, 1))
	require.Zero(t, gpu.PartOf(whole, gpu.EngineCompute))
	require.Equal(t, []int{3, 5}, g.parts)
}

// Each gets the engine in turn, and the other engine is not concerned.
func TestSplitTakesTurns(t *testing.T) {
	g := &oneGate{t: t, delay: func() time.Duration { return 0 }}
	a, b := gpu.Split(g)
	require.Nil(t, a.Enter(gpu.EngineCompute, false))
	require.Nil(t, b.Enter(gpu.EngineCopy, false))
	require.False(t, a.Wanted(gpu.EngineCompute))
	wait := b.Enter(gpu.EngineCompute, false)
	require.NotNil(t, wait)
	require.True(t, a.Wanted(gpu.EngineCompute))
	require.False(t, b.Wanted(gpu.EngineCopy))
	a.Leave(gpu.EngineCompute, 1, 1, true)
	<-wait
	require.NotNil(t, a.Enter(gpu.EngineCompute, false))
	a.Cancel(gpu.EngineCompute)
	b.Leave(gpu.EngineCompute, 1, 1, false)
	b.Leave(gpu.EngineCopy, 1, 1, false)
	require.Equal(t, time.Duration(3), g.used)
}
