package sandbox

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
)

// available asks the kernel whether filters may have an action.
func available(action *uint32) error {
	// The kernel reads the four bytes during the call.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, linux.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(action)))
	if errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}
