package sandbox

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// parentDeathSignal returns the signal that this process gets when its parent ends, or 0.
func parentDeathSignal() (int, error) {
	var signal int32
	// The kernel writes the four bytes during the call.
	err := unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
	return int(signal), err
}
