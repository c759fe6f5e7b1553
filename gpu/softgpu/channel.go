package softgpu

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/gpu/softgpu/exec"
	"pvdrm/gpu/softgpu/hw"
)

// channel is a queue of batches and the goroutine that runs them in order. It
// implements gpu.Channel.
type channel struct {
	ctx    *context
	id     uint64 // order of creation
	number int    // among the channels of the device
	raw    bool   // its descriptor is another's: the channel does not write there

	descriptor uint64 // VRAM address

	print  func(string)  // of the context's output
	stop   chan struct{} // closed by Close: nothing more is begun
	ended  chan struct{} // closed when the goroutine has ended
	failed error         // of the first command that failed; the goroutine's own
	moved  uint64        // bytes by the copy engine; likewise

	// The goroutine's own too, and for others while the channel rests.
	begun int         // commands of the batch that have ended
	from  *exec.State // what is left of the next one, a launch; nil if it has not begun

	task     task                         // the launch that runs; the goroutine's own
	timer    *time.Timer                  // looks after limited while it runs
	limited  atomic.Pointer[exec.Control] // of the kernel that runs, if it has a limit
	patience atomic.Int64                 // with Config.LimitWaiting: what others may still wait for it, nanoseconds

	signal signal // of the launch that runs

	mu        sync.Mutex
	wake      sync.Cond // queue or closed changed
	closed    bool
	queue     []batch
	room      [4]batch // what queue begins in, whenever it was empty
	submitted uint64
	completed uint64 // written by the goroutine that runs batches
	rest      rest
	batch     batch
	current   *batch // &batch while one runs, else nil
	inline    bool   // the goroutine that submitted it runs it
	turn      bool   // and has the turn of the compute engine; its own

	closing sync.Once
}

type batch struct {
	cmds  []gpu.Command
	begun int         // commands before cmds, which have run before a snapshot
	from  *exec.State // of the first of cmds, a launch that has begun; nil if it has not
	done  func(gpu.Result)
}

// NewChannel implements gpu.Context.
func (c *context) NewChannel() (gpu.Channel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch, err := c.newChannel()
	if err != nil {
		return nil, c.wrap("new channel", err)
	}
	go ch.loop()
	return ch, nil
}

// newChannel makes a channel without its goroutine. Preconditions: c.mu is held.
func (c *context) newChannel() (*channel, error) {
	if err := c.Err(); err != nil {
		return nil, err
	}
	number, err := c.dev.openSlot(c.space.directory)
	if err != nil {
		return nil, err
	}
	return c.addChannel(number, hw.Descriptor(number)), nil
}

// addChannel makes a channel whose number is taken. Preconditions: c.mu is held.
func (c *context) addChannel(number int, descriptor uint64) *channel {
	ch := &channel{ctx: c, id: c.nextID(), number: number, descriptor: descriptor, print: c.output.print, stop: make(chan struct{}), ended: make(chan struct{})}
	ch.wake.L = &ch.mu
	ch.timer = time.AfterFunc(time.Hour, ch.look)
	ch.timer.Stop()
	c.channels[ch] = struct{}{}
	return ch
}

// note writes a word of the descriptor that is for statistics.
func (c *channel) note(word, value uint64) {
	if !c.raw {
		c.ctx.dev.vram.SetWord(c.descriptor+word, value)
	}
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
	c.submitted++
	c.note(hw.DescSubmitted, c.submitted)
	b := batch{cmds: cmds, done: done}
	if c.mayInline(cmds) {
		c.runInline(b)
		return nil
	}
	c.queue = append(c.queue, b)
	c.wake.Signal()
	return nil
}

// Close implements gpu.Channel.
func (c *channel) Close() error {
	c.closing.Do(func() {
		c.mu.Lock()
		c.closed = true
		close(c.stop)
		c.wake.Signal()
		c.mu.Unlock()
		<-c.ended
		c.ctx.dev.closeSlot(c)
		c.ctx.mu.Lock()
		defer c.ctx.mu.Unlock()
		delete(c.ctx.channels, c)
	})
	return nil
}

// loop completes every batch that was submitted, in order, until the channel
// is closed and the queue empty.
func (c *channel) loop() {
	defer close(c.ended)
	// Granted memory can go away under the copy engine; see touch.
	debug.SetPanicOnFault(true)
	for b := c.next(); b != nil; b = c.after() {
		c.complete(b)
	}
}

// complete runs a batch and tells how it ended.
func (c *channel) complete(b *batch) {
	r := c.run(b)
	if c.failed == nil {
		c.failed = r.Err
	}
	if _, lost := errors.AsType[*gpu.LostError](r.Err); lost {
		c.note(hw.DescState, hw.StateHalted)
	}
	c.completed++
	c.note(hw.DescCompleted, c.completed)
	b.done(r) // before the batch ends, after which a snapshot may be taken
}

// after ends the batch that ran, and returns the next.
func (c *channel) after() *batch {
	c.mu.Lock()
	c.batch, c.current = batch{}, nil
	c.mu.Unlock()
	return c.next()
}

// next waits for a batch, which it makes the current one. It returns nil when there will be none.
func (c *channel) next() *batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.inline:
			c.wake.Wait()
		case len(c.queue) == 0 && c.closed:
			c.queue = nil
			return nil
		case len(c.queue) == 0:
			c.idle()
		case c.stopped(between):
			c.wait(between)
		default:
			c.rest = working
			c.batch = c.queue[0]
			c.queue[0] = batch{}
			if c.queue = c.queue[1:]; len(c.queue) == 0 {
				c.queue = c.room[:0]
			}
			c.current = &c.batch
			return c.current
		}
	}
}

// idle waits until the queue is not empty, or the channel closed. Preconditions: c.mu is held.
func (c *channel) idle() {
	c.rest = between
	if c.ctx.hold.mode.Load() != running {
		c.ctx.hold.note()
	}
	c.wake.Wait()
}

// halted says why no command may begin: nil, what ended the context,
// gpu.ErrClosed, or gpu.ErrCanceled, which tells of the first failure but does
// not wrap it, so that nobody takes one for the other.
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
func (c *channel) run(b *batch) gpu.Result {
	var r gpu.Result
	c.from = b.from
	r.Err = c.halted() // an empty batch tells, too
	for i := 0; i < len(b.cmds) && r.Err == nil; i++ {
		r.Index = b.begun + i
		if _, ok := b.cmds[i].(*gpu.Task); ok && r.Index == 0 {
			continue // nothing ends a context here but what its guest did
		}
		if r.Err = c.halted(); r.Err == nil {
			c.begun = i
			r.Err = c.execute(b.cmds[i])
		}
	}
	if r.Err == nil {
		r.Index = 0
	}
	return r
}

// enter waits for an engine, and before that, if the context is stopped, until it goes on. At
// says whether the command has begun. It returns why the command must not go on.
func (c *channel) enter(e *engine, at rest) error {
	for {
		if c.pause(at) {
			if err := c.halted(); err != nil {
				return err
			}
		}
		if e.acquire(c, at) {
			return nil
		}
		if err := c.halted(); err != nil {
			return err
		}
	}
}

// execute runs one command. Every command of every channel comes by here.
func (c *channel) execute(cmd gpu.Command) error {
	switch cmd := cmd.(type) {
	case *gpu.Copy:
		return c.copyBytes(cmd)
	case *gpu.Fill:
		return c.fill(cmd)
	case *gpu.Timestamp:
		return c.timestamp(cmd)
	case *gpu.Word:
		return c.word(cmd)
	case *gpu.Launch:
		return c.launch(cmd)
	case *gpu.Call:
		return check.Call(&c.ctx.dev.props, cmd) // it has no libraries
	case *program:
		return cmd.run()
	}
	return fmt.Errorf("%w: unknown command %T", gpu.ErrInvalid, cmd)
}

// view is the address space of the channel as its descriptor says now. It is for use while space.mu is held.
func (c *channel) view() view {
	return view{c.ctx.space, hw.ViewOf(&c.ctx.space.MMU, c.descriptor)}
}

// fault ends the context and returns what its commands fail with from now on:
// the fault, or what ended it before.
func (c *channel) fault(f *gpu.LostError) error {
	c.ctx.lose(f)
	return c.ctx.Err()
}
