package carrier

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Reserve takes size bytes of addresses from addr on, for a mapping that replaces
// them. EEXIST if something lies there.
func Reserve(addr, size uint64) (unsafe.Pointer, error) {
	// The kernel is told an address, and nothing is read through it.
	want := unsafe.Add(nil, uintptr(addr))
	at, err := unix.MmapPtr(-1, 0, want, uintptr(size), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE|unix.MAP_FIXED_NOREPLACE)
	if err == nil && at != want { // Linux before 4.17 takes the address for a hint
		_ = unix.MunmapPtr(at, uintptr(size)) // just made
		err = unix.EEXIST
	}
	if err != nil {
		return nil, fmt.Errorf("%d bytes of the program's addresses at 0x%x: %w", size, addr, err)
	}
	return at, nil
}

// Unmap ends what MapAt made.
func Unmap(mem []byte) error {
	// The slice is all of a mapping that Go does not know of.
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(len(mem)))
}
