package nvidia

import (
	"encoding/binary"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// makeCall makes a request with parameters of ours, if it has any, in place of the worker's. None of those that a
// guard makes has addresses in its parameters that the driver would take for this process's.
func makeCall(fd int, request uint32, argument, params []byte) unix.Errno {
	var pin runtime.Pinner
	defer pin.Unpin()
	if params != nil {
		pin.Pin(&params[0])
		binary.LittleEndian.PutUint64(argument[paramsAddress:], addressOf(params))
	}
	// Both buffers live until the call returns, and have the sizes that the request says.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(unsafe.Pointer(&argument[0])))
	return errno
}
