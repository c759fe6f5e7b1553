package cuda

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// process is a worker as its backend sees it.
type process struct {
	cmd   *exec.Cmd
	link  *link // one request at a time
	lane  lane
	wake  int // eventfd
	props gpu.Properties

	gone   chan struct{} // closed when the process has ended and is reaped
	reason error         // how it ended; valid when gone is closed
}

// startLimit is how long a worker may take to start: to load the driver, wake the
// GPU and make a context.
const startLimit = 60 * time.Second

// startProcess starts a worker and waits until it has a CUDA context. What else
// lies in its address space is random, so some have no room for the windows.
func startProcess(command []string) (p *process, err error) {
	const tries = 8
	for range tries {
		p, err = tryProcess(command)
		if e, ok := errors.AsType[*driverError](err); !ok || e.Code != resultTaken {
			break
		}
	}
	return p, err
}

func tryProcess(command []string) (*process, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	p := &process{link: newLink(ours), wake: -1, gone: make(chan struct{})}
	err = p.spawn(command, theirs)
	if err == nil {
		err = p.hello()
		if err != nil {
			p.kill()
			<-p.gone
			err = errors.Join(err, p.reason)
		}
	}
	if err != nil {
		p.discard()
		return nil, fmt.Errorf("starting a CUDA worker: %w", err)
	}
	return p, nil
}

// spawn starts the program. It takes theirs over.
func (p *process) spawn(command []string, theirs *os.File) (err error) {
	defer func() { err = errors.Join(err, theirs.Close()) }()
	mem, err := unix.MemfdCreate("pvdrm-cuda-lane", unix.MFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("memfd_create", err)
	}
	file := os.NewFile(uintptr(mem), "lane")
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Truncate(laneBytes); err != nil {
		return err
	}
	if p.lane, err = mapLane(mem); err != nil {
		return err
	}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return os.NewSyscallError("eventfd2", err)
	}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Stderr = os.Stderr
	fd, err := unix.FcntlInt(uintptr(p.wake), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("fcntl(F_DUPFD_CLOEXEC)", err)
	}
	wake := os.NewFile(uintptr(fd), "wake")
	defer func() { err = errors.Join(err, wake.Close()) }()
	p.cmd.ExtraFiles = []*os.File{theirs, file, wake}
	// A group of its own: ^C is for the backend, which ends its workers itself. A
	// worker whose backend is killed ends when the socket does.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		p.reason = p.cmd.Wait()
		close(p.gone)
	}()
	return nil
}

// hello waits until the worker works.
func (p *process) hello() error {
	if err := p.link.conn.SetDeadline(time.Now().Add(startLimit)); err != nil {
		return err
	}
	var r reply
	if err := p.do(&request{Op: opHello}, nil, &r); err != nil {
		return err
	}
	p.props = r.Props
	return p.link.conn.SetDeadline(time.Time{})
}

// do makes a request. A *driverError is the worker's answer; after another error
// the worker is of no use.
func (p *process) do(q *request, fds []int, r *reply) error {
	q.FDs = len(fds)
	err := p.link.send(q, fds)
	if err == nil {
		err = p.link.dec.Decode(r)
	}
	if err != nil {
		return fmt.Errorf("CUDA worker: %w", err)
	}
	if r.Err != nil {
		return r.Err
	}
	return nil
}

// kill ends the process, whatever it and its kernels do.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // fails only when it has ended
}

// ring wakes the worker.
func (p *process) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(p.wake, one[:]) // an eventfd of ours takes any number of these
}

// discard frees what belongs to a process that has ended or never started.
func (p *process) discard() {
	if err := p.link.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return // nothing to be done about it, and nothing depends on it
	}
	if p.lane.mem != nil {
		_ = unix.Munmap(p.lane.mem) // our own mapping; cannot fail
	}
	if p.wake >= 0 {
		_ = unix.Close(p.wake)
	}
}
