package virgl

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/internal/sample"
	"pvdrm/internal/workers"
)

// Config says how a Renderer works. Keeper, the command that calls ServeKeeper, is
// all that it must have.
type Config struct {
	Keeper []string
	// Limit is how long a worker may take for one request. One that takes longer is
	// ended, and the contexts of its guest are lost. 0 is DefaultLimit.
	Limit time.Duration
	// Gate says when the GPU may be used; nil: at any time.
	Gate gpu.Gate
	// Beside says that processors render, and not a GPU: then guests may render at the same
	// time, for one alone does not keep all of them busy. The Gate sees to the shares.
	Beside bool
	// Quota is charged for contexts and for the memory of resources; may be nil.
	Quota *quota.Set
	// Look is how long replies that are due are looked for before the backend sleeps until they come. Only for a GPU,
	// and where there are more than two processors: it takes a processor. 0: it sleeps at once.
	Look time.Duration
	Log  *zap.Logger // may be nil
}

// DefaultLimit is how long a worker may take for one request, unless the Config
// says otherwise.
const DefaultLimit = 10 * time.Second

// Errors of commands.
var (
	// ErrLost says that the process that rendered for a context, or had a resource,
	// is gone.
	ErrLost = errors.New("the renderer was lost, and the context or resource with it: make a new one")
	// ErrClosed says that the Renderer was closed.
	ErrClosed = errors.New("the renderer is closed")
)

// Renderer renders for one guest. It implements virtgpu.Renderer.
type Renderer struct {
	cfg     Config // its Log is sampled: a guest loses its renderer as often as it likes
	sampler sample.Sampler
	keeper  *workers.Keeper
	capsets []virtgpu.Capset

	current atomic.Pointer[helper] // that the guest has used; closing its socket interrupts the pump
	stats   counters

	mu     sync.Mutex
	queue  []*command
	closed bool

	wake  chan struct{} // holds a token when there may be something in the queue
	ended chan struct{} // closed when the pump has ended
}

var _ virtgpu.Renderer = (*Renderer)(nil)

// command is a command of the guest, as the request that it becomes.
type command struct {
	request
	payload []byte
	pages   *virtgpu.Pages // of opBackingAttach; the command's own
	fenced  bool
	done    func(error)
	pixels  func([]byte, error) // of opRead, instead of done
	meta    meta
}

// meta is what commands mean that are no requests.
type meta uint8

const (
	noMeta    meta = iota
	metaReset      // forget everything
	metaClose      // and end
)

// end says how the command went.
func (c *command) end(err error) {
	if c.pages != nil && err != nil {
		c.pages.Release()
	}
	if c.pixels != nil {
		if err != nil {
			c.pixels(nil, err)
		}
		return
	}
	c.done(err)
}

// New starts a keeper, and a worker to see what it can do. It fails where there is
// no virglrenderer.
func New(c Config) (*Renderer, error) {
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
	k, err := workers.NewKeeper(workers.Config{Name: "renderers", Command: c.Keeper})
	if err != nil {
		return nil, err
	}
	r := &Renderer{keeper: k, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	c.Log = r.sampler.Wrap(c.Log)
	r.cfg = c
	h, err := startHelper(k, c)
	if err != nil {
		k.Close()
		return nil, err
	}
	r.capsets = h.capsets
	var s shot
	if len(r.capsets) == 0 {
		err = errors.New("virglrenderer offers no capability set")
	} else {
		s, err = newShot()
	}
	if err != nil {
		err = errors.Join(err, h.end())
		k.Close()
		return nil, err
	}
	p := newPump(r, s)
	p.helper = h
	go p.work()
	return r, nil
}

// Close ends all that the Renderer has. Commands that are out end with an error.
func (r *Renderer) Close() error {
	r.clear(metaClose)
	<-r.ended
	r.keeper.Close()
	return nil
}

// clear drops what waits, and has the pump forget everything.
func (r *Renderer) clear(m meta) {
	done := make(chan struct{})
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.closed = m == metaClose
	dropped := r.queue
	r.queue = []*command{{meta: m, done: func(error) { close(done) }}}
	r.mu.Unlock()
	for _, c := range dropped {
		c.end(virtgpu.ErrGone)
	}
	if h := r.current.Load(); h != nil {
		_ = h.conn.Close() // the pump may be waiting for it to take something
	}
	r.ring()
	<-done
}

// push appends a command to the queue.
func (r *Renderer) push(c *command) {
	r.mu.Lock()
	closed := r.closed
	if !closed {
		r.queue = append(r.queue, c)
	}
	r.mu.Unlock()
	if closed {
		c.end(ErrClosed)
		return
	}
	r.ring()
}

func (r *Renderer) ring() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// next is the first command in the queue, or nil.
func (r *Renderer) next() *command {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 {
		return nil
	}
	return r.queue[0]
}

// take takes c out of the queue. It is false if c was dropped meanwhile.
func (r *Renderer) take(c *command) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.queue) == 0 || r.queue[0] != c {
		return false
	}
	r.queue[0] = nil
	r.queue = r.queue[1:]
	return true
}

// do queues a request.
func (r *Renderer) do(o op, done func(error), words ...uint32) *command {
	c := &command{request: request{op: o}, done: done}
	copy(c.words[:], words)
	return c
}

// Capsets is part of virtgpu.Renderer.
func (r *Renderer) Capsets() []virtgpu.Capset { return r.capsets }

// CreateContext queues the start of a context.
func (r *Renderer) CreateContext(id uint32, name string, done func(error)) {
	c := r.do(opContextCreate, done, id)
	c.payload = []byte(name)
	r.push(c)
}

// DestroyContext queues the end of a context.
func (r *Renderer) DestroyContext(id uint32, done func(error)) {
	r.push(r.do(opContextDestroy, done, id))
}

// CreateResource is part of virtgpu.Renderer.
func (r *Renderer) CreateResource(id uint32, a virtgpu.Args, done func(error)) {
	r.push(r.do(opResourceCreate, done, id, a.Target, a.Format, a.Bind, a.Width, a.Height, a.Depth,
		a.ArraySize, a.LastLevel, a.Samples, a.CreateFlag))
}

// DestroyResource is part of virtgpu.Renderer.
func (r *Renderer) DestroyResource(id uint32, done func(error)) {
	r.push(r.do(opResourceDestroy, done, id))
}

// AttachBacking is part of virtgpu.Renderer.
func (r *Renderer) AttachBacking(id uint32, p *virtgpu.Pages, done func(error)) {
	c := r.do(opBackingAttach, done, id)
	c.pages = p
	r.push(c)
}

// DetachBacking is part of virtgpu.Renderer.
func (r *Renderer) DetachBacking(id uint32, done func(error)) {
	r.push(r.do(opBackingDetach, done, id))
}

// AttachResource queues the use of a resource in a context.
func (r *Renderer) AttachResource(ctx, id uint32, done func(error)) {
	r.push(r.do(opAttach, done, ctx, id))
}

// DetachResource queues the end of that.
func (r *Renderer) DetachResource(ctx, id uint32, done func(error)) {
	r.push(r.do(opDetach, done, ctx, id))
}

// Transfer queues a transfer between a resource and its pages.
func (r *Renderer) Transfer(ctx uint32, t virtgpu.Transfer, done func(error)) {
	o := opToHost
	if t.FromHost {
		o = opFromHost
	}
	r.push(r.do(o, done, ctx, t.Resource, t.Level, t.Stride, t.LayerStride,
		t.Box[0], t.Box[1], t.Box[2], t.Box[3], t.Box[4], t.Box[5], low(t.Offset), high(t.Offset)))
}

// Submit queues commands of a context.
func (r *Renderer) Submit(ctx uint32, cmd []byte, fenced bool, done func(error)) {
	c := r.do(opSubmit, done, ctx)
	c.payload, c.fenced = cmd, fenced
	r.push(c)
}

// ReadPixels is part of virtgpu.Renderer.
func (r *Renderer) ReadPixels(id, x, y, width, height uint32, done func(pixels []byte, err error)) {
	c := r.do(opRead, nil, id, x, y, width, height, 4*width)
	c.pixels = done
	r.push(c)
}

// Reset is part of virtgpu.Renderer.
func (r *Renderer) Reset() { r.clear(metaReset) }

// refusal is the error of a request that ended with err.
func refusal(o op, err error) error {
	switch err.(type) {
	case nil:
		return nil
	case unix.Errno:
		return fmt.Errorf("virglrenderer refused to %v: %w", o, err)
	}
	return fmt.Errorf("asked to %v: %w", o, err)
}
