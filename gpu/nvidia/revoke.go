package nvidia

import (
	gocontext "context"
	"errors"
	"fmt"
	"slices"
	"time"

	"pvdrm/gpu"
	"pvdrm/internal/yield"
)

// A context is revoked in three steps, and only the first keeps others waiting:
//
//  1. its keeper takes what it runs off the GPU (stopper), and the channels note how far they came;
//  2. a worker of the pool takes over: it gets the memory, the modules and the mappings;
//  3. the old worker is killed, which takes the driver longer than both.
//
// Stopping first shows what has ended, so that at most one command of a channel begins again. If one
// of them may not, the context goes on where it was stopped, and nothing is lost.

// errNotNow is the error of a context that is in the middle of something.
var errNotNow = errors.New("a call is in progress")

// For how long a context that is revoked waits for channels that begin commands: while a channel of its
// own wants to give way, which asks again, and where its owner asks.
const (
	channelPatience = 5 * time.Millisecond
	ownerPatience   = 5 * time.Second
)

// isOff reports whether what the worker ran was taken off the GPU.
func (c *context) isOff() bool {
	c.lifeMu.Lock()
	defer c.lifeMu.Unlock()
	return c.off
}

// takeOff takes what the context runs off the GPU, for another worker to run again. After an error the
// context goes on. c.mu is held, and c.gen for reading.
func (c *context) takeOff(patience time.Duration) error {
	if err := c.Err(); err != nil {
		return err
	}
	if err := c.lasts(); err != nil {
		return err
	}
	if err := c.stopped(func(h *halt) { h.leaves = true }); err != nil {
		return errors.Join(c.Err(), err)
	}
	err := c.endWork(patience)
	if err == nil {
		return nil
	}
	return errors.Join(err, c.stopped(func(h *halt) { h.leaves = false }))
}

// endWork ends the work of a worker that is stopped, unless some of that may not begin again.
func (c *context) endWork(patience time.Duration) error {
	var held []*channel
	defer func() {
		for _, ch := range held {
			ch.run.Unlock()
		}
	}()
	for begin := time.Now(); ; yield.Nap(20 * time.Microsecond) {
		waits := false
		for _, ch := range c.channels {
			if ch == nil || slices.Contains(held, ch) || ch.entering.Load() {
				continue
			}
			if ch.run.TryLock() {
				held = append(held, ch)
			} else {
				waits = true
			}
		}
		if !waits {
			break
		}
		if time.Since(begin) > patience {
			return errNotNow
		}
	}
	for _, ch := range held {
		if f := ch.head(c.worker.lane.fence(ch.slot)); f != nil && !f.batch.task {
			if err := c.mayBeginAgain(f); err != nil {
				return fmt.Errorf("%w: %w", gpu.ErrUnsupported, err)
			}
		}
	}
	c.lifeMu.Lock()
	defer c.lifeMu.Unlock()
	if err := c.Err(); err != nil {
		return err
	}
	if !c.revoked {
		c.off, c.revoked = true, true
		close(c.over)
	}
	return nil
}

// tear notes how far the channel came when its worker was revoked or ended. Its fence has its last
// value. c.run is held.
func (c *channel) tear(fence uint32) {
	if !c.ctx.mixed.Load() {
		return // all begin again from their start
	}
	if f := c.flight.oldest(); f != nil && reached(fence, f.number) {
		c.land(fence)
	}
	for _, f := range slices.Backward(c.flight.flying) {
		f.batch.from = f.from // of a launch in parts, those that have ended stay so
	}
	if f := c.head(fence); f != nil && !f.batch.task {
		if err := c.ctx.mayBeginAgain(f); err != nil {
			c.ctx.torn.CompareAndSwap(nil, new(err.Error()))
		}
	}
}

// yield gives the GPU to another guest, if what runs may run again later. f is the command that is
// waited for.
func (c *channel) yield(f *flying) bool {
	ctx := c.ctx
	if ctx.lasts() != nil {
		if !f.batch.task || ctx.mixed.Load() {
			return false
		}
		ctx.revoke()
		return true
	}
	if time.Now().Before(c.later) {
		return false
	}
	c.later = time.Now().Add(ctx.dev.config.RevokeAfter)
	if !f.batch.task && ctx.mayBeginAgain(f) != nil || !ctx.mu.TryLock() {
		return false
	}
	defer ctx.mu.Unlock()
	if ctx.takeOff(channelPatience) != nil {
		return false
	}
	go ctx.renew(ctx.worker)
	return true
}

// renew makes the context again whose work was taken off the GPU.
func (c *context) renew(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.worker == p && c.isOff() {
		c.takeOver()
	}
}

// takeOver has another worker take over. c.mu is held.
func (c *context) takeOver() {
	const why = "it was taken off the GPU for another guest"
	if !c.rebuild(why) { // no effect if the context has ended
		c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: why + ", and no other worker could take over"})
	}
}

// Revoke implements gpu.Revoker.
func (c *context) Revoke(ctx gocontext.Context) error {
	return c.wrap("revoke", c.revokeFor(ctx))
}

func (c *context) revokeFor(ctx gocontext.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gen.RLock()
	err := c.mayStop()
	if err == nil {
		err = gocontext.Cause(ctx)
	}
	asked := false
	if err == nil {
		err = c.stopped(func(h *halt) { asked, h.asked = h.asked, true })
	}
	if err == nil {
		if err = c.takeOff(ownerPatience); err != nil && !asked {
			err = errors.Join(err, c.stopped(func(h *halt) { h.asked = false }))
		}
	}
	c.gen.RUnlock()
	if err != nil {
		return err
	}
	c.takeOver()
	return c.Err()
}
