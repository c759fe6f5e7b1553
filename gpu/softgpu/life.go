package softgpu

import (
	"errors"
	"sync"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/simt"
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
	running map[*simt.Control]struct{}
}

func (l *life) init() {
	l.over = make(chan struct{})
	l.running = map[*simt.Control]struct{}{}
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
	return true
}

// enter notes that a kernel is about to run; it fails when the context ended.
func (l *life) enter(c *simt.Control) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.running[c] = struct{}{}
	}
	return l.err
}

// leave notes that a kernel has ended.
func (l *life) leave(c *simt.Control) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.running, c)
}

// controls returns the kernels that run.
func (l *life) controls() []*simt.Control {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*simt.Control, 0, len(l.running))
	for c := range l.running {
		out = append(out, c)
	}
	return out
}
