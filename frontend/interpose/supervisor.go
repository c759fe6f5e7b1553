package interpose

import (
	"bytes"
	"errors"
	"fmt"
	"sync/atomic"
	"syscall"

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
	idle     atomic.Int32 // goroutines that receive
}

// receivers is how many goroutines wait for the next call where none is served.
const receivers = 2

// serve receives calls and serves them until no task is left that could make
// one. There is always somebody who receives: a call that waits keeps no other
// from being served. That somebody waits beforehand, since to start or wake him
// takes longer, in an emulated guest, than most calls.
func (s *supervisor) serve() {
	for s.idle.Add(1) <= receivers {
		n, err := s.listener.receive()
		if s.idle.Add(-1) == 0 && err == nil {
			go s.serve()
		}
		if err != nil {
			if !errors.Is(err, errEnded) {
				s.report(err)
			}
			return
		}
		if r, answered := s.call(n); !answered {
			if err := s.listener.answer(r); err != nil {
				s.report(err)
			}
		}
	}
	s.idle.Add(-1)
}

// call serves one call. It returns the answer, unless it has given that itself.
func (s *supervisor) call(n *notification) (r response, answered bool) {
	c := caller{listener: s.listener, id: n.id, tid: int(n.tid)}
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
func (s *supervisor) openNode(c caller, path uint64, flags int) (int64, error) {
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
