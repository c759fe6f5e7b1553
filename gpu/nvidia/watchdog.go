package nvidia

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"pvdrm/gpu"
)

// A worker that was taken over can write to its channels without its backend, and so use the GPU when
// it is another guest's turn. Where guests share the GPU, the device looks at random times whether the
// channels of a context that has nothing to do have work, and ends a context of which they have.

// watchTime is the mean time between two looks at each context. A look takes the driver two milliseconds.
const watchTime = time.Second

// watchdog looks until the device is closed.
func (d *device) watchdog() {
	defer close(d.watched)
	for {
		select {
		case <-time.After(watchTime/2 + rand.N(watchTime)):
		case <-d.unwatch:
			return
		}
		d.mu.Lock()
		var all []*context
		for c := range d.contexts {
			all = append(all, c)
		}
		d.mu.Unlock()
		for _, c := range all {
			c.checkIdle()
		}
	}
}

// checkIdle ends the context if its worker uses the GPU though no command was begun.
func (c *context) checkIdle() {
	if !c.gen.TryRLock() {
		return // it is rebuilt, or ends
	}
	defer c.gen.RUnlock()
	if c.worker.unstoppable != nil || c.Err() != nil {
		return
	}
	before, idle := c.activity()
	if !idle {
		return
	}
	c.halt.mu.Lock() // no one stops it meanwhile
	err := c.worker.stop.order(stopBusy, stopLimit)
	c.halt.mu.Unlock()
	if after, idle := c.activity(); !idle || before != after || !errors.Is(err, stopWorks) {
		return // a driver that cannot tell is none to go by
	}
	c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: fmt.Sprintf("the CUDA worker uses the GPU on its own: %v, of which none was begun here", stopWorks)})
}

// activity counts what the context has had its worker do, and reports whether all of that has ended.
func (c *context) activity() (n activity, idle bool) {
	c.laneMu.Lock()
	defer c.laneMu.Unlock()
	return activity{entries: c.worker.published, calls: c.called.Load()}, len(c.running) == 0 && c.calls.Load() == 0
}

type activity struct {
	entries uint32
	calls   uint64
}
