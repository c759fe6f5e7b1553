package cuda

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"pvdrm/drm"
)

// Virtual memory management: addresses and device memory are had apart, and mapped onto each other
// by the program. As in CUDA, both are the process's: no context need be current or even exist, what
// is mapped is so in all contexts of the device, and it outlives them.

// Access is what the device may do with mapped memory: CUmemAccess_flags.
type Access uint32

// Values of Access.
const (
	AccessNone      Access = 0
	AccessRead      Access = 1
	AccessReadWrite Access = 3
)

// Granularity is cuMemGetAllocationGranularity: what addresses and sizes of the
// calls below must be multiples of, in bytes.
func (dev *Device) Granularity() uint64 { return dev.params[drm.ParamVRAMPage] }

// whole is nil if n is a size for virtual memory management.
func (dev *Device) whole(call string, n uint64) error {
	if page := dev.Granularity(); n == 0 || n%page != 0 {
		return errorf(call, ErrInvalidValue, "the size %d is not a multiple of the granularity, %d", n, page)
	}
	return nil
}

// AddressReserve is cuMemAddressReserve: n bytes of addresses at a multiple of
// align, a power of two; 0 for the granularity. Nothing is mapped there.
func (dev *Device) AddressReserve(n, align uint64) (DevicePtr, error) {
	const call = "cuMemAddressReserve"
	if err := dev.whole(call, n); err != nil {
		return 0, err
	}
	if align&(align-1) != 0 {
		return 0, errorf(call, ErrInvalidValue, "the alignment %d is no power of two", align)
	}
	v := &dev.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.begin(dev); err != nil {
		return 0, &Error{call, ErrUnknown, err}
	}
	addr, err := v.space.Alloc(n, max(align, dev.Granularity()))
	if err != nil {
		return 0, &Error{call, resultOf(err), fmt.Errorf("%d bytes of GPU addresses: %w", n, err)}
	}
	v.reserved.insert(addr, n, struct{}{})
	return DevicePtr(addr), nil
}

// Reserves reports whether an address is one of AddressReserve.
func (dev *Device) Reserves(p DevicePtr) bool {
	v := &dev.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.reserved.find(uint64(p), 1)
	return ok
}

// AddressFree is cuMemAddressFree, of a whole reservation in which nothing is
// mapped any more.
func (dev *Device) AddressFree(p DevicePtr, n uint64) error {
	const call = "cuMemAddressFree"
	v := &dev.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.reserved.find(uint64(p), n)
	switch {
	case !ok || e.start != uint64(p) || e.n != n:
		return errorf(call, ErrInvalidValue, "%d bytes at 0x%x are not what was reserved", n, uint64(p))
	case v.mappings.touches(e.start, n):
		return errorf(call, ErrInvalidValue, "memory is mapped in the %d bytes at 0x%x; unmap it first", n, uint64(p))
	}
	v.reserved.remove(e.start)
	if _, err := v.space.Free(e.start); err != nil {
		return &Error{call, resultOf(err), err}
	}
	return nil
}

// MemCreate is cuMemCreate: n bytes of device memory. What they hold is undefined,
// but never anything of another process. Where contexts share nothing the memory belongs to c,
// which may be nil otherwise.
func (dev *Device) MemCreate(c *Context, n uint64) (*Physical, error) {
	const call = "cuMemCreate"
	if err := dev.whole(call, n); err != nil {
		return nil, err
	}
	if c != nil {
		if err := c.enter(call); err != nil {
			return nil, err
		}
		defer c.life.RUnlock()
	}
	v := &dev.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	file, err := v.home(call, dev, c)
	if err != nil {
		return nil, err
	}
	p := &Physical{dev: dev, n: n, refs: 1}
	if file == nil {
		file, p.only = c.file, c
	}
	if p.handle, err = file.GemNew(n, drm.DomainVRAM, drm.GemNoShare|drm.GemDirty); err != nil {
		return nil, v.fails(call, c, fmt.Errorf("%d bytes of device memory: %w", n, err))
	}
	if p.only == nil {
		if p.key, err = file.(drm.Sharer).GemShare(p.handle); err != nil {
			return nil, v.fails(call, c, errors.Join(err, file.GemClose(p.handle)))
		}
	}
	v.memory[p] = struct{}{}
	return p, nil
}

// Retain is cuMemRetainAllocationHandle: the memory that is mapped at p, which is released once more
// than before.
func (dev *Device) Retain(p DevicePtr) (*Physical, error) {
	v := &dev.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.mappings.find(uint64(p), 1)
	if !ok {
		return nil, errorf("cuMemRetainAllocationHandle", ErrInvalidValue, "nothing is mapped at 0x%x", uint64(p))
	}
	e.value.mem.refs++
	return e.value.mem, nil
}

// Release is cuMemRelease, and reports whether it was the last. Memory that is mapped lives until it is
// unmapped.
func (p *Physical) Release() (last bool, err error) {
	const call = "cuMemRelease"
	v := &p.dev.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	if p.refs == 0 {
		return false, errorf(call, ErrInvalidValue, "the memory is released already")
	}
	p.refs--
	return p.refs == 0, v.drop(call, p)
}

// MemMap is cuMemMap: the first n bytes of mem at reserved addresses. The device
// cannot use them before MemSetAccess.
func (dev *Device) MemMap(at DevicePtr, n uint64, mem *Physical) error {
	const call = "cuMemMap"
	if err := dev.whole(call, n); err != nil {
		return err
	}
	v := &dev.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	_, ok := v.reserved.find(uint64(at), n)
	switch {
	case !ok || uint64(at)%dev.Granularity() != 0:
		return errorf(call, ErrInvalidValue, "%d bytes at 0x%x do not lie in reserved addresses", n, uint64(at))
	case mem.dev != dev || mem.refs == 0:
		return errorf(call, ErrInvalidValue, "the memory is released, or of another device")
	case n > mem.n:
		return errorf(call, ErrInvalidValue, "%d bytes of a memory of %d", n, mem.n)
	case v.mappings.touches(uint64(at), n):
		return errorf(call, ErrInvalidValue, "memory is mapped already in the %d bytes at 0x%x", n, uint64(at))
	}
	mem.mapped++
	v.mappings.insert(uint64(at), n, &mapping{mem: mem, id: lastAllocation.Add(1)})
	return nil
}

// MemUnmap is cuMemUnmap, of whole mappings. It waits for the work of all contexts first.
func (dev *Device) MemUnmap(at DevicePtr, n uint64) error {
	const call = "cuMemUnmap"
	return dev.remap(call, at, n, AccessNone, func(e entry[*mapping]) error {
		dev.virtual.mappings.remove(e.start)
		e.value.mem.mapped--
		return dev.virtual.drop(call, e.value.mem)
	})
}

// MemSetAccess is cuMemSetAccess, of whole mappings. Less access than before waits
// for the work of all contexts first.
func (dev *Device) MemSetAccess(at DevicePtr, n uint64, access Access) error {
	const call = "cuMemSetAccess"
	if access != AccessNone && access != AccessRead && access != AccessReadWrite {
		return errorf(call, ErrInvalidValue, "access %d", access)
	}
	return dev.remap(call, at, n, access, func(entry[*mapping]) error { return nil })
}

// remap gives the mappings in a range an access, and hands each to then.
func (dev *Device) remap(call string, at DevicePtr, n uint64, access Access, then func(entry[*mapping]) error) error {
	v := &dev.virtual
	find := func() ([]entry[*mapping], error) {
		list, ok := v.mappings.exactly(uint64(at), n)
		if !ok {
			return nil, errorf(call, ErrInvalidValue, "%d bytes at 0x%x are not made up of whole mappings", n, uint64(at))
		}
		return list, nil
	}
	v.mu.Lock()
	list, err := find()
	takes := slices.ContainsFunc(list, func(e entry[*mapping]) bool { return e.value.access&^access != 0 })
	contexts := slices.Clone(v.contexts)
	v.mu.Unlock()
	if err != nil {
		return err
	}
	if takes {
		for _, c := range contexts {
			c.settleAll(call)
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if list, err = find(); err != nil { // again: another goroutine may have been faster
		return err
	}
	for _, e := range list {
		if err := v.setAccess(call, e, access); err != nil {
			return err
		}
		if err := then(e); err != nil {
			return err
		}
	}
	return nil
}

// MemAccess is cuMemGetAccess: that of the mapping in which p lies.
func (dev *Device) MemAccess(p DevicePtr) (Access, error) {
	v := &dev.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	e, ok := v.mappings.find(uint64(p), 1)
	if !ok {
		return 0, errorf("cuMemGetAccess", ErrInvalidValue, "nothing is mapped at 0x%x", uint64(p))
	}
	return e.value.access, nil
}

// MemCreateShareable is cuMemCreate of memory that other processes of the guest may have.
func (dev *Device) MemCreateShareable(c *Context, n uint64) (*Physical, error) {
	const call = "cuMemCreate"
	if !dev.virtual.shares(dev, c) {
		return nil, errUnshared(call)
	}
	p, err := dev.MemCreate(c, n)
	if err == nil {
		p.shareable = true
	}
	return p, err
}

// Share is cuMemExportToShareableHandle: the key by which other processes import the memory. It
// names the memory as long as a process has it, and does not hold it by itself.
func (p *Physical) Share() (drm.Key, error) {
	v := &p.dev.virtual
	v.mu.Lock()
	defer v.mu.Unlock()
	if p.refs == 0 || !p.shareable {
		return drm.Key{}, errorf("cuMemExportToShareableHandle", ErrInvalidValue, "the memory is released, or was not created for other processes")
	}
	return p.key, nil
}

// MemImport is cuMemImportFromShareableHandle: memory of a process of the guest, this one or
// another, which lives until all that have it have released it. C may be nil.
func (dev *Device) MemImport(c *Context, key drm.Key) (*Physical, error) {
	const call = "cuMemImportFromShareableHandle"
	v := &dev.virtual
	if !v.shares(dev, c) {
		return nil, errUnshared(call)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	file, err := v.home(call, dev, c)
	if err != nil {
		return nil, err
	}
	handle, size, err := file.(drm.Sharer).GemOpen(key)
	if errors.Is(err, syscall.ENOENT) {
		err = &Error{call, ErrInvalidValue, fmt.Errorf("no process of the guest has the memory any more: %w", err)}
	}
	if err != nil {
		return nil, v.fails(call, c, err)
	}
	if err := dev.whole(call, size); err != nil {
		return nil, v.fails(call, c, errors.Join(err, file.GemClose(handle)))
	}
	p := &Physical{dev: dev, handle: handle, n: size, shareable: true, key: key, refs: 1}
	v.memory[p] = struct{}{}
	return p, nil
}
