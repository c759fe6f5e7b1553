package hostmem

import (
	"sync/atomic"
	"unsafe"
)

// Memory shared with a guest has 16-bit and 32-bit words that both sides use
// without a lock, in little-endian order. All of these functions panic when off
// is outside of b or not a multiple of the word's size; callers check layouts
// once, when they map them.

// LoadUint32 reads the word at b[off:] in one piece; later reads are not moved before it.
func LoadUint32(b []byte, off int) uint32 {
	return toLE32(atomic.LoadUint32(word32(b, off)))
}

// SwapUint32 writes the word at b[off:]. It is a full barrier: earlier writes
// are visible before it, and later reads happen after it.
func SwapUint32(b []byte, off int, v uint32) {
	atomic.SwapUint32(word32(b, off), toLE32(v))
}

// LoadUint16 reads the word at b[off:] in one piece, without any order.
func LoadUint16(b []byte, off int) uint16 { return toLE16(*word16(b, off)) }

// StoreUint16 writes the word at b[off:] in one piece, without any order.
func StoreUint16(b []byte, off int, v uint16) { *word16(b, off) = toLE16(v) }

// Barrier is a full barrier between the memory accesses around it.
func Barrier() {
	var word atomic.Uint32 // any atomic read-modify-write is a full barrier
	word.Add(1)
}

// Aligned reports whether b starts at a multiple of n, a power of two.
func Aligned(b []byte, n uintptr) bool {
	// The address is only looked at, never turned back into a pointer.
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))&(n-1) == 0
}

func word32(b []byte, off int) *uint32 {
	p := unsafe.Pointer(&b[off : off+4][0]) // in bounds: the slice expression checked it
	if uintptr(p)&3 != 0 {
		panic("hostmem: misaligned 32-bit access")
	}
	return (*uint32)(p)
}

func word16(b []byte, off int) *uint16 {
	p := unsafe.Pointer(&b[off : off+2][0]) // in bounds: the slice expression checked it
	if uintptr(p)&1 != 0 {
		panic("hostmem: misaligned 16-bit access")
	}
	return (*uint16)(p)
}
