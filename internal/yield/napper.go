package yield

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Napper blocks a goroutine for moments and leaves its processor to others
// meanwhile. Nap does not: the runtime takes a processor back from a thread in a
// system call after up to 10 ms, in which goroutines that wait for it do not run,
// while another processor has something to do. It is for one goroutine at a time.
type Napper struct {
	timer *os.File // a timerfd, which the runtime's poller waits for; its waits are not rounded to milliseconds
	buf   [8]byte
}

// NewNapper makes a Napper, which has a descriptor until Close.
func NewNapper() (*Napper, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	return &Napper{timer: os.NewFile(uintptr(fd), "timer")}, nil
}

// Nap blocks for as long as it says, more than nothing, and some 60 µs more.
func (n *Napper) Nap(d time.Duration) {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(max(d, 1).Nanoseconds())}
	if c, err := n.timer.SyscallConn(); err == nil {
		_ = c.Control(func(fd uintptr) { err = unix.TimerfdSettime(int(fd), 0, &at, nil) })
		if err == nil {
			_, err = n.timer.Read(n.buf[:])
		}
		if err == nil {
			return
		}
	}
	Nap(d) // it was closed
}

// Close gives the descriptor back.
func (n *Napper) Close() error { return n.timer.Close() }
