package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/file"
	"pvdrm/gpu"
	"pvdrm/hypercall"
	"pvdrm/internal/yield"
)

// Grant is memory that the guest granted, as the carrier knows it. One that is charged to the
// guest's quota already, whether there are objects in it or not, is a file.Payer, too.
type Grant interface {
	// Size is in bytes.
	Size() uint64
	// Acquire returns the pages as runs, each page aligned and a multiple of
	// 4096 bytes long. They stay mapped until release was called.
	Acquire() (runs [][]byte, release func(), err error)
	// MapContiguous returns the pages as one range, until release was called.
	MapContiguous() (mem []byte, release func(), err error)
}

// Carrier is what a session needs of the way to its frontend. Implementations
// must allow calls from any goroutine and must not block.
type Carrier interface {
	// Grant finds granted memory of this frontend by the carrier's id; ENOENT.
	Grant(id uint32) (Grant, error)
	// Notify wakes the frontend.
	Notify()
	// Doorbells and Interrupts count the exits of the whole guest.
	Counts() (doorbells, interrupts uint64)
}

// Session is one DRM file.
type Session struct {
	carrier Carrier
	device  gpu.Device
	log     *zap.Logger
	ring    *hypercall.Ring
	in      *hypercall.Consumer
	out     *hypercall.Producer
	unmap   func()        // gives the mapping of the ring object back
	napper  *yield.Napper // of the pump
	label   string
	group   *Group
	start   time.Time
	owner   atomic.Uint32 // hypercall.Owner
	noPoll  bool          // the frontend wants doorbells measured
	onHost  bool          // kernels run on the host's processors

	file    *file.File
	pollers []gpu.Poller     // channels that the pump helps
	serving hypercall.Header // of the request that is being handled
	burst   burst            // the pump writes it for each request: the device's goroutines use none of its neighbours
	aside   sync.WaitGroup   // of the goroutines that close a channel or compile
	count   counters

	hungry atomic.Bool // the pump waits for a batch to end
	news   atomic.Bool // there is something in the lists under mu
	lost   atomic.Bool // the GPU context is, and that is counted
	wake   chan struct{}
	stop   chan struct{}
	ended  chan struct{} // closed when the pump has returned

	living context.Context // until the session begins to end
	die    context.CancelCauseFunc

	mu       sync.Mutex
	revoked  []revocation
	freed    []freed  // channels that the device has closed
	compiled []loaded // modules whose requests are to be answered
	stopped  bool
	// unmapped is set before the ring object is unmapped; the ring may be looked
	// at from outside the pump only while it is false.
	unmapped bool
}

// Attach starts a session on the ring object that the frontend granted. The
// label names the guest process in logs and errors; the group counts it.
func Attach(device gpu.Device, carrier Carrier, group *Group, d hypercall.Doorbell, label string, log *zap.Logger) (*Session, error) {
	if n := device.Properties().Number; d.Device != uint32(n) {
		return nil, fmt.Errorf("a session with device %d, and this backend serves device %d: %w", d.Device, n, syscall.ENODEV)
	}
	grant, err := carrier.Grant(d.Resource)
	if err != nil {
		return nil, fmt.Errorf("ring object: %w", err)
	}
	if grant.Size() < d.Layout.Bytes() {
		return nil, fmt.Errorf("ring object of %d bytes for a layout of %d: %w", grant.Size(), d.Layout.Bytes(), syscall.EINVAL)
	}
	mem, unmap, err := grant.MapContiguous()
	if err != nil {
		return nil, fmt.Errorf("ring object: %w", err)
	}
	ring, err := hypercall.New(mem, d.Layout)
	if err != nil {
		unmap()
		return nil, fmt.Errorf("ring object: %w", err)
	}
	napper, err := yield.NewNapper()
	if err != nil {
		ring.SetState(hypercall.StateEnded) // the frontend sees it even where the carrier cannot tell
		unmap()
		return nil, fmt.Errorf("waiting for requests (see ulimit -n): %w", err)
	}
	s := &Session{
		carrier: carrier, device: device, log: group.Logger(log).With(zap.String("client", label)),
		ring: ring, in: ring.RequestsIn(), out: ring.CompletionsOut(), unmap: unmap, napper: napper,
		label: label, group: group, start: time.Now(),
		noPoll: d.Flags&hypercall.DoorbellNoPoll != 0,
		onHost: device.Properties().OnHost,
		wake:   make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	open := file.Open
	if d.Flags&hypercall.DoorbellWatch != 0 {
		open = file.OpenWatcher
	}
	if s.file, err = open(device, &group.Guest, label, progress{s}); err != nil {
		ring.SetState(hypercall.StateEnded) // as above
		unmap()
		_ = napper.Close() // err is what to report
		return nil, fmt.Errorf("GPU context: %w", err)
	}
	s.living, s.die = context.WithCancelCause(context.Background())
	group.enter(s)
	go s.pump()
	return s, nil
}

// Kick wakes the pump: the frontend rang.
func (s *Session) Kick() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// FrontendAsleep reports whether the frontend still waits to be notified; see
// hypercall.DoorbellArm. Once the session has ended nobody needs to wait.
func (s *Session) FrontendAsleep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.unmapped && s.ring.FrontendAsleep()
}

// revocation is a grant that the guest takes back.
type revocation struct {
	id   uint32
	done func() // called when the device no longer uses the pages
}

// Revoke takes a grant from the session, because the guest wants it back, and returns
// at once. The session calls done exactly once, from any goroutine: when neither it nor
// the device uses the pages, or when the session has ended. Done must not block.
func (s *Session) Revoke(id uint32, done func()) {
	s.mu.Lock()
	ended := s.unmapped
	if !ended {
		s.revoked = append(s.revoked, revocation{id: id, done: done})
		s.news.Store(true)
	}
	s.mu.Unlock()
	if ended {
		done()
		return
	}
	s.Kick()
}

// Ended is closed when the session no longer serves its ring: after Close, or
// because the frontend broke the protocol.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// End starts the end of the session and does not wait for it: see Ended. It may be
// called more than once, and before or after Close.
func (s *Session) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.stopped = true
	close(s.stop)
	s.die(errStopped)
	// Aborts what runs, which the pump may be waiting for. The pump closes the context
	// once more at its end, and logs there if that fails.
	go func() { _ = s.file.Abort() }()
}

// Close ends the session and frees everything it holds. It waits for the pump
// and for the device. It may be called more than once.
func (s *Session) Close() {
	s.End()
	<-s.ended
}

// hand hands something to the pump, from any goroutine.
func (s *Session) hand(add func()) {
	s.mu.Lock()
	add()
	s.news.Store(true)
	s.mu.Unlock()
	s.Kick()
}

// teardown runs on the pump, last.
func (s *Session) teardown() {
	s.ring.SetState(hypercall.StateEnded)
	if err := s.file.Abort(); err != nil {
		s.log.Error("closing the GPU context", zap.Error(err))
	}
	s.die(errStopped)
	s.aside.Wait()     // what they do was aborted or canceled
	_ = s.file.Close() // what Abort returned, again
	s.notify()
	s.group.leave(s)
	s.mu.Lock()
	s.unmapped = true
	revoked := s.revoked
	s.revoked = nil
	s.mu.Unlock()
	for _, r := range revoked {
		r.done()
	}
	s.unmap()
	_ = s.napper.Close() // the pump, which used it, is at its end
}

// notify wakes the frontend if it sleeps. It may be called from any goroutine.
func (s *Session) notify() {
	if s.ring.WakeFrontend() {
		s.carrier.Notify()
	}
}
