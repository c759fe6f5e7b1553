package nvidia

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/internal/fifo"
	"pvdrm/internal/yield"
)

// channel is a queue of batches, run in order on a stream of its own in the worker.
// Its goroutine begins and completes commands; Submit begins the commands that can begin
// at once, so they do not wait for the goroutine to wake. It implements gpu.Channel.
type channel struct {
	ctx   *context
	slot  int
	stop  chan struct{} // closed by Close: no further command begins
	ended chan struct{} // closed when the goroutine has ended

	// run is held to begin or complete commands: by the goroutine, except while it waits
	// for the GPU, or by Submit, which only tries to lock it. It guards flight, built,
	// failed, watched and parked. mu and context.laneMu may be taken with it held.
	run     sync.Mutex
	flight  flight // commands that have begun
	built   int    // the context.built to which flight belongs
	failed  error  // of the first command that failed
	watched *batch // the goroutine waits for a command of it, without run
	parked  bool   // the commands in flight are stopped and wait for their engine
	missed  int    // times in a row that it lingered in vain
	runKey  []byte // for plan

	entering atomic.Bool // run is held by the goroutine, which waits for an engine with nothing in flight

	due    atomic.Uint64 // 0 if nothing is in flight, else isDue and the number of the oldest command; written under ctx.laneMu
	number uint32        // of the oldest command in flight, or of the last one; written under ctx.laneMu
	kernel string        // that the command launches; "" for another kind; written under ctx.laneMu
	word   uint64        // address that the command waits at; 0 for another kind; written under ctx.laneMu

	orphan uint32 // command that waits for a word although the channel was closed; 0 for none

	// news counts calls of Submit and Close, under mu. The goroutine polls it all the time,
	// so it has a cache line apart from the fields that Submit uses.
	_    [cacheLine]byte
	news atomic.Uint32
	_    [cacheLine]byte

	mu     sync.Mutex
	wake   sync.Cond // news changed
	closed bool
	queue  fifo.Queue[*batch]
	spare  *batch // a completed one: the next batch reuses its memory, which is still in the cache

	closing sync.Once

	polling polling
	order

	later time.Time // when the goroutine may ask again to be taken off the GPU; its own
}

const cacheLine = 64 // bytes

// NewChannel implements gpu.Context.
func (c *context) NewChannel() (gpu.Channel, error) {
	ch, err := c.newChannel()
	if err != nil {
		return nil, c.wrap("new channel", err)
	}
	return ch, nil
}

func (c *context) newChannel() (*channel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	for ch := range c.orphans {
		c.vacate(ch)
	}
	if err := c.dev.openChannel(); err != nil {
		return nil, err
	}
	slot := slices.Index(c.channels[:], nil) // the device allows as many as there are slots
	if err := c.do(&request{Op: opOpen, Slot: slot}, nil, nil); err != nil {
		c.dev.closeChannel()
		return nil, err
	}
	ch := &channel{ctx: c, slot: slot, stop: make(chan struct{}), ended: make(chan struct{}), flight: flight{users: &c.users, number: c.worker.lane.fence(slot)}, built: c.built}
	ch.wake.L = &ch.mu
	c.channels[slot] = ch
	go ch.loop()
	return ch, nil
}

// Close implements gpu.Channel.
func (c *channel) Close() error {
	c.closing.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		close(c.stop)
		c.tell()
		<-c.ended
		c.ctx.mu.Lock()
		defer c.ctx.mu.Unlock()
		c.ctx.vacate(c)
	})
	return nil
}

// loop completes every batch that was submitted, in order, until the channel is
// closed and the queue empty.
func (c *channel) loop() {
	defer close(c.ended)
	for {
		seen := c.news.Load()
		if c.work() == errRevoked {
			yield.Nap(time.Millisecond) // until the context is rebuilt, for which work waits
		} else if !c.wait(seen) {
			return
		}
	}
}

// work runs the queued commands. It returns errRevoked if the GPU was revoked, and nil
// when no command is left.
func (c *channel) work() error {
	c.ctx.gen.RLock()
	defer c.ctx.gen.RUnlock()
	c.run.Lock()
	defer c.run.Unlock()
	defer func() {
		if c.flight.empty() {
			c.flight.release(false)
		}
	}()
	if c.built != c.ctx.built {
		c.built, c.flight.number = c.ctx.built, 0 // of another worker, whose fences begin at 0
	}
	for {
		seen := c.news.Load()
		err := c.beginMore(true, true)
		switch {
		case !c.flight.empty():
			if c.settle(seen) == errRevoked { // the next call returns an error of the next command again
				return errRevoked
			}
		case err == errRevoked: // between two commands of a batch, perhaps
			for _, b := range c.flight.batches {
				b.again(c.built)
			}
			return err
		case err != nil:
			c.fail(err)
		case !c.linger(seen):
			return nil
		}
	}
}

// take returns the batch of the next command to begin; nil if there is none. C.run
// is held.
func (c *channel) take() *batch {
	f := &c.flight
	for _, b := range f.batches {
		if b.begun < len(b.cmds) || len(b.cmds) == 0 {
			return b
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue.Len() == 0 {
		return nil
	}
	b := c.queue.Pop()
	f.batches = append(f.batches, b)
	return b
}

// wait waits until news exceeds seen. It returns false when the channel is closed. A program
// that was just served often submits more, so wait polls for a while before it sleeps: a
// wake-up takes some 50 µs.
func (c *channel) wait(seen uint32) bool {
	for begin := time.Now(); c.news.Load() == seen && time.Since(begin) < waitSpin; {
		if c.polling.helps() {
			yield.Nap(helpedTime)
			continue
		}
		for n := 0; n < looks && c.news.Load() == seen; n++ {
		}
		yield.Processor()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.news.Load() == seen {
		if c.closed {
			return false
		}
		c.wake.Wait()
	}
	return true
}

// halted returns the reason why no command may begin: the error that ended the context,
// gpu.ErrClosed, once stop is closed, gpu.ErrCanceled or errRevoked; nil if commands may begin.
func (c *channel) halted(stop <-chan struct{}) error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	select { // one at a time: a select of several cases takes a fifth of handing a launch over
	case <-stop:
		return fmt.Errorf("channel %w", gpu.ErrClosed)
	default:
	}
	select {
	case <-c.ctx.over:
		return errRevoked
	default:
	}
	if c.failed != nil {
		return fmt.Errorf("%w: %v", gpu.ErrCanceled, c.failed)
	}
	return nil
}

// beginMore begins queued commands while the flight has room. If it may not wait, it stops
// at the first command that would have to. If it may, it also completes batches without
// commands. Every command of every channel passes here. A returned error belongs to the next
// command and takes effect when those before it have completed. c.run is held.
func (c *channel) beginMore(mayWait, mayEnd bool) error {
	f := &c.flight
	for {
		b := c.take()
		if b == nil {
			return nil
		}
		stop := c.stop
		if b.from > 0 {
			stop = nil // a launch that has begun runs to its end
		}
		if err := c.halted(stop); err != nil { // an empty batch reports it, too
			return err
		}
		if c.parked || c.held() {
			return nil
		}
		if len(b.cmds) == 0 {
			if !f.empty() || !mayEnd {
				return nil
			}
			c.complete(b, gpu.Result{})
			continue
		}
		w, err := c.prepare(b)
		if err != nil {
			return err
		}
		if ready, err := c.follow(b, &w, mayWait); !ready {
			return err
		}
		e := c.engineOf(&w)
		if !f.takes(&w, e) {
			return nil
		}
		if f.empty() && len(w.entries) > 0 && f.engine != e {
			f.release(false) // it lingers
		}
		enters := len(w.entries) > 0 && f.engine == nil && !w.waits() && e.gate != nil
		switch {
		case !enters:
		case !mayWait && !e.enterNow():
			return nil
		case mayWait && !c.enter(e, stop):
			return c.halted(stop)
		case c.held(): // it was stopped meanwhile
			e.leave(0, 0, false)
			return nil
		}
		began, err := c.begin(b, &w, e, mayWait)
		if enters && !began {
			e.leave(0, 0, false)
		}
		if err == errGraphGone {
			continue
		}
		if !began || err != nil {
			return err
		}
	}
}

// enter takes a turn on an engine. It returns false if the context ended first, or stop was closed.
func (c *channel) enter(e *engine, stop <-chan struct{}) bool {
	c.entering.Store(true)
	defer c.entering.Store(false)
	return e.enter(c, stop)
}

// begin passes the next command of a batch, which runs on e, to the worker. If it may not
// wait and the lane has no room, it does nothing and returns false. It publishes the entry
// before it updates its own fields, so that the GPU starts sooner: other goroutines read
// these only with run or laneMu held.
func (c *channel) begin(b *batch, w *work, e *engine, mayWait bool) (began bool, err error) {
	p := c.ctx.worker
	c.ctx.laneMu.Lock()
	defer c.ctx.laneMu.Unlock()
	if w.stale() {
		return false, errGraphGone
	}
	if !mayWait && !p.room(len(w.entries)) {
		return false, nil
	}
	number := c.flight.number + 1
	first := 0 // entry that is left
	if len(w.entries) > 0 && p.room(1) {
		c.publish(w, number, 0)
		first++
	}
	now := time.Now()
	if len(w.entries) > 0 && c.flight.engine == nil && !w.waits() {
		c.flight.hold(e, now)
	}
	f := c.flight.add(b, w, now)
	if c.flight.oldest() == f {
		c.turn(f)
	}
	c.ctx.dev.launches.Add(f.launches())
	for i := first; i < len(f.entries); i++ { // none for an empty copy, which ends with the command before it
		for !p.room(1) {
			tail := p.taken
			c.ctx.laneMu.Unlock()
			err = c.await(f, c.flight.start(), 0, func() bool { return p.lane.load(offTail) != tail })
			c.ctx.laneMu.Lock()
			if err != nil {
				return true, err
			}
		}
		c.publish(&f.work, f.number, i)
	}
	c.pass(b, f)
	b.plan.reached(b.begun)
	return true, nil
}

// publish passes an entry of a command to the worker. Preconditions: the lane has room and
// c.ctx.laneMu is held.
func (c *channel) publish(w *work, number uint32, i int) {
	e := &w.entries[i]
	e.channel, e.number, e.last, e.quiet = uint8(c.slot), number, i == len(w.entries)-1, w.cost <= quietTime && len(w.behind) == 0 && !c.ctx.dev.config.Replays
	c.ctx.worker.publish(e, w.params)
}

// turn publishes the oldest command of the channel, or nil, in due. c.ctx.laneMu is held.
func (c *channel) turn(f *flying) {
	if i := slices.Index(c.ctx.running, c); i >= 0 {
		c.ctx.running = slices.Delete(c.ctx.running, i, i+1)
	}
	c.behind.Store(f.follows())
	if f == nil {
		c.due.Store(0)
		return
	}
	c.number, c.kernel, c.word = f.number, f.name(), f.word
	c.ctx.running = append(c.ctx.running, c)
	c.due.Store(isDue | uint64(f.number))
}

const isDue = 1 << 32

// settle waits until the oldest command completes, or until news exceeds seen, since another
// command may begin behind it. It returns errRevoked if all commands in flight were revoked
// and have to begin again. c.run is held, except while it waits.
func (c *channel) settle(seen uint32) error {
	f, since, held, spent := c.flight.oldest(), c.flight.start(), c.flight.since, c.flight.spent
	if f.from > 0 && !c.ctx.dev.config.LimitWaiting { // others need not wait for all of it
		spent += f.batch.took
	}
	l, ends := c.ctx.worker.lane, c.flight.expected()
	c.watched = f.batch
	c.run.Unlock()
	interrupted, hands := false, false
	err := c.await(f, since, spent, func() bool {
		c.nudge(f, since, held, spent)
		interrupted, hands = c.interrupted(f, since, held, ends), c.hands(f, ends)
		return interrupted || hands || reached(l.fence(c.slot), f.number) || c.news.Load() != seen
	})
	c.run.Lock()
	c.watched = nil
	if interrupted && err == nil && c.flight.oldest() == f && !reached(l.fence(c.slot), f.number) {
		if err = c.park(); err == nil {
			return nil
		}
	}
	if hands && err == nil && c.flight.oldest() == f && c.flight.engine != nil && !reached(l.fence(c.slot), f.number) {
		c.hand(time.Now())
		return nil
	}
	switch {
	case c.flight.oldest() != f: // Poll was first; the next call returns an error again
	case err == errRevoked:
		c.tear(l.fence(c.slot))
		if !c.flight.empty() {
			c.flight.abandon()
		}
		c.rest()
		for _, b := range c.flight.batches {
			b.again(c.built)
		}
		return errRevoked
	case err != nil:
		if f.waits() && c.isStopped() {
			c.orphan = f.number
		}
		c.flight.abandon()
		c.rest()
		c.fail(err)
		for len(c.flight.batches) > 0 && c.flight.batches[0].started() {
			c.fail(c.halted(c.stop))
		}
	case reached(l.fence(c.slot), f.number):
		c.land(l.fence(c.slot))
	}
	return nil
}

// land completes the commands up to a number, and their batches. It notifies their waiters
// before it updates the flight, because a program waits for the notification.
func (c *channel) land(number uint32) {
	f := &c.flight
	n := f.arrived(number)
	for _, x := range f.flying[:n] {
		if x.bytes > 0 {
			c.ctx.dev.copyBytes.Add(x.bytes)
		}
	}
	if slices.ContainsFunc(f.flying[:n], func(x *flying) bool { return x.graph != nil }) {
		c.ctx.tallyGraphs() // before who waits for them is told
	}
	ended := 0
	for _, b := range f.batches {
		if b.ended == 0 || b.ended < len(b.cmds) { // an empty batch completes when work takes it
			break
		}
		if c.ctx.losses.Load() != 0 {
			c.ctx.losses.Store(0)
		}
		b.done(gpu.Result{})
		ended++
	}
	f.land(n)
	for range ended {
		c.drop(f.batches[0])
	}
	if f.empty() {
		c.rest()
		return
	}
	f.charge()
	c.ctx.laneMu.Lock()
	c.turn(c.flight.oldest())
	c.ctx.laneMu.Unlock()
}

// rest releases the engine, unless it is to linger: no command of the channel runs.
func (c *channel) rest() {
	c.ctx.laneMu.Lock()
	c.turn(nil)
	c.ctx.laneMu.Unlock()
	c.flight.left = time.Time{}
	if !c.lingers() {
		c.flight.release(c.pending())
	}
}

// fail completes the oldest batch with an error. No command is in flight.
func (c *channel) fail(err error) {
	if f, ok := errors.AsType[*gpu.LostError](err); ok {
		err = c.fault(f)
	}
	if c.failed == nil {
		c.failed = err
	}
	b := c.flight.batches[0]
	c.complete(b, gpu.Result{Err: err, Index: b.ended})
}

// fault ends the context and returns the error with which its commands fail from now on.
func (c *channel) fault(f *gpu.LostError) error {
	c.ctx.lose(f)
	return c.ctx.Err()
}
