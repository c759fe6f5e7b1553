package codemem

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reserveAt reserves addresses that nothing has.
func reserveAt(start uintptr, size int) ([]byte, error) {
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_NORESERVE | unix.MAP_FIXED_NOREPLACE
	at, _, errno := unix.Syscall6(unix.SYS_MMAP, start, uintptr(size), unix.PROT_NONE, flags, ^uintptr(0), 0)
	if errno != 0 {
		return nil, os.NewSyscallError("mmap", errno)
	}
	// The kernel has just made this mapping, which is never undone. It is outside of
	// Go's heap, so the address is no pointer that the collector knows: it is read from
	// the variable that holds it.
	all := unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), size)
	if at != start { // it is left there: without a use, and without memory
		return nil, errors.New("this kernel, from before Linux 4.17, chose other addresses")
	}
	return all, nil
}

// offset returns where what Map returned begins, from Start on.
func offset(m []byte) int {
	// Both are parts of one mapping.
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(m))) - uintptr(unsafe.Pointer(unsafe.SliceData(space.all))))
}
