// Package parallel shares work that takes microseconds among processors.
//
// A Pool owns its goroutines. A caller that shares work gives it to some of them and waits
// for those that have begun; its lock is held for moments only.
package parallel

import (
	"slices"
	"sync"
	"sync/atomic"

	"pvdrm/internal/yield"
)

// Pool is a set of goroutines that help. One that has helped lingers for a moment, so that it
// is still there when more work follows at once: to wake an idle processor takes tens
// to hundreds of microseconds in a virtual machine, as long as many a kernel runs. The
// zero value is ready; nothing needs closing.
type Pool struct {
	// Linger says whether to linger, if it is set. It is called all the time while
	// helpers do. Where other processes wait for the processors, and this one for its
	// turn, those that linger keep both waiting: they leave no processor to look at
	// what comes in.
	Linger func() bool
	// Looks is how often a helper looks for more work before it ends, about a microsecond
	// each; 0 is 1000. A count and not a time, so that it ends in a test's virtual time, too.
	Looks int

	mu   sync.Mutex
	idle []*helper
}

// helper is a goroutine. It is on the list of idle ones, or somebody has taken it
// off and gives it work.
type helper struct{ work atomic.Pointer[func()] }

func (c *Pool) looks() int {
	if c.Looks > 0 {
		return c.Looks
	}
	return 1000
}

// Share calls work here and on up to n-1 other goroutines at once, with another number
// below n each, and returns when all of these calls have. Those that have not begun
// when the one here returns are never made: to get a processor has taken longer
// than the work. So work is to take its parts from a common counter until none are
// left. A nil Pool starts n-1 goroutines each time, and waits for all of them.
func (c *Pool) Share(n int, work func(member int)) {
	if n <= 1 {
		work(0)
		return
	}
	type member struct {
		helper *helper
		work   func()
	}
	var wg sync.WaitGroup
	var left atomic.Int64 // of those that wg counts; 0 no sooner than there
	members := make([]member, n-1)
	for i := range members {
		m := &members[i]
		wg.Add(1)
		left.Add(1)
		m.work = func() {
			defer left.Add(-1)
			defer wg.Done()
			work(i + 1)
		}
		m.helper = c.do(&m.work)
	}
	work(0)
	for i := range members {
		if m := &members[i]; c.withdraw(m.helper, &m.work) {
			wg.Done()
			left.Add(-1)
		}
	}
	// The last part of each takes a moment, to be woken as long as many of them.
	for looks := 1; looks < waitLooks && left.Load() > 0; looks++ {
		yield.Turn(looks)
	}
	wg.Wait()
}

// waitLooks is how often Share looks for the end of the others before it sleeps.
const waitLooks = 200

// do has work called on another goroutine, and returns the helper that can be told
// not to; nil if it is none.
func (c *Pool) do(work *func()) *helper {
	if c == nil {
		go (*work)()
		return nil
	}
	h := c.take()
	if h == nil {
		h = new(helper)
		h.work.Store(work)
		go c.serve(h)
		return h
	}
	h.work.Store(work)
	return h
}

// withdraw reports whether it could take work back that a helper has not begun.
func (c *Pool) withdraw(h *helper, work *func()) bool {
	if h == nil || !h.work.CompareAndSwap(work, nil) {
		return false
	}
	c.offer(h)
	return true
}

func (c *Pool) take() *helper {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.idle)
	if n == 0 {
		return nil
	}
	h := c.idle[n-1]
	c.idle = c.idle[:n-1]
	return h
}

// offer puts h on the list.
func (c *Pool) offer(h *helper) {
	c.mu.Lock()
	c.idle = append(c.idle, h)
	c.mu.Unlock()
}

// serve does the work that h is given, until there was none for a moment.
func (c *Pool) serve(h *helper) {
	most := c.looks()
	for looks := 1; ; looks++ {
		if work := h.work.Swap(nil); work != nil {
			(*work)()
			c.offer(h)
			looks = 0
			continue
		}
		if (looks >= most || c.Linger != nil && !c.Linger()) && c.remove(h) {
			return
		}
		yield.Turn(looks)
	}
}

// remove takes h off the list. It reports false if somebody else has, who gives
// it work then, or has given it some.
func (c *Pool) remove(h *helper) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.idle, h)
	if i < 0 {
		return false
	}
	c.idle = slices.Delete(c.idle, i, i+1)
	return true
}
