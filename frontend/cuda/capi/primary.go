package capi

import "errors"

// primary is the primary context of the one device.
type primary struct {
	ctx   *context
	users int
	flags uint32
}

func primaryRetain(c *call) error {
	to, dev, err := c.outAndDevice(0, 8, 1)
	if err != nil {
		return err
	}
	l := c.lib
	l.once.Lock()
	defer l.once.Unlock()
	p := &l.primary
	if p.ctx == nil || p.ctx.isEnded() {
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
	if _, err := c.device(0); err != nil {
		return err
	}
	l := c.lib
	l.once.Lock()
	defer l.once.Unlock()
	if l.primary.users == 0 {
		return c.fail(invalidContext, "the primary context is not retained")
	}
	if l.primary.users--; l.primary.users > 0 {
		return nil
	}
	return l.resetPrimary()
}

// resetPrimary destroys the primary context. l.once is held.
func (l *Library) resetPrimary() error {
	x := l.primary.ctx
	if x == nil || x.isEnded() {
		return nil
	}
	l.forget(x)
	return l.destroy(x)
}

func primaryReset(c *call) error {
	if _, err := c.device(0); err != nil {
		return err
	}
	c.lib.once.Lock()
	defer c.lib.once.Unlock()
	return c.lib.resetPrimary()
}

func primaryGetState(c *call) error {
	if _, err := c.device(0); err != nil {
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
	f, p := c.lib.primary.flags, c.lib.primary.ctx
	c.lib.once.Unlock()
	on := uint64(0)
	if p != nil && !p.isEnded() {
		on = 1
	}
	return errors.Join(flags.set(uint64(f)), active.set(on))
}

func primarySetFlags(c *call) error {
	if _, err := c.device(0); err != nil {
		return err
	}
	if err := c.contextFlags(1); err != nil {
		return err
	}
	c.lib.once.Lock()
	defer c.lib.once.Unlock()
	p := &c.lib.primary
	p.flags = c.u32(1)
	if p.ctx != nil {
		p.ctx.setFlags(p.flags)
	}
	return nil
}
