package virtio

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"pvdrm/backend/session"
	"pvdrm/backend/virtio/virtgpu"
	"pvdrm/hypercall"
)

// client is one DRM file of the guest:
//
//	      Attach doorbell               the session is there, or failed
//	idle ────────────────► attaching ──────────────────────────────────► attached
//
// The device's calls return at once in each state. While the session is being made, on a
// goroutine of its own, what they ask of it is kept for later.
type client struct {
	guest *Guest
	label string

	mu        sync.Mutex
	resources map[uint32]*virtgpu.Resource
	state     state
	session   session.Attached // of an attached client; nil if it could not be made
	ring      uint32           // the resource that the ring is in
	later     []func()         // asked while attaching, in order; each with its place in the guest's queue
	kicked    bool             // asked while attaching
	fence     func(error)      // of the last DoorbellArm; nil when none is out
}

type state uint8

const (
	idle state = iota
	attaching
	attached
)

// Submit is part of virtgpu.Context: it is a doorbell.
func (c *client) Submit(cmd []byte, fenced bool, done func(error)) {
	d, err := hypercall.DecodeDoorbell(cmd)
	if err != nil {
		done(err)
		return
	}
	c.mu.Lock()
	if (c.state == idle) != (d.Op == hypercall.DoorbellAttach) {
		c.mu.Unlock()
		done(fmt.Errorf("doorbell %d out of order", d.Op))
		return
	}
	if d.Op == hypercall.DoorbellAttach {
		c.state, c.ring = attaching, d.Resource
		go c.attach(d)
	}
	c.mu.Unlock()
	switch {
	case d.Op == hypercall.DoorbellKick:
		c.kick()
	case d.Op == hypercall.DoorbellArm && fenced: // without a fence, the guest cannot wait for it
		c.do(func(s session.Attached) { c.arm(s, done) })
		return
	}
	done(nil)
}

// attach makes the session: a GPU context, for which some devices take a while. That it failed
// the frontend reads in the ring.
func (c *client) attach(d hypercall.Doorbell) {
	log := c.guest.group.Logger(c.guest.Log)
	s, err := c.guest.attach(c, d, log)
	if err != nil {
		log.Warn("a guest's file has no session", zap.String("client", c.label), zap.Error(err))
	}
	for first := true; ; first = false {
		c.mu.Lock()
		if first {
			c.session = s
		}
		later := c.later
		c.later = nil
		if len(later) == 0 {
			c.state = attached
			kicked := c.kicked
			c.mu.Unlock()
			if kicked {
				c.kick()
			}
			return
		}
		c.mu.Unlock()
		for _, do := range later {
			do()
		}
	}
}

// kick wakes the session, if there is one, or as soon as it is made.
func (c *client) kick() {
	c.mu.Lock()
	s := c.session
	c.kicked = c.state == attaching
	c.mu.Unlock()
	if s != nil {
		s.Kick()
	}
}

// do calls f with the session, nil if there is none: now, or as soon as it is made.
func (c *client) do(f func(session.Attached)) {
	c.mu.Lock()
	if c.state == attaching {
		c.later = append(c.later, func() { f(c.session) })
		c.mu.Unlock()
		return
	}
	s := c.session
	c.mu.Unlock()
	f(s)
}

// arm keeps the fence until the frontend is to be woken. The flag tells whether
// that has happened already: who clears it calls Notify, and Notify takes the
// lock after it, so either it finds the fence here, or we find the flag clear.
func (c *client) arm(s session.Attached, fence func(error)) {
	c.mu.Lock()
	last := c.fence
	c.fence = fence
	c.mu.Unlock()
	if last != nil {
		last(nil) // its waiter has gone on
	}
	if s == nil || !s.FrontendAsleep() {
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
		fence(nil)
	}
}

// Counts is part of session.Carrier.
func (c *client) Counts() (doorbells, interrupts uint64) {
	if c.guest.Counts == nil {
		return 0, 0
	}
	return c.guest.Counts()
}

// Attach is part of virtgpu.Context.
func (c *client) Attach(r *virtgpu.Resource, done func(error)) {
	c.mu.Lock()
	c.resources[r.ID()] = r
	c.mu.Unlock()
	done(nil)
}

// Detach is part of virtgpu.Context. A file whose ring is taken away is being closed.
func (c *client) Detach(id uint32, done func(error)) {
	c.mu.Lock()
	delete(c.resources, id)
	ring := c.state != idle && id == c.ring
	c.mu.Unlock()
	c.do(func(s session.Attached) {
		switch {
		case s == nil:
			done(nil)
		case ring:
			end(s, func() { done(nil) })
		default:
			s.Revoke(id, func() { done(nil) })
		}
	})
}

// Transfer is part of virtgpu.Context. The GPU works on the guest's own pages, so no bytes move.
func (c *client) Transfer(_ virtgpu.Transfer, done func(error)) { done(nil) }

// Close is part of virtgpu.Context.
func (c *client) Close(done func(error)) {
	c.do(func(s session.Attached) {
		if s == nil {
			c.closed(done)
			return
		}
		end(s, func() { c.closed(done) })
	})
}

func (c *client) closed(done func(error)) {
	c.Notify()
	c.guest.open.Add(-1)
	done(nil)
}

// end ends a session, and calls done when it has ended.
func end(s session.Attached, done func()) {
	s.End()
	go func() {
		<-s.Ended()
		done()
	}()
}

// Grant is part of session.Carrier.
func (c *client) Grant(id uint32) (session.Grant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
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
