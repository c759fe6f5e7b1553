package interpose

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// caller is the thread whose call is trapped.
type caller struct {
	listener listener
	id       uint64 // of the notification
	tid      int
}

var _ drm.UserMemory = caller{}

// errGone is for a caller that was killed while its call was being served.
var errGone = fmt.Errorf("the caller was killed: %w", syscall.ESRCH)

// waits reports whether the caller is still there. A thread id may belong to
// another once it is not.
func (c caller) waits() bool { return c.listener.valid(c.id) }

// Read is part of drm.UserMemory.
func (c caller) Read(addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	local, remote := vectors(addr, b)
	n, err := unix.ProcessVMReadv(c.tid, local, remote, 0)
	if !c.waits() {
		return errGone // and what was read may be another's
	}
	return moved(n, len(b), addr, err)
}

// Write is part of drm.UserMemory.
func (c caller) Write(addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if !c.waits() {
		return errGone
	}
	local, remote := vectors(addr, b)
	n, err := unix.ProcessVMWritev(c.tid, local, remote, 0)
	return moved(n, len(b), addr, err)
}

func vectors(addr uint64, b []byte) ([]unix.Iovec, []unix.RemoteIovec) {
	return []unix.Iovec{{Base: &b[0], Len: uint64(len(b))}}, []unix.RemoteIovec{{Base: uintptr(addr), Len: len(b)}}
}

func moved(n, want int, addr uint64, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("the program's memory is not ours to use (is it protected against debuggers?): %w", syscall.EFAULT)
	case err != nil || n != want:
		return fmt.Errorf("%d bytes at 0x%x of the program: %w", want, addr, syscall.EFAULT)
	}
	return nil
}

// file returns a descriptor of our own for the open file at fd of the caller.
func (c caller) file(fd int) (int, error) {
	p, err := unix.PidfdOpen(c.tid, unix.PIDFD_THREAD)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.9 there are none for threads
		var process int
		if process, err = c.process(); err == nil {
			p, err = unix.PidfdOpen(process, 0)
		}
	}
	if err != nil {
		return -1, fmt.Errorf("finding the caller: %w", err)
	}
	defer func() { _ = unix.Close(p) }() // it has nothing to flush
	if !c.waits() {
		return -1, errGone
	}
	return unix.PidfdGetfd(p, fd, 0)
}

// process is the id of the process that the caller is a thread of.
func (c caller) process() (int, error) {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(c.tid) + "/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if id, ok := strings.CutPrefix(line, "Tgid:"); ok {
			return strconv.Atoi(strings.TrimSpace(id))
		}
	}
	return 0, fmt.Errorf("thread %d is of no process: %w", c.tid, syscall.ESRCH)
}
