package simt

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"pvdrm/internal/yield"
)

// Helpers are the goroutines that work beside that which runs a launch. One
// that has helped lingers for a moment, so that it is still there when the next
// launch follows at once: to wake an idle processor takes tens to hundreds of
// microseconds in a virtual machine, as long as many a kernel runs. The zero
// value is ready; nothing needs closing. Its lock is held for moments only.
type Helpers struct {
	// Linger says whether to linger, if it is set. It is called all the time while
	// helpers do. Where other processes wait for the processors, and this one for its
	// turn, those that linger keep both waiting: they leave no processor to look at
	// what comes in.
	Linger func() bool

	mu   sync.Mutex
	idle []*helper
}

// helper is a goroutine that lingers. It is on the list of idle ones, or somebody
// has taken it off and gives it work.
type helper struct{ work atomic.Pointer[func()] }

// How long a helper looks for more work before it ends. Between two looks it
// yields the processor to other threads, and now and then to other goroutines. Were
// that all the time, a dozen helpers would keep the runtime's queue of goroutines so
// busy that nobody looked at its poller. Both take about a microsecond. Counts and not
// times, so that a helper ends in a test's virtual time, too.
const (
	lingers = 1000
	gosched = 16
)

// do has work called on another goroutine. A nil Helpers starts one each time. The
// helper that is returned can be told not to; it is nil if it is a new goroutine
// that cannot.
func (h *Helpers) do(work *func()) *helper {
	if h == nil {
		go (*work)()
		return nil
	}
	w := h.take()
	if w == nil {
		w = new(helper)
		w.work.Store(work)
		go h.serve(w)
		return w
	}
	w.work.Store(work)
	return w
}

// withdraw reports whether it could take work back that a helper was given and has
// not begun: to get a processor may have taken longer than the launch.
func (h *Helpers) withdraw(w *helper, work *func()) bool {
	if w == nil || !w.work.CompareAndSwap(work, nil) {
		return false
	}
	h.offer(w)
	return true
}

func (h *Helpers) take() *helper {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.idle)
	if n == 0 {
		return nil
	}
	w := h.idle[n-1]
	h.idle = h.idle[:n-1]
	return w
}

// offer puts w on the list.
func (h *Helpers) offer(w *helper) {
	h.mu.Lock()
	h.idle = append(h.idle, w)
	h.mu.Unlock()
}

// serve does the work that w is given, until there was none for a moment.
func (h *Helpers) serve(w *helper) {
	for looks := 1; ; looks++ {
		if work := w.work.Swap(nil); work != nil {
			(*work)()
			h.offer(w)
			looks = 0
			continue
		}
		if (looks >= lingers || h.Linger != nil && !h.Linger()) && h.remove(w) {
			return
		}
		if looks%gosched == 0 {
			runtime.Gosched()
		} else {
			yield.Thread()
		}
	}
}

// remove takes w off the list. It reports false if somebody else has, who gives
// it work then, or has given it some.
func (h *Helpers) remove(w *helper) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.idle, w)
	if i < 0 {
		return false
	}
	h.idle = slices.Delete(h.idle, i, i+1)
	return true
}
