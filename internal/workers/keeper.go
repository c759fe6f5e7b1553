package workers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// Config says how a Keeper works.
type Config struct {
	Name    string   // of the workers in errors, such as "CUDA workers"
	Command []string // starts the process that calls Serve
	Files   int      // number of files that Program.Prepare makes for the backend
	// Inherits are files that the keeper has from Socket+1 on. The caller closes them.
	Inherits []*os.File
	// Limit is how long the keeper may take to start a process; 0 is DefaultLimit. What the worker
	// itself does until it can serve is not part of it.
	Limit time.Duration
}

// DefaultLimit is how long a keeper may take to start a process, unless the Config says otherwise.
const DefaultLimit = 30 * time.Second

// ErrKeeper says that the keeper has ended, and all processes with it.
var ErrKeeper = errors.New("has ended")

// Keeper is a keeper's process as its backend sees it. It is safe for concurrent use.
type Keeper struct {
	cfg  Config
	cmd  *exec.Cmd
	gone chan struct{} // closed when the process has ended and all its notices were read

	mu        sync.Mutex // guards sending, too
	fd        int
	last      uint64
	processes map[uint64]*Process // that were asked for and have not ended; nil when the keeper has
}

// NewKeeper starts a keeper.
func NewKeeper(c Config) (*Keeper, error) {
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	ours, theirs, err := unixsock.Pair(unix.SOCK_SEQPACKET)
	if err != nil {
		return nil, err
	}
	k := &Keeper{cfg: c, cmd: exec.Command(c.Command[0], c.Command[1:]...), gone: make(chan struct{}),
		fd: ours, processes: map[uint64]*Process{}}
	k.cmd.Stderr = os.Stderr
	k.cmd.ExtraFiles = append([]*os.File{theirs}, c.Inherits...)
	// A group of its own: ^C is for the backend. When that ends, so does the socket.
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := errors.Join(k.cmd.Start(), theirs.Close()); err != nil {
		unixsock.Close([]int{ours})
		return nil, fmt.Errorf("starting the keeper of %s: %w", c.Name, err)
	}
	go k.read()
	return k, nil
}

// PID returns the number of the keeper's process.
func (k *Keeper) PID() int { return k.cmd.Process.Pid }

// Start starts a process. It returns the socket to it and the files that Program.Prepare made for
// the backend, which belong to the caller.
func (k *Keeper) Start() (*Process, []int, error) {
	p := &Process{pidfd: -1, gone: make(chan struct{}), started: make(chan start, 1)}
	if err := k.order(p); err != nil {
		return nil, nil, err
	}
	var s start
	late := time.NewTimer(k.cfg.Limit)
	defer late.Stop()
	select {
	case s = <-p.started:
	case <-late.C:
		k.mu.Lock()
		select {
		case s = <-p.started: // at the last moment
		default:
			p.abandoned = true
			s.err = fmt.Errorf("the keeper of %s did not start one within %v", k.cfg.Name, k.cfg.Limit)
		}
		k.mu.Unlock()
	}
	if s.err != nil {
		return nil, nil, s.err
	}
	return p, s.fds, nil
}

// order asks the keeper for a process.
func (k *Keeper) order(p *Process) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.processes == nil {
		return k.ended()
	}
	k.last++
	b := binary.LittleEndian.AppendUint64(nil, k.last)
	for {
		err := unix.Sendmsg(k.fd, b, nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("%w: %w", k.ended(), os.NewSyscallError("sendmsg", err))
		}
		k.processes[k.last] = p
		return nil
	}
}

// ended is the error of all that needs the keeper after its end.
func (k *Keeper) ended() error { return fmt.Errorf("the keeper of %s %w", k.cfg.Name, ErrKeeper) }

// read handles notices until the keeper ends.
func (k *Keeper) read() {
	defer close(k.gone)
	for {
		n, err := receiveNotice(k.fd, k.descriptors())
		if err == nil {
			err = k.take(&n)
		}
		if err != nil {
			break
		}
	}
	k.shutdown()     // a keeper that breaks the protocol ends
	_ = k.cmd.Wait() // how it ended makes no difference
	k.mu.Lock()
	defer k.mu.Unlock()
	unixsock.Close([]int{k.fd})
	all := k.processes
	k.processes = nil
	for _, p := range all {
		if p.pidfd < 0 {
			p.started <- start{err: k.ended()}
			continue
		}
		p.await() // the kernel ends it with its keeper
		p.end(k.ended())
	}
}

// descriptors is how many come with the notice of a start.
func (k *Keeper) descriptors() int { return k.cfg.Files + 2 }

// take handles a notice.
func (k *Keeper) take(n *notice) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	p := k.processes[n.id]
	fits := p != nil && len(n.fds) == 0
	switch n.kind {
	case noticeStarted:
		fits = p != nil && len(n.fds) == k.descriptors() && p.pidfd < 0
	case noticeRefused:
		fits = fits && p.pidfd < 0
	case noticeEnded:
		fits = fits && p.pidfd >= 0
	}
	if !fits {
		unixsock.Close(n.fds)
		return errNotice
	}
	switch n.kind {
	case noticeStarted:
		last := len(n.fds) - 1
		p.pidfd = n.fds[last]
		if p.abandoned {
			p.Kill()
			unixsock.Close(n.fds[:last])
		} else {
			p.started <- start{fds: n.fds[:last:last]}
		}
	case noticeRefused:
		delete(k.processes, n.id)
		p.started <- start{err: errors.New(n.text)}
	case noticeEnded:
		delete(k.processes, n.id)
		p.end(errors.New(n.text))
	}
	return nil
}

// shutdown ends the stream for both ends, and so the keeper.
func (k *Keeper) shutdown() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.processes != nil {
		_ = unix.Shutdown(k.fd, unix.SHUT_RDWR) // fails only where the other end is gone
	}
}

// Close ends the keeper and its workers, and waits until they are gone.
func (k *Keeper) Close() {
	k.shutdown()
	<-k.gone
}
