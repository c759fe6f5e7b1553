package softgpu

import (
	"sync/atomic"
	"unsafe"
)

// loadWord reads a word that kernels may write at the same time.
// Preconditions: b has 8 bytes, 8-byte aligned.
func loadWord(b []byte) uint64 {
	// The slice has 8 bytes and both callers check alignment; VRAM itself is page aligned.
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b))))
}

// storeWord writes a word that kernels may read at the same time.
// Preconditions: b has 8 bytes, 8-byte aligned.
func storeWord(b []byte, v uint64) {
	// As in loadWord.
	atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), v)
}

// addressOf is where b begins in host memory.
func addressOf(b []byte) uint64 {
	// Only the address is looked at.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// pageAligned reports whether b begins on a 4 KiB boundary of host memory.
func pageAligned(b []byte) bool {
	return addressOf(b)%smallPage == 0
}
