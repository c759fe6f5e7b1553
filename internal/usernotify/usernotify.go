// Package usernotify traps system calls by seccomp's user notification (Linux 5.19): a filter sends
// them to a listener, whose owner answers them or lets them go on.
package usernotify

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Listener is the descriptor by which calls are received. One goroutine at a time uses it.
type Listener int

// ErrEnded says that no task is left that could make a call.
var ErrEnded = errors.New("no task is left under the filter")

// Receive waits up to timeout milliseconds (-1: without a limit) for a call. It reports whether
// one came.
func (l Listener) Receive(c *Call, timeout int) (bool, error) {
	ready := []unix.PollFd{{Fd: int32(l), Events: unix.POLLIN}}
	_, err := unix.Poll(ready, timeout)
	switch {
	case errors.Is(err, unix.EINTR):
		return false, nil
	case err != nil:
		return false, os.NewSyscallError("poll", err)
	case ready[0].Revents&unix.POLLIN != 0:
		err := l.receive(c)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) { // the caller was killed meanwhile
			return false, nil
		}
		return err == nil, err
	case ready[0].Revents&unix.POLLHUP != 0:
		return false, ErrEnded
	}
	return false, nil
}

// Close gives the descriptor back. Calls that come later fail with ENOSYS.
func (l Listener) Close() error { return os.NewSyscallError("close", unix.Close(int(l))) }

// Requests are requests of ioctl: those of which the bits in Mask are Value.
type Requests struct{ Mask, Value uint32 }

// Calls makes a filter that traps ioctl with some requests, and the other calls of a list.
func Calls(requests []Requests, others ...uint32) []unix.SockFilter {
	const nr, arch, arg1 = 0, 4, 16 + 8 // offsets in struct seccomp_data
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	equal := func(k uint32, yes, no int) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_K | unix.BPF_JEQ, K: k, Jt: uint8(yes), Jf: uint8(no)}
	}
	ret := func(action uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: action}
	}
	var ioctl []unix.SockFilter
	for _, r := range requests {
		ioctl = append(ioctl, load(arg1), unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: r.Mask}, equal(r.Value, 0, 1),
			ret(unix.SECCOMP_RET_USER_NOTIF))
	}
	ioctl = append(ioctl, ret(unix.SECCOMP_RET_ALLOW))
	f := []unix.SockFilter{
		load(arch), equal(unix.AUDIT_ARCH_X86_64, 1, 0), ret(unix.SECCOMP_RET_ALLOW),
		load(nr), equal(unix.SYS_IOCTL, 0, len(ioctl)),
	}
	f = append(f, ioctl...)
	for i, number := range others {
		f = append(f, equal(number, len(others)-i, 0))
	}
	return append(f, ret(unix.SECCOMP_RET_ALLOW), ret(unix.SECCOMP_RET_USER_NOTIF))
}
