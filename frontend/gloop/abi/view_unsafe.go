package abi

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Bytes returns the launch as a kernel's parameter. It is sound because Launch has no padding and
// no pointers.
func (l *Launch) Bytes() []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(l)), LaunchBytes)...)
}

// Bytes returns the queue as it lies in device memory; sound as Launch.Bytes.
func (q *Queue) Bytes() []byte {
	return append([]byte(nil), unsafe.Slice((*byte)(unsafe.Pointer(q)), QueueBytes)...)
}

// Blocks returns the n blocks at the start of shared memory. It is sound because the length and the
// alignment are checked, Block has no pointers, and the slice keeps the array of mem alive as long
// as that is the collector's; memory of a context must not be unmapped before.
func Blocks(mem []byte, n int) ([]Block, error) {
	if n <= 0 || n > len(mem)/BlockBytes {
		return nil, fmt.Errorf("%d bytes of shared memory for %d blocks of %d", len(mem), n, BlockBytes)
	}
	p := unsafe.Pointer(unsafe.SliceData(mem))
	if uintptr(p)%64 != 0 {
		return nil, fmt.Errorf("shared memory at an address that is no multiple of 64")
	}
	return unsafe.Slice((*Block)(p), n), nil
}

// Word returns a 32-bit word of shared memory; sound as Blocks.
func Word(mem []byte, off int) (*atomic.Uint32, error) {
	if off < 0 || off > len(mem)-4 {
		return nil, fmt.Errorf("a word at %d of %d bytes", off, len(mem))
	}
	p := unsafe.Pointer(unsafe.SliceData(mem[off:]))
	if uintptr(p)%4 != 0 {
		return nil, fmt.Errorf("a word at an address that is no multiple of 4")
	}
	return (*atomic.Uint32)(p), nil
}

// words returns the request in shared memory as 64-bit words; sound because Request is 64 bytes long,
// a multiple of 8, and aligned.
func (r *Request) words() *[8]uint64 { return (*[8]uint64)(unsafe.Pointer(r)) }

// words is the same of a report.
func (r *Report) words() *[8]uint64 { return (*[8]uint64)(unsafe.Pointer(r)) }
