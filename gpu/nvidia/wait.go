package nvidia

import (
	"fmt"
	"time"

	"pvdrm/gpu"
	"pvdrm/internal/yield"
)

// How a channel waits for the GPU: it looks without a pause at first, then every
// pollTime, in which it blocks a thread of the process for a moment only.
const (
	pollSpin = 2 * time.Millisecond
	pollTime = 20 * time.Microsecond
	// helpedTime is in place of it while the channel's user looks, too.
	helpedTime = 100 * time.Microsecond
	// waitSpin is how long it looks for something to do without a pause.
	waitSpin = 200 * time.Microsecond
)

// looks is how often a loop that spins looks between two times that it gives way to
// others. To give way takes half a microsecond, in which nobody looks: where there are
// processors for all, it is rare.
var looks = looksOn(yield.Ample)

func looksOn(ample bool) int {
	if ample {
		return 4096
	}
	return 64
}

// await waits until ready, or for what keeps it from ever becoming so. The oldest
// command of the channel has the GPU for itself since a time, and had it for some before it was
// preempted; f is that one or one behind it.
func (c *channel) await(f *flying, since time.Time, spent time.Duration, ready func() bool) error {
	l := c.ctx.worker.lane
	helped := c.polling.helps()
	for n := 1; !ready(); n++ {
		if n%looks != 0 && !helped {
			continue
		}
		helped = c.polling.helps()
		yield.Processor()
		select {
		case <-c.ctx.over:
			if err := c.ctx.Err(); err != nil {
				return err
			}
			return errRevoked
		default:
		}
		if code := result(l.load(offLost)); code != resultOK && !ready() {
			return c.fault(c.ctx.fault(code))
		}
		if code, of := l.failure(c.slot); code != resultOK && of == f.number {
			return c.refused(code)
		}
		if f.waits() && c.isStopped() {
			return fmt.Errorf("channel %w", gpu.ErrClosed)
		}
		if c.delayed() {
			since = time.Now()
		}
		waited := time.Since(since)
		if c.overstays(f, waited) && c.yield(f) { // before the limit: it may run again, however late this process looks
			return errRevoked
		}
		if limit := c.ctx.dev.config.LaunchLimit; limit > 0 && c.limited(f, waited+spent) > limit {
			return c.fault(&gpu.LostError{Cause: gpu.LostTimeout, Kernel: c.ctx.suspect(), Detail: fmt.Sprintf("after %v", limit)})
		}
		if helped {
			n = looks - 1 // look at everything each time
			if e := f.engine; e == nil || e.gate == nil || e.gate.Alone(e.kind) {
				yield.Nap(helpedTime)
			} else {
				yield.Nap(pollTime) // it may have to leave
			}
		} else if waited > pollSpin {
			n = looks - 1
			if f.waits() {
				yield.Nap(helpedTime) // it may take long
			} else {
				yield.Nap(pollTime)
			}
		}
	}
	return nil
}

// limited returns the part of the time of a command for which the limit counts. One that waits for a word may take as long
// as it likes, until a call of its context waits in the driver.
func (c *channel) limited(f *flying, ran time.Duration) time.Duration {
	switch since := c.ctx.calls.Load(); {
	case !f.waits():
		return c.ctx.limited(ran)
	case since != 0:
		return min(ran, time.Since(processStart)-time.Duration(since))
	}
	return 0
}

// limited returns the part of the time that a command has run for which the limit counts. That is all,
// or with Config.LimitWaiting that during which a call of its context waits in the driver, if others
// need not wait because the command can be preempted.
func (c *context) limited(ran time.Duration) time.Duration {
	if !c.dev.config.LimitWaiting || c.worker.unstoppable != nil {
		return ran
	}
	since := c.calls.Load()
	if since == 0 {
		return 0
	}
	return min(ran, time.Since(processStart)-time.Duration(since))
}

// processStart is what times in atomic words are relative to.
var processStart = time.Now()

// refused is the error of a command that the driver did not take.
func (c *channel) refused(code result) error {
	err := &driverError{Call: "CUDA", Code: code, Name: "command refused"}
	switch code {
	case resultOutOfMemory:
		return fmt.Errorf("%w: %w", gpu.ErrNoMemory, err)
	case resultGridTooLarge:
		return fmt.Errorf("%w: %w", gpu.ErrGridTooLarge, err)
	case resultClusterSize:
		return fmt.Errorf("%w: %w", gpu.ErrCluster, err)
	case resultOutOfResources:
		err.Name = "too many registers or too much memory for this shape"
	}
	return fmt.Errorf("%w: %w", gpu.ErrInvalid, err)
}
