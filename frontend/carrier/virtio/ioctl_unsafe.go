package virtio

import (
	"errors"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// Ioctl does one DRM ioctl with arg, a struct of package drm, and repeats it
// when a signal interrupted it, as libdrm does.
func Ioctl[T any](fd int, req drm.Request, arg *T) error {
	for {
		// arg is a pointer to a live struct of the size in req (checked by a
		// test in package drm); the kernel keeps no reference to it.
		_, _, no := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(req), uintptr(unsafe.Pointer(arg)))
		if no == 0 {
			return nil
		}
		if !errors.Is(no, unix.EINTR) && !errors.Is(no, unix.EAGAIN) {
			return no
		}
	}
}

// Address pins b and returns its user address, for the pointers inside
// argument structs. The caller unpins when the ioctl is done.
func Address(pin *runtime.Pinner, b []byte) uint64 {
	p := unsafe.SliceData(b)
	pin.Pin(p)
	return uint64(uintptr(unsafe.Pointer(p)))
}
