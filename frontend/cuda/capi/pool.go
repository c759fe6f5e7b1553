package capi

import (
	"encoding/binary"

	"pvdrm/frontend/cuda"
)

// Memory pools. They belong to the device; the memory that is allocated from one
// lies in the context of the stream.

// pool finds the pool in argument i.
func (c *call) pool(i int) (*cuda.Pool, error) {
	p, ok := find[*cuda.Pool](c.lib, c.u64(i))
	if !ok {
		return nil, c.fail(cuda.ErrInvalidValue, "0x%x is no pool", c.u64(i))
	}
	return p, nil
}

// poolHandle returns the handle of a pool, and makes it at the first use.
func (l *Library) poolHandle(p *cuda.Pool) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pools == nil {
		l.pools = map[*cuda.Pool]uint64{}
	}
	if l.pools[p] == 0 {
		l.pools[p] = l.handles.add(p)
	}
	return l.pools[p]
}

// Layout of CUmemPoolProps, in bytes.
const (
	poolBytes    = 88
	poolType     = 0
	poolHandles  = 4 // kinds of handles for other processes
	poolLocation = 8
	poolMost     = 24
	poolUsage    = 32
)

func memPoolCreate(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	b, err := c.read(c.u64(1), poolBytes)
	if err != nil {
		return err
	}
	if kind := le32(b[poolType:]); kind != allocationPinned {
		return c.fail(cuda.ErrInvalidValue, "a pool of allocations of kind %d", kind)
	}
	shareable, err := c.handleKinds(le32(b[poolHandles:]))
	if err != nil {
		return err
	}
	if usage := binary.LittleEndian.Uint16(b[poolUsage:]); usage != 0 {
		return c.fail(cuda.ErrNotSupported, "a pool for the use 0x%x", usage)
	}
	dev, err := c.onDevice(b[poolLocation:])
	if err != nil {
		return err
	}
	if !shareable {
		return to.set(c.lib.poolHandle(dev.NewPool(le64(b[poolMost:]))))
	}
	p, err := dev.NewSharedPool(le64(b[poolMost:]))
	if err != nil {
		return err
	}
	return to.set(c.lib.poolHandle(p))
}

// memPoolDestroy leaves what is allocated from the pool.
func memPoolDestroy(c *call) error {
	p, err := c.pool(0)
	if err != nil {
		return err
	}
	if err := p.Destroy(); err != nil {
		return err
	}
	c.lib.handles.remove(c.u64(0))
	c.lib.mu.Lock()
	defer c.lib.mu.Unlock()
	delete(c.lib.pools, p)
	return nil
}

func memPoolTrimTo(c *call) error {
	p, err := c.pool(0)
	if err != nil {
		return err
	}
	return p.TrimTo(c.u64(1))
}

// poolValueBytes is the size of an attribute: those that are 0 or 1 are ints.
func poolValueBytes(a cuda.PoolAttribute) int {
	if a <= cuda.PoolReuseAllowInternalDependencies {
		return 4
	}
	return 8
}

func memPoolGetAttribute(c *call) error {
	p, err := c.pool(0)
	if err != nil {
		return err
	}
	a := cuda.PoolAttribute(c.i32(1))
	v, err := p.Attribute(a)
	if err != nil {
		return err
	}
	to, err := c.out(2, poolValueBytes(a))
	if err != nil {
		return err
	}
	return to.set(v)
}

func memPoolSetAttribute(c *call) error {
	p, err := c.pool(0)
	if err != nil {
		return err
	}
	a := cuda.PoolAttribute(c.i32(1))
	b, err := c.read(c.u64(2), poolValueBytes(a))
	if err != nil {
		return err
	}
	return p.SetAttribute(a, le64(append(b, make([]byte, 8-len(b))...)))
}

// memPoolSetAccess gets (pool, array of CUmemAccessDesc, its length). The device
// that owns the pool keeps all access, and others have none.
func memPoolSetAccess(c *call) error {
	p, err := c.pool(0)
	if err != nil {
		return err
	}
	n := c.u64(2)
	if n > maxAccess {
		return c.fail(cuda.ErrInvalidValue, "%d descriptions of access", n)
	}
	if n == 0 {
		return nil
	}
	b, err := c.read(c.u64(1), int(n)*accessBytes)
	if err != nil {
		return err
	}
	for ; len(b) > 0; b = b[accessBytes:] {
		dev, err := c.onDevice(b)
		if err != nil {
			return err
		}
		switch f := cuda.Access(le32(b[accessFlags:])); {
		case dev == p.Device() && f != cuda.AccessReadWrite:
			return c.fail(cuda.ErrInvalidValue, "access %d to a pool of the device itself", f)
		case dev != p.Device() && f != 0:
			return c.fail(cuda.ErrInvalidDevice, "the device %d does not reach memory of the device %d", dev.Ordinal(), p.Device().Ordinal())
		}
	}
	return nil
}

// outAndPool is out for 4 bytes that are asked of the pool in argument 1.
func (c *call) outAndPool() (out, *cuda.Pool, error) {
	to, err := c.out32(0)
	if err != nil {
		return to, nil, err
	}
	p, err := c.pool(1)
	return to, p, err
}

// memPoolGetAccess gets (flags, pool, CUmemLocation).
func memPoolGetAccess(c *call) error {
	to, p, err := c.outAndPool()
	if err != nil {
		return err
	}
	b, err := c.read(c.u64(2), 8)
	if err != nil {
		return err
	}
	dev, err := c.onDevice(b)
	if err != nil {
		return err
	}
	if dev != p.Device() {
		return to.set(0)
	}
	return to.set(uint64(cuda.AccessReadWrite))
}

func deviceGetDefaultMemPool(c *call) error { return c.devicePool((*cuda.Device).DefaultPool) }
func deviceGetMemPool(c *call) error        { return c.devicePool((*cuda.Device).Pool) }

func (c *call) devicePool(which func(*cuda.Device) *cuda.Pool) error {
	to, dev, err := c.outAndDevice(0, 8, 1)
	if err != nil {
		return err
	}
	return to.set(c.lib.poolHandle(which(dev)))
}

func deviceSetMemPool(c *call) error {
	dev, err := c.device(0)
	if err != nil {
		return err
	}
	p, err := c.pool(1)
	if err != nil {
		return err
	}
	return dev.SetPool(p)
}

func memGetDefaultMemPool(c *call) error { return c.locationPool((*cuda.Device).DefaultPool) }
func memGetMemPool(c *call) error        { return c.locationPool((*cuda.Device).Pool) }

// locationPool gets (pool, CUmemLocation, kind of allocations).
func (c *call) locationPool(which func(*cuda.Device) *cuda.Pool) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	dev, err := c.poolDevice(1, 2)
	if err != nil {
		return err
	}
	return to.set(c.lib.poolHandle(which(dev)))
}

// poolDevice finds the device of the CUmemLocation in an argument, for allocations of
// the kind in another.
func (c *call) poolDevice(location, kind int) (*cuda.Device, error) {
	b, err := c.read(c.u64(location), 8)
	if err != nil {
		return nil, err
	}
	if k := c.u32(kind); k != allocationPinned {
		return nil, c.fail(cuda.ErrNotSupported, "a pool of allocations of kind %d", k)
	}
	return c.onDevice(b)
}

// memSetMemPool gets (CUmemLocation, kind of allocations, pool).
func memSetMemPool(c *call) error {
	dev, err := c.poolDevice(0, 1)
	if err != nil {
		return err
	}
	p, err := c.pool(2)
	if err != nil {
		return err
	}
	return dev.SetPool(p)
}

func memAllocAsync(c *call) error {
	return c.allocAsync(2, func(x *context, s *cuda.Stream) (cuda.DevicePtr, error) { return x.MemAllocAsync(c.u64(1), s) })
}

// memAllocFromPoolAsync gets (address, bytes, pool, stream).
func memAllocFromPoolAsync(c *call) error {
	p, err := c.pool(2)
	if err != nil {
		return err
	}
	return c.allocAsync(3, func(x *context, s *cuda.Stream) (cuda.DevicePtr, error) { return x.MemAllocFromPool(p, c.u64(1), s) })
}

// allocAsync writes the address of memory for a stream; that of no bytes is null.
func (c *call) allocAsync(stream int, from func(*context, *cuda.Stream) (cuda.DevicePtr, error)) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	x, s, err := c.stream(stream)
	if err != nil {
		return err
	}
	if c.u64(1) == 0 {
		return to.set(0)
	}
	p, err := from(x, s)
	if err != nil {
		return err
	}
	return to.set(uint64(p))
}

// memFreeAsync frees after what is queued on the stream, its host functions included.
func memFreeAsync(c *call) error {
	x, s, err := c.stream(1)
	if err != nil {
		return err
	}
	p := c.devicePtr(0)
	if p == 0 {
		return nil
	}
	if has, err := c.ofMemory(uint64(p)); err == nil && has != x && !x.has(uint64(p)) && has.has(uint64(p)) {
		// The stream is of another context: what is queued on it comes first.
		if err := c.settle(x, s, s.Synchronize); err != nil {
			return err
		}
		return c.of(uint64(p), 0).freeIn(has, has.DefaultStream())
	}
	return c.freeIn(x, s)
}

// freeIn frees the memory at argument 0 of a context, on a stream of it.
func (c *call) freeIn(x *context, s *cuda.Stream) error {
	p := c.devicePtr(0)
	return c.settle(x, s, func() error {
		if h, off := x.HostMemAt(uint64(p), 1); h != nil && h.Managed() && off == 0 {
			return h.Free()
		}
		return x.MemFreeAsync(p, s)
	})
}
