package interpose

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// caller is the thread whose call is trapped, and what serving it needs. Each
// goroutine that serves calls has one and uses it again for the next call: in an
// emulated guest what a call touches for the first time since the switch from the
// program costs most, and an allocation touches much.
type caller struct {
	listener listener
	turns    *atomic.Uint64 // of the supervisor
	turn     uint64         // what it was when the call had been received
	seen     bool           // it was looked whether the caller waits, and it did
	tid      int
	bird     bird

	call   notification
	answer response

	// The fields before have 8 bytes each or are padded, so that the argument lies as its
	// struct has to.
	local    [1]unix.Iovec
	remote   [1]unix.RemoteIovec
	argument [drm.MaxArgument]byte
}

var _ drm.UserMemory = (*caller)(nil)

// errGone is for a caller that was killed while its call was being served.
var errGone = fmt.Errorf("the caller was killed: %w", syscall.ESRCH)

// notMoved is the error of a transfer that failed or was too short.
func notMoved(want int, addr uint64, err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("the program's memory is not ours to use (is it protected against debuggers?): %w", syscall.EFAULT)
	}
	return fmt.Errorf("%d bytes at 0x%x of the program: %w", want, addr, syscall.EFAULT)
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
