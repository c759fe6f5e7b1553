package interpose

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// supervisor serves the trapped calls of one tree of processes.
type supervisor struct {
	listener listener
	quiet    bool // see quietly
	node     *Node
	files    files
	report   func(error)
	children *children

	// turns is odd while a goroutine receives calls or is about to. It grows by one when a
	// call is received, and when the reception is taken up again: by who served
	// that call, unless somebody has relieved it.
	turns   atomic.Uint64
	standby atomic.Int32 // goroutines that wait to
	relief  chan struct{}

	nest *nest // nil where serving threads stay wherever Linux puts them
}

// slice is how often a goroutine that serves lets Go schedule. Go's monitor takes
// the processor away from one that has not been scheduled for 10 ms, looks every
// 20 µs as long as there is one to be taken, and takes those of goroutines that
// are never scheduled again and again: in an emulated guest, in almost every call.
const (
	slice      = 4 * time.Millisecond
	clockCalls = 16 // between two looks at the clock
)

// maxStandby bounds the goroutines that are kept for the next long call.
const maxStandby = 4

// relieve sees to it that somebody receives calls while the caller waits for
// something else.
func (s *supervisor) relieve() {
	turn := s.turns.Load()
	if turn%2 != 0 || !s.turns.CompareAndSwap(turn, turn+1) {
		return // somebody does, or was just seen to
	}
	for n := s.standby.Load(); n > 0; n = s.standby.Load() {
		if s.standby.CompareAndSwap(n, n-1) {
			s.relief <- struct{}{} // to one that waits for it, or is about to
			return
		}
	}
	go s.serve()
}

// standBy waits until there is something to receive for a goroutine that was
// relieved. It reports false if enough others wait.
func (s *supervisor) standBy() bool {
	if s.standby.Add(1) > maxStandby {
		s.standby.Add(-1)
		return false
	}
	<-s.relief
	return true
}

// other serves a call that is not an ioctl.
func (s *supervisor) other(c *caller) (int64, error) {
	switch args := c.call.args; c.call.nr {
	case unix.SYS_MMAP:
		return s.mmap(c)
	case unix.SYS_OPENAT:
		return s.openNode(c, args[1], int(args[2]))
	case unix.SYS_OPEN:
		return s.openNode(c, args[0], int(args[1]))
	}
	return 0, errNotOurs
}

// failed makes the answer of a call that was not served, for the reason in err. It
// reports that the call has been answered already.
func (s *supervisor) failed(c *caller, err error) (answered bool) {
	c.answer = response{id: c.call.id}
	switch {
	case errors.Is(err, errNotOurs):
		c.answer.flags = unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE
		return false
	case errors.Is(err, errAnswered):
		return true
	case !errors.Is(err, errGone):
		s.report(fmt.Errorf("[%d] %w", c.tid, err))
	}
	c.answer.error = -int32(errnoOf(err))
	return false
}

// errNotOurs lets Linux do the call as if it had not been trapped.
var errNotOurs = errors.New("not a call on a DRM file of ours")

// notOurs is the error of a call on a descriptor at which no DRM file was found, for
// the reason in err if not nil.
func notOurs(err error) error {
	if err == nil || errors.Is(err, syscall.EBADF) {
		return errNotOurs
	}
	return err
}

// errnoOf is what a failed call returns to the program.
func errnoOf(err error) syscall.Errno {
	var errno syscall.Errno
	if errors.As(err, &errno) && errno != 0 {
		return errno
	}
	return syscall.EIO
}

// openNode serves an open that may be that of the node.
func (s *supervisor) openNode(c *caller, path uint64, flags int) (int64, error) {
	name := make([]byte, len(NodePath)+1)
	if err := c.Read(path, name); err != nil || !bytes.Equal(name, []byte(NodePath+"\x00")) {
		return 0, errNotOurs // a path that cannot be read, too, Linux sees itself
	}
	fd, err := s.node.openNew(flags)
	if err != nil {
		return 0, fmt.Errorf("opening %s: %w", NodePath, err)
	}
	defer func() { _ = unix.Close(fd) }() // the caller has its own
	n, err := c.listener.giveFD(c.call.id, fd, flags&unix.O_CLOEXEC != 0, false)
	return int64(n), err
}
