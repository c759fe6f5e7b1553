package capi

import (
	"errors"
	"math"
	"sync/atomic"

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
	has := func(x *context) bool {
		if h, _ := x.HostMemAt(p, 1); h != nil {
			return true
		}
		_, _, err := x.MemGetAddressRange(cuda.DevicePtr(p))
		return err == nil
	}
	now, err := c.current()
	if err == nil && (now.isEnded() || has(now)) {
		return now, nil
	}
	var all []*context
	for _, x := range c.lib.allContexts() {
		if has(x) {
			all = append(all, x)
		}
	}
	if len(all) == 1 {
		return all[0], nil
	}
	return now, err
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
	if h == nil || off != 0 || h.Managed() {
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
	if h, off := x.HostMemAt(c.u64(1), 1); h != nil {
		return to.set(uint64(h.DevicePtr()) + off)
	}
	if _, n, _ := x.registered(c.u64(1)); n > 0 {
		return c.fail(cuda.ErrNotSupported, "memory of the program's own cannot be mapped for the device; allocate it with cuMemHostAlloc")
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

// lending is memory by cuMemHostRegister.
type lending struct{ bytes, id uint64 }

// lastLending is the ID of the last one. They count down, so that they are no allocation's.
var lastLending atomic.Uint64

// memHostRegister only notes the range: a guest's driver cannot grant pages that
// it did not make, so copies from and to it go through pinned memory as ever.
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
		return c.fail(cuda.ErrNotPermitted, "memory of devices")
	}
	for _, at := range []uint64{p, p + n - 1} {
		if _, err := c.read(at, 1); err != nil {
			return err
		}
		if _, h, _ := c.hostMem(at, 1); h != nil {
			return c.fail(cuda.ErrInvalidValue, "0x%x lies in pinned memory", at)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for at, of := range x.lent {
		if p < at+of.bytes && at < p+n {
			return c.fail(alreadyRegistered, "%d bytes at 0x%x", n, p)
		}
	}
	x.lent[p] = lending{n, -lastLending.Add(1)}
	return nil
}

// registered finds what was registered around an address: its beginning, bytes and ID.
func (c *context) registered(p uint64) (start, bytes, id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, of := range c.lent {
		if p >= at && p-at < of.bytes {
			return at, of.bytes, of.id
		}
	}
	return 0, 0, 0
}

func memHostUnregister(c *call) error {
	x, err := c.current()
	if err != nil {
		return err
	}
	if _, h, _ := c.hostMem(c.u64(0), 1); h != nil {
		return c.fail(cuda.ErrInvalidValue, "0x%x lies in pinned memory", c.u64(0))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.lent[c.u64(0)]; !ok {
		return c.fail(notRegistered, "nothing is registered at 0x%x", c.u64(0))
	}
	delete(x.lent, c.u64(0))
	return nil
}

// Attributes of CUpointer_attribute, and memory types of CUmemorytype.
const (
	pointerContext    = 1
	pointerType       = 2
	pointerDevice     = 3
	pointerHost       = 4
	pointerSyncMemops = 6
	pointerBuffer     = 7
	pointerManaged    = 8
	pointerOrdinal    = 9
	pointerLegacyIPC  = 10
	pointerRangeStart = 11
	pointerRangeSize  = 12
	pointerMapped     = 13
	pointerHandles    = 14 // kinds of handles for other processes
	pointerRDMA       = 15
	pointerAccess     = 16
	pointerPool       = 17
	pointerMapSize    = 18
	pointerMapStart   = 19
	pointerBlock      = 20
	pointerDecompress = 21

	accessReadWrite = 3  // CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE: by the device
	invalidDevice   = -2 // CU_DEVICE_INVALID

	memoryHost    = 1
	memoryDevice  = 2
	memoryArray   = 3
	memoryUnified = 4
)

// pointed describes the memory at an address of the program or of the device.
type pointed struct {
	ctx         *context
	kind        uint64
	dev, host   uint64
	start, size uint64
	id          uint64
	managed     bool
	pool        uint64
	mapped      bool // for the device
	exports     bool // to other processes
}

// pointed finds memory of the context that ofMemory finds.
func (c *call) pointed(p uint64) (pointed, bool) {
	x, err := c.ofMemory(p)
	if err != nil {
		return pointed{}, false
	}
	if h, off := x.HostMemAt(p, 1); h != nil {
		q := pointed{ctx: x, kind: memoryHost, dev: uint64(h.DevicePtr()) + off, host: p, start: h.Address(), size: uint64(len(h.Bytes())),
			id: x.AllocationID(h.DevicePtr()), managed: h.Managed(), mapped: true}
		if q.managed {
			q.kind = memoryDevice
		}
		return q, true
	}
	if base, n, err := x.MemGetAddressRange(cuda.DevicePtr(p)); err == nil {
		q := pointed{ctx: x, kind: memoryDevice, dev: p, start: uint64(base), size: n, id: x.AllocationID(base), mapped: true, exports: x.Exports(base)}
		if of := x.PoolOf(base); of != nil {
			q.pool = c.lib.poolHandle(of)
		}
		return q, true
	}
	if at, n, id := x.registered(p); n > 0 {
		return pointed{ctx: x, kind: memoryHost, host: p, start: at, size: n, id: id}, true
	}
	return pointed{}, false
}

// value returns an attribute and its size in bytes, which is 0 where PVDRM does not answer it.
func (q pointed) value(attr uint32) (v uint64, n int) {
	flag := func(set bool) (uint64, int) {
		if set {
			return 1, 4
		}
		return 0, 4
	}
	switch attr {
	case pointerContext:
		return q.ctx.handle, 8
	case pointerType:
		return q.kind, 4
	case pointerDevice:
		return q.dev, 8
	case pointerHost:
		return q.host, 8
	case pointerSyncMemops:
		return flag(q.ctx.waitsForMemory())
	case pointerBuffer, pointerBlock:
		return q.id, 8
	case pointerManaged:
		return flag(q.managed)
	case pointerOrdinal:
		return 0, 4
	case pointerLegacyIPC:
		return flag(q.exports)
	case pointerRDMA, pointerDecompress:
		return flag(false)
	case pointerHandles:
		return 0, 8
	case pointerPool:
		return q.pool, 8
	case pointerRangeStart, pointerMapStart:
		return q.start, 8
	case pointerRangeSize, pointerMapSize:
		return q.size, 8
	case pointerAccess:
		if q.mapped {
			return accessReadWrite, 4
		}
		return 0, 4
	case pointerMapped:
		return flag(q.mapped)
	}
	return 0, 0
}

func pointerGetAttribute(c *call) error {
	q, ok := c.pointed(c.u64(2))
	if !ok {
		return c.fail(cuda.ErrInvalidValue, "0x%x is not memory of CUDA", c.u64(2))
	}
	v, n := q.value(c.u32(1))
	if n == 0 || (c.u32(1) == pointerHost || c.u32(1) == pointerDevice) && v == 0 {
		return c.fail(cuda.ErrInvalidValue, "no attribute %d of 0x%x", c.u32(1), c.u64(2))
	}
	to, err := c.out(0, n)
	if err != nil {
		return err
	}
	return to.set(v)
}

func pointerGetAttributes(c *call) error {
	n := c.u32(0)
	if n == 0 || n > 64 {
		return c.fail(cuda.ErrInvalidValue, "%d attributes", n)
	}
	attrs, err := c.read(c.u64(1), 4*int(n))
	if err != nil {
		return err
	}
	data, err := c.read(c.u64(2), 8*int(n))
	if err != nil {
		return err
	}
	q, ok := c.pointed(c.u64(3))
	for i := range int(n) {
		attr, to := le32(attrs[4*i:]), le64(data[8*i:])
		v, size := pointed{ctx: &context{}}.value(attr)
		if ok {
			v, size = q.value(attr)
		}
		if size == 0 || to == 0 {
			return c.fail(cuda.ErrInvalidValue, "no attribute %d", attr)
		}
		if !ok {
			v = 0 // strange memory has zeros and no device, and is no error
			if attr == pointerOrdinal {
				v = math.MaxUint64 + 1 + invalidDevice
			}
		}
		if err := (out{c, to, size}).set(v); err != nil {
			return err
		}
	}
	return nil
}
