package nvidia

import (
	"encoding/binary"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// makeControl makes a control with parameters of ours in place of the worker's. None of those in
// servingControls has addresses in its parameters, which would be taken for this process's.
func makeControl(fd int, argument, params []byte) unix.Errno {
	var pin runtime.Pinner
	defer pin.Unpin()
	var at uint64
	if len(params) > 0 {
		pin.Pin(&params[0])
		at = addressOf(params)
	}
	binary.LittleEndian.PutUint64(argument[controlParams:], at)
	// Both buffers live until the call returns, and have the sizes that the request says.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), requestControl, uintptr(unsafe.Pointer(&argument[0])))
	return errno
}
