package cuda

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
)

// process is a worker as its backend sees it.
type process struct {
	link      *link // one request at a time; nil until it was started
	lane      lane
	published uint32 // entries of the lane; under context.laneMu
	taken     uint32 // entries of the lane that the worker had taken when we last looked; under context.laneMu
	wake      int    // eventfd
	pidfd     int    // the process; -1 until it was started
	props     gpu.Properties

	gone   chan struct{} // closed when the process has ended and is reaped
	reason error         // how it ended; valid when gone is closed
}

// startLimit is how long a worker may take to start: to load the driver, wake the
// GPU and make a context.
const startLimit = 60 * time.Second

// startProcess starts a worker and waits until it has a CUDA context. What else
// lies in its address space is random, so some have no room for the windows.
func (k *keeper) startProcess() (p *process, err error) {
	const tries = 8
	for range tries {
		p, err = k.tryProcess()
		if e, ok := errors.AsType[*driverError](err); !ok || e.Code != resultTaken {
			break
		}
	}
	return p, err
}

func (k *keeper) tryProcess() (*process, error) {
	p := &process{wake: -1, pidfd: -1, gone: make(chan struct{})}
	err := p.spawn(k)
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

// spawn has the keeper start the program.
func (p *process) spawn(k *keeper) (err error) {
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
	fd, err := k.start(p, mem)
	if err != nil {
		return err
	}
	p.link = newLink(fd)
	return nil
}

// ended is that the process has ended.
func (p *process) ended(why error) {
	p.reason = why
	close(p.gone)
}

// hello waits until the worker works.
func (p *process) hello() error {
	if err := p.link.limit(startLimit); err != nil {
		return err
	}
	var r reply
	if err := p.do(&request{Op: opHello}, nil, &r); err != nil {
		return err
	}
	p.props = r.Props
	return p.link.limit(0)
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

// room reports whether n entries can be published. Context.laneMu is held. What the
// worker writes is read only when it must be: each look takes its cache line away.
func (p *process) room(n int) bool {
	if entryCount-int(p.published-p.taken) < n {
		p.taken = p.lane.load(offTail)
	}
	return entryCount-int(p.published-p.taken) >= n
}

// publish writes an entry, for which there is room, and wakes the worker.
// Context.laneMu is held.
func (p *process) publish(e *entry, params []byte) {
	asleep := p.lane.publish(p.published, e, params)
	p.published++
	if asleep {
		p.ring()
	}
}

// kill ends the process, whatever it and its kernels do.
func (p *process) kill() {
	_ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0) // fails only when it has ended
}

// ring wakes the worker.
func (p *process) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(p.wake, one[:]) // an eventfd of ours takes any number of these
}

// discard frees what belongs to a process that has ended or never started.
func (p *process) discard() {
	if p.link != nil {
		p.link.close()
	}
	if p.lane.mem != nil {
		_ = unix.Munmap(p.lane.mem) // our own mapping; cannot fail
	}
	if p.wake >= 0 {
		_ = unix.Close(p.wake)
	}
	if p.pidfd >= 0 {
		_ = unix.Close(p.pidfd)
	}
}
