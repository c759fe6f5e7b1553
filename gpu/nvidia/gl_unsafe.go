package nvidia

import (
	"encoding/binary"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// idleCall makes an NV_ESC_RM_IDLE_CHANNELS with lists of clients, devices and channels of ours.
func idleCall(fd int, argument []byte, lists [3][]byte) unix.Errno {
	var pin runtime.Pinner
	defer pin.Unpin()
	for i, l := range lists {
		pin.Pin(&l[0])
		binary.LittleEndian.PutUint64(argument[idleLists+8*i:], addressOf(l))
	}
	// The argument and the lists live until the call returns, and have the sizes that the request and the count say.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), requestIdle, uintptr(unsafe.Pointer(&argument[0])))
	return errno
}
