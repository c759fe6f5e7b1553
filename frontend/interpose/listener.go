package interpose

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// quietly reports whether Go need not be told of a wait for calls, since a signal ends it.
// So it is as long as the wait is a semaphore's, which Linux 6.6 gave up together with what
// wakesHere says. There the wait goes on after a signal, and Go's garbage collector would
// wait for the next call.
func quietly(wakesHere bool) bool {
	return !wakesHere && !strings.Contains(os.Getenv("GODEBUG"), "asyncpreemptoff=1")
}

// receiveAgain goes on where receiveCall failed with err. It returns errEnded when
// no task is left that could make a call, as far as Linux tells: before 6.11 it may
// wait for ever.
func (l listener) receiveAgain(n *notification, err error) error {
	for err != nil {
		if !errors.Is(err, unix.ENOENT) {
			return os.NewSyscallError("receiving a trapped call", err)
		}
		// Its caller was killed meanwhile, or nobody is left.
		fds := []unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 0); err == nil && fds[0].Revents&unix.POLLHUP != 0 {
			return errEnded
		}
		*n = notification{}
		err = l.receiveCall(n, false)
	}
	return nil
}

// errEnded says that the last task under the filter has ended.
var errEnded = errors.New("no task is left")

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
	v, err := l.addFD(&a)
	if err != nil {
		return -1, os.NewSyscallError("giving a descriptor", err)
	}
	return int(v), nil
}
