package cuda

import (
	"fmt"
	"slices"

	"pvdrm/drm"
)

// Virtual memory management: addresses and device memory are had apart, and mapped
// onto each other by the program. Addresses are those of one context here, where
// CUDA has them for the process.

// Physical is device memory of cuMemCreate, which has no address of its own.
type Physical struct {
	c      *Context
	handle uint32
	n      uint64

	shareable bool // other processes may have it

	released bool    // guarded by memory.mu, like all below
	mapped   int     // how often
	key      drm.Key // by which other processes have it; zero before the first
}

// Access is what the device may do with mapped memory: CUmemAccess_flags.
type Access uint32

// Values of Access.
const (
	AccessNone      Access = 0
	AccessRead      Access = 1
	AccessReadWrite Access = 3
)

// mapping is memory at a range of reserved addresses.
type mapping struct {
	mem    *Physical
	access Access
}

// Context is where the memory lives.
func (p *Physical) Context() *Context { return p.c }

// Bytes is the size of the memory.
func (p *Physical) Bytes() uint64 { return p.n }

// Granularity is cuMemGetAllocationGranularity: what addresses and sizes of the
// calls below must be multiples of, in bytes.
func (c *Context) Granularity() uint64 { return c.memory.vram.window.page }

// Granularity is Context.Granularity, which all contexts of a device share.
func (dev *Device) Granularity() uint64 { return dev.params[drm.ParamVRAMPage] }

// whole is nil if n is a size for virtual memory management.
func (c *Context) whole(call string, n uint64) error {
	if page := c.Granularity(); n == 0 || n%page != 0 {
		return errorf(call, ErrInvalidValue, "the size %d is not a multiple of the granularity, %d", n, page)
	}
	return nil
}

// AddressReserve is cuMemAddressReserve: n bytes of addresses at a multiple of
// align, a power of two; 0 for the granularity. Nothing is mapped there.
func (c *Context) AddressReserve(n, align uint64) (DevicePtr, error) {
	const call = "cuMemAddressReserve"
	if err := c.enter(call); err != nil {
		return 0, err
	}
	defer c.life.RUnlock()
	if err := c.whole(call, n); err != nil {
		return 0, err
	}
	if align&(align-1) != 0 {
		return 0, errorf(call, ErrInvalidValue, "the alignment %d is no power of two", align)
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	addr, err := m.vram.space.Alloc(n, max(align, c.Granularity()))
	if err != nil {
		return 0, c.fail(call, fmt.Errorf("%d bytes of GPU addresses: %w", n, err))
	}
	m.reserved.insert(addr, n, struct{}{})
	return DevicePtr(addr), nil
}

// AddressFree is cuMemAddressFree, of a whole reservation in which nothing is
// mapped any more.
func (c *Context) AddressFree(p DevicePtr, n uint64) error {
	const call = "cuMemAddressFree"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.reserved.find(uint64(p), n)
	switch {
	case !ok || e.start != uint64(p) || e.n != n:
		return errorf(call, ErrInvalidValue, "%d bytes at 0x%x are not what was reserved", n, uint64(p))
	case m.mappings.touches(e.start, n):
		return errorf(call, ErrInvalidValue, "memory is mapped in the %d bytes at 0x%x; unmap it first", n, uint64(p))
	}
	m.reserved.remove(e.start)
	if _, err := m.vram.space.Free(e.start); err != nil {
		return c.fail(call, err)
	}
	return nil
}

// MemCreate is cuMemCreate: n bytes of device memory. What they hold is undefined,
// but never anything of another context.
func (c *Context) MemCreate(n uint64) (*Physical, error) {
	const call = "cuMemCreate"
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	if err := c.whole(call, n); err != nil {
		return nil, err
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	handle, err := c.file.GemNew(n, drm.DomainVRAM, drm.GemNoShare|drm.GemDirty)
	if err != nil {
		return nil, c.fail(call, fmt.Errorf("%d bytes of device memory: %w", n, err))
	}
	return m.keep(&Physical{c: c, handle: handle, n: n}), nil
}

// Release is cuMemRelease. Memory that is mapped lives until it is unmapped.
func (p *Physical) Release() error {
	const call = "cuMemRelease"
	c := p.c
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if p.released {
		return errorf(call, ErrInvalidValue, "the memory is released already")
	}
	p.released = true
	return c.drop(call, p)
}

// drop frees memory that nobody holds any more. Memory.mu is held.
func (c *Context) drop(call string, p *Physical) error {
	if !p.released || p.mapped > 0 {
		return nil
	}
	delete(c.memory.physical, p)
	if err := c.file.GemClose(p.handle); err != nil {
		return c.fail(call, fmt.Errorf("freeing %d bytes of device memory: %w", p.n, err))
	}
	return nil
}

// MemMap is cuMemMap: the first n bytes of mem at reserved addresses. The device
// cannot use them before MemSetAccess.
func (c *Context) MemMap(at DevicePtr, n uint64, mem *Physical) error {
	const call = "cuMemMap"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	if err := c.whole(call, n); err != nil {
		return err
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.reserved.find(uint64(at), n)
	switch {
	case !ok || uint64(at)%c.Granularity() != 0:
		return errorf(call, ErrInvalidValue, "%d bytes at 0x%x do not lie in reserved addresses of the context", n, uint64(at))
	case mem.c != c || mem.released:
		return errorf(call, ErrInvalidValue, "the memory is released, or of another context")
	case n > mem.n:
		return errorf(call, ErrInvalidValue, "%d bytes of a memory of %d", n, mem.n)
	case m.mappings.touches(uint64(at), n):
		return errorf(call, ErrInvalidValue, "memory is mapped already in the %d bytes at 0x%x", n, uint64(at))
	}
	mem.mapped++
	m.mappings.insert(uint64(at), n, &mapping{mem: mem})
	return nil
}

// MemUnmap is cuMemUnmap, of whole mappings. It waits for the work of the context first.
func (c *Context) MemUnmap(at DevicePtr, n uint64) error {
	const call = "cuMemUnmap"
	return c.remap(call, at, n, AccessNone, func(e entry[*mapping]) error {
		c.memory.mappings.remove(e.start)
		e.value.mem.mapped--
		return c.drop(call, e.value.mem)
	})
}

// MemSetAccess is cuMemSetAccess, of whole mappings. Less access than before waits
// for the work of the context first.
func (c *Context) MemSetAccess(at DevicePtr, n uint64, access Access) error {
	const call = "cuMemSetAccess"
	if access != AccessNone && access != AccessRead && access != AccessReadWrite {
		return errorf(call, ErrInvalidValue, "access %d", access)
	}
	return c.remap(call, at, n, access, func(entry[*mapping]) error { return nil })
}

// remap gives the mappings in a range an access, and hands each to then.
func (c *Context) remap(call string, at DevicePtr, n uint64, access Access, then func(entry[*mapping]) error) error {
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	m := &c.memory
	find := func() ([]entry[*mapping], error) {
		list, ok := m.mappings.exactly(uint64(at), n)
		if !ok {
			return nil, errorf(call, ErrInvalidValue, "%d bytes at 0x%x are not made up of whole mappings", n, uint64(at))
		}
		return list, nil
	}
	m.mu.Lock()
	list, err := find()
	takes := slices.ContainsFunc(list, func(e entry[*mapping]) bool { return e.value.access&^access != 0 })
	m.mu.Unlock()
	if err == nil && takes {
		err = c.waitIdle(call)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if list, err = find(); err != nil { // again: another goroutine may have been faster
		return err
	}
	for _, e := range list {
		if err := c.setAccess(e, access); err != nil {
			return c.fail(call, err)
		}
		if err := then(e); err != nil {
			return err
		}
	}
	return nil
}

// setAccess changes one mapping. Memory.mu is held.
func (c *Context) setAccess(e entry[*mapping], access Access) error {
	x := e.value
	if x.access == access {
		return nil
	}
	var ops []drm.BindOp
	if x.access != AccessNone {
		ops = append(ops, drm.BindOp{Op: drm.BindUnmap, Addr: e.start, Range: e.n})
	}
	if access != AccessNone {
		op := drm.BindOp{Op: drm.BindMap, Handle: x.mem.handle, Addr: e.start, Range: e.n}
		if access == AccessRead {
			op.Flags = drm.BindReadOnly
		}
		ops = append(ops, op)
	}
	if err := c.file.VMBind(ops, true); err != nil {
		return fmt.Errorf("mapping %d bytes at 0x%x: %w", e.n, e.start, err)
	}
	switch {
	case x.access == AccessNone:
		c.memory.note(e.start, e.n, allocation{mapped: true})
	case access == AccessNone:
		c.memory.byAddr.remove(e.start)
	}
	x.access = access
	return nil
}

// MemAccess is cuMemGetAccess: that of the mapping in which p lies.
func (c *Context) MemAccess(p DevicePtr) (Access, error) {
	const call = "cuMemGetAccess"
	if err := c.enter(call); err != nil {
		return 0, err
	}
	defer c.life.RUnlock()
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	e, ok := c.memory.mappings.find(uint64(p), 1)
	if !ok {
		return 0, errorf(call, ErrInvalidValue, "nothing is mapped at 0x%x", uint64(p))
	}
	return e.value.access, nil
}
