package nvidia

import (
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"pvdrm/internal/unixsock"
)

// stopper stops a worker's channels and makes them go on, in its keeper, at the backend's word.
// The worker has no part in it. What runs on the GPU keeps its state.
//
// The driver's control stops the channels at the next instruction at which their kernels can be
// taken off, and returns when they have left the GPU.
type stopper struct {
	socket int // to the backend
	target target
	call   rmCall
	able   stopStatus // whether the channels can be stopped
	served chan struct{}
	keeps  *keeping // pages of the worker

	mu      sync.Mutex
	changed sync.Cond
	stopped bool
	ended   bool
}

// stopStatus is what became of an order: 0, a status of the driver, or one of ours.
type stopStatus uint32

// Statuses that the driver does not have.
const (
	stopUnable stopStatus = 0xffff_ffff // the channels of the worker are not known
	stopWorks  stopStatus = 0xffff_fffe // kernels run or wait to
	stopUnkept stopStatus = 0xffff_fffd // pages of VRAM are not kept
	stopErrno  stopStatus = 0xffff_0000 // with an errno: the call failed
)

// Orders of a backend.
const (
	stopAsk     = iota // whether the channels can be stopped
	stopKernels        // stop those channels that can run kernels, which takes less time
	stopAll            // stop all
	stopNone           // make all go on
	stopBusy           // whether kernels run or wait to
	stopKeep           // keep the pages that the worker makes, under the number of a memory (keeping)
	stopGive           // give it those that were kept so
	stopKept           // that was all, so many pages
	stopLeave          // let go of the pages of a memory
	stopForget         // let go of all
	stopHold           // hold pages that the worker has for others, too, under the number of a memory
	stopPage           // one of them, by its number among those that the worker has made
	stopDrop           // let go of the pages of a memory that are held so
	stopEnds           // no order
)

// stopBytes is the size of an order, which is its number, what to do and a number of pages or of a
// memory, and answerBytes that of the answer to it, which is the number and the status.
const (
	stopBytes   = 16
	answerBytes = 8
)

func newStopper(socket int, of *store) *stopper {
	s := &stopper{socket: socket, able: stopUnable, keeps: &keeping{store: of, mode: stopKept}}
	s.changed.L = &s.mu
	return s
}

// begin finds out whether it can stop a target, and serves the backend from now on. A target that
// does not run stays stopped, whatever the backend says.
//
// To find out it lets channels run that run: the driver checks the same as where it stops them, and
// takes a third of the time, for which the next context would wait.
func (s *stopper) begin(t target, err error, call rmCall, runs bool) {
	s.target, s.call = t, call
	switch {
	case err != nil:
	case runs:
		s.able = s.set(stopNone)
	default:
		_ = s.set(stopAll) // where the driver refuses, none of its channels can be stopped
	}
	s.served = make(chan struct{})
	go s.serve()
}

// serve carries orders out until the backend or the worker is gone.
func (s *stopper) serve() {
	defer close(s.served)
	defer s.end()
	var b [stopBytes + 1]byte
	for {
		n, err := unix.Read(s.socket, b[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		what := binary.LittleEndian.Uint32(b[4:])
		if err != nil || n != stopBytes || what >= stopEnds {
			return
		}
		status := s.obey(what, binary.LittleEndian.Uint64(b[8:]))
		binary.LittleEndian.PutUint32(b[4:], uint32(status))
		if err := unix.Sendmsg(s.socket, b[:answerBytes], nil, nil, unix.MSG_NOSIGNAL); err != nil {
			return
		}
	}
}

// obey carries an order out.
func (s *stopper) obey(what uint32, of uint64) stopStatus {
	switch {
	case s.able != 0 || what == stopAsk:
		return s.able
	case what == stopBusy:
		return s.busy()
	case what == stopPage:
		return s.keeps.hold(uint32(of), s.call)
	case what == stopDrop:
		return s.keeps.drop(of)
	case what == stopKeep || what == stopGive || what == stopHold:
		return s.keeps.begin(what, of)
	case what == stopKept:
		return s.keeps.end(of)
	case what == stopLeave:
		return s.keeps.leave(of)
	case what == stopForget:
		return s.keeps.forget()
	}
	return s.set(what)
}

// end lets go of a call that waits for the channels to go on.
func (s *stopper) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed.Broadcast()
}

// close ends the service.
func (s *stopper) close() {
	_ = unix.Shutdown(s.socket, unix.SHUT_RDWR) // fails only where the other end is gone
	if s.served != nil {
		<-s.served
	}
	unixsock.Close([]int{s.socket})
	s.keeps.close()
}

// set carries an order out that changes something.
func (s *stopper) set(order uint32) (status stopStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	off := order != stopNone
	if off {
		s.stopped = true // before they are: see awaitRunning
	}
	var some []channelOf
	for _, c := range s.target.channels {
		if c.computes || order != stopKernels {
			some = append(some, c)
		}
	}
	for some := range slices.Chunk(some, disableMost) {
		status = max(status, s.disable(some, off))
	}
	if !off && status == 0 {
		s.stopped = false
		s.changed.Broadcast()
	}
	return status
}

// busy reports whether a channel for kernels has work, which the driver waits for a moment.
func (s *stopper) busy() stopStatus {
	const wait = 2000 // microseconds
	for _, c := range s.target.channels {
		if !c.computes {
			continue
		}
		argument := make([]byte, idleBytes)
		binary.LittleEndian.PutUint32(argument[idleClient:], c.client)
		binary.LittleEndian.PutUint32(argument[idleDevice:], s.target.device)
		binary.LittleEndian.PutUint32(argument[idleChannel:], c.handle)
		binary.LittleEndian.PutUint32(argument[idleCount:], 1)
		binary.LittleEndian.PutUint32(argument[idleFlags:], idleForceCheck|idleSingle|idleEngines)
		binary.LittleEndian.PutUint32(argument[idleTimeout:], wait)
		if errno := s.call(s.target.fd, requestIdle, argument, nil); errno != 0 {
			return stopErrno | stopStatus(errno)
		}
		switch status := binary.LittleEndian.Uint32(argument[idleStatus:]); status {
		case 0:
		case statusTimeout:
			return stopWorks
		default:
			return stopStatus(status)
		}
	}
	return 0
}

// awaitRunning returns when the channels are not stopped.
func (s *stopper) awaitRunning() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.stopped && !s.ended {
		s.changed.Wait()
	}
}

// disable makes the control for some channels.
func (s *stopper) disable(some []channelOf, off bool) stopStatus {
	params := make([]byte, disableBytes)
	if off {
		params[disableOff] = 1
	}
	binary.LittleEndian.PutUint32(params[disableCount:], uint32(len(some)))
	for i, c := range some {
		binary.LittleEndian.PutUint32(params[disableClients+4*i:], c.client)
		binary.LittleEndian.PutUint32(params[disableHandles+4*i:], c.handle)
	}
	argument := make([]byte, controlBytes)
	binary.LittleEndian.PutUint32(argument[controlClient:], s.target.client)
	binary.LittleEndian.PutUint32(argument[controlObject:], s.target.subdevice)
	binary.LittleEndian.PutUint32(argument[controlCommand:], disableChannels)
	binary.LittleEndian.PutUint32(argument[controlSize:], uint32(len(params)))
	if errno := s.call(s.target.fd, requestControl, argument, params); errno != 0 {
		return stopErrno | stopStatus(errno)
	}
	return stopStatus(binary.LittleEndian.Uint32(argument[controlStatus:]))
}
