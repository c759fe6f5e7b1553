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

// caller is the thread whose call is trapped. Each goroutine that serves calls has
// one and uses it again for the next call: in an emulated guest what a call touches
// for the first time since the switch from the program costs most, and an
// allocation touches much.
type caller struct {
	listener listener
	id       uint64 // of the notification
	tid      int

	// For the call that is being served. The fields before have 8 bytes each, so that
	// the argument lies as its struct has to.
	local    [1]unix.Iovec
	remote   [1]unix.RemoteIovec
	argument [drm.MaxArgument]byte
}

var _ drm.UserMemory = (*caller)(nil)

// errGone is for a caller that was killed while its call was being served.
var errGone = fmt.Errorf("the caller was killed: %w", syscall.ESRCH)

// waits reports whether the caller is still there. A thread id may belong to
// another once it is not.
func (c *caller) waits() bool { return c.listener.valid(c.id) }

// Read is part of drm.UserMemory.
func (c *caller) Read(addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	n, err := c.transfer(readMemory, addr, b)
	if !c.waits() {
		return errGone // and what was read may be another's
	}
	return moved(n, len(b), addr, err)
}

// Write is part of drm.UserMemory.
func (c *caller) Write(addr uint64, b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if !c.waits() {
		return errGone
	}
	n, err := c.transfer(writeMemory, addr, b)
	return moved(n, len(b), addr, err)
}

// quickBytes is up to how much memory is copied without telling Go's scheduler:
// some microseconds.
const quickBytes = 64 << 10

// transfer copies between b and the memory of the program at addr.
func (c *caller) transfer(t transfer, addr uint64, b []byte) (int, error) {
	c.local[0] = unix.Iovec{Base: &b[0], Len: uint64(len(b))}
	c.remote[0] = unix.RemoteIovec{Base: uintptr(addr), Len: len(b)}
	if len(b) <= quickBytes {
		return transferQuickly(c, t)
	}
	if t == readMemory {
		return unix.ProcessVMReadv(c.tid, c.local[:], c.remote[:], 0)
	}
	return unix.ProcessVMWritev(c.tid, c.local[:], c.remote[:], 0)
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
func (c *caller) file(fd int) (int, error) {
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
func (c *caller) process() (int, error) {
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
