package nvidia

import "sync/atomic"

// polling is how the user of a channel helps its goroutine, which looks seldom while
// that is so: what both use would travel between the caches of two processors, for each
// launch a dozen times.
type polling struct {
	left   atomic.Bool   // Submit has left something to be begun
	calls  uint32        // of Poll; its caller's own
	marks  atomic.Uint32 // grows with calls
	before uint32        // marks when the goroutine last looked; its own
}

// markCalls is how many calls of Poll make a mark, a microsecond or so.
const markCalls = 64

// helps reports whether Poll was called since it was last asked. The goroutine of the
// channel asks.
func (p *polling) helps() bool {
	now := p.marks.Load()
	helps := now != p.before
	p.before = now
	return helps
}

// Poll implements gpu.Poller. Where others want the GPU it begins nothing: the goroutine may wait for it.
func (c *channel) Poll() {
	p := &c.polling
	if p.calls++; p.calls%markCalls == 0 {
		p.marks.Add(1)
	}
	due, left := c.due.Load(), p.left.Load()
	if due == 0 && !left || !c.ctx.gen.TryRLock() {
		return
	}
	defer c.ctx.gen.RUnlock()
	if !left && !reached(c.ctx.worker.lane.fence(c.slot), uint32(due)) {
		c.delayed()
		return
	}
	if !c.run.TryLock() {
		return
	}
	defer c.run.Unlock()
	if c.built != c.ctx.built {
		return
	}
	if f := c.flight.oldest(); f != nil && reached(c.ctx.worker.lane.fence(c.slot), f.number) {
		c.land(c.ctx.worker.lane.fence(c.slot))
	}
	if left {
		p.left.Store(false)
	}
	_ = c.beginMore(false, true) // what is wrong is left to the goroutine to find
}
