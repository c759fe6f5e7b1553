package nvidia

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/gpu"
	"pvdrm/internal/unixsock"
	"pvdrm/internal/workers"
)

// process is a worker as its backend sees it.
type process struct {
	*workers.Process       // nil until it was started
	link             *link // one request at a time; nil until it was started
	lane             lane
	published        uint32 // entries of the lane; under context.laneMu
	taken            uint32 // entries of the lane that the worker had taken when we last looked; under context.laneMu
	wake             int    // eventfd; -1 until it was started
	stop             stopLine
	unstoppable      error // why its channels cannot be stopped; nil if they can
	props            gpu.Properties
	ledger           *ledger // has its account
	output           output  // of its kernels

	graphs                 bool   // it makes graphs of the driver
	graphsRan, graphsApart uint32 // counts of the lane when they were last read; under context.laneMu
}

// startLimit is how long a worker may take to start: to load the driver, wake the
// GPU and make a context.
const startLimit = 60 * time.Second

// startProcess starts a worker and waits until it has a CUDA context. Other mappings of its address
// space lie at random addresses, so some workers have no room for the windows.
func (k keeper) startProcess() (*process, error) { return k.startAs(opHello) }

// startCompiler starts a worker that compiles for all contexts of a device.
func (k keeper) startCompiler() (*process, error) { return k.startAs(opHelloCompiler) }

func (k keeper) startAs(role op) (p *process, err error) {
	const tries = 8
	for range tries {
		p, err = k.tryProcess(role)
		if e, ok := errors.AsType[*driverError](err); !ok || e.Code != resultTaken {
			break
		}
	}
	return p, err
}

func (k keeper) tryProcess(role op) (*process, error) {
	p := &process{wake: -1, stop: stopLine{fd: -1}, ledger: k.ledger}
	err := p.spawn(k)
	if err == nil {
		err = p.hello(role, k)
		if err != nil {
			p.Kill()
			<-p.Gone()
			err = errors.Join(err, p.Reason())
		}
	}
	if err != nil {
		p.discard()
		if e, ok := errors.AsType[*driverError](err); ok && e.Code == resultOperatingSystem {
			err = fmt.Errorf("%w (the system refused the driver something; if it is the filter of package sandbox, `strace -f` names the call, and --sandbox=off goes without)", err)
		}
		return nil, fmt.Errorf("starting a CUDA worker: %w", err)
	}
	return p, nil
}

// spawn has the keeper start the program.
func (p *process) spawn(k keeper) error {
	running, fds, err := k.Start()
	if err != nil {
		return err
	}
	p.Process, p.link, p.wake, p.stop.fd = running, newLink(fds[0], 0), fds[2], fds[3]
	p.output.fds = [2]int{fds[5], fds[6]}
	p.lane, err = mapLane(fds[1])
	err = errors.Join(err, p.ledger.open(p, fds[4]))
	unixsock.Close([]int{fds[1], fds[4]}) // the mappings keep them
	if err != nil {
		p.Kill()
	}
	return err
}

// hello gives the worker its role and its GPU, and waits until it works.
func (p *process) hello(role op, k keeper) error {
	if err := p.link.limit(startLimit); err != nil {
		return err
	}
	var r reply
	if err := p.do(&request{Op: role, Number: k.number, Peers: k.peers}, nil, &r); err != nil {
		return err
	}
	p.props, p.graphs = r.Props, r.Graphs
	p.unstoppable = p.stop.order(stopAsk, stopLimit)
	return p.link.limit(0)
}

// do makes a request. A *driverError is the worker's answer; after another error
// the worker is of no use.
func (p *process) do(q *request, fds []int, r *reply) error {
	if err := p.exchange(q, fds, r); err != nil {
		return fmt.Errorf("CUDA worker: %w", err)
	}
	p.link.answered(q)
	if r.Err != nil {
		return r.Err.bounded()
	}
	return nil
}

// exchange sends a request and receives the answer.
func (p *process) exchange(q *request, fds []int, r *reply) error {
	last := *q
	var err error
	if last.Image, err = p.link.sendImage(q.Image); err != nil {
		return err
	}
	last.FDs = len(fds)
	if err := p.link.send(&last, fds); err != nil {
		return err
	}
	var image []byte
	for {
		*r = reply{}
		if err := p.link.decode(r, q.answerBytes()); err != nil {
			return err
		}
		if len(r.Image) > q.Most-len(image) {
			return errTooMuch
		}
		image = append(image, r.Image...)
		if !r.More {
			r.Image = image
			return nil
		}
	}
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

// ring wakes the worker.
func (p *process) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(p.wake, one[:]) // fails only where it is full, and wakes the worker anyway
}

// over reports whether the process has ended.
func (p *process) over() bool { return p.Over() }

// end kills a process that was started, waits until it is gone, and frees what is left.
func (p *process) end() {
	p.Kill()
	<-p.Gone()
	p.discard()
}

// discard frees the descriptors and mappings of a process that has ended or never started.
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
	p.stop.close()
	p.ledger.close(p)
	if p.Process != nil {
		unixsock.Close(p.output.fds[:])
		p.Close()
	}
}
