package workers

import (
	"errors"
	"sync"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// Process is a worker as its backend sees it. It is safe for concurrent use.
type Process struct {
	gone   chan struct{} // closed when the process has ended and is reaped
	reason error         // why it ended; valid when gone is closed

	started   chan start // gets one value
	abandoned bool       // Start has given up; guarded by Keeper.mu

	mu     sync.Mutex
	pidfd  int // -1 until it was started; set with Keeper.mu held, before started gets its value
	closed bool
}

// start is the answer to an order.
type start struct {
	fds []int
	err error
}

// Kill ends the process, whatever it and its kernels do. It does not wait for that.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0) // fails only when it has ended
	}
}

// Gone returns a channel that is closed when the process has ended and is reaped: neither it nor
// its libraries reach any memory then.
func (p *Process) Gone() <-chan struct{} { return p.gone }

// Over reports whether the process has ended.
func (p *Process) Over() bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// Reason says why the process ended, such as "exit status 1". Precondition: Gone is closed.
func (p *Process) Reason() error { return p.reason }

// Close frees the descriptor of a process that has ended.
func (p *Process) Close() {
	<-p.gone
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		unixsock.Close([]int{p.pidfd})
	}
}

// End kills the process, waits until it is gone, and frees its descriptor.
func (p *Process) End() {
	p.Kill()
	p.Close()
}

// end notes that the process has ended.
func (p *Process) end(why error) {
	p.reason = why
	close(p.gone)
	if p.abandoned {
		p.Close()
	}
}

// await waits until the kernel has ended the process.
func (p *Process) await() {
	for {
		// Only signals interrupt this.
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}, -1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
