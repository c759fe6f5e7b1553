package capi

import (
	"errors"

	"pvdrm/frontend/cuda"
)

// primary is the primary context of a device. Library.once guards it.
type primary struct {
	ctx   *context // nil before the first one
	users int
	flags uint32
}

// primary finds what is known of the primary context of the device in argument 0. Preconditions: l.once is held.
func (c *call) primary() (*primary, error) {
	dev, err := c.device(0)
	if err != nil {
		return nil, err
	}
	return c.lib.primaryOf(dev), nil
}

// primaryOf finds what is known of the primary context of a device. l.once is held.
func (l *Library) primaryOf(dev *cuda.Device) *primary {
	p := l.primary[dev]
	if p == nil {
		p = &primary{}
		l.primary[dev] = p
	}
	return p
}

// active reports whether there is a primary context.
func (p *primary) active() bool { return p.ctx != nil && !p.ctx.isEnded() }

func primaryRetain(c *call) error {
	to, dev, err := c.outAndDevice(0, 8, 1)
	if err != nil {
		return err
	}
	l := c.lib
	l.once.Lock()
	defer l.once.Unlock()
	p := l.primaryOf(dev)
	if !p.active() {
		x, err := c.newContext(dev, p.flags)
		if err != nil {
			return err
		}
		x.primary = true
		if p.ctx != nil { // NVIDIA's primary context has the same handle all the time
			made := x.handle
			x.handle = p.ctx.handle // before another thread finds it
			l.handles.replace(x.handle, made)
			p.ctx.next.Store(x)
		}
		p.ctx = x
		l.remember(x)
	}
	p.users++
	return to.set(p.ctx.handle)
}

func primaryRelease(c *call) error {
	l := c.lib
	l.once.Lock()
	defer l.once.Unlock()
	p, err := c.primary()
	if err != nil {
		return err
	}
	if p.users == 0 {
		return c.fail(invalidContext, "the primary context is not retained")
	}
	if p.users--; p.users > 0 {
		return nil
	}
	return l.resetPrimary(p)
}

// resetPrimary destroys a primary context. l.once is held.
func (l *Library) resetPrimary(p *primary) error {
	if !p.active() {
		return nil
	}
	l.forget(p.ctx)
	return l.destroy(p.ctx)
}

func primaryReset(c *call) error {
	c.lib.once.Lock()
	defer c.lib.once.Unlock()
	p, err := c.primary()
	if err != nil {
		return err
	}
	return c.lib.resetPrimary(p)
}

func primaryGetState(c *call) error {
	dev, err := c.device(0)
	if err != nil {
		return err
	}
	flags, err := c.out32(1)
	if err != nil {
		return err
	}
	active, err := c.out32(2)
	if err != nil {
		return err
	}
	c.lib.once.Lock()
	p := *c.lib.primaryOf(dev)
	c.lib.once.Unlock()
	on := uint64(0)
	if p.active() {
		on = 1
	}
	return errors.Join(flags.set(uint64(p.flags)), active.set(on))
}

func primarySetFlags(c *call) error {
	c.lib.once.Lock()
	defer c.lib.once.Unlock()
	p, err := c.primary()
	if err != nil {
		return err
	}
	if err := c.contextFlags(1); err != nil {
		return err
	}
	p.flags = c.u32(1)
	if p.ctx != nil {
		p.ctx.setFlags(p.flags)
	}
	return nil
}

// onDeviceOf makes a call of a thread with a current context of a device: this thread's own one if it is
// of the device, or else the primary one.
func (c *call) onDeviceOf(arg int) (*call, error) {
	dev, err := c.device(arg)
	if err != nil {
		return nil, err
	}
	if x, err := c.current(); err != nil || x.Device() == dev {
		return c, nil // without a context the call fails as ever
	}
	c.lib.once.Lock()
	p := *c.lib.primaryOf(dev)
	c.lib.once.Unlock()
	if !p.active() {
		return nil, c.fail(cuda.ErrNotSupported, "the device %d has no primary context, in which the kernel would be loaded", dev.Ordinal())
	}
	d := c.of(c.args[:]...)
	d.thread = &thread{id: c.thread.id, stack: []*context{p.ctx}}
	return d, nil
}
