package progmem

import (
	"slices"
	"sync"
	"unsafe"
)

// kept holds what Keep gave to the program, so that it is never collected.
var kept struct {
	sync.Mutex
	all [][]byte
}

// at is n bytes of the program at an address.
func at(addr uint64, n int) []byte {
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n) // Go does not know of memory there, and does not move it
}

// ReadDirect implements Direct.
func (Own) ReadDirect(p []byte, addr uint64) { copy(p, at(addr, len(p))) }

// WriteDirect implements Direct.
func (Own) WriteDirect(addr uint64, p []byte) { copy(at(addr, len(p)), p) }

// Keep returns the address of a copy of b.
func (Own) Keep(b []byte) uint64 {
	c := slices.Clone(append(b, 0)) // at least a byte, so that there is an address
	kept.Lock()
	defer kept.Unlock()
	kept.all = append(kept.all, c)
	// Go's heap does not move what it holds, and kept holds c for ever.
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(c))))
}
