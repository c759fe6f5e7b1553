package session

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"pvdrm/gem"
	"pvdrm/gpu"
	"pvdrm/hypercall"
	"pvdrm/internal/yield"
)

// Bounds of one session. What a guest may have in all, its Group limits.
const (
	maxObjects   = 1 << 14
	maxModules   = 1024
	maxFunctions = 1 << 14
	maxSources   = hypercall.MaxSource // bytes of the sources of all modules
	maxInFlight  = 1024                // batches that were accepted and are not done
)

// Grant is memory that the guest granted, as the carrier knows it.
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
	ctx     gpu.Context
	log     *zap.Logger
	ring    *hypercall.Ring
	in      *hypercall.Consumer
	out     *hypercall.Producer
	unmap   func()        // gives the mapping of the ring object back
	napper  *yield.Napper // of the pump
	label   string
	group   *Group
	start   time.Time
	noPoll  bool // the frontend wants doorbells measured
	onHost  bool // kernels run on the host's processors

	objects   *gem.Table[*object]
	modules   *gem.Table[*module]
	functions *gem.Table[gpu.Function]
	function  func(id uint32) (gpu.Function, error) // of functions
	channels  *gem.Table[*channel]
	loading   *loading
	pollers   []gpu.Poller      // channels that the pump helps
	serving   hypercall.Header  // of the request that is being handled
	freeing   sync.WaitGroup    // of the goroutines that close channels
	held      [Resources]uint64 // of the guest's quotas
	inFlight  int               // accepted batches that are not done: see reap
	finished  atomic.Int64      // batches done since the pump last looked
	count     counters

	hungry atomic.Bool // the pump waits for a batch to end
	lost   atomic.Bool // the GPU context is, and that is counted
	wake   chan struct{}
	stop   chan struct{}
	ended  chan struct{} // closed when the pump has returned

	mu      sync.Mutex
	revoked []revocation
	freed   []freed // channels that the device has closed
	stopped bool
	// unmapped is set before the ring object is unmapped; the ring may be looked
	// at from outside the pump only while it is false.
	unmapped bool
}

// Attach starts a session on the ring object that the frontend granted. The
// label names the guest process in logs and errors; the group counts it.
func Attach(device gpu.Device, carrier Carrier, group *Group, d hypercall.Doorbell, label string, log *zap.Logger) (*Session, error) {
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
	ctx, err := newContext(device, group, label)
	if err != nil {
		ring.SetState(hypercall.StateEnded) // as above
		unmap()
		_ = napper.Close() // err is what to report
		return nil, fmt.Errorf("GPU context: %w", err)
	}
	s := &Session{
		carrier: carrier, device: device, ctx: ctx, log: log.With(zap.String("client", label)),
		ring: ring, in: ring.RequestsIn(), out: ring.CompletionsOut(), unmap: unmap, napper: napper,
		label: label, group: group, start: time.Now(),
		noPoll:    d.Flags&hypercall.DoorbellNoPoll != 0,
		onHost:    device.Properties().OnHost,
		objects:   gem.NewTable[*object]("GEM object", maxObjects),
		modules:   gem.NewTable[*module]("module", maxModules),
		functions: gem.NewTable[gpu.Function]("function", maxFunctions),
		channels:  gem.NewTable[*channel]("channel", hypercall.MaxChannels-1),
		wake:      make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{}),
	}
	s.function = s.functions.Get
	s.held[Contexts] = 1
	group.enter(s)
	go s.pump()
	return s, nil
}

// newContext makes a context if the guest may have one more.
func newContext(device gpu.Device, group *Group, label string) (gpu.Context, error) {
	if err := group.Take(Contexts, 1); err != nil {
		return nil, err
	}
	ctx, err := device.NewContext(label)
	if err != nil {
		group.Give(Contexts, 1)
	}
	return ctx, err
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
	done chan struct{} // closed when the device no longer uses the pages
}

// Revoke takes a grant from the session: the guest wants it back. When it
// returns, neither the session nor the device uses the pages. It waits for the
// request that the pump handles and for the device, but for no kernel, unless the
// device must (see its package).
func (s *Session) Revoke(id uint32) {
	r := revocation{id, make(chan struct{})}
	s.mu.Lock()
	s.revoked = append(s.revoked, r)
	s.mu.Unlock()
	s.Kick()
	select {
	case <-r.done:
	case <-s.ended:
	}
}

// Ended is closed when the session no longer serves its ring: after Close, or
// because the frontend broke the protocol.
func (s *Session) Ended() <-chan struct{} { return s.ended }

// Close ends the session and frees everything it holds. It waits for the pump
// and for the device. It may be called more than once.
func (s *Session) Close() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.stop)
	}
	s.mu.Unlock()
	// Aborts what runs, which the pump may be waiting for. It closes the context
	// once more at its end, and says there if that fails.
	_ = s.ctx.Close()
	<-s.ended
}

// teardown runs on the pump, last.
func (s *Session) teardown() {
	s.ring.SetState(hypercall.StateEnded)
	if err := s.ctx.Close(); err != nil {
		s.log.Error("closing the GPU context", zap.Error(err))
	}
	s.freeing.Wait() // their channels were closed with the context
	for _, o := range s.objects.All {
		o.release()
	}
	for _, ch := range s.channels.All {
		ch.drop(s)
	}
	s.dischargeAll()
	s.notify()
	s.group.leave(s)
	s.mu.Lock()
	s.unmapped = true
	s.mu.Unlock()
	s.unmap()
	_ = s.napper.Close() // the pump, which used it, is at its end
}

// notify wakes the frontend if it sleeps. It may be called from any goroutine.
func (s *Session) notify() {
	if s.ring.WakeFrontend() {
		s.carrier.Notify()
	}
}
