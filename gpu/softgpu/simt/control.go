package simt

import (
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
)

// Control reaches a kernel while it runs. The zero value is ready; use one for
// each Run. All methods may be called from any goroutine at any time, before
// and after the run too.
type Control struct {
	// Deadline, if it is set before the run, ends the kernel with gpu.LostTimeout once
	// it is over. Workers look at the clock whenever a warp has used up its quantum: a
	// kernel that loops without barriers is ended at once, where a timer would wait
	// until the Go scheduler takes a processor from a worker, which is 10 ms.
	Deadline time.Time

	// word changes whenever workers have something to look at; they compare it
	// with what they saw last at every loop head.
	word  atomic.Uint64
	cause atomic.Uint32

	mu      sync.Mutex
	acked   sync.Cond // a worker saw word or left; L is &mu, set by join
	workers map[*worker]uint64
}

// Stop asks the kernel to end with the given cause; later calls do not change
// it. Workers see it at the next loop head, call or block start.
func (c *Control) Stop(cause gpu.LostCause) {
	if c.cause.CompareAndSwap(uint32(gpu.LostNone), uint32(cause)) {
		c.word.Add(1)
	}
}

// expire stops the kernel if its time is over.
func (c *Control) expire() {
	if !c.Deadline.IsZero() && time.Now().After(c.Deadline) {
		c.Stop(gpu.LostTimeout)
	}
}

// Stopped is the cause given to Stop, or gpu.LostNone.
func (c *Control) Stopped() gpu.LostCause { return gpu.LostCause(c.cause.Load()) }

// FlushTLB returns when no worker uses a translation that was looked up before
// the call. Workers drop theirs at the next loop head, call or block start; a
// kernel that does not run has none.
func (c *Control) FlushTLB() {
	c.mu.Lock()
	defer c.mu.Unlock()
	want := c.word.Add(1)
	for !c.flushed(want) {
		c.acked.Wait()
	}
}

// flushed reports whether all workers have seen word at want or later.
// Precondition: mu is held.
func (c *Control) flushed(want uint64) bool {
	for _, seen := range c.workers {
		if seen < want {
			return false
		}
	}
	return true
}

// join adds a worker, whose TLB is empty.
func (c *Control) join(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.workers == nil {
		c.workers = make(map[*worker]uint64)
		c.acked.L = &c.mu
	}
	// Its translations are newer than any flush so far, but w.seen stays zero: a
	// stop that came before it joined has still to be seen.
	w.seen = 0
	c.workers[w] = c.word.Load()
}

// leave removes a worker, which uses no translation any more.
func (c *Control) leave(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.workers, w)
	c.acked.Broadcast()
}

// ack records that w has dropped its translations after it saw word.
func (c *Control) ack(w *worker, seen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.workers[w] = seen
	c.acked.Broadcast()
}
