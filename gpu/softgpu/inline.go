package softgpu

import "pvdrm/gpu"

// A launch that ends within microseconds runs on the goroutine that submits it, where nothing is in its way.
// To hand it to the channel's goroutine takes longer than it, and to be told of its end as well: where processors
// are scarce, until another process has used up its time.

// mayInline reports whether commands can run here and now, and takes the turn of the compute engine then.
// Preconditions: c.mu is held.
func (c *channel) mayInline(cmds []gpu.Command) bool {
	if len(cmds) != 1 || c.inline || c.current != nil || len(c.queue) > 0 || c.ctx.hold.mode.Load() != running {
		return false
	}
	l, ok := cmds[0].(*gpu.Launch)
	if !ok || l == nil || l.Signal != 0 || l.Cooperative {
		return false
	}
	f, ok := l.Func.(*function)
	if !ok || f == nil || f.mod.ctx != c.ctx || !f.kernel.Short(l.Grid, l.Block) || f.kernel.Launches() {
		return false
	}
	config := &c.ctx.dev.config
	return !config.ModelTime && config.SaveBytes == 0 && c.ctx.dev.compute.try(c)
}

// runInline runs a batch for which mayInline was true. Preconditions: c.mu is held; it is not while the
// batch runs.
func (c *channel) runInline(b batch) {
	c.batch, c.rest, c.inline, c.turn = b, working, true, true
	c.current = &c.batch
	c.mu.Unlock()
	c.complete(c.current)
	if c.takeTurn() { // the launch was invalid, or the context has ended
		c.ctx.dev.compute.next()
	}
	c.mu.Lock()
	c.batch, c.current, c.rest, c.inline = batch{}, nil, between, false
	if c.ctx.hold.mode.Load() != running {
		c.ctx.hold.note()
	}
	if c.closed || len(c.queue) > 0 {
		c.wake.Signal()
	}
}

// takeTurn reports whether the channel has the turn of the compute engine already, and makes its caller the one
// who ends it.
func (c *channel) takeTurn() bool {
	had := c.turn
	c.turn = false
	return had
}

// processors is how many of the device's multiprocessors a launch gets at most, which runs.
func (c *channel) processors() int {
	if c.inline {
		return 1
	}
	n := c.ctx.dev.config.SMs
	if gate := c.ctx.dev.compute.gate; gate != nil {
		if part := gpu.PartOf(gate, gpu.EngineCompute); part > 0 {
			n = min(n, part)
		}
	}
	return n
}

// try begins the turn of a channel if the engine is free. Where the arbiter divides it among processes, that
// may take long, so nothing is tried.
func (e *engine) try(c *channel) bool {
	if e.gate != nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held || len(e.waiting) > 0 {
		return false
	}
	e.take(c)
	return true
}
