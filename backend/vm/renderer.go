package vm

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"

	"pvdrm/backend/session"
	"pvdrm/backend/virtgpu"
	"pvdrm/gpu"
	"pvdrm/hypercall"
)

// Renderer serves all contexts of one guest on one GPU.
type Renderer struct {
	Device gpu.Device
	Log    *zap.Logger
	// Counts tells the doorbells and interrupts of the guest so far; may be nil.
	Counts func() (doorbells, interrupts uint64)

	open  atomic.Int64
	group session.Group
}

var _ virtgpu.Renderer = (*Renderer)(nil)

// Capsets is part of virtgpu.Renderer.
func (r *Renderer) Capsets() []virtgpu.Capset {
	c := hypercall.Capset{Major: hypercall.VersionMajor, Minor: hypercall.VersionMinor,
		MaxRing: hypercall.MaxRingBytes, MaxChannels: hypercall.MaxChannels}
	return []virtgpu.Capset{{ID: hypercall.CapsetID, Version: hypercall.VersionMajor, Data: c.Encode()}}
}

// NewContext is part of virtgpu.Renderer.
func (r *Renderer) NewContext(id uint32, name string) (virtgpu.Context, error) {
	r.open.Add(1)
	return &client{renderer: r, label: fmt.Sprintf("%s#%d", name, id), resources: map[uint32]*virtgpu.Resource{}}, nil
}

// SetLimits bounds what the guest may have. It must be called before the guest connects.
func (r *Renderer) SetLimits(l session.Limits) { r.group.SetLimits(l) }

// Group is what the quotas of the guest are charged to.
func (r *Renderer) Group() *session.Group { return &r.group }

// Sessions are the counters of the guest's sessions.
func (r *Renderer) Sessions() session.GuestStats {
	st := r.group.Stats()
	if r.Counts != nil {
		st.Total.Doorbells, st.Total.Interrupts = r.Counts()
	}
	return st
}

// Open is the number of contexts that are open.
func (r *Renderer) Open() int { return int(r.open.Load()) }

// client is one DRM file of the guest.
type client struct {
	renderer *Renderer
	label    string
	session  *session.Session // nil until the guest attached a ring
	ring     uint32           // the resource that the ring is in

	resourcesMu sync.Mutex // the session's pump looks up what the device's goroutine changes
	resources   map[uint32]*virtgpu.Resource

	mu    sync.Mutex
	fence func() // of the last DoorbellArm; nil when none is out
}

// Submit is part of virtgpu.Context: it is a doorbell.
func (c *client) Submit(cmd []byte, fence func()) error {
	d, err := hypercall.DecodeDoorbell(cmd)
	if err != nil {
		return err
	}
	if (c.session == nil) != (d.Op == hypercall.DoorbellAttach) {
		return fmt.Errorf("doorbell %d out of order", d.Op)
	}
	switch d.Op {
	case hypercall.DoorbellAttach:
		c.session, err = session.Attach(c.renderer.Device, c, &c.renderer.group, d, c.label, c.renderer.Log)
		if err != nil {
			return fmt.Errorf("attaching the ring of %s: %w", c.label, err)
		}
		c.ring = d.Resource
	case hypercall.DoorbellKick:
		c.session.Kick()
	case hypercall.DoorbellArm:
		c.arm(fence)
		return nil
	}
	if fence != nil {
		fence()
	}
	return nil
}

// arm keeps the fence until the frontend is to be woken. The flag tells whether
// that has happened already: who clears it calls Notify, and Notify takes the
// lock after it, so either it finds the fence here, or we find the flag clear.
func (c *client) arm(fence func()) {
	if fence == nil {
		return // nobody waits for it
	}
	c.mu.Lock()
	last := c.fence
	c.fence = fence
	c.mu.Unlock()
	if last != nil {
		last() // whoever waited for it has gone on
	}
	if !c.session.FrontendAsleep() {
		c.Notify()
	}
}

// Notify is part of session.Carrier.
func (c *client) Notify() {
	c.mu.Lock()
	fence := c.fence
	c.fence = nil
	c.mu.Unlock()
	if fence != nil {
		fence()
	}
}

// Counts is part of session.Carrier.
func (c *client) Counts() (doorbells, interrupts uint64) {
	if c.renderer.Counts == nil {
		return 0, 0
	}
	return c.renderer.Counts()
}

// Attach is part of virtgpu.Context.
func (c *client) Attach(r *virtgpu.Resource) {
	c.resourcesMu.Lock()
	defer c.resourcesMu.Unlock()
	c.resources[r.ID()] = r
}

// Detach is part of virtgpu.Context. When it returns, the GPU no longer reaches
// the pages: the guest may give them to another process.
func (c *client) Detach(id uint32) {
	c.resourcesMu.Lock()
	delete(c.resources, id)
	c.resourcesMu.Unlock()
	switch {
	case c.session == nil:
	case id == c.ring: // a file that is being closed
		c.session.Close()
	default:
		c.session.Revoke(id)
	}
}

// Close is part of virtgpu.Context.
func (c *client) Close() {
	if c.session != nil {
		c.session.Close()
	}
	c.Notify()
	c.renderer.open.Add(-1)
}

// Grant is part of session.Carrier.
func (c *client) Grant(id uint32) (session.Grant, error) {
	c.resourcesMu.Lock()
	defer c.resourcesMu.Unlock()
	r := c.resources[id]
	if r == nil {
		return nil, fmt.Errorf("no resource %d is attached: %w", id, syscall.ENOENT)
	}
	return grant{r}, nil
}

// grant is a resource as a session sees it.
type grant struct{ r *virtgpu.Resource }

func (g grant) Size() uint64 { return g.r.Size() }

func (g grant) Acquire() ([][]byte, func(), error) {
	p, err := g.acquire()
	if err != nil {
		return nil, nil, err
	}
	return p.Runs(), p.Release, nil
}

func (g grant) MapContiguous() ([]byte, func(), error) {
	p, err := g.acquire()
	if err != nil {
		return nil, nil, err
	}
	mem, err := p.Contiguous()
	if err != nil {
		p.Release()
		if errors.Is(err, virtgpu.ErrTooManyRuns) {
			err = fmt.Errorf("%w: %w", syscall.ENOSPC, err)
		}
		return nil, nil, err
	}
	return mem, p.Release, nil
}

func (g grant) acquire() (*virtgpu.Pages, error) {
	p, err := g.r.Acquire()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", syscall.EINVAL, err)
	}
	return p, nil
}
