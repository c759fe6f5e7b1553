package virgl

import (
	"errors"
	"io"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// To wake a process that sleeps takes longer than a GPU needs for a small frame. So a worker
// that draws with a GPU may look for what comes next for a short time before it sleeps, and so may its
// backend. With Mesa's llvmpipe they may not, for they would take the processors that render; with Mesa's
// drivers for GPUs nothing has been measured.

// pollInterval is how often a worker looks for fences where the library has no
// descriptor that tells.
const pollInterval = time.Millisecond

// lookProcessors is the least number of processors with which a process looks instead of sleeping. Tests change it.
var lookProcessors = 3

// looks says how a worker looks before it sleeps.
type looks struct {
	most time.Duration // how long
	last time.Time     // a request came, or a fence retired
}

// choose sets up what a worker was told, where it makes sense.
func (l *looks) choose(most time.Duration, on target) {
	if runtime.NumCPU() >= lookProcessors && on.display != nil && on.display.nvidia {
		l.most = most
	}
}

// active notes that something came.
func (l *looks) active() {
	if l.most > 0 {
		l.last = time.Now()
	}
}

// now reports whether a worker looks now, and does not sleep.
func (l *looks) now() bool { return l.most > 0 && time.Since(l.last) < l.most }

// wait waits until a descriptor of a worker is ready, or until it is time to look for fences.
func (w *worker) wait(fds []unix.PollFd) error {
	timeout := -1
	switch {
	case w.looks.now():
		timeout = 0
	case len(w.fences) > 0 && w.pollFD < 0:
		timeout = int(pollInterval / time.Millisecond)
	}
	if _, err := unix.Poll(fds, timeout); err != nil && !errors.Is(err, unix.EINTR) {
		return os.NewSyscallError("poll", err)
	}
	return nil
}

// looker reads what a worker sends, and looks for it before it sleeps while replies are due.
type looker struct {
	*helper
	raw  syscall.RawConn
	most time.Duration
}

// reader is what the replies of a worker are read from.
func (h *helper) reader(look time.Duration) (io.Reader, error) {
	if look == 0 || runtime.NumCPU() < lookProcessors {
		return h.conn, nil
	}
	raw, err := h.conn.SyscallConn()
	return &looker{h, raw, look}, err
}

// Read is part of io.Reader.
func (l *looker) Read(b []byte) (int, error) {
	for end := time.Now().Add(l.most); l.due.Load() > 0 && time.Now().Before(end); runtime.Gosched() {
		var n int
		var failed error
		if err := l.raw.Read(func(fd uintptr) bool {
			n, failed = unix.Read(int(fd), b)
			return true // it does not wait
		}); err != nil {
			return 0, err
		}
		switch {
		case errors.Is(failed, unix.EAGAIN), errors.Is(failed, unix.EINTR):
		case failed != nil:
			return 0, os.NewSyscallError("read", failed)
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
	return l.conn.Read(b)
}
