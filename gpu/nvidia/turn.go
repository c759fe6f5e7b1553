package nvidia

import "time"

// A channel has the engine for a turn. Alone it keeps it. Where others wait, the arbiter says when a turn is over, by the
// guests' shares: it preempts. Then nothing more begins, and what is in flight ends, which takes no longer than sharedAhead
// if it is known how long it takes. To stop it would leave the GPU idle for longer. A context that cannot be stopped, or under
// a policy that does not preempt, has turnTime.
//
// To hand the engine over takes some 100 µs: two messages, and two processes that wake up. So a channel that can be stopped
// gives it back handTime before what is in flight is expected to end. The next guest's commands reach the GPU when this one's
// have ended.
const (
	turnTime = 6 * time.Millisecond
	// sharedAhead is aheadTime where others have wanted the engine within sharedFor: it is a part of the time for which
	// those who pause between two batches wait for the engine when they come back.
	sharedAhead = 500 * time.Microsecond
	sharedFor   = 100 * time.Millisecond

	// drainTime is how long what is in flight may take to end where the engine is to be given back, and overdue by how
	// much longer it may take than it did before.
	drainTime = 2 * time.Millisecond
	overdue   = 500 * time.Microsecond
)

var (
	handTime = 100 * time.Microsecond
	// handLimit is for how long commands may be in flight after the engine was given back, before they are stopped.
	handLimit = time.Millisecond
)

// over reports whether the turn of a channel is over that has the engine, and has used it when all that it has begun has
// ended, for a time.
func (e *engine) over(held time.Duration) bool {
	switch {
	case !e.wanted():
		return false
	case e.gate != nil && e.gate.Preempted(e.kind):
		return true
	}
	return held > turnTime && (e.waiting.Load() > 0 || e.gate == nil || !e.gate.Turn(e.kind) || e.gate.Revoked(e.kind, 0))
}

// ahead returns for how long commands that have begun may take together before another one begins.
func (f *flight) ahead(e *engine) time.Duration {
	if e.gate == nil || f.cost <= sharedAhead {
		return aheadTime
	}
	now := time.Now()
	if !e.gate.Alone(e.kind) {
		f.shared = now
	}
	if now.Sub(f.shared) < sharedFor {
		return sharedAhead
	}
	return aheadTime
}

// turnsTo is how long a GPU takes at most to turn from one guest to another.
const turnsTo = 300 * time.Microsecond

// turning returns the part of the time of the oldest n commands in which the GPU turned to this guest: by what the first of a
// turn took longer than it did before. The guest does not pay for it, since it is more of a short turn than of a long one.
func (f *flight) turning(took time.Duration, n int) time.Duration {
	if !f.turned || f.engine == nil {
		return 0
	}
	f.turned = false
	for _, c := range f.flying[:n] {
		if c.cost == unknown {
			return 0
		}
		took -= c.cost
	}
	return min(max(took, 0), turnsTo)
}

// expectation is when all commands in flight are expected to have ended.
type expectation struct {
	at   time.Time
	left time.Time // the engine was given back; zero if it is held
}

// expected returns that time; it is far away if it is not known. c.run is held.
func (f *flight) expected() expectation {
	return expectation{at: f.start().Add(f.cost - f.spent), left: f.left}
}

// drains reports whether commands in flight, which are to leave the engine, are about to end.
func (x expectation) drains(now time.Time) bool {
	d := x.at.Sub(now)
	return -overdue < d && d <= drainTime
}

// hands reports whether the engine of the oldest command in flight is to be given back now.
func (c *channel) hands(f *flying, x expectation) bool {
	e := f.engine
	if e == nil || e.gate == nil || !x.left.IsZero() || !e.gate.Preempted(e.kind) || c.ctx.worker.unstoppable != nil || f.signal != 0 {
		return false
	}
	d := time.Until(x.at)
	return -overdue < d && d <= handTime
}

// hand gives the engine back before the commands in flight have ended. What they use from now on is counted with the next
// turn. c.run is held.
func (c *channel) hand(now time.Time) {
	c.flight.left = now
	c.flight.pause(now, c.pending())
}

// smallCopy is how long a copy may be expected to take that is part of a turn on the compute engine.
const smallCopy = 100 * time.Microsecond

// engineOf returns where the next command of the channel runs. A small copy or fill among kernels runs on the engine that
// the channel has: they run in order, so that to hand over one engine for another would keep both idle, and lose what is
// in flight. What waits for a word runs on none. Programs of frameworks have a dozen of them in a step of some milliseconds. c.run is held.
func (c *channel) engineOf(w *work) *engine {
	d := c.ctx.dev
	if w.waits() {
		return nil
	}
	if w.fn != nil || w.call != nil || w.graph != nil || c.flight.engine == &d.compute && w.cost <= smallCopy {
		return &d.compute
	}
	return &d.copy
}

// pending reports whether commands wait to be begun. c.run is held.
func (c *channel) pending() bool {
	for _, b := range c.flight.batches {
		if b.begun < len(b.cmds) {
			return true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queue.Len() > 0
}
