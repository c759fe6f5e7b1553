package points

import (
	"fmt"
	"time"

	"pvdrm/gpu"
)

// Follows implements gpu.Follower.
func (c *channel) Follows() bool {
	inner, ok := c.Channel.(gpu.Follower)
	return ok && inner.Follows()
}

// inner returns the device's channel, if that counts its batches as c does.
func (c *context) inner(ch gpu.Channel) (gpu.Channel, bool) {
	if p, ok := ch.(*polled); ok {
		ch = p.channel
	}
	mine, ok := ch.(*channel)
	if !ok || mine.ctx != c || mine.apart.Load() {
		return nil, false
	}
	return mine.Channel, true
}

// SubmitBehind implements gpu.Follower. Launches that may run in pieces wait on the host.
func (c *channel) SubmitBehind(points []gpu.Point, cmds []gpu.Command, done func(gpu.Result)) (bool, error) {
	if !c.Follows() || done == nil {
		return false, nil
	}
	list := make([]gpu.Point, len(points))
	for i, p := range points {
		ch, ok := c.ctx.inner(p.Channel)
		if !ok {
			return false, nil
		}
		list[i] = gpu.Point{Channel: ch, Batch: p.Batch}
	}
	b, launches := c.translate(cmds)
	if len(b.cuts) > 0 {
		return false, nil
	}
	done = c.ctx.names.told(done)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false, fmt.Errorf("channel %w", gpu.ErrClosed)
	}
	if c.running {
		return false, nil
	}
	took, err := c.Channel.(gpu.Follower).SubmitBehind(list, b.cmds, func(r gpu.Result) {
		if len(launches) > 0 { // when they began is not known
			c.landed.Store(int64(time.Since(epoch)))
		}
		done(r)
	})
	if took {
		c.ctx.dev.wholes.Add(uint64(len(launches)))
	}
	return took, c.ctx.names.named(err)
}
