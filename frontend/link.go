package frontend

import (
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"pvdrm/frontend/carrier"
	"pvdrm/hypercall"
	"pvdrm/internal/yield"
)

// How requests travel and how waiting is done.
const (
	// flushSlots of queued requests are published without waiting for more.
	flushSlots = 1024
	// flushAfter bounds how long an asynchronous request stays in the queue
	// while the backend sleeps.
	flushAfter = 200 * time.Microsecond
	// scarceSpin is how long a leader polls before it sleeps where processors are
	// scarce: longer than the backend's shortest pause, see backend/session. Where
	// they are ample it polls for ampleSpin, as long as a GPU takes to copy 64
	// MiB, since to be woken takes most of 100 µs.
	scarceSpin = 200 * time.Microsecond
	ampleSpin  = 2 * time.Millisecond
	// napTime is how long it then looks now and then, where to sleep is dear;
	// the pauses are a part of the time waited so far, so that little is lost.
	napTime = 100 * time.Millisecond
	minNap  = 20 * time.Microsecond
	maxNap  = time.Millisecond
	napPart = 32
	// greeting bounds the first request: a backend that could not take the ring,
	// because it has no GPU context left, say, has no other way to refuse.
	greeting = 20 * time.Second
	// fullRetry is how often a producer looks for room in a full queue.
	fullRetry = 50 * time.Microsecond
)

var spinTime = spinOn(yield.Ample)

func spinOn(ample bool) time.Duration {
	if ample {
		return ampleSpin
	}
	return scarceSpin
}

// link is the ring of one file and the ways to wait on it.
type link struct {
	carrier carrier.Carrier
	cfg     Config
	pages   *carrier.Pages // the ring object, and behind it the slab
	ring    *hypercall.Ring

	mu     sync.Mutex
	req    *hypercall.Producer
	nextID uint32
	calls  []*call     // whose completions are awaited; few, so that looking through them is fast
	timer  *time.Timer // flushes what is queued; armed exactly while timerOn
	timing bool

	async atomic.Pointer[error] // first failure of an asynchronous request, until someone is told

	leading atomic.Bool // who sets it is the leader, and owns cpl and buf
	cpl     *hypercall.Consumer
	buf     []byte

	progressMu sync.Mutex
	progress   chan struct{} // closed and replaced when something came in
	followers  atomic.Int32  // who waits, the leader included
	wanted     atomic.Uint32 // the channel that wantOnly named last
	polling    atomic.Int64  // ns that leaders polled and napped
	sleeping   atomic.Int64  // ns that they slept
	sleeps     atomic.Uint64
	broken     atomic.Pointer[error] // the link does not work any more
}

// call is a request whose completion somebody waits for.
type call struct {
	id     uint32
	done   atomic.Bool // everything below is written before it is set
	errno  uint32
	answer []byte
}

// newLink makes the ring object with the slab behind it, tells the backend and
// starts with an empty ring.
func newLink(c carrier.Carrier, layout hypercall.Layout, cfg Config) (*link, error) {
	if c.Capset().Features&hypercall.FeatureCard != 0 {
		return nil, fmt.Errorf("the backend shows a card to GPUvm's drivers (--interface), and serves no DRM calls: %w", syscall.ENODEV)
	}
	pages, err := c.Alloc(slabStart(layout) + slabBytes)
	if err != nil {
		return nil, fmt.Errorf("ring object: %w", err)
	}
	ring, err := hypercall.New(pages.Mem, layout)
	if err == nil {
		d := hypercall.Doorbell{Op: hypercall.DoorbellAttach, Resource: pages.ID, Layout: layout, Device: c.Capset().Device}
		if cfg.NoPoll {
			d.Flags |= hypercall.DoorbellNoPoll
		}
		if cfg.Unlisted && c.Capset().Features&hypercall.FeatureWatch != 0 {
			d.Flags |= hypercall.DoorbellWatch
		}
		err = c.Attach(pages, d)
	}
	if err != nil {
		_ = c.Free(pages) // err is what to report
		return nil, fmt.Errorf("ring object: %w", err)
	}
	l := &link{carrier: c, cfg: cfg, pages: pages, ring: ring, req: ring.Requests(), cpl: ring.Completions(),
		buf: make([]byte, hypercall.MaxMessage), progress: make(chan struct{})}
	l.timer = time.AfterFunc(time.Hour, l.flushLate)
	l.timer.Stop()
	return l, nil
}

// post queues an asynchronous request. It is published at once while the
// backend is awake, which costs nothing; otherwise with what follows.
func (l *link) post(op hypercall.Op, payload []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.put(op, 0, payload, nil); err != nil {
		return err
	}
	if l.cfg.NoMulticall || !l.req.ConsumerAsleep() || l.req.Pending() >= flushSlots {
		return l.publish()
	}
	if !l.timing {
		l.timing = true
		l.timer.Reset(flushAfter)
	}
	return nil
}

// do sends a request and waits for its completion.
func (l *link) do(op hypercall.Op, payload []byte) ([]byte, error) {
	return l.doInto(op, payload, nil)
}

// room is where a short answer fits: with it no memory is allocated for the answer.
type room = [hypercall.ShortPayload]byte

// doInto is do, with room for the answer, or nil.
func (l *link) doInto(op hypercall.Op, payload []byte, room *room) (answer []byte, err error) {
	if !l.cfg.NoPoll && l.takeLead() {
		answer, errno, late, sent := l.quick(op, payload, room)
		switch {
		case late != nil:
			return l.await(op, late, -1)
		case sent && errno != 0:
			return answer, fmt.Errorf("%s: %w", op, errno)
		case sent:
			return answer, nil
		}
	}
	return l.doWithin(op, payload, -1)
}

// doWithin is do with a time limit, after which the link is given up.
func (l *link) doWithin(op hypercall.Op, payload []byte, limit time.Duration) ([]byte, error) {
	c := new(call)
	l.mu.Lock()
	err := l.put(op, hypercall.FlagAnswer, payload, c)
	if err == nil {
		err = l.publish()
	}
	l.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	return l.await(op, c, limit)
}

// await waits for the completion of a call.
func (l *link) await(op hypercall.Op, c *call, limit time.Duration) ([]byte, error) {
	err := l.wait(c.done.Load, limit)
	if err == errTimeout {
		err = l.fail(fmt.Errorf("no answer from the backend within %v (its log says why): %w", limit, syscall.ENODEV))
	}
	if err != nil { // without a completion: another goroutine may be writing the answer
		return nil, fmt.Errorf("%s: %w", op, err)
	}
	if c.errno != 0 {
		err = fmt.Errorf("%s: %w", op, syscall.Errno(c.errno))
	}
	return c.answer, err
}

// put writes a request into the queue, waiting for room. Caller holds mu, which
// is given up while waiting.
func (l *link) put(op hypercall.Op, flags uint16, payload []byte, c *call) error {
	for {
		if err := l.err(); err != nil {
			return err
		}
		l.nextID++
		ok, err := l.req.Put(hypercall.Header{Op: op, Flags: flags, ID: l.nextID}, payload)
		if err != nil {
			return l.fail(fmt.Errorf("%w: %w", syscall.EIO, err))
		}
		if ok {
			if c != nil {
				c.id = l.nextID
				l.calls = append(l.calls, c)
			}
			return nil
		}
		// The queue is full. The backend may itself wait for room in the
		// completion queue, so look at that too.
		if err := l.publish(); err != nil {
			return err
		}
		l.mu.Unlock()
		end := time.Now().Add(fullRetry)
		err = l.wait(func() bool { return time.Now().After(end) }, fullRetry)
		l.mu.Lock()
		if err != nil && err != errTimeout {
			return err
		}
	}
}

// publish makes queued requests visible, and rings if the backend sleeps.
// Caller holds mu.
func (l *link) publish() error {
	if l.timing {
		l.timing = false
		l.timer.Stop()
	}
	queued := l.req.Pending() > 0
	if !l.req.Publish() && !(l.cfg.NoMulticall && queued) {
		return nil
	}
	if err := l.carrier.Kick(); err != nil {
		return l.fail(err)
	}
	return nil
}

// flush publishes what is queued.
func (l *link) flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.publish()
}

// flushLate is the timer's function.
func (l *link) flushLate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timing {
		l.timing = false
		_ = l.publish() // a failure stays: the next caller gets it from err
	}
}

// fail marks the link as broken, for good. It returns the first reason.
func (l *link) fail(err error) error {
	l.broken.CompareAndSwap(nil, &err)
	l.report()
	return *l.broken.Load()
}

// err is why the link does not work any more, or nil.
func (l *link) err() error {
	if p := l.broken.Load(); p != nil {
		return *p
	}
	if l.ring.State() == hypercall.StateEnded {
		return fmt.Errorf("the backend ended this session: %w", syscall.ENODEV)
	}
	return nil
}

// takeAsync returns the first failure of an asynchronous request since the last call.
func (l *link) takeAsync() error {
	if l.async.Load() == nil {
		return nil
	}
	if err := l.async.Swap(nil); err != nil {
		return *err
	}
	return nil
}

// shut makes every call fail from now on, those that wait included, and stops the
// timer.
func (l *link) shut() {
	_ = l.fail(errClosed)
	l.carrier.Interrupt()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.timing = false
	l.timer.Stop()
}
