package softgpu

import (
	"sync/atomic"
	"unsafe"
)

// wordAt is a word that kernels use, too.
func wordAt(b []byte, off int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&b[off : off+4][0])) // in bounds; b is page aligned, off a multiple of 4
}
