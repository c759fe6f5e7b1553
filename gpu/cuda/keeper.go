package cuda

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// KeeperCommand is the subcommand of pvdrm that calls ServeKeeper.
const KeeperCommand = "cuda-keeper"

// order asks a keeper for a worker, with the descriptors of its lane and its wake.
type order struct{ ID uint64 }

// notice is what a keeper tells: that a worker was started, with the descriptors of
// its socket and its process, why it was not, or how it ended.
type notice struct {
	ID    uint64
	Err   string // why it was not started; how it ended
	Ended bool
	FDs   int
}

// Descriptors that come with an order, and with the notice of a start.
const (
	orderFDs  = 2
	noticeFDs = 2
)

// ServeKeeper is the program of the process that starts workers, by the given
// command, for a backend that can start none once it is confined. It serves the
// backend at the other end of descriptor 3 until that is gone; its workers end with
// it. It must be called on the main thread.
func ServeKeeper(worker []string) error {
	runtime.LockOSThread() // workers end with the thread that started them
	link := newLink(fdSocket)
	var sending sync.Mutex
	send := func(n notice, fds []int) {
		sending.Lock()
		defer sending.Unlock()
		n.FDs = len(fds)
		_ = link.send(&n, fds) // if the backend is gone, Decode says so
	}
	for {
		var o order
		err := link.dec.Decode(&o)
		var fds []int
		if err == nil {
			fds, err = link.takeFDs(orderFDs)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cuda keeper: %w (pvdrm starts it; it is no command for users)", err)
		}
		cmd, ours, err := startWorker(worker, fds)
		if err != nil {
			send(notice{ID: o.ID, Err: err.Error()}, nil)
			continue
		}
		send(notice{ID: o.ID}, ours)
		for _, fd := range ours {
			_ = unix.Close(fd) // the backend has them
		}
		go func() {
			how := "exit status 0"
			if err := cmd.Wait(); err != nil {
				how = err.Error()
			}
			send(notice{ID: o.ID, Err: how, Ended: true}, nil)
		}()
	}
}

// startWorker starts a worker with a lane and a wake, which it takes over, and returns
// the descriptors for its backend.
func startWorker(command []string, fds []int) (_ *exec.Cmd, ours []int, err error) {
	files := []*os.File{nil, os.NewFile(uintptr(fds[0]), "lane"), os.NewFile(uintptr(fds[1]), "wake")}
	defer func() {
		for _, f := range files {
			_ = f.Close() // the worker has them; one may be nil
		}
		if err != nil {
			for _, fd := range ours {
				_ = unix.Close(fd) // err is what to report
			}
		}
	}()
	socket, theirs, err := socketPair()
	if err != nil {
		return nil, nil, err
	}
	ours = append(ours, socket)
	files[0] = theirs // fdSocket, then fdLane and fdWake
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = files
	// What the driver compiles it would keep for all processes of this user: one guest
	// could leave something there for another. Devices keep it themselves.
	cmd.Env = append(os.Environ(), "CUDA_CACHE_DISABLE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, ours, err
	}
	pidfd, err := unix.PidfdOpen(cmd.Process.Pid, 0)
	if err != nil {
		_ = cmd.Process.Kill() // it has just been started
		_ = cmd.Wait()         // so this is no news
		return nil, ours, os.NewSyscallError("pidfd_open", err)
	}
	return cmd, append(ours, pidfd), nil
}

// keeper is a keeper's process as its backend sees it. A goroutine reads what it
// tells, and ends with it.
type keeper struct {
	cmd  *exec.Cmd
	link *link
	gone chan struct{} // closed when the process has ended and all it told was read

	mu      sync.Mutex // sending, too
	last    uint64
	starts  map[uint64]chan started // workers that were asked for
	running map[uint64]*process
}

// started is the answer to an order.
type started struct {
	socket int
	err    error
}

// startKeeper starts a keeper by a command.
func startKeeper(command []string) (*keeper, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	k := &keeper{cmd: exec.Command(command[0], command[1:]...), link: newLink(ours), gone: make(chan struct{}),
		starts: map[uint64]chan started{}, running: map[uint64]*process{}}
	k.cmd.Stderr = os.Stderr
	k.cmd.ExtraFiles = []*os.File{theirs} // fdSocket
	// A group of its own: ^C is for the backend. When that ends, so does the socket.
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	err = errors.Join(k.cmd.Start(), theirs.Close())
	if err != nil {
		k.link.close()
		return nil, fmt.Errorf("starting the keeper of CUDA workers: %w", err)
	}
	go k.read()
	return k, nil
}

// start has a worker started for p, whose lane and wake it has, and returns the
// descriptor of its socket.
func (k *keeper) start(p *process, lane int) (int, error) {
	answer := make(chan started, 1)
	k.mu.Lock()
	if k.starts == nil {
		k.mu.Unlock()
		return -1, errKeeper
	}
	k.last++
	k.starts[k.last], k.running[k.last] = answer, p
	err := k.link.send(&order{k.last}, []int{lane, p.wake})
	if err != nil {
		delete(k.starts, k.last)
		delete(k.running, k.last)
	}
	k.mu.Unlock()
	if err != nil {
		return -1, fmt.Errorf("%w: %w", errKeeper, err)
	}
	s := <-answer
	return s.socket, s.err
}

var errKeeper = errors.New("the keeper of CUDA workers has ended")

// read passes on what the keeper tells.
func (k *keeper) read() {
	defer close(k.gone)
	for {
		var n notice
		err := k.link.dec.Decode(&n)
		var fds []int
		if err == nil {
			fds, err = k.link.takeFDs(n.FDs)
		}
		if err != nil {
			break
		}
		k.take(n, fds)
	}
	k.link.shutdown() // a keeper that talks nonsense ends
	_ = k.cmd.Wait()  // how it ended does not matter any more
	k.mu.Lock()
	defer k.mu.Unlock()
	k.link.close()
	for _, answer := range k.starts {
		answer <- started{socket: -1, err: errKeeper}
	}
	k.starts = nil
	for _, p := range k.running {
		if p.pidfd >= 0 {
			// The kernel ends it with its keeper. Nothing interrupts this but signals.
			for ended := false; !ended; {
				_, err := unix.Poll([]unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}, -1)
				ended = !errors.Is(err, unix.EINTR)
			}
		}
		p.ended(errKeeper)
	}
}

// take handles a notice.
func (k *keeper) take(n notice, fds []int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	answer, p := k.starts[n.ID], k.running[n.ID]
	delete(k.starts, n.ID)
	switch {
	case n.Ended && p != nil:
		delete(k.running, n.ID)
		p.ended(errors.New(n.Err))
	case answer != nil && len(fds) == noticeFDs:
		p.pidfd = fds[1]
		answer <- started{socket: fds[0]}
		return
	case answer != nil:
		delete(k.running, n.ID)
		answer <- started{socket: -1, err: errors.New(n.Err)}
	}
	for _, fd := range fds {
		_ = unix.Close(fd) // nobody asked for them
	}
}

// close ends the keeper and what it started.
func (k *keeper) close() {
	k.mu.Lock()
	if k.starts != nil {
		k.link.shutdown()
	}
	k.mu.Unlock()
	<-k.gone
}
