package softgpu

import (
	gocontext "context"
	"errors"
	"sync"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec"
)

// life is whether commands of a context may run, and what has to be stopped
// when they may no longer:
//
//	alive ──fault──► lost ──Close──► lost (closed)
//	  └────────────Close───────────► closed
type life struct {
	over chan struct{} // closed when the context is no longer alive

	mu      sync.Mutex
	err     error // nil while alive; a *gpu.LostError stays when the context is closed
	running map[*exec.Control]struct{}
	loads   map[uint64]gocontext.CancelCauseFunc // modules that are being compiled
	next    uint64                               // id of the last one
}

func (l *life) init() {
	l.over = make(chan struct{})
	l.running = map[*exec.Control]struct{}{}
	l.loads = map[uint64]gocontext.CancelCauseFunc{}
}

// Err is nil while alive, else why commands fail.
func (l *life) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// end ends the context and stops what runs in it. Only the first call counts;
// it returns true.
func (l *life) end(err error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.err = err
	close(l.over)
	cause := gpu.LostDevice
	if lost, ok := errors.AsType[*gpu.LostError](err); ok {
		cause = lost.Cause
	}
	for c := range l.running {
		c.Stop(cause)
	}
	for _, cancel := range l.loads {
		cancel(err)
	}
	return true
}

// onEnd has a function called with why the context ended, when it does. The caller calls
// what onEnd returns when it is not interested any more.
func (l *life) onEnd(f gocontext.CancelCauseFunc) (forget func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		f(l.err)
		return func() {}
	}
	l.next++
	id := l.next
	l.loads[id] = f
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.loads, id)
	}
}

// enter notes that a kernel is about to run; it fails when the context ended.
func (l *life) enter(c *exec.Control) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.running[c] = struct{}{}
	}
	return l.err
}

// leave notes that a kernel has ended.
func (l *life) leave(c *exec.Control) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, c)
}

// controls returns the kernels that run.
func (l *life) controls() []*exec.Control {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*exec.Control, 0, len(l.running))
	for c := range l.running {
		out = append(out, c)
	}
	return out
}
