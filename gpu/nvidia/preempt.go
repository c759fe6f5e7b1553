package nvidia

import (
	gocontext "context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
)

// A context is stopped by its keeper, which disables the channels of its worker (stopper): what runs
// leaves the GPU with its state. Two may ask for that, and it goes on when neither does: the owner of
// the context (Preempt), and a channel whose kernel has to leave the compute engine to others.
//
//	            order stopAll or stopKernels
//	running ──────────────────────────────────► stopped: no command begins
//	    ▲                                          │ commands in flight give their engine back (park)
//	    └──────────────── order stopNone ◄─────────┘
//
// A channel that gave the compute engine back enters it again before the context goes on.

// stopLimit is how long the keeper may take to stop a worker's channels or to make them go on. It
// takes the driver a millisecond, or ten where a kernel waits for memory of the host.
const stopLimit = 5 * time.Second

// leastTurn is how long a kernel keeps the compute engine when it has to leave it to other guests. To
// stop it and make it go on keeps the GPU idle for half a millisecond.
const leastTurn = 5 * time.Millisecond

// contextSlice is how long a kernel keeps the compute engine from other contexts of its device.
const contextSlice = 10 * time.Millisecond

// patience is for how long a copy in flight keeps its engine when the kernels of its context are
// stopped. Most copies need no channel that is.
const patience = time.Millisecond

// halt is what stops a context. Its lock may be taken with all others of the context held but
// context.laneMu, and is held while the keeper carries out an order.
type halt struct {
	on atomic.Bool // no command may begin

	mu      sync.Mutex
	asked   bool          // by the owner of the context
	leaves  bool          // another worker is to take over
	turns   int           // channels that wait for the compute engine
	level   uint32        // the last order that was carried out; 0 if none was
	held    []*channel    // that have commands to begin
	changed chan struct{} // closed when any of this changes; nil if no one waits for that
}

// stop carries out the order that the state asks for. Preconditions: c.gen is held for reading, or
// for writing, and h.mu.
func (c *context) stop() error {
	h := &c.halt
	want := uint32(stopNone)
	switch {
	case h.asked || h.leaves:
		want = stopAll
	case h.turns > 0:
		want = max(stopKernels, h.level%stopNone) // what is stopped stays so
	}
	if want == h.level || want == stopNone && h.level == 0 {
		return nil
	}
	if want != stopNone {
		h.on.Store(true)
	}
	if err := c.worker.stop.order(want, stopLimit); err != nil {
		return err
	}
	h.level = want
	if want == stopNone {
		h.goOn()
	}
	return nil
}

// goOn lets commands begin. h.mu is held.
func (h *halt) goOn() {
	h.on.Store(false)
	for _, ch := range h.held {
		ch.tell()
	}
	h.held = nil
}

// held reports whether a channel may begin nothing now; it is woken when it may. c.run is held.
func (c *channel) held() bool {
	h := &c.ctx.halt
	if !h.on.Load() {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.on.Load() {
		return false
	}
	if !slices.Contains(h.held, c) {
		h.held = append(h.held, c)
	}
	return true
}

// stopped changes the state and carries out what follows from it. A worker that cannot be stopped,
// or not be made to go on, is killed: it has freed its channels, or the driver is at a loss.
func (c *context) stopped(change func(*halt)) error {
	h := &c.halt
	h.mu.Lock()
	defer h.mu.Unlock()
	change(h)
	err := c.stop()
	if err != nil {
		if _, refused := errors.AsType[stopStatus](err); refused || errors.Is(err, errNoAnswer) { // else it has ended
			c.why.CompareAndSwap(nil, new(fmt.Sprintf("it was to be taken off the GPU: %v", err))) // the first is the cause
		}
		c.revoke()
		h.goOn() // channels see what became of the context
	}
	if h.changed != nil {
		close(h.changed)
		h.changed = nil
	}
	return err
}

// renewed stops a new worker as the old one was. Channels have no commands in flight. c.gen is held
// for writing.
func (c *context) renewed() error {
	return c.stopped(func(h *halt) {
		h.turns, h.level, h.leaves = 0, 0, false
		if !h.asked {
			h.goOn()
		}
	})
}

// Preempt implements gpu.Preempter.
func (c *context) Preempt(ctx gocontext.Context) error {
	c.gen.RLock()
	defer c.gen.RUnlock()
	if err := c.mayStop(); err != nil {
		return c.wrap("preempt", err)
	}
	if err := gocontext.Cause(ctx); err != nil {
		return c.wrap("preempt", err)
	}
	if err := c.stopped(func(h *halt) { h.asked = true }); err != nil {
		return c.wrap("preempt", errors.Join(c.Err(), err))
	}
	if gocontext.Cause(ctx) == nil {
		return nil
	}
	if err := c.stopped(func(h *halt) { h.asked = false }); err != nil {
		return c.wrap("preempt", errors.Join(c.Err(), err))
	}
	return c.wrap("preempt", gocontext.Cause(ctx))
}

// Resume implements gpu.Preempter.
func (c *context) Resume() error {
	c.gen.RLock()
	defer c.gen.RUnlock()
	if err := c.mayStop(); err != nil {
		return c.wrap("resume", err)
	}
	if err := c.stopped(func(h *halt) { h.asked = false }); err != nil {
		return c.wrap("resume", errors.Join(c.Err(), err))
	}
	return nil
}

// mayStop returns the reason why the context cannot be stopped; nil if it can. c.gen is held.
func (c *context) mayStop() error {
	if err := c.Err(); err != nil {
		return err
	}
	if err := c.worker.unstoppable; err != nil {
		return fmt.Errorf("%w: %w", gpu.ErrUnsupported, err)
	}
	return nil
}

// interrupted reports whether a command in flight, which runs since a time, is to give its engine back,
// which the channel has since another: its context is stopped, or is to be, because others are to
// have the engine, and what is in flight is not about to end.
func (c *channel) interrupted(f *flying, since, held time.Time, ends expectation) bool {
	e := f.engine
	switch {
	case e == nil || c.ctx.worker.unstoppable != nil:
		return false
	case e.kind != gpu.EngineCompute:
		return c.ctx.halt.on.Load() && time.Since(since) > patience
	case c.ctx.halt.on.Load():
		return true
	case e.gate == nil || c.ctx.dev.config.Divide:
		return false
	}
	switch {
	case f.defers():
		return false
	case !ends.left.IsZero():
		return time.Since(ends.left) > handLimit
	}
	return e.gate.Preempted(e.kind) && time.Since(held) > leastTurn && !ends.drains(time.Now()) || e.contended(c.ctx) && time.Since(held) > contextSlice
}

// park gives the engine back on which the commands in flight run, which are stopped or to be stopped,
// and returns when they go on, or have ended. c.run is held, except while it waits. The error is
// errRevoked or the context's.
//
// The next guest's command reaches the GPU while this one's kernels still leave it, which takes as
// long as the messages: they pay for that time later.
func (c *channel) park() error {
	f, ctx := &c.flight, c.ctx
	e := f.oldest().engine
	turn := func(n int) error {
		if e.kind != gpu.EngineCompute {
			return nil
		}
		return ctx.stopped(func(h *halt) { h.turns += n })
	}
	ctx.dev.preemptions.Add(1)
	if f.engine != nil {
		f.pause(time.Now(), true)
	}
	if turn(1) != nil {
		return ctx.ended()
	}
	if fence := ctx.worker.lane.fence(c.slot); reached(fence, f.oldest().number) {
		c.land(fence) // it ended meanwhile
	}
	if !f.empty() {
		f.stops(time.Now())
		c.parked = true
		c.run.Unlock()
		entered := c.unpark(e)
		c.run.Lock()
		c.parked = false
		if !entered {
			return ctx.ended()
		}
		now := time.Now()
		f.hold(e, now)
		f.landed = now
	}
	if turn(-1) != nil {
		return ctx.ended()
	}
	if f.empty() { // Poll was first
		f.release(false)
	}
	return nil
}

// unpark waits until commands in flight may have their engine again, and enters it. It returns false
// if the context ended first.
func (c *channel) unpark(e *engine) bool {
	for {
		if changed := c.ctx.halt.waitFor(e.kind); changed != nil {
			select {
			case <-changed:
				continue
			case <-c.ctx.over:
				return false
			}
		}
		if e.gate == nil {
			return true
		}
		if !e.enter(c, nil) {
			return false
		}
		if c.ctx.halt.waitFor(e.kind) == nil {
			return true
		}
		e.leave(0, 0, true)
	}
}

// waitFor returns what is closed when a parked command may ask for its engine; nil if it may now. For
// compute that is when the owner of the context does not stop it: the command itself makes it go on.
func (h *halt) waitFor(e gpu.Engine) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.on.Load() || e == gpu.EngineCompute && !h.asked {
		return nil
	}
	if h.changed == nil {
		h.changed = make(chan struct{})
	}
	return h.changed
}

// ended is the error of a command whose context has ended, or is to be rebuilt.
func (c *context) ended() error {
	if err := c.Err(); err != nil {
		return err
	}
	return errRevoked
}
