package nvidia

import (
	"bytes"
	"os"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// What kernels print, the driver writes to the C library's standard output of the worker, when that waits
// for anything and whether or not other kernels run meanwhile; and what their assertions say to its standard
// error, when it finds out. Both are pipes that the backend reads, so that the text outlasts the worker.

// outputRoom is how many bytes of a pipe a program can leave unread. What comes then is lost.
const outputRoom = 1 << 20

// newOutput makes a pipe. Neither end blocks.
func newOutput() (from, to *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	// The system may refuse: a user's pipes have a limit together. Then there is less room.
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, outputRoom)
	return os.NewFile(uintptr(fds[0]), "output"), os.NewFile(uintptr(fds[1]), "output"), nil
}

// output is where a backend reads what the kernels of a worker print.
type output struct {
	fds   [2]int // what is printed, and the text of assertions
	line  []byte // the beginning of a line of the latter, at most maxLine bytes
	ready []byte // a line of it that is marked
}

// maxLine bounds what is taken for a line of an assertion.
const maxLine = 2048

// read reads what is there, as much as p has room for. It returns 0 where there is nothing.
func (o *output) read(p []byte) int {
	if len(o.ready) == 0 {
		if n := readPipe(o.fds[0], p); n > 0 {
			return n
		}
	}
	n := 0
	for n < len(p) {
		if len(o.ready) == 0 {
			line := o.nextLine()
			if len(line) == 0 {
				break
			}
			o.line = o.line[len(line):]
			o.ready = append([]byte(gpu.StderrMark), line...)
			if line[len(line)-1] != '\n' {
				o.ready = append(o.ready, '\n')
			}
		}
		taken := copy(p[n:], o.ready)
		o.ready, n = o.ready[taken:], n+taken
	}
	return n
}

// nextLine returns the next line of an assertion, which stays in o.line; nil where there is none yet. A line
// that has no end is one when it is too long, or when the worker is gone.
func (o *output) nextLine() []byte {
	for {
		if before, _, found := bytes.Cut(o.line, []byte("\n")); found {
			return o.line[:len(before)+1]
		}
		if len(o.line) == maxLine {
			return o.line
		}
		var b [maxLine]byte
		n := readPipe(o.fds[1], b[:maxLine-len(o.line)])
		switch {
		case n > 0:
			o.line = append(o.line, b[:n]...)
		case n == 0:
			return o.line
		default:
			return nil
		}
	}
}

// readPipe reads what is there: 0 where the other end is closed, -1 where nothing is there.
func readPipe(fd int, p []byte) int {
	for {
		n, err := unix.Read(fd, p)
		switch err {
		case unix.EINTR:
		case nil:
			return n
		default:
			return -1
		}
	}
}

// ReadOutput implements gpu.Printer. What the worker has not printed yet it prints now.
func (c *context) ReadOutput(p []byte) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0
	}
	n := c.worker.output.read(p)
	if n == 0 && c.Err() == nil && c.do(&request{Op: opFlush}, nil, nil) == nil {
		n = c.worker.output.read(p)
	}
	return n
}
