package capi

import (
	"errors"

	"pvdrm/frontend/cuda"
)

func memAlloc(c *call) error {
	return c.alloc(0, func(x *context) (cuda.DevicePtr, error) { return x.MemAlloc(c.u64(1)) })
}

// alloc writes the address of memory to argument i.
func (c *call) alloc(i int, from func(x *context) (cuda.DevicePtr, error)) error {
	to, err := c.out64(i)
	if err != nil {
		return err
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	p, err := from(x)
	if err != nil {
		return err
	}
	return to.set(uint64(p))
}

func memAllocPitch(c *call) error {
	pitch, err := c.out64(1)
	if err != nil {
		return err
	}
	return c.alloc(0, func(x *context) (cuda.DevicePtr, error) {
		p, n, err := x.MemAllocPitch(c.u64(2), c.u64(3), c.u32(4))
		if err != nil {
			return 0, err
		}
		return p, pitch.set(n)
	})
}

// ofMemory is the context in whose memory an address lies: the current one, or else the only one
// that has it. Without any it is the current one. Only variables of modules of several contexts may
// have the same address.
func (c *call) ofMemory(p uint64) (*context, error) {
	now, err := c.current()
	if err == nil && (now.isEnded() || now.has(p)) {
		return now, nil
	}
	var all []*context
	for _, x := range c.lib.allContexts() {
		if x.has(p) {
			all = append(all, x)
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return now, err
}

// has reports whether an address lies in memory of the context.
func (c *context) has(p uint64) bool {
	if h, _ := c.HostMemAt(p, 1); h != nil {
		return true
	}
	_, _, err := c.MemGetAddressRange(cuda.DevicePtr(p))
	return err == nil
}

func memFree(c *call) error {
	if c.devicePtr(0) == 0 {
		return nil
	}
	x, err := c.ofMemory(c.u64(0))
	if err != nil {
		return err
	}
	free := func() error { return x.MemFree(c.devicePtr(0)) }
	if h, off := x.HostMemAt(c.u64(0), 1); h != nil && h.Managed() && off == 0 {
		free = h.Free
	}
	return c.settle(x, nil, free)
}

func memGetInfo(c *call) error {
	free, err := c.optional(0, 8)
	if err != nil {
		return err
	}
	total, err := c.optional(1, 8)
	if err != nil {
		return err
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	f, t, err := x.MemGetInfo()
	if err != nil {
		return err
	}
	return errors.Join(free.set(f), total.set(t))
}

func memGetAddressRange(c *call) error {
	base, err := c.optional(0, 8)
	if err != nil {
		return err
	}
	size, err := c.optional(1, 8)
	if err != nil {
		return err
	}
	if _, err := c.current(); err != nil {
		return err
	}
	x, err := c.ofMemory(c.u64(2))
	if err != nil {
		return err
	}
	if h, _ := x.HostMemAt(c.u64(2), 1); h != nil {
		return errors.Join(base.set(h.Address()), size.set(h.Size()))
	}
	p, n, err := x.MemGetAddressRange(c.devicePtr(2))
	if err != nil {
		return err
	}
	return errors.Join(base.set(uint64(p)), size.set(n))
}

// Flags of cuMemHostAlloc and cuMemHostRegister.
const (
	hostFlags     = 7
	registerFlags = 0xf

	registerIOMemory = 4
	registerReadOnly = 8

	alreadyRegistered cuda.Result = 712
	notRegistered     cuda.Result = 713
)

func memAllocHost(c *call) error { return c.allocHost(0) }

func memHostAlloc(c *call) error {
	if c.u32(2)&^hostFlags != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(2))
	}
	return c.allocHost(c.u32(2))
}

func (c *call) allocHost(flags uint32) error {
	to, x, err := c.outInContext(0, 8)
	if err != nil {
		return err
	}
	if c.u64(1) == 0 {
		return to.set(0)
	}
	h, err := x.MemAllocUnified(c.u64(1))
	if errors.Is(err, cuda.ErrOutOfMemory) {
		// The program itself may have taken all those addresses, as sanitizers do.
		h, err = x.MemAllocHost(c.u64(1))
	}
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.allocated[h.Address()] = flags
	x.mu.Unlock()
	return to.set(h.Address())
}

// memAllocManaged does not tell memory for all streams (flag 1) from memory for the
// program (2): all of it can be used by both at any time.
func memAllocManaged(c *call) error {
	if f := c.u32(2); f != 1 && f != 2 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", f)
	}
	return c.alloc(0, func(x *context) (cuda.DevicePtr, error) {
		h, err := x.MemAllocManaged(c.u64(1))
		if err != nil {
			return 0, err
		}
		c.lib.forgetHints(uint64(h.DevicePtr()), c.u64(1))
		return h.DevicePtr(), nil
	})
}

// hostMem finds pinned memory that n bytes of the program lie in: in the current
// context, else in any.
func (c *call) hostMem(addr, n uint64) (*context, *cuda.HostMem, uint64) {
	var all []*context
	if x, err := c.current(); err == nil {
		all = append(all, x)
	}
	for _, x := range append(all, c.lib.allContexts()...) {
		if h, off := x.HostMemAt(addr, n); h != nil {
			return x, h, off
		}
	}
	return nil, nil, 0
}

func memFreeHost(c *call) error {
	if c.u64(0) == 0 {
		return nil
	}
	x, h, off := c.hostMem(c.u64(0), 1)
	if h == nil || off != 0 || h.Managed() || h.Registered() {
		return c.unknown(cuda.ErrInvalidValue, "beginning of pinned memory", c.u64(0))
	}
	return c.settle(x, nil, func() error {
		if err := h.Free(); err != nil {
			return err
		}
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.allocated, c.u64(0))
		return nil
	})
}

func memHostGetDevicePointer(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if c.u32(2) != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(2))
	}
	x, err := c.current()
	if err != nil {
		return err
	}
	_, h, off := c.hostMem(c.u64(1), 1)
	if h != nil && h.Registered() {
		if h, err = h.In(x.Context); err != nil {
			return err
		}
		return to.set(uint64(h.DevicePtr()) + off)
	}
	if h != nil && h.ReachedBy(x.Context) {
		return to.set(uint64(h.DevicePtr()) + off)
	}
	if l, _ := x.registered(c.u64(1)); l.bytes > 0 {
		return c.fail(cuda.ErrNotSupported, "this memory cannot be mapped for the device: %v; allocate it with cuMemHostAlloc", l.why)
	}
	return c.fail(cuda.ErrInvalidValue, "0x%x is not in pinned memory of the context", c.u64(1))
}

func memHostGetFlags(c *call) error {
	to, err := c.out32(0)
	if err != nil {
		return err
	}
	x, h, off := c.hostMem(c.u64(1), 1)
	if h == nil {
		return c.fail(cuda.ErrInvalidValue, "0x%x is not in pinned memory", c.u64(1))
	}
	x.mu.Lock()
	flags := x.allocated[c.u64(1)-off]
	x.mu.Unlock()
	const deviceMap = 2 // all of it is
	return to.set(uint64(flags | deviceMap))
}
