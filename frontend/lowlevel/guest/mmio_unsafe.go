package guest

import "unsafe"

// Registers are read and written by one plain instruction of 4 bytes each: an atomic store would be a read
// and a write for the device. The functions are not inlined, so that the compiler neither joins accesses
// nor leaves one out.

// load32 reads b[:4]. Preconditions: b has 4 bytes on their boundary.
//
//go:noinline
func load32(b []byte) uint32 {
	_ = b[3]
	return *(*uint32)(unsafe.Pointer(unsafe.SliceData(b))) // 4 bytes of b, aligned
}

// store32 writes b[:4], likewise.
//
//go:noinline
func store32(b []byte, v uint32) {
	_ = b[3]
	*(*uint32)(unsafe.Pointer(unsafe.SliceData(b))) = v // 4 bytes of b, aligned
}

// addressOf is where b begins in this process.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) } // only looked up, never turned back
