package softgpu

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"pvdrm/gpu"
)

// channel is a queue of batches and the goroutine that runs them in order. It
// implements gpu.Channel.
type channel struct {
	ctx    *context
	number int           // of its descriptor
	stop   chan struct{} // closed by Close: nothing more is begun
	ended  chan struct{} // closed when the goroutine has ended
	failed error         // of the first command that failed; the goroutine's own
	moved  uint64        // bytes by the copy engine; likewise

	mu        sync.Mutex
	wake      sync.Cond // queue or closed changed
	closed    bool
	queue     []batch
	submitted uint64

	closing sync.Once
}

type batch struct {
	cmds []gpu.Command
	done func(gpu.Result)
}

// NewChannel implements gpu.Context.
func (c *context) NewChannel() (gpu.Channel, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, c.wrap("new channel", err)
	}
	number, err := c.dev.openSlot(c.space.directory)
	if err != nil {
		return nil, c.wrap("new channel", err)
	}
	ch := &channel{ctx: c, number: number, stop: make(chan struct{}), ended: make(chan struct{})}
	ch.wake.L = &ch.mu
	c.channels[ch] = struct{}{}
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
	c.submitted++
	c.ctx.dev.vram.setWord(descriptor(c.number)+descSubmitted, c.submitted)
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
		c.ctx.dev.closeSlot(c.number)
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
	vram, desc := c.ctx.dev.vram, descriptor(c.number)
	for n := uint64(1); ; n++ {
		b, ok := c.next()
		if !ok {
			return
		}
		r := c.run(b.cmds)
		if c.failed == nil {
			c.failed = r.Err
		}
		if _, lost := errors.AsType[*gpu.LostError](r.Err); lost {
			vram.setWord(desc+descState, stateHalted)
		}
		vram.setWord(desc+descCompleted, n)
		b.done(r)
	}
}

// next waits for a batch. It returns false when there will be none.
func (c *channel) next() (batch, bool) {
	c.mu.Lock()
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
func (c *channel) run(cmds []gpu.Command) gpu.Result {
	var r gpu.Result
	r.Err = c.halted() // an empty batch tells, too
	for i := 0; i < len(cmds) && r.Err == nil; i++ {
		r.Index = i
		if _, ok := cmds[i].(*gpu.Task); ok && i == 0 {
			continue // nothing ends a context here but what its guest did
		}
		if r.Err = c.halted(); r.Err == nil {
			r.Err = c.execute(cmds[i])
		}
	}
	if r.Err == nil {
		r.Index = 0
	}
	return r
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
	case *gpu.Launch:
		return c.launch(cmd)
	}
	return fmt.Errorf("%w: unknown command %T", gpu.ErrInvalid, cmd)
}

// view is the address space of the channel as its descriptor says.
func (c *channel) view() view {
	dir := c.ctx.dev.vram.word(descriptor(c.number) + descDirectory)
	return view{c.ctx.space, dir}
}

// fault ends the context and returns what its commands fail with from now on:
// the fault, or what ended it before.
func (c *channel) fault(f *gpu.LostError) error {
	c.ctx.lose(f)
	return c.ctx.Err()
}
