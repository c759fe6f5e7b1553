package capi

import (
	"errors"
	"reflect"
	"sync/atomic"

	"pvdrm/frontend/cuda"
)

// lending is memory by cuMemHostRegister.
type lending struct {
	bytes, id uint64
	host      *cuda.HostMem // nil: the device cannot map it
	why       error         // that is so
}

// lastLending is the ID of the last one. They count down, so that they are no allocation's.
var lastLending atomic.Uint64

const (
	userAddresses  = 1 << 47 // and above them the kernel's
	mostRegistered = 1 << 40 // bytes at once
)

// memHostRegister maps memory of the program for the device. Where that cannot be, the range is noted
// only: copies from and to it go through pinned memory as ever, and a pointer for kernels is refused.
func memHostRegister(c *call) error {
	p, n, flags := c.u64(0), c.u64(1), c.u32(2)
	x, err := c.current()
	if err != nil {
		return err
	}
	switch {
	case n == 0 || p+n < p || flags&^registerFlags != 0:
		return c.fail(cuda.ErrInvalidValue, "%d bytes at 0x%x with flags 0x%x", n, p, flags)
	case flags&registerIOMemory != 0:
		return c.fail(cuda.ErrInvalidValue, "this is not memory of a device")
	case p >= userAddresses:
		return c.fail(cuda.ErrNotSupported, "0x%x is no address of a program", p)
	case n > mostRegistered:
		return c.fail(cuda.ErrOutOfMemory, "%d bytes", n)
	}
	if err := c.ownMemory(p, n, flags&registerReadOnly != 0); err != nil {
		return err
	}
	c.lib.registering.Lock()
	defer c.lib.registering.Unlock()
	for _, of := range c.lib.allContexts() {
		if of.lends(p, n) {
			return c.fail(alreadyRegistered, "%d bytes at 0x%x", n, p)
		}
	}
	l := lending{bytes: n, id: -lastLending.Add(1)}
	// The words of the call lie in the stack of the thread that makes it.
	l.host, l.why = x.RegisterHost(p, n, flags&registerReadOnly != 0, uint64(reflect.ValueOf(c.args).Pointer()))
	if l.why != nil && !errors.Is(l.why, cuda.ErrNotSupported) && !errors.Is(l.why, cuda.ErrOutOfMemory) {
		return l.why
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.lent[p] = l
	if l.host != nil {
		x.allocated[p] = flags &^ registerReadOnly
	}
	return nil
}

// ownMemory checks that the program has memory at all of [p, p+n), and may write there or need not.
func (c *call) ownMemory(p, n uint64, readOnly bool) error {
	for _, at := range []uint64{p, p + n - 1} {
		if _, err := c.read(at, 1); err != nil {
			return err
		}
		if _, h, _ := c.hostMem(at, 1); h != nil && !h.Registered() {
			return c.fail(cuda.ErrInvalidValue, "0x%x lies in pinned memory", at)
		}
	}
	if c.lib.cfg.Pages == nil {
		return nil
	}
	all, err := c.lib.cfg.Pages.Mappings()
	if err != nil {
		return c.fail(cuda.ErrUnknown, "what the program has mapped: %v", err)
	}
	at := p
	for _, m := range all {
		if m.End <= at || m.Start > at || at >= p+n {
			continue
		}
		if !m.Readable || !m.Writable && !readOnly {
			return c.fail(cuda.ErrInvalidValue, "memory at 0x%x is protected", at)
		}
		at = m.End
	}
	if at < p+n {
		return c.fail(cuda.ErrInvalidValue, "nothing is mapped at 0x%x", at)
	}
	return nil
}

// lends reports whether something in [p, p+n) is registered.
func (c *context) lends(p, n uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, of := range c.lent {
		if p < at+of.bytes && at < p+n {
			return true
		}
	}
	return false
}

// registered finds what was registered around an address, and where it begins.
func (c *context) registered(p uint64) (l lending, start uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, of := range c.lent {
		if p >= at && p-at < of.bytes {
			return of, at
		}
	}
	return lending{}, 0
}

func memHostUnregister(c *call) error {
	p := c.u64(0)
	if _, err := c.current(); err != nil {
		return err
	}
	if _, h, _ := c.hostMem(p, 1); p == 0 || h != nil && !h.Registered() {
		return c.fail(cuda.ErrInvalidValue, "0x%x is no memory that was registered", p)
	}
	for _, x := range c.lib.allContexts() {
		l, start := x.registered(p)
		if l.bytes == 0 {
			continue
		}
		if start != p {
			return c.fail(cuda.ErrInvalidValue, "0x%x is inside of registered memory", p)
		}
		if l.host == nil {
			x.forgetRegistered(p)
			return nil
		}
		return c.settle(x, nil, func() error {
			if err := l.host.Unregister(); err != nil {
				return err
			}
			x.forgetRegistered(p)
			return nil
		})
	}
	return c.fail(notRegistered, "nothing is registered at 0x%x", p)
}

func (c *context) forgetRegistered(p uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.lent, p)
	delete(c.allocated, p)
}
