package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/internal/yield"
)

// channel is a queue of batches and the goroutine that runs them in order, on a
// stream of its own in the worker. It implements gpu.Channel.
type channel struct {
	ctx    *context
	slot   int
	stop   chan struct{} // closed by Close: nothing more is begun
	ended  chan struct{} // closed when the goroutine has ended
	failed error         // of the first command that failed; the goroutine's own

	number uint32 // of the command that runs or ran last; written under ctx.laneMu
	kernel string // that it launches; "" for another command; written under ctx.laneMu

	news atomic.Uint32 // counts Submit and Close: something to look at under mu

	mu     sync.Mutex
	wake   sync.Cond // queue or closed changed
	closed bool
	queue  []batch

	closing sync.Once
}

type batch struct {
	cmds []gpu.Command
	done func(gpu.Result)
}

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
	if err := c.dev.openChannel(); err != nil {
		return nil, err
	}
	slot := slices.Index(c.channels[:], nil) // the device allows as many as there are slots
	if err := c.do(&request{Op: opOpen, Slot: slot}, nil, nil); err != nil {
		c.dev.closeChannel()
		return nil, err
	}
	ch := &channel{ctx: c, slot: slot, stop: make(chan struct{}), ended: make(chan struct{})}
	ch.wake.L = &ch.mu
	c.channels[slot] = ch
	go ch.loop()
	return ch, nil
}

// Submit implements gpu.Channel.
func (c *channel) Submit(cmds []gpu.Command, done func(gpu.Result)) error {
	if done == nil {
		return fmt.Errorf("%w: a batch needs a done function", gpu.ErrInvalid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fmt.Errorf("channel %w", gpu.ErrClosed)
	}
	c.queue = append(c.queue, batch{cmds, done})
	c.news.Add(1)
	c.wake.Signal()
	if c.ctx.worker.lane.load(offSleeping) != 0 {
		c.ctx.worker.ring() // both wake up at the same time
	}
	return nil
}

// Close implements gpu.Channel.
func (c *channel) Close() error {
	c.closing.Do(func() {
		c.mu.Lock()
		c.closed = true
		c.news.Add(1)
		close(c.stop)
		c.wake.Signal()
		c.mu.Unlock()
		<-c.ended
		c.ctx.mu.Lock()
		defer c.ctx.mu.Unlock()
		c.ctx.channels[c.slot] = nil
		c.ctx.dev.closeChannel()
		if c.ctx.Err() == nil {
			_ = c.ctx.do(&request{Op: opClose, Slot: c.slot}, nil, nil) // an idle stream; what fails here ends the context
		}
	})
	return nil
}

// loop completes every batch that was submitted, in order, until the channel is
// closed and the queue empty.
func (c *channel) loop() {
	defer close(c.ended)
	for {
		b, ok := c.next()
		if !ok {
			return
		}
		r := c.run(b.cmds)
		if c.failed == nil {
			c.failed = r.Err
		}
		b.done(r)
	}
}

// next waits for a batch. It returns false when there will be none. Who has just
// been served often has more to do: for a while it looks without sleeping, from
// which it takes some 50 µs to wake up.
func (c *channel) next() (batch, bool) {
	seen := c.news.Load()
	c.mu.Lock()
	if len(c.queue) == 0 && !c.closed {
		c.mu.Unlock()
		for begin := time.Now(); c.news.Load() == seen && time.Since(begin) < spinTime; {
			for n := 0; n < looks && c.news.Load() == seen; n++ {
			}
			yield.Processor()
		}
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	for len(c.queue) == 0 {
		if c.closed {
			c.queue = nil
			return batch{}, false
		}
		c.wake.Wait()
	}
	b := c.queue[0]
	c.queue[0] = batch{}
	c.queue = c.queue[1:]
	return b, true
}

// halted says why no command may begin: nil, what ended the context,
// gpu.ErrClosed, or gpu.ErrCanceled.
func (c *channel) halted() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	select {
	case <-c.stop:
		return fmt.Errorf("channel %w", gpu.ErrClosed)
	default:
	}
	if c.failed != nil {
		return fmt.Errorf("%w: %v", gpu.ErrCanceled, c.failed)
	}
	return nil
}

// run executes a batch up to its end or the first error.
func (c *channel) run(cmds []gpu.Command) gpu.Result {
	var r gpu.Result
	r.Err = c.halted() // an empty batch tells, too
	for i := 0; i < len(cmds) && r.Err == nil; i++ {
		r.Index = i
		if r.Err = c.halted(); r.Err == nil {
			r.Err = c.execute(cmds[i], &r)
		}
	}
	if r.Err == nil {
		r.Index = 0
	}
	return r
}

// execute runs one command. Every command of every channel comes by here.
func (c *channel) execute(cmd gpu.Command, r *gpu.Result) error {
	w, err := c.prepare(cmd)
	if err != nil {
		if f, ok := errors.AsType[*gpu.LostError](err); ok {
			return c.fault(f)
		}
		return err
	}
	if len(w.entries) == 0 {
		return nil // an empty copy
	}
	d := c.ctx.dev
	e, used := &d.copy, &r.Copy
	if w.kernel != "" {
		e, used = &d.compute, &r.Compute
	}
	if !e.acquire(c) {
		return c.halted()
	}
	begin := time.Now()
	err = c.perform(&w, begin)
	took := time.Since(begin)
	*used += took
	e.release(took)
	if err == nil {
		if w.kernel == "" {
			d.copyBytes.Add(w.bytes)
		}
	}
	return err
}

// fault ends the context and returns what its commands fail with from now on.
func (c *channel) fault(f *gpu.LostError) error {
	c.ctx.lose(f)
	return c.ctx.Err()
}

// perform gives a command to the worker and waits for its end.
func (c *channel) perform(w *work, begin time.Time) error {
	number := c.begin(w.kernel)
	defer c.finish()
	if w.kernel != "" {
		c.ctx.dev.launches.Add(1)
	}
	for i := range w.entries {
		e := &w.entries[i]
		e.channel, e.number, e.last = uint8(c.slot), number, i == len(w.entries)-1
		if err := c.publish(e, w.params, number); err != nil {
			return err
		}
	}
	return c.await(number, begin, func() bool { return reached(c.ctx.worker.lane.fence(c.slot), number) })
}

// begin enters a command among those that run.
func (c *channel) begin(kernel string) uint32 {
	c.ctx.laneMu.Lock()
	defer c.ctx.laneMu.Unlock()
	c.number++
	c.kernel = kernel
	c.ctx.running = append(c.ctx.running, c)
	return c.number
}

func (c *channel) finish() {
	c.ctx.laneMu.Lock()
	defer c.ctx.laneMu.Unlock()
	if i := slices.Index(c.ctx.running, c); i >= 0 {
		c.ctx.running = slices.Delete(c.ctx.running, i, i+1)
	}
}

// publish puts an entry into the lane as soon as there is room.
func (c *channel) publish(e *entry, params []byte, number uint32) error {
	for {
		l := c.ctx.worker.lane
		c.ctx.laneMu.Lock()
		room := !l.full()
		asleep := room && l.publish(e, params)
		c.ctx.laneMu.Unlock()
		if asleep {
			c.ctx.worker.ring()
		}
		if room {
			return nil
		}
		if err := c.await(number, time.Now(), func() bool { return !l.full() }); err != nil {
			return err
		}
	}
}

// How a channel waits for the GPU: it looks without a pause at first, then every
// pollTime, in which it blocks a thread of the process for a moment only. Between
// two times that it gives way to others, it looks so many times: to give way takes
// most of a microsecond.
const (
	looks    = 64
	pollSpin = time.Millisecond
	pollTime = 20 * time.Microsecond
)

// await waits until ready, or for what keeps it from ever becoming so.
func (c *channel) await(number uint32, begin time.Time, ready func() bool) error {
	l := c.ctx.worker.lane
	limit := c.ctx.dev.config.LaunchLimit
	for n := 1; !ready(); n++ {
		if n%looks != 0 {
			continue
		}
		yield.Processor()
		select {
		case <-c.ctx.over:
			return c.ctx.Err()
		default:
		}
		if code := result(l.load(offLost)); code != resultOK && !ready() {
			return c.fault(c.ctx.fault(code))
		}
		if code, of := l.failure(c.slot); code != resultOK && of == number {
			return c.refused(code)
		}
		waited := time.Since(begin)
		if limit > 0 && waited > limit {
			return c.fault(&gpu.LostError{Cause: gpu.LostTimeout, Kernel: c.kernel, Detail: fmt.Sprintf("after %v", limit)})
		}
		if waited > pollSpin {
			n = looks - 1 // look at everything each time
			nap(pollTime)
		}
	}
	return nil
}

// refused is the error of a command that the driver did not take.
func (c *channel) refused(code result) error {
	err := &driverError{Call: "CUDA", Code: code, Name: "command refused"}
	switch code {
	case resultOutOfMemory:
		return fmt.Errorf("%w: %w", gpu.ErrNoMemory, err)
	case resultOutOfResources:
		err.Name = "too many registers or too much memory for this shape"
	}
	return fmt.Errorf("%w: %w", gpu.ErrInvalid, err)
}
