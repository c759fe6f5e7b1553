package cuda

import (
	"errors"
	"fmt"
	"sync"

	"pvdrm/gem"
)

// addressWindow has the GPU addresses of all contexts of a device in this process. Each context has an address
// space of its own, but no two use the same addresses, so that an address tells of which context it
// is, as in CUDA.
type addressWindow struct {
	mu    sync.Mutex
	at    window
	space *gem.Space // nil before the first context
}

// part returns what a context takes addresses by. All contexts of a device offer the same window.
func (w *addressWindow) part(at window) (*addresses, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.space == nil {
		space, err := gem.NewSpace(at.base, at.size)
		if err != nil {
			return nil, err
		}
		w.space, w.at = space, at
	}
	if w.at != at {
		return nil, fmt.Errorf("the driver offers addresses from 0x%x, and offered others from 0x%x before", at.base, w.at.base)
	}
	return &addresses{of: w, taken: map[uint64]struct{}{}}, nil
}

// addresses are those that one context has taken. Memory.mu of the context guards taken.
type addresses struct {
	of    *addressWindow
	taken map[uint64]struct{}
}

// Alloc takes n bytes at a multiple of align, as gem.Space does.
func (a *addresses) Alloc(n, align uint64) (uint64, error) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	addr, err := a.of.space.Alloc(n, align)
	if err == nil {
		a.taken[addr] = struct{}{}
	}
	return addr, err
}

// Free gives back what Alloc took. Addresses of another context are not allocated.
func (a *addresses) Free(addr uint64) (uint64, error) {
	if _, own := a.taken[addr]; !own {
		return 0, gem.ErrNotAllocated
	}
	delete(a.taken, addr)
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	return a.of.space.Free(addr)
}

// close gives back all, when nothing of the context is mapped any more.
func (a *addresses) close() (err error) {
	for addr := range a.taken {
		_, ferr := a.Free(addr)
		err = errors.Join(err, ferr)
	}
	return err
}
