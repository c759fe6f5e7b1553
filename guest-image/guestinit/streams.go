package guestinit

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// pipe returns a pipe between init and a child. Init's end takes part in Go's poller, so that its
// reads have deadlines and block no thread; the child's end blocks, as programs expect.
func pipe(childReads bool) (ours, theirs *os.File, err error) {
	var fd [2]int
	if err := unix.Pipe2(fd[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	r, w := fd[0], fd[1]
	if childReads {
		r, w = w, r // now r is ours
	}
	if err := unix.SetNonblock(r, true); err != nil {
		unix.Close(r)
		unix.Close(w)
		return nil, nil, fmt.Errorf("pipe: %w", err)
	}
	return os.NewFile(uintptr(r), "pipe"), os.NewFile(uintptr(w), "pipe"), nil
}

// openPTY returns both ends of a new terminal.
func openPTY(rows, cols uint16) (master, slave *os.File, err error) {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(m), "/dev/ptmx")
	defer func() {
		if err != nil {
			master.Close()
		}
	}()
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, fmt.Errorf("unlock terminal: %w", err)
	}
	n, err := unix.IoctlGetInt(m, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, fmt.Errorf("number of terminal: %w", err)
	}
	name := fmt.Sprintf("/dev/pts/%d", n)
	s, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", name, err)
	}
	setSize(master, rows, cols)
	return master, os.NewFile(uintptr(s), name), nil
}

// setSize tells a terminal its size. One that is refused stays as it is.
func setSize(master *os.File, rows, cols uint16) {
	if rows == 0 || cols == 0 {
		return
	}
	// File.Fd would take the file out of Go's poller, SyscallConn does not.
	raw, err := master.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
}
