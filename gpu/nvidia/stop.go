package nvidia

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// stopLine is a backend's end of the socket on which the keeper of its worker takes orders to stop the worker's
// channels (stopper).
type stopLine struct {
	mu     sync.Mutex // one order at a time
	fd     int        // -1 until the worker was started
	number uint32     // of the last order
}

// errUnstoppable is the error of a worker whose channels its keeper cannot stop.
var errUnstoppable = errors.New("its channels cannot be stopped")

// errNoAnswer is the error of an order that takes too long.
var errNoAnswer = errors.New("the keeper has not answered in time")

// order has the keeper do something within a time, and returns when that is done.
func (l *stopLine) order(what uint32, limit time.Duration) error { return l.orderOf(what, 0, limit) }

// orderOf is order with a number of pages or of a memory.
func (l *stopLine) orderOf(what uint32, of uint64, limit time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.number++
	b := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(make([]byte, 0, stopBytes), l.number), what)
	b = binary.LittleEndian.AppendUint64(b, of)
	if err := unix.Sendmsg(l.fd, b, nil, nil, unix.MSG_NOSIGNAL); err != nil {
		return fmt.Errorf("%w: %w", errUnstoppable, os.NewSyscallError("sendmsg", err))
	}
	for deadline := time.Now().Add(limit); ; {
		left := time.Until(deadline)
		if left <= 0 {
			return errNoAnswer
		}
		ready := []unix.PollFd{{Fd: int32(l.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(ready, int(left.Milliseconds())+1); n <= 0 {
			if err != nil && !errors.Is(err, unix.EINTR) {
				return fmt.Errorf("%w: %w", errUnstoppable, os.NewSyscallError("poll", err))
			}
			continue
		}
		status, number, err := l.answer()
		switch {
		case err != nil:
			return err
		case number != l.number: // of an order that was given up
		case status != 0:
			return fmt.Errorf("%w: %w", errUnstoppable, status)
		default:
			return nil
		}
	}
}

// answer takes an answer that has come.
func (l *stopLine) answer() (status stopStatus, number uint32, err error) {
	var b [answerBytes + 1]byte
	n, err := unix.Read(l.fd, b[:])
	if errors.Is(err, unix.EINTR) {
		return 0, l.number - 1, nil // it comes again
	}
	if err != nil || n != answerBytes {
		return 0, 0, fmt.Errorf("%w: the keeper takes no orders", errUnstoppable)
	}
	return stopStatus(binary.LittleEndian.Uint32(b[4:])), binary.LittleEndian.Uint32(b[:]), nil
}

// close frees the descriptor. No order may be under way.
func (l *stopLine) close() {
	if l.fd >= 0 {
		unixsock.Close([]int{l.fd})
	}
}

// Error is part of error.
func (s stopStatus) Error() string {
	switch {
	case s == stopUnable:
		return "the keeper does not know them"
	case s == stopWorks:
		return "kernels run"
	case s == stopUnkept:
		return "the keeper has not got all pages"
	case s >= stopErrno:
		return fmt.Sprintf("NVIDIA's driver: %v", unix.Errno(s&^stopErrno))
	}
	return fmt.Sprintf("NVIDIA's driver: status %#x", uint32(s))
}
