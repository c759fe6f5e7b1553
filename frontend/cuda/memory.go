package cuda

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"pvdrm/drm"
)

// DevicePtr is a CUdeviceptr: a GPU virtual address.
type DevicePtr uint64

// What heaps are made with. A chunk is what small requests share, if the page
// of the domain is not larger. Pinned memory is dear to make in a guest, so its
// chunks are small.
const (
	vramChunk   = 1 << 20
	vramAlign   = 256 // what CUDA promises for cuMemAlloc
	systemChunk = 64 << 10
	systemAlign = 64 // a cache line
)

// memory is what a context has allocated.
type memory struct {
	mu      sync.Mutex
	vram    *heap
	system  *heap
	unified *heap              // in the addresses of system; nil where the driver is no drm.Placer
	byAddr  ranges[allocation] // what a DevicePtr may point to
	pinned  ranges[*HostMem]   // by address in the program
	retired []retired

	// Pools: arena.go.
	arenas  map[*Pool]*arena
	spare   *object     // of the smallest segment, which no pool has reserved; may be nil
	leaving []leaving   // the oldest first
	pooled  atomic.Bool // there was an arena, memory that is leaving or memory of a graph

	graphs map[*GraphMem]struct{} // graphmem.go

	imports map[SharedMemory]*imported // share.go
}

// allocation is what a range of GPU addresses is. At most one of its fields but the
// ID is set; a variable of a module has none.
type allocation struct {
	id     uint64
	vram   *block
	host   *HostMem
	pooled *segment  // of a pool
	graph  *GraphMem // of a node, also while it is not allocated
	mapped bool      // by cuMemMap

	imported *imported // of another process
}

// lastAllocation is the ID of the allocation that was made last.
var lastAllocation atomic.Uint64

// note adds a range of GPU addresses to byAddr, with a new ID. M.mu is held.
func (m *memory) note(addr, n uint64, a allocation) {
	a.id = lastAllocation.Add(1)
	m.byAddr.insert(addr, n, a)
}

// leaving is a block of cuMemAlloc, or memory of another process's pool, that was freed in the order
// of a stream.
type leaving struct {
	after    []point
	block    block
	imported *imported // nil: the block
}

// freeable reports whether cuMemFree and cuMemFreeAsync take the address of an allocation.
func (a allocation) freeable() bool {
	return a.vram != nil || a.pooled != nil || a.graph != nil || a.imported != nil && a.imported.pool != nil
}

// retired is a block that queued work still writes to.
type retired struct {
	until point
	block block
}

func (m *memory) setUp(dev *Device, f drm.File, vram, system window) (err error) {
	if m.vram, err = newHeap(f, drm.DomainVRAM, vram, &dev.vram, vramChunk, vramAlign); err != nil {
		return err
	}
	if m.system, err = newHeap(f, drm.DomainSystem, system, &dev.system, systemChunk, systemAlign); err != nil {
		return err
	}
	if p, ok := f.(drm.Placer); ok {
		h := *m.system
		h.placer, h.whole = p, map[uint64]*object{}
		m.unified = &h
	}
	return nil
}

func (m *memory) close(report func(error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range m.pinned.list {
		e.value.block.mem = nil
	}
	m.byAddr, m.pinned, m.retired = ranges[allocation]{}, ranges[*HostMem]{}, nil
	for _, x := range m.leaving {
		if x.imported != nil {
			report(m.vram.file.GemClose(x.imported.handle))
		}
	}
	m.leaving = nil
	m.closeGraphs(report)
	for _, x := range m.imports {
		report(m.vram.file.GemClose(x.handle))
	}
	clear(m.imports)
	m.closePools(report)
	m.vram.close(report)
	m.system.close(report)
	if m.unified != nil {
		m.unified.close(report)
	}
}

// leave gives the addresses back, when the file is closed and nothing of it is mapped any more.
func (m *memory) leave() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var errs []error
	for _, h := range []*heap{m.vram, m.system} {
		if h != nil { // where setting up has failed one may be missing
			errs = append(errs, h.space.close())
		}
	}
	return errors.Join(errs...)
}

// holds says whether [addr, addr+n) lies in one allocation or variable, or in mappings
// side by side. M.mu is held.
func (m *memory) holds(addr, n uint64) bool {
	e, ok := m.byAddr.find(addr, 1)
	for ok && n > e.start+e.n-addr && e.value.mapped {
		addr, n = e.start+e.n, n-(e.start+e.n-addr)
		if e, ok = m.byAddr.find(addr, 1); ok {
			ok = e.value.mapped
		}
	}
	return ok && n <= e.start+e.n-addr
}

// check is nil when [p, p+n) is memory of the context, or of another one that it reaches.
func (c *Context) check(call, what string, p DevicePtr, n uint64) error {
	c.memory.mu.Lock()
	own := c.memory.holds(uint64(p), n)
	c.memory.mu.Unlock()
	if !own && !c.reaches(uint64(p), n) {
		return errorf(call, ErrInvalidValue, "%s: %d bytes at 0x%x do not lie in one allocation of the context", what, n, uint64(p))
	}
	return nil
}

// MemAlloc is cuMemAlloc: n bytes of device memory, at a multiple of 256. What
// they hold is undefined, but never anything of another context.
func (c *Context) MemAlloc(n uint64) (DevicePtr, error) {
	const call = "cuMemAlloc"
	if err := c.enter(call); err != nil {
		return 0, err
	}
	defer c.life.RUnlock()
	return c.memAlloc(call, n)
}

func (c *Context) memAlloc(call string, n uint64) (DevicePtr, error) {
	if n == 0 {
		return 0, errorf(call, ErrInvalidValue, "the size is 0")
	}
	m := &c.memory
	p, err := m.allocVRAM(n)
	if m.pooled.Load() && err != nil && resultOf(err) == ErrOutOfMemory {
		if err := c.waitIdle(call); err != nil {
			return 0, err
		}
		if err := c.reclaim(call); err != nil {
			return 0, err
		}
		p, err = m.allocVRAM(n)
	}
	if err != nil {
		return 0, c.fail(call, fmt.Errorf("%d bytes of device memory: %w", n, err))
	}
	return p, nil
}

func (m *memory) allocVRAM(n uint64) (DevicePtr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, err := m.vram.alloc(n)
	if err != nil {
		return 0, err
	}
	m.note(b.addr, n, allocation{vram: &b})
	return DevicePtr(b.addr), nil
}

// pitchAlign is what rows that MemAllocPitch makes are aligned to, in bytes.
const pitchAlign = 512

// MemAllocPitch is cuMemAllocPitch: device memory for height rows of width
// bytes that start pitch bytes apart. Element is the size of what kernels
// access: 4, 8 or 16 bytes.
func (c *Context) MemAllocPitch(width, height uint64, element uint32) (p DevicePtr, pitch uint64, err error) {
	const call = "cuMemAllocPitch"
	if err := c.enter(call); err != nil {
		return 0, 0, err
	}
	defer c.life.RUnlock()
	if element != 4 && element != 8 && element != 16 {
		return 0, 0, errorf(call, ErrInvalidValue, "elements of %d bytes; 4, 8 and 16 are possible", element)
	}
	pitch = (width + pitchAlign - 1) &^ (pitchAlign - 1)
	n, ok := product(pitch, height)
	if pitch < width || !ok {
		return 0, 0, errorf(call, ErrOutOfMemory, "%d rows of %d bytes", height, width)
	}
	p, err = c.memAlloc(call, n)
	return p, pitch, err
}

// MemFree is cuMemFree. It waits for the work of the context first, as CUDA
// does. P must be what MemAlloc or MemAllocAsync returned; ErrInvalidValue otherwise.
func (c *Context) MemFree(p DevicePtr) error {
	const call = "cuMemFree"
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	m := &c.memory
	find := func() (allocation, error) {
		e, ok := m.byAddr.find(uint64(p), 1)
		if !ok || e.start != uint64(p) || !e.value.freeable() {
			return allocation{}, errorf(call, ErrInvalidValue, "no device memory was allocated at 0x%x, or it is freed already", uint64(p))
		}
		return e.value, nil
	}
	m.mu.Lock()
	_, err := find()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if err := c.waitIdle(call); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	a, err := find() // again: another goroutine may have been faster
	if err != nil {
		return err
	}
	if a.graph != nil {
		return a.graph.freed(call, nil)
	}
	if a.imported != nil {
		return c.closeImport(call, a.imported)
	}
	m.byAddr.remove(uint64(p))
	if a.pooled != nil {
		a.pooled.free(uint64(p), nil, nil)
		return nil
	}
	if err := m.vram.free(*a.vram); err != nil {
		return c.fail(call, err)
	}
	return nil
}

// MemGetInfo is cuMemGetInfo: bytes of device memory free now and in all. What other guests use is not free
// on a software GPU that they share, and on a GPU with a driver where this guest has no limit.
func (c *Context) MemGetInfo() (free, total uint64, err error) {
	const call = "cuMemGetInfo"
	if err := c.enter(call); err != nil {
		return 0, 0, err
	}
	defer c.life.RUnlock()
	used, err := c.file.GetParam(drm.ParamVRAMUsed)
	if err != nil {
		return 0, 0, c.fail(call, err)
	}
	total = c.dev.TotalMem()
	free = total - min(used, total)
	if a, ok := c.file.(drm.Asker); ok && c.dev.Images() {
		if left, err := a.Ask(drm.AskFree, 0, nil); err == nil && len(left) == 1 { // else there is a limit, or an older backend
			free = min(free, left[0])
		}
	}
	return free, total, nil
}

// MemGetAddressRange is cuMemGetAddressRange: the allocation in which p lies.
func (c *Context) MemGetAddressRange(p DevicePtr) (base DevicePtr, n uint64, err error) {
	const call = "cuMemGetAddressRange"
	if err := c.enter(call); err != nil {
		return 0, 0, err
	}
	defer c.life.RUnlock()
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	e, ok := c.memory.byAddr.find(uint64(p), 1)
	if !ok || e.value.graph != nil && !e.value.graph.inUse {
		return 0, 0, errorf(call, ErrNotFound, "0x%x lies in no allocation of the context", uint64(p))
	}
	return DevicePtr(e.start), e.n, nil
}

// AllocationID is CU_POINTER_ATTRIBUTE_BUFFER_ID: no other allocation of the process has or had
// the same. It is 0 where p lies in none of the context.
func (c *Context) AllocationID(p DevicePtr) uint64 {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	e, _ := c.memory.byAddr.find(uint64(p), 1)
	return e.value.id
}

// product multiplies; ok is false when the result needs more than 64 bits.
func product(a, b uint64) (n uint64, ok bool) {
	n = a * b
	return n, a == 0 || n/a == b
}
