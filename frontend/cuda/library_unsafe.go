package cuda

import (
	"sync/atomic"
	"unsafe"
)

// resultsThere reports whether the flags of results are set, which the host writes last.
func resultsThere(mem []byte) bool {
	// Pinned memory of at least 8 bytes, at a multiple of 8.
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(mem))))>>32 != 0
}

// forgetResults lets the host write the next ones.
func forgetResults(mem []byte) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(mem))), 0) // likewise
}
