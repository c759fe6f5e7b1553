package hypercall

import (
	"sync/atomic"
	"unsafe"
)

// word32 returns the 32-bit word at off. Go's atomics need a pointer, which
// only unsafe makes of a byte slice. It is sound because New checks that mem
// is 8-byte aligned and long enough, off is one of this package's constants,
// and the pointer keeps mem's array alive. Slicing checks the bounds without
// reading the memory, which the other side may be writing.
func word32(mem []byte, off uint64) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(unsafe.SliceData(mem[off : off+4])))
}

// word64 is word32 for a 64-bit word; off is a multiple of 8.
func word64(mem []byte, off uint64) *atomic.Uint64 {
	return (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(mem[off : off+8])))
}

// load reads a 64-bit word once, also where nobody wants it but for its cache line.
func load(mem []byte, off uint64) uint64 { return word64(mem, off).Load() }

// aligned reports whether mem starts at a multiple of 8, which the atomics need.
func aligned(mem []byte) bool {
	return uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%8 == 0
}
