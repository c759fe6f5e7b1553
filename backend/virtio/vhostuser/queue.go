package vhostuser

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/internal/hostmem"
)

// queue is one virtqueue of a session:
//
//	         addresses, size, kick, memory, enabled
//	stopped ──────────────────────────────────────► running ──► broken
//	   ▲                                               │           │
//	   └───────────── disable, GET_VRING_BASE ─────────┴───────────┘
//
// While it runs, a worker takes chains from the ring. A chain that the device
// still holds when the queue stops stays in held. When the queue starts again
// where it stopped (a paused machine goes on) such chains are completed then;
// when it starts anywhere else (the driver was reset) they are forgotten.
type queue struct {
	index    int
	dev      Device
	log      *zap.Logger
	counters *counters

	mu sync.Mutex
	// What the front end said.
	size     int // 0 until set
	addr     *vringAddr
	base     uint16 // where to start
	enabled  bool
	eventIdx bool
	mem      *hostmem.Table // a reference, or nil
	kick     *os.File       // or nil
	call     int            // eventfd, or -1
	fault    int            // eventfd, or -1

	ring   *ring         // nil unless running
	worker chan struct{} // closed when the worker is gone; nil without one
	broken bool
	ran    bool // since the last reset

	// Kept while stopped, so that a start can tell where it goes on.
	lastAvail uint16 // the next entry of the driver's ring to take
	nextUsed  uint16 // the next entry of the device's ring to fill
	held      map[uint16]*Chain
	parked    []*Chain // those of held that were completed while stopped

	quiet bool // kicks are turned off in the ring (without EVENT_IDX)
	fresh bool // nothing was given back since the start: interrupt in any case
}

func newQueue(index int, dev Device, log *zap.Logger, c *counters) *queue {
	return &queue{
		index: index, dev: dev, log: log.With(zap.Int("queue", index)), counters: c,
		call: -1, fault: -1, held: make(map[uint16]*Chain),
	}
}

// configure changes what the front end decides, and then starts or stops the
// queue as that demands. It waits for the worker to finish its request.
func (q *queue) configure(change func() error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := change(); err != nil {
		return err
	}
	ready := q.enabled && q.kick != nil && q.addr != nil && q.size != 0 && q.mem != nil && !q.broken
	switch {
	case ready && q.worker == nil:
		return q.start()
	case !ready && q.worker != nil:
		q.stop()
	}
	return nil
}

// start maps the ring and starts the worker. Precondition: q.mu is held and all
// that the ring needs is there.
func (q *queue) start() error {
	r, err := mapRing(q.mem, *q.addr, q.size)
	if err != nil {
		return violation("queue %d: %w", q.index, err)
	}
	if err := q.kick.SetReadDeadline(time.Time{}); err != nil {
		return violation("queue %d: kick: %w", q.index, err)
	}
	used := r.usedIdx()
	if q.base != q.lastAvail || used != q.nextUsed {
		q.forget()
	}
	q.ring = r
	q.ran = true
	q.lastAvail, q.nextUsed = q.base, used
	q.fresh, q.quiet = true, false
	r.publish(0, used)
	parked := q.parked
	q.parked = nil
	for _, c := range parked {
		q.giveBack(c, c.answer)
	}
	q.worker = make(chan struct{})
	go q.work(q.kick, q.worker)
	return nil
}

// stop ends the worker and leaves the ring alone from then on. Precondition:
// q.mu is held; it is dropped while stop waits.
func (q *queue) stop() {
	q.ring = nil // the worker takes nothing more, completions are parked
	q.base = q.lastAvail
	worker := q.worker
	q.worker = nil
	_ = q.kick.SetReadDeadline(time.Unix(0, 1)) // worked in start, so it works now
	q.mu.Unlock()
	<-worker
	q.mu.Lock()
}

// forget gives up all chains in flight: the driver no longer knows them.
// Precondition: q.mu is held.
func (q *queue) forget() {
	for _, c := range q.held {
		c.state = chainDone
		c.mem.Release()
	}
	clear(q.held)
	q.parked = nil
}

// reset brings the queue back to its first state. Precondition: it is stopped.
func (q *queue) reset() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget()
	q.base, q.lastAvail, q.nextUsed = 0, 0, 0
	q.broken, q.ran = false, false
}

// halt stops the queue until it gets a new kick descriptor, and returns where it
// stopped.
func (q *queue) halt() uint16 {
	// A change that only takes things away cannot fail.
	_ = q.configure(func() error {
		q.broken = false
		q.dropKick()
		return nil
	})
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.base
}

// running reports whether the queue has a worker.
func (q *queue) running() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.worker != nil
}

// dropKick stops a running queue and closes its kick descriptor. Precondition:
// q.mu is held.
func (q *queue) dropKick() {
	if q.worker != nil {
		q.stop()
	}
	closeFile(q.kick)
	q.kick = nil
}

// close stops the queue for good and frees what it has.
func (q *queue) close() {
	q.halt()
	q.reset()
	q.mu.Lock()
	defer q.mu.Unlock()
	closeFD(q.call)
	closeFD(q.fault)
	q.call, q.fault = -1, -1
	if q.mem != nil {
		q.mem.Release()
		q.mem = nil
	}
}

// setMemory gives the queue another memory table. A running ring moves to the
// new mapping of its memory.
func (q *queue) setMemory(t *hostmem.Table) error {
	return q.configure(func() error {
		if q.ring != nil {
			r, err := mapRing(t, *q.addr, q.size)
			if err != nil {
				return violation("queue %d runs, and the new memory table has no place for it: %w", q.index, err)
			}
			q.ring = r
		}
		if q.mem != nil {
			q.mem.Release()
		}
		q.mem = t.Acquire()
		return nil
	})
}

// work is the worker: it takes what is in the ring, then sleeps until a kick.
func (q *queue) work(kick *os.File, done chan<- struct{}) {
	defer close(done)
	var count [8]byte
	for q.drain() {
		if _, err := io.ReadFull(kick, count[:]); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) { // that is how stop wakes us
				q.fail(fmt.Errorf("%w: reading the kick descriptor: %w", errRing, err))
			}
			return
		}
		// The eventfd counts the kicks that came since it was read.
		q.counters.kicks.Add(binary.NativeEndian.Uint64(count[:]))
	}
}

// drain hands out chains until the ring is empty. It is false when the worker
// must end.
func (q *queue) drain() bool {
	for {
		c, state, err := q.pop()
		if err != nil {
			q.fail(err)
			return false
		}
		switch state {
		case popStopped:
			return false
		case popEmpty:
			return true
		case popChain:
			q.counters.chains.Add(1)
			q.dev.Handle(q.index, c)
			c.read, c.nread = nil, 0
		case popBad: // given back already
		}
	}
}

type popState int

const (
	popEmpty popState = iota
	popChain
	popBad
	popStopped
)

// pop takes the next chain from the ring. When there is none, kicks are asked
// for before it returns.
func (q *queue) pop() (*Chain, popState, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.ring
	if r == nil {
		return nil, popStopped, nil
	}
	_, idx := r.availIdx()
	if idx == q.lastAvail {
		q.askForKicks()
		// The driver may have added something before it could see that.
		if _, idx = r.availIdx(); idx == q.lastAvail {
			return nil, popEmpty, nil
		}
	}
	if n := idx - q.lastAvail; int(n) > r.size {
		return nil, 0, fmt.Errorf("%w: driver index %d, %d entries ahead of %d in a ring of %d",
			errRing, idx, n, q.lastAvail, r.size)
	}
	q.refuseKicks()
	head := r.availHead(q.lastAvail)
	if int(head) >= r.size {
		return nil, 0, fmt.Errorf("%w: descriptor %d of %d", errRing, head, r.size)
	}
	if q.held[head] != nil {
		return nil, 0, fmt.Errorf("%w: descriptor %d is in flight already", errRing, head)
	}
	q.lastAvail++
	c, err := r.walk(q, q.mem, head)
	if err != nil {
		q.log.Warn("guest sent a bad request", zap.Error(err))
		q.push(head, 0)
		return nil, popBad, nil
	}
	q.held[head] = c
	return c, popChain, nil
}

// askForKicks tells the driver to kick when it adds something. It ends with a
// full barrier. Precondition: q.mu is held.
func (q *queue) askForKicks() {
	switch {
	case q.eventIdx:
		q.ring.setAvailEvent(q.lastAvail)
		hostmem.Barrier()
	case q.quiet:
		q.quiet = false
		q.ring.publish(0, q.nextUsed)
	default:
		hostmem.Barrier()
	}
}

// refuseKicks tells the driver that we are looking anyway. With EVENT_IDX the
// event index that lies behind does it. Precondition: q.mu is held.
func (q *queue) refuseKicks() {
	if !q.eventIdx && !q.quiet {
		q.quiet = true
		q.ring.publish(usedNoNotify, q.nextUsed)
	}
}

// complete implements Chain.Complete.
func (q *queue) complete(c *Chain, answer []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case c.state != chainHeld:
	case q.ring == nil:
		c.state = chainParked
		c.answer = append([]byte(nil), answer...)
		q.parked = append(q.parked, c)
	default:
		q.giveBack(c, answer)
	}
}

// giveBack writes the answer of c and returns it to the driver. Precondition:
// q.mu is held, the ring runs, and c is in held.
func (q *queue) giveBack(c *Chain, answer []byte) {
	n := 0
	for _, seg := range c.write {
		m := copy(seg, answer[n:])
		if n += m; n == len(answer) {
			break
		}
	}
	c.state = chainDone
	c.mem.Release()
	delete(q.held, c.head)
	q.push(c.head, uint32(n))
}

// push returns a descriptor chain to the driver, n bytes of it written, and
// interrupts the driver if it wants that. Precondition: q.mu is held and the
// ring runs.
func (q *queue) push(head uint16, n uint32) {
	r := q.ring
	r.putUsed(q.nextUsed, head, n)
	old := q.nextUsed
	q.nextUsed++
	flags := uint16(0)
	if q.quiet {
		flags = usedNoNotify
	}
	r.publish(flags, q.nextUsed)

	wanted := true
	if q.eventIdx {
		wanted = q.fresh || needEvent(r.usedEvent(), q.nextUsed, old)
	} else if flags, _ := r.availIdx(); flags&availNoInterrupt != 0 {
		wanted = false
	}
	q.fresh = false
	if wanted && q.call >= 0 {
		notify(q.call)
		q.counters.interrupts.Add(1)
	}
}

// fail marks the ring as broken: nothing more is taken from it or written to it
// until the driver is reset.
func (q *queue) fail(err error) {
	q.log.Warn("guest broke a virtqueue; the device stays silent until the guest resets it", zap.Error(err))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.broken = true
	q.ring = nil
	q.base = q.lastAvail
	if q.fault >= 0 {
		notify(q.fault)
	}
}

// notify adds one to an eventfd. The only error it could meet is a counter that
// is full, and then the other side has a reason to wake up already.
func notify(fd int) {
	var one [8]byte
	binary.NativeEndian.PutUint64(one[:], 1)
	_, _ = unix.Write(fd, one[:])
}

// closeFD closes a descriptor that was only ever notified; -1 is none.
func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd) // nothing is buffered in an eventfd
	}
}

// closeFile closes an eventfd that was only ever read; nil is none.
func closeFile(f *os.File) {
	if f != nil {
		_ = f.Close() // nothing is buffered in an eventfd
	}
}
