package softgpu

import (
	gocontext "context"
	"sync"
	"sync/atomic"
)

// What a context's channels may do.
const (
	running   = iota // everything
	draining         // they end the transfer that they have begun, and begin no other command
	preempted        // they stop within transfers too
)

// hold stops the channels of a context and makes them go on.
//
// A channel rests while it waits for a batch or, when the context is stopped, in pause. It
// looks at mode before it takes a batch or asks for an engine, which is one load while no one
// stops the context.
type hold struct {
	op   sync.Mutex // one Preempt, Snapshot or Resume at a time
	mode atomic.Int32

	mu      sync.Mutex
	changed chan struct{} // closed when mode changes
	rested  chan struct{} // closed when a channel comes to rest
}

func (h *hold) init() { h.changed, h.rested = make(chan struct{}), make(chan struct{}) }

// set changes the mode and wakes the channels that wait for that.
func (h *hold) set(mode int32) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mode.Store(mode)
	close(h.changed)
	h.changed = make(chan struct{})
}

// note wakes the goroutine that stops the context: a channel has come to rest.
func (h *hold) note() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.rested)
	h.rested = make(chan struct{})
}

// events returns what is closed at the next change of mode, and when a channel comes to rest.
func (h *hold) events() (changed, rested <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changed, h.rested
}

// rest is where the goroutine of a channel has stopped.
type rest int32

const (
	between   rest = iota // before a command, or with none to run; also before it has started
	launching             // in the middle of a launch; channel.from has what is left of it
	moving                // in the middle of a transfer
	working
)

// pause returns when the channel may go on, and whether it had to wait for that.
// Preconditions: c.mu is not held.
func (c *channel) pause(at rest) (waited bool) {
	if c.ctx.hold.mode.Load() == running {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.stopped(at) {
		c.wait(at)
		waited = true
	}
	c.rest = working
	return waited
}

// mustStop reports whether the channel has to stop at such a place, and returns what is closed
// when that changes.
func (c *channel) mustStop(at rest) (changed <-chan struct{}, stop bool) {
	changed, _ = c.ctx.hold.events()
	c.mu.Lock()
	defer c.mu.Unlock()
	return changed, c.stopped(at)
}

// stopped reports whether the channel has to stop at such a place. A channel that is closed,
// or whose context has ended, goes on, to end its batches.
func (c *channel) stopped(at rest) bool {
	mode := c.ctx.hold.mode.Load()
	return mode != running && (at != moving || mode == preempted) && !c.closed && c.ctx.Err() == nil
}

// wait comes to rest until the mode of the context changes, or the channel or the context
// ends. Preconditions: c.mu is held; it is not while wait waits.
func (c *channel) wait(at rest) {
	changed, _ := c.ctx.hold.events()
	if !c.stopped(at) { // it changed before
		return
	}
	c.rest = at
	c.ctx.hold.note()
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-changed:
	case <-c.ctx.over:
	case <-c.stop:
	}
}

// stopWith stops the context in a mode, and returns when no channel works, and with draining
// none is within a transfer. When that fails the context goes on. Preconditions: hold.op is
// held.
func (c *context) stopWith(ctx gocontext.Context, mode int32) error {
	c.hold.set(mode)
	for _, control := range c.controls() {
		control.Preempt()
	}
	for {
		_, rested := c.hold.events()
		if c.resting(mode) {
			break
		}
		select {
		case <-rested:
			continue
		case <-c.over:
		case <-ctx.Done():
			c.hold.set(running)
			return gocontext.Cause(ctx)
		}
		break
	}
	if err := c.Err(); err != nil {
		c.hold.set(running)
		return err
	}
	return nil
}

// resting reports whether all channels have come to rest as a mode demands.
func (c *context) resting(mode int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for ch := range c.channels {
		ch.mu.Lock()
		rest := ch.rest
		ch.mu.Unlock()
		if rest == working || rest == moving && mode == draining {
			return false
		}
	}
	return true
}

// Preempt implements gpu.Preempter.
func (c *context) Preempt(ctx gocontext.Context) error {
	c.hold.op.Lock()
	defer c.hold.op.Unlock()
	return c.wrap("preempt", c.stopWith(ctx, preempted))
}

// Resume implements gpu.Preempter.
func (c *context) Resume() error {
	c.hold.op.Lock()
	defer c.hold.op.Unlock()
	if err := c.Err(); err != nil {
		return c.wrap("resume", err)
	}
	if c.hold.mode.Load() != running {
		c.hold.set(running)
	}
	return nil
}
