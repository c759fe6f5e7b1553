package run

import (
	"slices"
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

	// Yield, if it is set before the run, is asked by workers before they start a block, now and
	// then at interpreted heads of loops, and whenever a warp has used up its quantum. When it reports true the kernel is preempted, as
	// by Preempt. A goroutine that called Preempt would have to wait for a processor, which
	// workers give up as late as they do for a timer. Each worker has made progress before it
	// asks.
	Yield func() bool

	// Divide, if it is set before the run, makes Yield stop the kernel between two clusters only:
	// each worker first runs one to its end. So the clusters that begin a part run at the same time,
	// as on a GPU, and may wait for each other; a launch of no more clusters than workers, and so
	// every cooperative one, is left whole. Preempt is not affected.
	Divide bool

	// Whole, if it is set before the run, makes Preempt and Yield have no effect: for a launch that
	// ends sooner than it could be preempted.
	Whole bool

	// word changes whenever workers have something to look at; they compare it
	// with what they saw last at every loop head.
	word  atomic.Uint64
	cause atomic.Uint32

	preempt atomic.Bool
	enough  atomic.Bool // with Divide: no worker takes another cluster
	sleeps  atomic.Uint64
	slept   atomic.Int64

	mu      sync.Mutex
	bell    chan struct{} // closed when word has changed; nil while no worker sleeps
	acked   sync.Cond     // a worker saw word or left; L is &mu, set by join
	workers []*worker
	one     [1]*worker // what workers begins in
}

// Stop asks the kernel to end with the given cause; later calls do not change
// it. Workers see it at the next loop head, call or block start.
func (c *Control) Stop(cause gpu.LostCause) {
	if c.cause.CompareAndSwap(uint32(gpu.LostNone), uint32(cause)) {
		c.notify()
	}
}

// Preempt asks the kernel to stop where it can go on later: at the next heads of loops,
// calls and starts of blocks. Run then returns *Preempted, unless the kernel ends first.
func (c *Control) Preempt() {
	c.preempt.Store(true)
	c.notify()
}

// look preempts the kernel if it has to make room, and stops it if its Deadline is over. It is called
// within a cluster.
func (c *Control) look() {
	c.Expire()
	c.makeRoom()
}

// makeRoom preempts the kernel if Yield demands it, within a cluster.
func (c *Control) makeRoom() {
	if c.Yield != nil && !c.Divide && !c.preempt.Load() && c.Yield() {
		c.Preempt()
	}
}

// between is makeRoom between two clusters. It reports whether the worker is to take no other one.
func (c *Control) between() (stop bool) {
	if !c.Divide {
		c.makeRoom() // runCluster polls
		return false
	}
	if c.Yield != nil && !c.enough.Load() && c.Yield() {
		c.enough.Store(true)
	}
	return c.enough.Load()
}

// notify makes all workers look at c, also those that sleep.
func (c *Control) notify() {
	c.word.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ring()
}

// ring wakes workers that sleep. Precondition: mu is held.
func (c *Control) ring() {
	if c.bell != nil {
		close(c.bell)
		c.bell = nil
	}
}

// Sleeps returns how often a worker has given its processor away because every thread of
// its block was asleep or waited for one that was.
func (c *Control) Sleeps() uint64 { return c.sleeps.Load() }

// Slept returns for how long workers have slept so, all of them together.
func (c *Control) Slept() time.Duration { return time.Duration(c.slept.Load()) }

// sleep returns after a time, or when word is not what was seen.
func (c *Control) sleep(d time.Duration, seen uint64) {
	c.sleeps.Add(1)
	begin := time.Now()
	defer func() { c.slept.Add(int64(time.Since(begin))) }()
	c.mu.Lock()
	if c.word.Load() != seen {
		c.mu.Unlock()
		return
	}
	if c.bell == nil {
		c.bell = make(chan struct{})
	}
	bell := c.bell
	c.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-bell:
	case <-timer.C:
	}
}

// Expire stops the kernel if its Deadline is over.
func (c *Control) Expire() {
	if !c.Deadline.IsZero() && !time.Now().Before(c.Deadline) {
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
	c.ring()
	for !c.flushed(want) {
		c.acked.Wait()
	}
}

// flushed reports whether all workers have seen word at want or later.
// Precondition: mu is held.
func (c *Control) flushed(want uint64) bool {
	for _, w := range c.workers {
		if w.acked < want {
			return false
		}
	}
	return true
}

// join adds a worker, whose TLB is empty.
func (c *Control) join(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acked.L = &c.mu
	// Its translations are newer than any flush so far, but w.seen stays zero: a
	// stop that came before it joined has still to be seen.
	w.seen = 0
	w.acked = c.word.Load()
	if c.workers == nil {
		c.workers = c.one[:0]
	}
	c.workers = append(c.workers, w)
}

// leave removes a worker, which uses no translation any more.
func (c *Control) leave(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.workers, w)
	c.workers = slices.Delete(c.workers, i, i+1)
	c.acked.Broadcast()
}

// ack records that w has dropped its translations after it saw word.
func (c *Control) ack(w *worker, seen uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.acked = seen
	c.acked.Broadcast()
}
