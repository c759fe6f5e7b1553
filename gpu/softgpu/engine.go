package softgpu

import (
	"slices"
	"sync"
	"time"
)

// engine runs one command at a time. A channel that wants it waits for its
// turn; whose turn it is, choose decides.
type engine struct {
	mu      sync.Mutex
	held    bool
	since   time.Time     // when it was last taken, while held
	busy    time.Duration // before that
	waiting []*turn       // in order of arrival
}

// turn is a channel that waits for an engine.
type turn struct {
	channel *channel
	granted chan struct{}
}

// choose picks who is next among those that wait, of which there is at least
// one. This is the only place where an engine is given to one channel or
// another; a scheduler would go here.
func choose([]*turn) int { return 0 } // first come, first served

// acquire waits for the engine. It returns false if a stop came first.
func (e *engine) acquire(c *channel) bool {
	t := e.ask(c)
	if t == nil {
		return true
	}
	select {
	case <-t.granted:
		return true
	case <-c.ctx.over:
	case <-c.stop:
	}
	e.mu.Lock()
	i := slices.Index(e.waiting, t)
	if i >= 0 {
		e.waiting = slices.Delete(e.waiting, i, i+1)
	}
	e.mu.Unlock()
	if i < 0 { // granted meanwhile
		e.release()
	}
	return false
}

// ask takes the engine, or else gets in line.
func (e *engine) ask(c *channel) *turn {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.held {
		e.held, e.since = true, time.Now()
		return nil
	}
	t := &turn{c, make(chan struct{})}
	e.waiting = append(e.waiting, t)
	return t
}

// release gives the engine to the next.
func (e *engine) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	e.busy += now.Sub(e.since)
	e.held, e.since = false, now
	if len(e.waiting) > 0 {
		i := choose(e.waiting)
		t := e.waiting[i]
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.held = true
		close(t.granted)
	}
}

// contended reports whether somebody waits.
func (e *engine) contended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting) > 0
}

// busyTime is how long the engine has been held since the device was opened.
func (e *engine) busyTime() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held {
		return e.busy + time.Since(e.since)
	}
	return e.busy
}
