package softgpu

import (
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec"
)

// watch has look called after a time, while a kernel with a limit runs. The channel keeps one
// timer for all its kernels, so that a launch allocates none: a call that is late meets no kernel,
// or the next one, whose time is not over yet.
func (c *channel) watch(control *exec.Control, d time.Duration) {
	c.limited.Store(control)
	c.timer.Reset(d)
}

// unwatch ends what watch began.
func (c *channel) unwatch() {
	c.timer.Stop()
	c.limited.Store(nil)
}

// looks is how often look measures, within the limit, whether others wait.
const looks = 20

// lookEvery is the time between two calls of look where only the waiting of others counts.
func (c *channel) lookEvery() time.Duration {
	return max(c.ctx.dev.config.LaunchLimit/looks, time.Millisecond)
}

// look stops the kernel that runs if its time is over.
func (c *channel) look() {
	control := c.limited.Load()
	if control == nil {
		return
	}
	if !c.ctx.dev.config.LimitWaiting {
		control.Expire()
		return
	}
	every := c.lookEvery()
	if c.ctx.dev.compute.wanted(c.ctx) && c.patience.Add(-int64(every)) <= 0 {
		control.Stop(gpu.LostTimeout)
		return
	}
	c.timer.Reset(every)
}
