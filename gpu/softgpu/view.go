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
	page, base, readOnly, ok := w.View.Lookup(va)
	switch {
	case !ok:
		return nil, 0, 0, false
	case readOnly:
		return page, base, gpu.ProtRead, true
	}
	return page, base, gpu.ProtRead | gpu.ProtWrite, true
}
