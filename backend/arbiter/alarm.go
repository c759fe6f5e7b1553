package arbiter

import (
	"math"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// alarm calls a function at a time, at most once for each call of set. Its owner's mutex guards it.
//
// A timer of Go fires up to a millisecond late while no goroutine runs, because the runtime then
// waits in epoll_wait, which counts in milliseconds. That is as long as a slice. So a server that
// serves uses a timer of the kernel, which the runtime waits for as for any other file.
type alarm struct {
	timer *time.Timer
	file  *os.File // the kernel's timer; nil before start, and after stop
	fd    int      // of file
}

func newAlarm(tick func()) *alarm { return &alarm{timer: time.AfterFunc(math.MaxInt64, tick)} }

// start makes a timer of the kernel and returns a function that waits for it and calls tick, until
// stop. Where the kernel has none to give, start returns nil and the alarm uses Go's timer.
func (a *alarm) start(tick func()) (wait func()) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil
	}
	file := os.NewFile(uintptr(fd), "timer of the arbiter")
	a.file, a.fd = file, fd
	return func() {
		var expirations [8]byte
		for {
			if _, err := file.Read(expirations[:]); err != nil {
				return // it is closed
			}
			tick()
		}
	}
}

// set makes the alarm ring after a time, in place of the time that was set before.
func (a *alarm) set(d time.Duration) {
	if a.file == nil {
		a.timer.Reset(max(d, 0))
		return
	}
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))} // 0 would switch it off
	if err := unix.TimerfdSettime(a.fd, 0, &at, nil); err != nil {
		panic("arbiter: setting a timer: " + err.Error()) // of a valid time and descriptor
	}
}

// stop ends the alarm.
func (a *alarm) stop() {
	a.timer.Stop()
	if a.file != nil {
		_ = a.file.Close() // which ends the goroutine that waits
		a.file = nil
	}
}
