package virgl

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// gate is a gate that opens when the test opens it.
type gate struct {
	closed  bool
	waiting chan struct{}
	inside  bool
	used    []time.Duration
	more    bool
	wanted  bool
	beside  bool // said at the last Enter
}

func (g *gate) Wanted(gpu.Engine) bool                 { return g.wanted }
func (g *gate) Alone(gpu.Engine) bool                  { return !g.wanted }
func (g *gate) Preempted(gpu.Engine) bool              { return false }
func (g *gate) Revoked(gpu.Engine, time.Duration) bool { return false }
func (g *gate) Turn(gpu.Engine) bool                   { return false }

func (g *gate) Enter(_ gpu.Engine, beside bool) <-chan struct{} {
	g.beside = beside
	if !g.closed {
		g.inside = true
		return nil
	}
	g.waiting = make(chan struct{})
	return g.waiting
}

func (g *gate) admit() {
	g.inside = true
	close(g.waiting)
}

func (g *gate) Cancel(gpu.Engine) { g.waiting, g.inside = nil, false }

// Charge is part of gpu.Gate.
func (g *gate) Charge(gpu.Engine, time.Duration, uint64) {}

func (g *gate) Leave(_ gpu.Engine, used time.Duration, _ uint64, more bool) {
	g.inside, g.more = false, more
	g.used = append(g.used, used)
}

func TestTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{closed: true}
		x := turn{gate: g, beside: true, counters: &counters{}}
		require.False(t, x.enter())
		require.True(t, g.beside)
		require.False(t, x.enter(), "and the gate is asked once")
		x.leave(true)
		require.Empty(t, g.used)
		g.admit()
		<-x.admitted
		x.enterNow()

		// Some submissions share a turn, as many as may be out and as the time allows.
		for range maxOut {
			require.True(t, x.enter())
			x.begin()
		}
		require.False(t, x.enter())
		time.Sleep(time.Millisecond)
		x.end()
		require.True(t, x.enter())
		x.leave(true)
		require.Empty(t, g.used, "one is out")
		time.Sleep(turnLength)
		require.True(t, x.enter(), "nobody else waits")
		g.wanted = true
		require.False(t, x.enter(), "it was long enough for the others")
		g.wanted = false
		time.Sleep(longTurn)
		require.False(t, x.enter(), "it is to be charged")
		x.end()
		x.leave(true)
		require.Equal(t, []time.Duration{longTurn + turnLength + time.Millisecond}, g.used)
		require.True(t, g.more)
		require.False(t, g.inside)
		require.Equal(t, int64(g.used[0]), x.counters.busy.Load())

		require.False(t, x.enter())
		x.cancel()
		require.Nil(t, g.waiting)
		g.closed = false
		require.True(t, x.enter())
		x.cancel()
		require.False(t, g.inside)
	})
}

// Without a gate there is nothing to wait for, and the time is measured all the same.
func TestTurnWithoutGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := turn{counters: &counters{}}
		for range 100 {
			require.True(t, x.enter())
			x.begin()
		}
		time.Sleep(time.Second)
		for range 100 {
			x.end()
		}
		x.leave(false)
		require.Equal(t, int64(time.Second), x.counters.busy.Load())
	})
}
