package softgpu

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testChannel returns a channel that can do nothing but wait for engines.
func testChannel() *channel {
	ctx := &context{}
	ctx.life.init()
	ctx.hold.init()
	return &channel{ctx: ctx, stop: make(chan struct{})}
}

// inLine starts an acquire and returns when it waits as the n-th.
func inLine(e *engine, c *channel, n int, got chan<- bool) {
	go func() { got <- e.acquire(c, between) }()
	for {
		e.mu.Lock()
		waiting := len(e.waiting)
		e.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

func TestEngineFirstComeFirstServed(t *testing.T) {
	var e engine
	require.True(t, e.acquire(testChannel(), between))
	require.False(t, e.contended())
	var got [3]chan bool
	for i := range got {
		got[i] = make(chan bool, 1)
		inLine(&e, testChannel(), i+1, got[i])
	}
	require.True(t, e.contended())
	for i := range got {
		for _, later := range got[i:] {
			require.Empty(t, later)
		}
		e.release(use{took: time.Microsecond})
		require.True(t, <-got[i])
	}
	e.release(use{took: time.Microsecond})
	require.False(t, e.held)
	require.Positive(t, e.busyTime())
}

func TestEngineStops(t *testing.T) {
	for name, stop := range map[string]func(c *channel){
		"channel closed": func(c *channel) { close(c.stop) },
		"context over":   func(c *channel) { close(c.ctx.over) },
	} {
		var e engine
		require.True(t, e.acquire(testChannel(), between))
		c, got, behind := testChannel(), make(chan bool, 1), make(chan bool, 1)
		inLine(&e, c, 1, got)
		inLine(&e, testChannel(), 2, behind)
		stop(c)
		require.False(t, <-got, name)
		e.release(use{took: time.Microsecond})
		require.True(t, <-behind, name)
		e.release(use{took: time.Microsecond})
		require.False(t, e.held, name)
		require.Empty(t, e.waiting, name)
	}
}

// A stop and a grant at the same time leave the engine free.
func TestEngineStopMeetsGrant(t *testing.T) {
	for range 1000 {
		var e engine
		require.True(t, e.acquire(testChannel(), between))
		c, got := testChannel(), make(chan bool, 1)
		inLine(&e, c, 1, got)
		go close(c.stop)
		e.release(use{took: time.Microsecond})
		if <-got {
			e.release(use{took: time.Microsecond})
		}
		require.False(t, e.held)
		require.Empty(t, e.waiting)
	}
}
