package points

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
)

// channel is a channel whose launches may run in pieces.
//
// While no batch with such a launch runs or waits, batches go to the device's channel at once. Otherwise
// they wait in the queue, from which a goroutine takes them: that keeps their order.
type channel struct {
	gpu.Channel
	ctx *context

	apart  atomic.Bool  // the device has or had more batches of it than it was given
	landed atomic.Int64 // when the last batch of launches ended, nanoseconds since epoch
	busy   sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	running bool // the goroutine
	queue   []*batch
}

// polled is a channel of a device whose channels are gpu.Pollers.
type polled struct {
	*channel
	gpu.Poller
}

// batch is what Submit was given.
type batch struct {
	cmds []gpu.Command // with functions of the device
	cuts []*cut        // launches in pieces, in their order
	done func(gpu.Result)
}

// cut is a launch that is to run in pieces.
type cut struct {
	index         int // of the command
	f             *function
	launch        gpu.Launch // of the twin, with the parameters of the kernel
	bytes, stride uint64
}

// epoch is what channel.landed is relative to.
var epoch = time.Now()

// NewChannel implements gpu.Context.
func (c *context) NewChannel() (gpu.Channel, error) {
	inner, err := c.Context.NewChannel()
	if err != nil {
		return nil, c.names.named(err)
	}
	ch := &channel{Channel: inner, ctx: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.channels == nil {
		c.channels = map[*channel]struct{}{}
	}
	c.channels[ch] = struct{}{}
	if !c.launches && !c.closed {
		c.launches = true
		c.dev.contexts.Add(1)
	}
	if p, ok := inner.(gpu.Poller); ok {
		return &polled{ch, p}, nil
	}
	return ch, nil
}

// Submit implements gpu.Channel.
func (c *channel) Submit(cmds []gpu.Command, done func(gpu.Result)) error {
	if done == nil {
		return fmt.Errorf("%w: a batch needs a done function", gpu.ErrInvalid)
	}
	b, launches := c.translate(cmds)
	c.ctx.dev.wholes.Add(uint64(len(launches)))
	done = c.ctx.names.told(done)
	b.done = done
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return fmt.Errorf("channel %w", gpu.ErrClosed)
	case c.running:
		c.queue = append(c.queue, b)
		return nil
	case len(b.cuts) > 0:
		c.queue = append(c.queue, b)
		c.running = true
		c.apart.Store(true)
		c.busy.Go(c.work)
		return nil
	case len(launches) > 0:
		done = c.timed(launches, done)
	}
	return c.ctx.names.named(c.Channel.Submit(b.cmds, done))
}

// translate makes a batch of commands, and returns the kernels that it launches as they are.
func (c *channel) translate(cmds []gpu.Command) (b *batch, launches []*function) {
	b = &batch{cmds: cmds}
	task, most, alone := false, c.ctx.most(), c.ctx.dev.alone()
	for i, cmd := range cmds {
		if _, is := cmd.(*gpu.Task); is && i == 0 {
			task = true
		}
		l, ok := cmd.(*gpu.Launch)
		if !ok || l == nil {
			continue
		}
		f, ok := l.Func.(*function)
		if !ok || f == nil {
			continue
		}
		whole := *l
		whole.Func = f.Function
		if &b.cmds[0] == &cmds[0] { // the caller's, which stay as they are
			b.cmds = append([]gpu.Command(nil), cmds...)
		}
		b.cmds[i] = &whole
		if bytes, stride := f.state(l, most); bytes > 0 && !task && !(alone && (c.ctx.dev.config.Sole || f.ends())) && f.hasRoom(l, &c.ctx.dev.props) {
			k := &cut{index: i, f: f, launch: *l, bytes: bytes, stride: stride}
			k.launch.Func = f.twin
			b.cuts = append(b.cuts, k)
			continue
		}
		launches = append(launches, f)
	}
	return b, launches
}

// timed has a done function learn whether kernels that were launched as they are have become long.
func (c *channel) timed(launches []*function, done func(gpu.Result)) func(gpu.Result) {
	begin := int64(time.Since(epoch))
	return func(r gpu.Result) {
		now := int64(time.Since(epoch))
		took := time.Duration(now-max(begin, c.landed.Load())) / time.Duration(len(launches))
		c.landed.Store(now)
		config := &c.ctx.dev.config
		for _, f := range launches {
			if took > 2*config.Short {
				f.brief.Store(false)
			}
			f.known.Store(true)
			f.long.Store(took > config.Lone)
		}
		done(r)
	}
}

// work runs what is queued.
func (c *channel) work() {
	for {
		c.mu.Lock()
		if len(c.queue) == 0 {
			c.queue, c.running = nil, false
			c.mu.Unlock()
			return
		}
		b, closed := c.queue[0], c.closed
		c.queue = c.queue[1:]
		c.mu.Unlock()
		if closed {
			b.done(gpu.Result{Err: fmt.Errorf("channel %w", gpu.ErrClosed)})
			continue
		}
		b.done(c.run(b))
	}
}

// run runs a batch to its end.
func (c *channel) run(b *batch) gpu.Result {
	for n, from := 0, 0; ; n++ {
		if from > 0 && c.isShut() {
			return gpu.Result{Err: fmt.Errorf("channel %w", gpu.ErrClosed), Index: from}
		}
		var r gpu.Result
		next := len(b.cmds)
		if n < len(b.cuts) {
			next = b.cuts[n].index
			r = c.launch(b.cmds[from:next], b.cuts[n], b.cmds[next])
		} else {
			r = <-c.submit(b.cmds[from:])
		}
		if r.Err != nil {
			r.Index = from + min(r.Index, next-from)
			return r
		}
		if from = next + 1; from >= len(b.cmds) {
			return gpu.Result{}
		}
	}
}

// submit hands commands to the device; the result comes on the channel returned.
func (c *channel) submit(cmds []gpu.Command) <-chan gpu.Result {
	results := make(chan gpu.Result, 1)
	if err := c.Channel.Submit(cmds, func(r gpu.Result) { results <- r }); err != nil {
		results <- gpu.Result{Err: err}
	}
	return results
}

// launch runs a launch in pieces, and commands before it. Where there is no room for its state, it runs as it
// is.
func (c *channel) launch(before []gpu.Command, k *cut, whole gpu.Command) gpu.Result {
	dev := c.ctx.dev
	r, ok := c.ctx.take(k.bytes)
	if !ok {
		dev.wholes.Add(1)
		return <-c.submit(append(before[:len(before):len(before)], whole))
	}
	defer r.give()
	dev.twins.Add(1)
	l := &k.launch
	blocks, threads := k.bytes/k.stride, uint64(l.Block[0])*uint64(l.Block[1])*uint64(l.Block[2])
	cmds := append(before[:len(before):len(before)], r.begin(blocks, threads, k.stride))
	var used time.Duration
	for n, ask := 0, true; ; n++ {
		begin := time.Now()
		res := c.await(r, append(cmds, r.pieces(l, k.stride, ask)...))
		used += time.Since(begin)
		if res.Err != nil && n > 0 {
			res.Index = len(before)
		}
		if res.Err != nil {
			return res
		}
		if !ask || !r.more() {
			k.f.learn(used, &dev.config)
			return gpu.Result{}
		}
		dev.pieces.Add(1)
		cmds, ask = nil, (dev.config.Limit == 0 || used < dev.config.Limit) && (dev.config.Pieces == 0 || n+1 < dev.config.Pieces)
	}
}

// await submits a piece and returns when it has ended. Where its signal lies in VRAM it brings that there.
func (c *channel) await(r *room, cmds []gpu.Command) gpu.Result {
	results := c.submit(cmds)
	if !c.ctx.dev.config.Far {
		return <-results
	}
	ticker := time.NewTicker(gpu.SignalPeriod)
	defer ticker.Stop()
	for {
		select {
		case res := <-results:
			return res
		case <-ticker.C:
			if r.asked() && r.send() {
				return <-results
			}
		}
	}
}

// shut has no further command begin.
func (c *channel) shut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
}

// isShut reports whether no further command may begin.
func (c *channel) isShut() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close implements gpu.Channel. A launch that has begun runs to its end.
func (c *channel) Close() error {
	c.shut()
	c.busy.Wait()
	c.ctx.mu.Lock()
	delete(c.ctx.channels, c)
	c.ctx.mu.Unlock()
	return c.Channel.Close()
}
