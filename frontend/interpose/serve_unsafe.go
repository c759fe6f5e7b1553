package interpose

import (
	"errors"
	"os"
	"structs"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Package syscall's functions are called here, not those of x/sys: those are one
// more page, with nothing on it but a jump to these.

// receiveCall waits for a trapped call; n must be zero. To tell Go's scheduler of the
// wait takes 2.5 µs of a call in an emulated guest. With quiet it is told only if no call
// comes before Go wants the thread, which it says by a signal; see quietly.
func (l listener) receiveCall(n *notification, quiet bool) error {
	var errno syscall.Errno = unix.EINTR
	if quiet {
		// n is live and has the size in the request; the kernel keeps no reference to it.
		_, _, errno = syscall.RawSyscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n)))
	}
	for errno == unix.EINTR {
		// As above.
		_, _, errno = syscall.Syscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(n)))
	}
	if errno != 0 {
		return errno
	}
	return nil
}

// answer ends a trapped call. That its caller was killed meanwhile is no error.
func (l listener) answer(r *response) error {
	// r is a live struct of the size in the request.
	if _, err := l.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r)); err != nil && !errors.Is(err, unix.ENOENT) {
		return os.NewSyscallError("answering a trapped call", err)
	}
	return nil
}

// waits reports whether the caller is still there. If so, what was read before by
// its thread id was its own: that may belong to another once it is not.
func (c *caller) waits() bool {
	// The id is live and has the size in the request.
	_, err := c.listener.ioctl(unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&c.call.id))
	c.seen = err == nil
	return c.seen
}

// ioctl makes one of the listener's ioctls that do not wait; arg is the struct of
// the request. They are over so soon that telling Go's scheduler takes longer.
func (l listener) ioctl(req uintptr, arg unsafe.Pointer) (uintptr, error) {
	for {
		// The callers keep arg alive; the kernel keeps no reference to it.
		v, _, errno := syscall.RawSyscall(unix.SYS_IOCTL, uintptr(l), req, uintptr(arg))
		if errno == 0 {
			return v, nil
		}
		if errno != unix.EINTR {
			return 0, errno
		}
	}
}

// transfer is a direction of copies between our memory and that of the program:
// the number of the system call.
type transfer uintptr

const (
	readMemory  transfer = unix.SYS_PROCESS_VM_READV
	writeMemory transfer = unix.SYS_PROCESS_VM_WRITEV
)

// transferQuickly copies what the vectors of c say. It does not tell Go's scheduler.
func transferQuickly(c *caller, t transfer) (int, error) {
	// c and what its vector points to live until the call returns; the addresses of
	// the program are checked by Linux.
	n, _, errno := syscall.RawSyscall6(uintptr(t), uintptr(c.tid), uintptr(unsafe.Pointer(&c.local[0])), 1, uintptr(unsafe.Pointer(&c.remote[0])), 1, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(n), nil
}

// epollSlot is struct kcmp_epoll_slot: the descriptor tfd as an epoll instance knows it.
type epollSlot struct {
	_               structs.HostLayout
	efd, tfd, index uint32
}

const kcmpEpollTFD = 7 // KCMP_EPOLL_TFD

// isFile reports whether the open file at fd of another process's thread is the
// one that the epoll instance of the process self, which is ours, knows as its
// descriptor watched. An epoll instance holds no reference to a file, and forgets
// it when it is released.
func isFile(tid, fd, self, epoll, watched int) (bool, error) {
	slot := epollSlot{efd: uint32(epoll), tfd: uint32(watched)}
	// slot lives until the call returns.
	v, _, errno := syscall.RawSyscall6(unix.SYS_KCMP, uintptr(tid), uintptr(self), kcmpEpollTFD, uintptr(fd), uintptr(unsafe.Pointer(&slot)), 0)
	if errno != 0 {
		return false, errno
	}
	return v == 0, nil
}
