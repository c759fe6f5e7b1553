package host

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"pvdrm/internal/cudalibs"
)

// keep copies a number to memory that Go does not have.
func (a *arena) keep(number [cudalibs.ScalarBytes]byte) (uint64, error) {
	const pageBytes = 64 << 10
	var at uint64
	switch n := len(a.free); {
	case n > 0:
		at, a.free = a.free[n-1], a.free[:n-1]
	default:
		if len(a.page) < cudalibs.ScalarBytes {
			page, err := unix.Mmap(-1, 0, pageBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
			if err != nil {
				return 0, err
			}
			a.page = page
		}
		at, a.page = addressOf(a.page), a.page[cudalibs.ScalarBytes:]
	}
	// A number that is no Go pointer becomes an address of our mapping by way of a pointer to it.
	copy((*(**[cudalibs.ScalarBytes]byte)(unsafe.Pointer(&at)))[:], number[:])
	return at, nil
}

// publish writes status and flags at once, after all else of the results.
// Preconditions: results lies at a multiple of 8.
func publish(results []byte, status, flags uint32) {
	var word [8]byte
	binary.LittleEndian.PutUint32(word[:], status)
	binary.LittleEndian.PutUint32(word[4:], flags)
	atomic.StoreUint64((*uint64)(unsafe.Pointer(unsafe.SliceData(results))), binary.NativeEndian.Uint64(word[:]))
}
