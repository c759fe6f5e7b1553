package gputest

import (
	"sync/atomic"
	"unsafe"
)

// wordSet reports whether the 32-bit word at off, a multiple of 4, is not zero.
// The device writes it meanwhile.
func wordSet(b []byte, off int) bool {
	// The index is checked; the memory is page aligned, the offset a multiple of 4.
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(&b[off : off+4][0]))) != 0
}

// storeWord writes the 32-bit word at off, a multiple of 4. The device reads it meanwhile.
func storeWord(b []byte, off int, v uint32) {
	// As in wordSet.
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&b[off : off+4][0])), v)
}
