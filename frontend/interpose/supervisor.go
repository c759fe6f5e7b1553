package interpose

import (
	"bytes"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/drm"
)

// supervisor serves the trapped calls of one tree of processes.
type supervisor struct {
	listener listener
	node     *Node
	files    *files
	report   func(error)
	children *children

	receiving atomic.Bool  // a goroutine receives calls, or is about to
	standby   atomic.Int32 // goroutines that wait to
	relief    chan struct{}

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

// serve receives calls and serves them until no task is left that could make one.
// As a rule one goroutine does so for all: a call takes one switch to its thread
// and one back. Before it waits for something else than a call it has itself
// relieved; who has been stands by.
func (s *supervisor) serve() {
	// So a call takes no scheduling of goroutines. The thread ends with the
	// goroutine, and with it what it is bound to.
	runtime.LockOSThread()
	b := newBird(s.nest)
	n, c := new(notification), &caller{listener: s.listener}
	yielded := time.Now()
	for calls := 1; ; calls++ {
		if calls%clockCalls == 0 && time.Since(yielded) > slice {
			runtime.Gosched()
			yielded = time.Now()
		}
		err := s.listener.receive(n)
		s.receiving.Store(false)
		if err != nil {
			if !errors.Is(err, errEnded) {
				s.report(err)
			}
			return
		}
		b.follow(n.tid)
		c.id, c.tid = n.id, int(n.tid)
		r, answered := s.call(c, n)
		// Before the answer: the caller may make its next call before this thread runs again.
		relieved := !s.receiving.CompareAndSwap(false, true)
		if !answered {
			if err := b.wake(n.tid, func() error { return s.listener.answer(&r) }); err != nil {
				s.report(err)
			}
		}
		if relieved {
			if s.standby.Add(1) > maxStandby {
				s.standby.Add(-1)
				return
			}
			<-s.relief
		}
	}
}

// relieve sees to it that somebody receives calls while the caller waits for
// something else.
func (s *supervisor) relieve() {
	if !s.receiving.CompareAndSwap(false, true) {
		return
	}
	for n := s.standby.Load(); n > 0; n = s.standby.Load() {
		if s.standby.CompareAndSwap(n, n-1) {
			s.relief <- struct{}{} // to one that waits for it, or is about to
			return
		}
	}
	go s.serve()
}

// call serves one call. It returns the answer, unless it has given that itself.
func (s *supervisor) call(c *caller, n *notification) (r response, answered bool) {
	var val int64
	var err error
	switch n.nr {
	case unix.SYS_IOCTL:
		err = s.ioctl(c, int(int32(n.args[0])), drm.Request(n.args[1]), n.args[2])
	case unix.SYS_MMAP:
		val, err = s.mmap(c, n)
	case unix.SYS_OPENAT:
		val, err = s.openNode(c, n.args[1], int(n.args[2]))
	case unix.SYS_OPEN:
		val, err = s.openNode(c, n.args[0], int(n.args[1]))
	default:
		err = errNotOurs
	}
	switch {
	case err == nil:
		return response{id: n.id, val: val}, false
	case errors.Is(err, errNotOurs):
		return response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}, false
	case errors.Is(err, errAnswered):
		return response{}, true
	case !errors.Is(err, errGone):
		s.report(fmt.Errorf("[%d] %w", n.tid, err))
	}
	return response{id: n.id, error: -int32(errnoOf(err))}, false
}

// errNotOurs lets Linux do the call as if it had not been trapped.
var errNotOurs = errors.New("not a call on a DRM file of ours")

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
	n, err := c.listener.giveFD(c.id, fd, flags&unix.O_CLOEXEC != 0, false)
	return int64(n), err
}
