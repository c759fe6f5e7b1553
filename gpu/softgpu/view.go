package softgpu

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/hw"
)

// view is an address space as an engine sees it: through the directory that a
// channel descriptor names. It is the exec.Space of kernels.
type view struct {
	space *space
	hw.View
}

// Lookup implements exec.Space.
func (w view) Lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	w.space.mu.RLock()
	defer w.space.mu.RUnlock()
	return w.lookup(va)
}

// current is the address space of a channel as its descriptor says at each look-up: when the directory of a
// kernel that runs is replaced and flushed, nothing walks the old one any more, and it may be freed.
type current struct{ channel *channel }

// Lookup implements exec.Space.
func (w current) Lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	s := w.channel.ctx.space
	s.mu.RLock()
	defer s.mu.RUnlock()
	return w.channel.view().lookup(va)
}

// lookup is Lookup. Preconditions: space.mu is held.
func (w view) lookup(va uint64) (page []byte, base uint64, prot gpu.Prot, ok bool) {
	page, base, readOnly, ok := w.View.Lookup(va)
	switch {
	case !ok:
		return nil, 0, 0, false
	case readOnly:
		return page, base, gpu.ProtRead, true
	}
	return page, base, gpu.ProtRead | gpu.ProtWrite, true
}
