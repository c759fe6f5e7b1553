package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"pvdrm/drm"
	"pvdrm/gem"
)

// addressSpace has the GPU addresses of all contexts in this process whose windows overlap. Each context has an
// address space of its own, but no two use the same addresses, so that an address tells of which context
// it is, and so of which device, as in CUDA.
type addressSpace struct {
	mu    sync.Mutex
	space *gem.Space
}

// addressWindow is the window of addresses that a device offers its contexts.
type addressWindow struct {
	mu sync.Mutex
	at window        // zero before the first context
	of *addressSpace // nil before that, if no other device has such addresses
}

// part returns what a context takes addresses by. All contexts of a device offer the same window.
func (w *addressWindow) part(at window) (*addresses, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.of == nil {
		space, err := gem.NewSpace(at.base, at.size)
		if err != nil {
			return nil, err
		}
		w.of, w.at = &addressSpace{space: space}, at
	}
	if w.at != at {
		return nil, fmt.Errorf("the driver offers addresses from 0x%x, and offered others from 0x%x before", at.base, w.at.base)
	}
	return &addresses{of: w.of, at: at, taken: map[uint64]struct{}{}}, nil
}

// shareAddresses has devices whose windows overlap take addresses from one space. One device alone
// needs none before its first context.
func (d *Driver) shareAddresses() error {
	if len(d.devices) < 2 {
		return nil
	}
	var all []*addressWindow
	for _, dev := range d.devices {
		for w, p := range map[*addressWindow]drm.Param{&dev.vram: drm.ParamVRAMBase, &dev.system: drm.ParamSystemBase} {
			w.at = window{dev.params[p], dev.params[p+1], dev.params[p+2]}
			if err := w.at.check(); err != nil {
				return &Error{"cuInit", ErrUnknown, err}
			}
			all = append(all, w)
		}
	}
	slices.SortFunc(all, func(a, b *addressWindow) int { return cmp.Compare(a.at.base, b.at.base) })
	for len(all) > 0 {
		base, end, n := all[0].at.base, all[0].at.end(), 1
		for ; n < len(all) && all[n].at.base < end; n++ {
			end = max(end, all[n].at.end())
		}
		space, err := gem.NewSpace(base, end-base)
		if err != nil {
			return &Error{"cuInit", ErrUnknown, err}
		}
		shared := &addressSpace{space: space}
		for _, w := range all[:n] {
			w.of = shared
		}
		all = all[n:]
	}
	return nil
}

// addresses are those that one context has taken. Memory.mu of the context guards taken.
type addresses struct {
	of    *addressSpace
	at    window
	taken map[uint64]struct{}
}

// Alloc takes n bytes at a multiple of align, as gem.Space does.
func (a *addresses) Alloc(n, align uint64) (uint64, error) {
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	addr, err := a.of.space.Alloc(n, align)
	if err != nil {
		return 0, err
	}
	if addr < a.at.base || addr+n > a.at.end() { // the window of another device is larger
		_, err := a.of.space.Free(addr)
		return 0, errors.Join(gem.ErrNoRoom, err)
	}
	a.taken[addr] = struct{}{}
	return addr, nil
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
