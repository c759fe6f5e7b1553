package softgpu

import (
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/gpu/softgpu/hw"
)

// How long a channel that waits for a word sleeps between two looks: twice as long each time. Its
// guest keeps no processor busy by that, however many channels wait and however long.
const (
	firstLook   = 20 * time.Microsecond
	longestLook = 2 * time.Millisecond
)

// word writes a word on the copy engine, or waits for one without any.
func (c *channel) word(cmd *gpu.Word) error {
	if err := check.Word(&c.ctx.dev.props, cmd); err != nil {
		return err
	}
	if cmd.Op == gpu.WordWrite {
		return c.transfer(&hw.Word{VA: cmd.VA, Value: cmd.Value, Size: cmd.Size, Write: true})
	}
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		c.pause(between) // a snapshot may be taken: the wait then begins again
		if err := c.halted(); err != nil {
			return err
		}
		now := &hw.Word{VA: cmd.VA, Size: cmd.Size}
		if _, fault := c.slice(now); fault != nil {
			return c.fault(fault)
		}
		if cmd.Holds(now.Value) {
			return nil
		}
		timer.Reset(pause)
		c.sleep(timer)
	}
}

// sleep returns when the timer has fired, or the channel has something else to look at.
func (c *channel) sleep(timer *time.Timer) {
	changed, stop := c.mustStop(between)
	if stop {
		return
	}
	select {
	case <-timer.C:
	case <-changed:
	case <-c.ctx.over:
	case <-c.stop:
	}
}
