package usernotify

import (
	"errors"
	"os"
	"structs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Call is a system call that was trapped: struct seccomp_notif (include/uapi/linux/seccomp.h).
type Call struct {
	_      structs.HostLayout
	ID     uint64
	Thread uint32 // of the caller, in our pid namespace
	_      uint32
	Number int32
	_      uint32 // architecture
	_      uint64 // instruction
	Args   [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	_     structs.HostLayout
	id    uint64
	value int64
	error int32 // negative errno
	flags uint32
}

// Install puts the calling thread, or with all every thread of the process, under a filter, with
// what they start. Calls that it traps come to the listener.
func Install(program []unix.SockFilter, all bool) (Listener, error) {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, os.NewSyscallError("prctl", err)
	}
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if all {
		flags |= unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// p and what it points to live until the call returns; Linux copies them.
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&p)))
	if errno != 0 {
		return -1, os.NewSyscallError("seccomp", errno)
	}
	return Listener(fd), nil
}

// WakeInTurn tells Linux that a caller and its owner run in turns, so that one wakes the other on its own processor
// (Linux 6.6). Without it each may wait for another processor to wake up, or to become free. The thread that calls must
// not be under a filter that traps ioctl.
func (l Listener) WakeInTurn() {
	// The argument is a number. Where Linux does not know it, calls take longer.
	_, _, _ = unix.Syscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
}

// receive takes a call.
func (l Listener) receive(c *Call) error {
	*c = Call{}
	return l.control(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(c))
}

// Proceed has Linux do a call as if there were no trap.
func (l Listener) Proceed(c *Call) error {
	return l.answer(&response{id: c.ID, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// Answer ends a call with an error, or with 0.
func (l Listener) Answer(c *Call, errno unix.Errno) error {
	return l.answer(&response{id: c.ID, error: -int32(errno)})
}

// addition is struct seccomp_notif_addfd.
type addition struct {
	_      structs.HostLayout
	id     uint64
	flags  uint32
	source uint32 // our descriptor
	_      uint32 // number in the caller; the kernel chooses the lowest that is free
	as     uint32 // flags of the caller's descriptor
}

// Give ends a call with a copy of one of our descriptors, which is the caller's from then on and does not outlive an
// execve. The call returns its number, and so does Give; -1 if the caller was killed meanwhile, or has no room.
func (l Listener) Give(c *Call, fd int) (int, error) {
	// Not with SECCOMP_ADDFD_FLAG_SEND: where a signal interrupts that, Linux has answered already, with no descriptor, and
	// the same request made again is EINPROGRESS.
	add := addition{id: c.ID, source: uint32(fd), as: unix.O_CLOEXEC}
	// The argument is a live struct of the size in the request.
	number, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&add)))
	switch errno {
	case 0:
		return int(number), l.answer(&response{id: c.ID, value: int64(number)})
	case unix.ENOENT:
		return -1, nil
	case unix.EMFILE:
		return -1, l.Answer(c, unix.EMFILE)
	}
	return -1, os.NewSyscallError("ioctl", errno)
}

// answer sends a response. That its caller was killed meanwhile is no error.
func (l Listener) answer(r *response) error {
	err := l.control(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(r))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

func (l Listener) control(request uintptr, argument unsafe.Pointer) error {
	// The argument is a live struct of the size in the request.
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l), request, uintptr(argument))
	if errno != 0 {
		return os.NewSyscallError("ioctl", errno)
	}
	return nil
}
