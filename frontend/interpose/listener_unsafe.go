package interpose

import (
	"errors"
	"fmt"
	"os"
	"structs"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif (include/uapi/linux/seccomp.h).
type notification struct {
	_     structs.HostLayout
	id    uint64
	tid   uint32 // of the caller, in our pid namespace
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	_     structs.HostLayout
	id    uint64
	val   int64
	error int32 // negative errno
	flags uint32
}

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	_          structs.HostLayout
	id         uint64
	flags      uint32
	srcFD      uint32
	newFD      uint32
	newFDFlags uint32
}

// sizes is struct seccomp_notif_sizes.
type sizes struct {
	_                   structs.HostLayout
	notif, notifResp, d uint16
}

// self is our own process, asked for once.
var self = unix.Getpid()

const listenerFlags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

// listener is the descriptor by which trapped calls are received and answered.
type listener int

// install puts the calling thread, and what it starts from then on, under a filter. It
// reports whether each side is woken on the processor of the other (Linux 6.6).
func install(program []unix.SockFilter) (_ listener, wakesHere bool, err error) {
	// Without this only root may install a filter; it also keeps set-user-id
	// programs, which would not be under our control, from rising above us.
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, false, fmt.Errorf("no new privileges: %w", err)
	}
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// p and what it points to live until the call returns; Linux copies them.
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, listenerFlags, uintptr(unsafe.Pointer(&p)))
	switch {
	case errno == unix.EBUSY:
		return -1, false, fmt.Errorf("this process is already under a pvdrm-run or another supervisor of its system calls: %w", errno)
	case errno != 0:
		return -1, false, os.NewSyscallError("seccomp", errno)
	}
	// Faster, and no loss where it is unknown.
	_, _, errno = unix.Syscall(unix.SYS_IOCTL, fd, unix.SECCOMP_IOCTL_NOTIF_SET_FLAGS, unix.SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP)
	return listener(fd), errno == 0, nil
}

// probe reports why the kernel cannot do what install asks for, or nil.
func probe() error {
	var s sizes
	// s lives until the call returns.
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&s))); errno != 0 {
		return fmt.Errorf("seccomp user notification (CONFIG_SECCOMP_FILTER, Linux 5.0): %w", errno)
	}
	if uintptr(s.notif) != unsafe.Sizeof(notification{}) || uintptr(s.notifResp) != unsafe.Sizeof(response{}) {
		return fmt.Errorf("seccomp user notification has messages of %d and %d bytes: %w", s.notif, s.notifResp, unix.ENOSYS)
	}
	// A kernel that knows the flags gets as far as to miss the program.
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, listenerFlags, 0); !errors.Is(errno, unix.EFAULT) {
		return fmt.Errorf("seccomp user notification that signals do not repeat (Linux 5.19): %w", errno)
	}
	return nil
}

// addFD makes a descriptor as a says, and returns its number.
func (l listener) addFD(a *addFD) (uintptr, error) {
	// a is a live struct of the size in the request.
	return l.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(a))
}

// setSignalMask replaces the signal mask of a traced thread and returns the old one.
func setSignalMask(tid int, mask uint64) (old uint64, err error) {
	const getMask, setMask = 0x420a, 0x420b // PTRACE_GETSIGMASK, PTRACE_SETSIGMASK
	// old and mask live until the calls return; a kernel_sigset_t has 8 bytes.
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, getMask, uintptr(tid), unsafe.Sizeof(old), uintptr(unsafe.Pointer(&old)), 0, 0); errno != 0 {
		return 0, os.NewSyscallError("ptrace", errno)
	}
	if _, _, errno := unix.Syscall6(unix.SYS_PTRACE, setMask, uintptr(tid), unsafe.Sizeof(mask), uintptr(unsafe.Pointer(&mask)), 0, 0); errno != 0 {
		return 0, os.NewSyscallError("ptrace", errno)
	}
	return old, nil
}
