package cuda

import "unsafe"

// hostAddress is where a slice begins in the program's address space.
func hostAddress(b []byte) uint64 {
	// Only the number is used, to find the slice in a table: it is never turned
	// back into a pointer. Pinned memory does not move, as it is not Go's.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
