package softgpu

import (
	"slices"
	"sync"
	"time"

	"pvdrm/gpu"
)

// engine runs one command at a time. A channel that wants it waits for its
// turn; whose turn it is, choose decides. Where processes share the engine, the
// gate then says when.
type engine struct {
	kind gpu.Engine
	gate gpu.Gate // nil without

	modelled bool // times are not those of the host

	mu      sync.Mutex
	held    bool          // somebody has the turn
	using   bool          // and is past the gate
	since   time.Time     // then
	busy    time.Duration // before that
	waiting []*turn       // in order of arrival
}

// turn is a channel that waits for an engine.
type turn struct {
	channel *channel
	granted chan struct{}
}

// choose picks who is next among those that wait, of which there is at least
// one. This is the only place where an engine is given to one channel or another
// of this device.
func choose([]*turn) int { return 0 } // first come, first served

// acquire waits for the engine. It returns false if a stop came first.
func (e *engine) acquire(c *channel) bool {
	if !e.turn(c) {
		return false
	}
	if e.gate == nil {
		return true
	}
	if admitted := e.gate.Enter(e.kind, false); admitted != nil {
		select {
		case <-admitted:
		case <-c.ctx.over:
			return e.withdraw()
		case <-c.stop:
			return e.withdraw()
		}
	}
	e.mu.Lock()
	e.using, e.since = true, time.Now()
	e.mu.Unlock()
	return true
}

// withdraw gives up a turn that waits at the gate.
func (e *engine) withdraw() bool {
	e.gate.Cancel(e.kind)
	e.next()
	return false
}

// turn waits for this channel's turn among those of the device.
func (e *engine) turn(c *channel) bool {
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
		e.next()
	}
	return false
}

// ask takes the engine, or else gets in line.
func (e *engine) ask(c *channel) *turn {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.held {
		e.take()
		return nil
	}
	t := &turn{c, make(chan struct{})}
	e.waiting = append(e.waiting, t)
	return t
}

// release leaves the engine to the next, after so much use.
func (e *engine) release(used time.Duration) {
	e.mu.Lock()
	e.busy += used
	e.using = false
	more := len(e.waiting) > 0
	e.mu.Unlock()
	if e.gate != nil {
		e.gate.Leave(e.kind, used, more)
	}
	e.next()
}

// next ends a turn and begins that of the next channel.
func (e *engine) next() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held, e.using = false, false
	if len(e.waiting) > 0 {
		i := choose(e.waiting)
		t := e.waiting[i]
		e.waiting = slices.Delete(e.waiting, i, i+1)
		e.take()
		close(t.granted)
	}
}

// take begins a turn. e.mu is held.
func (e *engine) take() {
	e.held = true
	if e.gate == nil {
		e.using, e.since = true, time.Now()
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
	if e.using && !e.modelled {
		return e.busy + time.Since(e.since)
	}
	return e.busy
}
