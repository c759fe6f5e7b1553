package simt

import (
	"runtime"
	"sync"
	"sync/atomic"
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

// helper is a goroutine that lingers. Whoever takes it off the list gives it work.
type helper struct{ work atomic.Pointer[func()] }

// lingers is how often a helper looks for more work before it ends: it yields
// each time, which takes about a microsecond. A count and not a time, so that it
// ends in a test's virtual time, too.
const lingers = 1000

// do calls work on another goroutine. A nil Helpers starts one each time.
func (h *Helpers) do(work func()) {
	if h == nil {
		go work()
		return
	}
	if w := h.take(); w != nil {
		w.work.Store(&work)
		return
	}
	go func() {
		for w := new(helper); work != nil; work = h.linger(w) {
			work()
		}
	}()
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

// linger waits a moment for work; nil means that there is none.
func (h *Helpers) linger(w *helper) func() {
	w.work.Store(nil)
	h.mu.Lock()
	h.idle = append(h.idle, w)
	h.mu.Unlock()
	for looks := 0; ; looks++ {
		if work := w.work.Load(); work != nil {
			return *work
		}
		if (looks == lingers || h.Linger != nil && !h.Linger()) && h.remove(w) {
			return nil
		}
		runtime.Gosched()
	}
}

// remove takes w off the list. It reports false if somebody else has, who gives
// it work then.
func (h *Helpers) remove(w *helper) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, other := range h.idle {
		if other == w {
			h.idle = append(h.idle[:i], h.idle[i+1:]...)
			return true
		}
	}
	return false
}
