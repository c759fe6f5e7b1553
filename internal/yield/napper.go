package yield

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Napper blocks a goroutine for moments and leaves its processor to others
// meanwhile. Nap does not: the runtime takes a processor back from a thread in a
// system call after up to 10 ms, in which goroutines that wait for it do not run,
// while another processor has something to do. It is for one goroutine at a time.
type Napper struct {
	timer *os.File // a timerfd, which the runtime's poller waits for; its waits are not rounded to milliseconds
	raw   syscall.RawConn
	buf   [8]byte
}

// NewNapper makes a Napper, which has a descriptor until Close.
func NewNapper() (*Napper, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("timer: %w", err)
	}
	timer := os.NewFile(uintptr(fd), "timer")
	raw, err := timer.SyscallConn()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("timer: %w", err), timer.Close())
	}
	return &Napper{timer: timer, raw: raw}, nil
}

// Nap blocks for as long as it says, more than nothing, and some 10 to 60 µs more.
func (n *Napper) Nap(d time.Duration) {
	if Ample {
		Nap(d)
		return
	}
	n.nap(d)
}

func (n *Napper) nap(d time.Duration) {
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(max(d, 1).Nanoseconds())}
	var set error
	err := n.raw.Control(func(fd uintptr) { set = unix.TimerfdSettime(int(fd), 0, &at, nil) })
	if err == nil && set == nil {
		_, err = n.timer.Read(n.buf[:])
	}
	if err != nil || set != nil {
		Nap(d) // it was closed
	}
}

// Close gives the descriptor back.
func (n *Napper) Close() error { return n.timer.Close() }
