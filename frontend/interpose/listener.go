package interpose

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// receive waits for a trapped call. It returns errEnded when no task is left
// that could make one, as far as Linux tells: before 6.11 it may wait for ever.
func (l listener) receive(n *notification) error {
	for {
		*n = notification{}
		err := l.receiveCall(n)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.ENOENT) {
			return os.NewSyscallError("receiving a trapped call", err)
		}
		// Its caller was killed meanwhile, or nobody is left.
		fds := []unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 0); err == nil && fds[0].Revents&unix.POLLHUP != 0 {
			return errEnded
		}
	}
}

// errEnded says that the last task under the filter has ended.
var errEnded = errors.New("no task is left")

// answer ends a trapped call. That its caller was killed meanwhile is no error.
func (l listener) answer(r *response) error {
	_, err := ioctl(l, unix.SECCOMP_IOCTL_NOTIF_SEND, r)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return os.NewSyscallError("answering a trapped call", err)
	}
	return nil
}

// valid reports whether the caller still waits. If so, what was read before by
// its thread id was its own.
func (l listener) valid(id uint64) bool {
	_, err := ioctl(l, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, &id)
	return err == nil
}

// giveFD makes a descriptor in the caller that refers to our fd, and returns its
// number there. With send the number is the answer of the call too.
func (l listener) giveFD(id uint64, fd int, closeOnExec, send bool) (int, error) {
	a := addFD{id: id, srcFD: uint32(fd)}
	if closeOnExec {
		a.newFDFlags = unix.O_CLOEXEC
	}
	if send {
		a.flags = unix.SECCOMP_ADDFD_FLAG_SEND
	}
	v, err := ioctl(l, unix.SECCOMP_IOCTL_NOTIF_ADDFD, &a)
	if err != nil {
		return -1, os.NewSyscallError("giving a descriptor", err)
	}
	return int(v), nil
}
