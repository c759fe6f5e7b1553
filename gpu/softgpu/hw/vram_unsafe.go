package hw

import (
	"sync/atomic"
	"unsafe"
)

// LoadWord reads a word that kernels may write at the same time.
// Preconditions: b has 8 bytes, 8-byte aligned.
func LoadWord(b []byte) uint64 {
	// The slice has 8 bytes and both callers check alignment; VRAM itself is page aligned.
	return atomic.LoadUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b))))
}

// StoreWord writes a word that kernels may read at the same time.
// Preconditions: b has 8 bytes, 8-byte aligned.
func StoreWord(b []byte, v uint64) {
	// As in LoadWord.
	atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(b))), v)
}

// LoadHalf is LoadWord for 4 bytes.
func LoadHalf(b []byte) uint32 {
	// As in LoadWord, with 4 bytes.
	return atomic.LoadUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))))
}

// StoreHalf is StoreWord for 4 bytes.
func StoreHalf(b []byte, v uint32) {
	// As in LoadWord, with 4 bytes.
	atomic.StoreUint32((*uint32)(unsafe.Pointer(unsafe.SliceData(b))), v)
}

// addressOf is where b begins in host memory.
func addressOf(b []byte) uint64 {
	// Only the address is looked at.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
