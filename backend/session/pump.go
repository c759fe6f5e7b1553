package session

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"pvdrm/hypercall"
	"pvdrm/internal/yield"
)

// How the pump waits for work. It looks at the ring without a pause for
// spinTime, yielding the processor to the device's goroutines; then with pauses
// that grow with the time it has waited, so that a frontend that computes for a
// moment needs no doorbell when it comes back; after pollTime it sleeps.
//
// The pauses take longer than they ask for, 50 µs or so. Both sides must spin for
// longer than the other's shortest pause, or else each finds the other pausing
// for ever after one of them was late once.
const (
	spinTime = 200 * time.Microsecond
	// gpuSpin is in place of it where processors are ample and kernels do not need them:
	// longer than most commands take that a frontend waits for before it goes on.
	gpuSpin = 2 * time.Millisecond
	gpuNap  = 50 * time.Microsecond // in place of maxNap then
	// busySpin is in place of it while the device has work, where processors are
	// scarce: longer than a short kernel runs. Who polls and gives way keeps the
	// runtime from looking for a processor for the kernel's workers.
	busySpin = 50 * time.Microsecond
	// Looks between two yields: a moment if the device has work, which needs the
	// processor, and some microseconds if not, which is what a frontend takes from
	// an answer to its next request.
	busyLooks = 16
	idleLooks = 3000
	pollTime  = 250 * time.Millisecond
	// calmTime is in place of it while there is no channel: a program that only asks
	// what there is, or uses another file for its work. Pauses of one pump take time
	// from kernels of the other.
	calmTime = 4 * time.Millisecond
	minNap   = 20 * time.Microsecond
	maxNap   = 500 * time.Microsecond
	napPart  = 16 // a nap is this part of the time waited so far
	// fullRetry is how often a pump looks for room in a completion queue that
	// the frontend does not empty.
	fullRetry = time.Millisecond
)

// pump serves the ring until the session is closed or the ring is broken.
func (s *Session) pump() {
	defer close(s.ended)
	defer s.teardown()
	buf := make([]byte, hypercall.MaxMessage)
	for {
		select { // one at a time: a select of several cases takes as long as a request
		case <-s.stop:
			return
		default:
		}
		select {
		case <-s.wake: // whatever it was for is looked at below
		default:
		}
		taken, err := s.drain(buf)
		if s.out.Publish() { // first: somebody may wait for an answer
			s.carrier.Notify()
		}
		s.help() // a frontend that never stops leaves no other time for it
		if taken > 0 {
			s.count.took(taken, &s.burst)
		}
		worked := taken > 0
		if err == nil {
			var kept bool
			kept, err = s.housekeep()
			worked = worked || kept
		}
		if err != nil {
			if err != errStopped {
				s.log.Warn("session ended: the frontend broke the protocol", zap.Error(err))
			}
			return
		}
		if s.out.Publish() {
			s.carrier.Notify()
		}
		if worked || s.poll() {
			continue
		}
		if !s.sleep() {
			return
		}
	}
}

// drain handles the messages that are there, up to a burst, so that housekeeping
// has its turn with a frontend that never stops. It returns how many there were.
func (s *Session) drain(buf []byte) (taken uint64, err error) {
	const most = 256
	for taken < most && err == nil && !s.full() {
		h, payload, ok, bad := s.in.Get(buf)
		if err = bad; err != nil || !ok {
			break
		}
		taken++
		s.burst.add(h.Op)
		err = s.handle(h, payload)
	}
	return taken, err
}

// full reports whether no more work may be accepted now, and if so makes the
// next batch that ends wake the pump.
func (s *Session) full() bool {
	if !s.file.Full() {
		return false
	}
	s.hungry.Store(true)
	return s.file.Full() // a batch may have ended before the flag was up
}

// housekeep does what is not caused by a message: it submits batches whose
// points were reached, gives up revoked grants and ends channels that were freed.
// An error ends the session.
func (s *Session) housekeep() (worked bool, err error) {
	s.hungry.Store(false)
	worked, waiting := s.file.Advance()
	if waiting {
		s.hungry.Store(true)
		moved, _ := s.file.Advance() // a point may have been reached before the flag was up
		worked = worked || moved
	}
	if !s.news.Swap(false) {
		return worked, nil
	}
	worked = s.dropRevoked() || worked
	freed, err := s.channelsFreed()
	if err != nil {
		return true, err
	}
	compiled, err := s.modulesCompiled()
	return freed || compiled || worked, err
}

// dropRevoked gives up what the guest took back.
func (s *Session) dropRevoked() (worked bool) {
	s.mu.Lock()
	revoked := s.revoked
	s.revoked = nil
	s.mu.Unlock()
	for _, r := range revoked {
		s.dropGrant(r.id)
		r.done()
	}
	return len(revoked) > 0
}

// poll looks for work for a while and reports whether there is some.
func (s *Session) poll() bool {
	if s.noPoll {
		return false
	}
	looks, spin, nap := idleLooks, spinTime, maxNap
	if s.file.InFlight() > 0 {
		looks, spin = busyLooks, busySpin
	}
	first := looks
	switch {
	case yield.Ample && s.onHost: // a short kernel ends, and is answered with the next, before anybody misses the processor
		first, spin = idleLooks, spinTime
	case yield.Ample:
		first, spin, nap = idleLooks, gpuSpin, gpuNap
	}
	for range first { // a busy frontend is found without looking at the clock
		if s.in.Ready() && !s.file.Full() {
			return true
		}
		s.help()
	}
	start := time.Now()
	defer func() { s.count.polling.Add(int64(time.Since(start))) }()
	for turn := 1; ; turn++ {
		for range looks {
			if s.in.Ready() && !s.file.Full() || len(s.wake) > 0 {
				return true
			}
			s.help()
		}
		if s.ring.FrontendAsleep() {
			// It waits for what the device does, which needs the processor more than we
			// do. If another of its threads has a request, it rings.
			return false
		}
		if s.file.InFlight() > 0 {
			yield.Processor()
		} else {
			yield.Turn(turn)
		}
		waited := time.Since(start)
		if waited < spin {
			continue
		}
		if waited > pollTime || waited > calmTime && s.file.Channels() == 0 {
			return false
		}
		s.napper.Nap(min(max(waited/napPart, minNap), nap))
		select {
		case <-s.stop:
			return true
		default:
		}
	}
}

// help looks for the end of what the device does in place of its goroutines.
func (s *Session) help() {
	for _, p := range s.pollers {
		p.Poll()
	}
}

// sleep waits until somebody kicks. It reports false when the session is closed.
func (s *Session) sleep() bool {
	if !s.full() && !s.in.Sleep() {
		return true
	}
	start := time.Now()
	select {
	case <-s.wake:
	case <-s.stop:
	}
	s.count.sleeps.Add(1)
	s.count.sleeping.Add(int64(time.Since(start)))
	s.in.Awake()
	select {
	case <-s.stop:
		return false
	default:
		return true
	}
}

// errStopped is that the session was closed while it waited.
var errStopped = errors.New("the session is closed")

// answer queues a completion, waiting for room if the frontend is slow. An error
// ends the session: it is errStopped, or the frontend has spoilt the queue.
func (s *Session) answer(h hypercall.Header, payload []byte) error {
	for {
		ok, err := s.out.Put(h, payload)
		if err != nil {
			return fmt.Errorf("completion of %s: %w", h.Op, err)
		}
		if ok {
			return nil
		}
		if s.out.Publish() {
			s.carrier.Notify()
		}
		select {
		case <-s.stop:
			return errStopped
		case <-time.After(fullRetry):
			s.dropRevoked() // nobody else must wait for a slow frontend
		}
	}
}
