package nvidia

import (
	"fmt"

	"pvdrm/gpu"
)

// Submit implements gpu.Channel.
func (c *channel) Submit(cmds []gpu.Command, done func(gpu.Result)) error {
	return c.submit(nil, cmds, done)
}

// submit queues a batch that waits for others.
func (c *channel) submit(behind []following, cmds []gpu.Command, done func(gpu.Result)) error {
	if done == nil {
		return fmt.Errorf("%w: a batch needs a done function", gpu.ErrInvalid)
	}
	held := c.tryRun()
	err := c.accept(behind, cmds, done, held)
	began := false
	if held {
		before := len(c.flight.flying)
		if err == nil {
			_ = c.beginMore(false, false) // what is wrong with a command is left to the goroutine to find
		}
		began = len(c.flight.flying) > before
		c.run.Unlock()
		c.ctx.gen.RUnlock()
	}
	if err != nil {
		return err
	}
	if !began {
		c.polling.left.Store(true)
		c.ctx.wakeWorker() // it and the goroutine wake up at the same time
	}
	c.tell()
	return nil
}

// accept makes a batch the last one of the channel. Who holds c.run has it taken at
// once if it is the only one.
func (c *channel) accept(behind []following, cmds []gpu.Command, done func(gpu.Result), held bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("channel %w", gpu.ErrClosed)
	}
	b := c.spare
	if c.spare = nil; b == nil {
		b = new(batch)
	}
	b.of(cmds, done)
	c.taken++
	b.seq, b.behind = c.taken, behind
	if !b.task && len(cmds) > 0 && !c.ctx.mixed.Load() {
		c.ctx.mixed.Store(true)
	}
	if held && len(c.flight.batches) == 0 && c.queue.Len() == 0 {
		c.flight.batches = append(c.flight.batches, b)
	} else {
		c.queue.Push(b)
	}
	return nil
}

// tryRun takes c.ctx.gen for reading and c.run, to begin in place of the goroutine what
// can begin without waiting for anything. It returns false if that is not possible now.
func (c *channel) tryRun() bool {
	if !c.ctx.gen.TryRLock() {
		return false
	}
	if c.run.TryLock() {
		if c.built == c.ctx.built {
			return true
		}
		c.run.Unlock()
	}
	c.ctx.gen.RUnlock()
	return false
}

// tell wakes the goroutine: there is something new.
func (c *channel) tell() {
	c.mu.Lock()
	c.news.Add(1)
	c.wake.Signal()
	c.mu.Unlock()
}
