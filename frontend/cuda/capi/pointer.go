package capi

import (
	"cmp"
	"math"

	"pvdrm/frontend/cuda"
)

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
	ordinal     int // of its device
	kind        uint64
	dev, host   uint64
	start, size uint64
	pages, room uint64 // that it lies in, and how many bytes these have; 0: the same
	id          uint64
	managed     bool
	pool        uint64
	mapped      bool // for the device
	exports     bool // to other processes, by cuIpcGetMemHandle
	shareable   bool // by a descriptor
}

// pointed finds memory of the context that ofMemory finds.
func (c *call) pointed(p uint64) (pointed, bool) {
	x, err := c.ofMemory(p)
	if err != nil {
		return pointed{}, false
	}
	q, ok := c.pointedIn(x, p)
	q.ordinal = x.Device().Ordinal()
	return q, ok
}

// pointedIn finds memory of a context.
func (c *call) pointedIn(x *context, p uint64) (pointed, bool) {
	if h, off := x.HostMemAt(p, 1); h != nil {
		q := pointed{ctx: x, kind: memoryHost, dev: uint64(h.DevicePtr()) + off, host: p, start: h.Address(), size: h.Size(),
			id: x.AllocationID(h.DevicePtr()), managed: h.Managed(), mapped: true}
		if q.managed {
			q.kind = memoryDevice
		}
		q.pages, q.room = h.Pages()
		return q, true
	}
	if base, n, err := x.MemGetAddressRange(cuda.DevicePtr(p)); err == nil {
		q := pointed{ctx: x, kind: memoryDevice, dev: p, start: uint64(base), size: n, id: x.AllocationID(base), mapped: true, exports: x.Exports(base)}
		q.shareable = x.Shareable(base)
		if of := x.PoolOf(base); of != nil {
			q.pool = c.lib.poolHandle(of)
		}
		return q, true
	}
	if l, at := x.registered(p); l.bytes > 0 {
		return pointed{ctx: x, kind: memoryHost, host: p, start: at, size: l.bytes, id: l.id}, true
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
		return flag(q.ctx.syncs(q.id))
	case pointerBuffer, pointerBlock:
		return q.id, 8
	case pointerManaged:
		return flag(q.managed)
	case pointerOrdinal:
		return uint64(q.ordinal), 4
	case pointerLegacyIPC:
		return flag(q.exports)
	case pointerRDMA, pointerDecompress:
		return flag(false)
	case pointerHandles:
		if q.shareable {
			return handleFile, 8
		}
		return handleNone, 8
	case pointerPool:
		return q.pool, 8
	case pointerRangeStart:
		return q.start, 8
	case pointerRangeSize:
		return q.size, 8
	case pointerMapStart:
		return cmp.Or(q.pages, q.start), 8
	case pointerMapSize:
		return cmp.Or(q.room, q.size), 8
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

// syncs reports whether calls without a stream that use an allocation wait for copies within the device, too.
func (c *context) syncs(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flags&contextMemops != 0 || c.synced[id]
}

// pointerSetAttribute gets (value, attribute, address). There is one attribute that can be set; while an
// allocation has it, calls of the context wait as if all had.
func pointerSetAttribute(c *call) error {
	if c.u32(1) != pointerSyncMemops {
		return c.fail(cuda.ErrInvalidValue, "attribute %d cannot be set", c.u32(1))
	}
	value, err := c.read(c.u64(0), 4)
	if err != nil {
		return err
	}
	q, ok := c.pointed(c.u64(2))
	if !ok || !q.mapped {
		return c.fail(cuda.ErrInvalidValue, "0x%x is no memory that CUDA has allocated", c.u64(2))
	}
	q.ctx.mu.Lock()
	defer q.ctx.mu.Unlock()
	if le32(value) == 0 {
		delete(q.ctx.synced, q.id)
		return nil
	}
	if q.ctx.synced == nil {
		q.ctx.synced = map[uint64]bool{}
	}
	q.ctx.synced[q.id] = true
	return nil
}
