package cuda

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"syscall"

	"pvdrm/drm"
)

// Pool is a CUmemoryPool: device memory that allocations in the order of streams
// come from and go back to. It belongs to the device. Its memory lies in the
// address spaces of the contexts that allocate from it, each of which has an arena.
type Pool struct {
	dev *Device
	max uint64 // bytes that it may reserve

	// Other processes know it by this; zero: it is of no concern to them.
	id       drm.Key
	imported bool // of another process: nothing is allocated from it here

	mu        sync.Mutex // innermost
	destroyed bool
	reuse     [3]bool // by PoolAttribute, from PoolReuseFollowEventDependencies on
	threshold uint64  // bytes that synchronization leaves in the pool
	reserved  level
	used      level
	contexts  map[*Context]struct{} // that have an arena
}

// level is an amount, and the highest that it has been.
type level struct{ now, high uint64 }

func (l *level) add(n uint64) {
	l.now += n
	l.high = max(l.high, l.now)
}

// PoolAttribute is a CUmemPool_attribute, with the numbers of cuda.h.
type PoolAttribute int

// Attributes of pools. The first three are 0 or 1, the others bytes.
const (
	PoolReuseFollowEventDependencies   PoolAttribute = 1
	PoolReuseAllowOpportunistic        PoolAttribute = 2
	PoolReuseAllowInternalDependencies PoolAttribute = 3
	PoolReleaseThreshold               PoolAttribute = 4
	PoolReservedCurrent                PoolAttribute = 5
	PoolReservedHigh                   PoolAttribute = 6
	PoolUsedCurrent                    PoolAttribute = 7
	PoolUsedHigh                       PoolAttribute = 8
)

// pools are those of a device.
type pools struct {
	mu       sync.Mutex
	standard *Pool // cuDeviceGetDefaultMemPool; made when it is first asked for
	current  *Pool // cuDeviceGetMemPool; nil: the default one
}

// Device returns the device that the pool belongs to.
func (p *Pool) Device() *Device { return p.dev }

// DefaultPool is cuDeviceGetDefaultMemPool.
func (dev *Device) DefaultPool() *Pool {
	dev.pools.mu.Lock()
	defer dev.pools.mu.Unlock()
	return dev.defaultPool()
}

// defaultPool makes the default pool at its first use. Dev.pools.mu is held.
func (dev *Device) defaultPool() *Pool {
	if dev.pools.standard == nil {
		dev.pools.standard = dev.newPool(math.MaxUint64)
	}
	return dev.pools.standard
}

func (dev *Device) newPool(most uint64) *Pool {
	return &Pool{dev: dev, max: most, reuse: [3]bool{true, true, true}, contexts: map[*Context]struct{}{}}
}

// Pool is cuDeviceGetMemPool: the pool that MemAllocAsync allocates from.
func (dev *Device) Pool() *Pool {
	dev.pools.mu.Lock()
	defer dev.pools.mu.Unlock()
	if dev.pools.current != nil {
		return dev.pools.current
	}
	return dev.defaultPool()
}

// SetPool is cuDeviceSetMemPool.
func (dev *Device) SetPool(p *Pool) error {
	const call = "cuDeviceSetMemPool"
	dev.pools.mu.Lock()
	defer dev.pools.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dev != dev || p.destroyed || p.imported {
		return errorf(call, ErrInvalidValue, "the pool is destroyed, or of another device or process")
	}
	dev.pools.current = p
	return nil
}

// NewPool is cuMemPoolCreate. The pool reserves at most so many bytes, rounded up
// to what it reserves at once; 0: as many as the device has.
func (dev *Device) NewPool(most uint64) *Pool {
	if most == 0 || most > math.MaxUint64-poolChunk {
		return dev.newPool(math.MaxUint64)
	}
	return dev.newPool((most + poolChunk - 1) / poolChunk * poolChunk)
}

// Destroy is cuMemPoolDestroy. Memory that is allocated stays so until it is
// freed. The device's default pool cannot be destroyed; it takes the place of a
// pool that was the device's current one.
func (p *Pool) Destroy() error {
	const call = "cuMemPoolDestroy"
	if err := p.end(call); err != nil {
		return err
	}
	return p.trim(call, 0)
}

// end marks the pool as destroyed.
func (p *Pool) end(call string) error {
	d := &p.dev.pools
	d.mu.Lock()
	defer d.mu.Unlock()
	if p == d.standard {
		return errorf(call, ErrInvalidValue, "the default pool of the device cannot be destroyed")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.destroyed {
		return errorf(call, ErrInvalidValue, "the pool is destroyed already")
	}
	p.destroyed, p.threshold = true, 0
	if d.current == p {
		d.current = nil
	}
	return nil
}

// TrimTo is cuMemPoolTrimTo: it frees what the pool has reserved and does not use
// until no more than keep bytes are left.
func (p *Pool) TrimTo(keep uint64) error {
	const call = "cuMemPoolTrimTo"
	if err := p.lives(call); err != nil {
		return err
	}
	return p.trim(call, keep)
}

func (p *Pool) trim(call string, keep uint64) error {
	p.mu.Lock()
	contexts := slices.Collect(maps.Keys(p.contexts))
	p.mu.Unlock()
	for _, c := range contexts {
		if err := c.trimPool(call, p, keep); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pool) lives(call string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.destroyed {
		return errorf(call, ErrInvalidValue, "the pool is destroyed")
	}
	return nil
}

// Attribute is cuMemPoolGetAttribute.
func (p *Pool) Attribute(a PoolAttribute) (uint64, error) {
	const call = "cuMemPoolGetAttribute"
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.destroyed {
		return 0, errorf(call, ErrInvalidValue, "the pool is destroyed")
	}
	switch a {
	case PoolReuseFollowEventDependencies, PoolReuseAllowOpportunistic, PoolReuseAllowInternalDependencies:
		if p.reuse[a-PoolReuseFollowEventDependencies] {
			return 1, nil
		}
		return 0, nil
	case PoolReleaseThreshold:
		return p.threshold, nil
	case PoolReservedCurrent:
		return p.reserved.now, nil
	case PoolReservedHigh:
		return p.reserved.high, nil
	case PoolUsedCurrent:
		return p.used.now, nil
	case PoolUsedHigh:
		return p.used.high, nil
	}
	return 0, errorf(call, ErrInvalidValue, "pools have no attribute %d", int(a))
}

// SetAttribute is cuMemPoolSetAttribute. The highest amounts can be set to 0 only,
// from when on they are counted again; the current ones cannot be set.
func (p *Pool) SetAttribute(a PoolAttribute, v uint64) error {
	const call = "cuMemPoolSetAttribute"
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.destroyed {
		return errorf(call, ErrInvalidValue, "the pool is destroyed")
	}
	switch a {
	case PoolReuseFollowEventDependencies, PoolReuseAllowOpportunistic, PoolReuseAllowInternalDependencies:
		p.reuse[a-PoolReuseFollowEventDependencies] = v != 0
		return nil
	case PoolReleaseThreshold:
		p.threshold = v
		return nil
	case PoolReservedHigh, PoolUsedHigh:
		if v != 0 {
			return errorf(call, ErrInvalidValue, "attribute %d can be set to 0 only, not to %d", int(a), v)
		}
		l := &p.reserved
		if a == PoolUsedHigh {
			l = &p.used
		}
		l.high = l.now
		return nil
	}
	return errorf(call, ErrInvalidValue, "attribute %d cannot be set", int(a))
}

// reuses reports whether the pool may reuse memory in the way that a names.
func (p *Pool) reuses(a PoolAttribute) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reuse[a-PoolReuseFollowEventDependencies]
}

// forget takes a context off a pool that is destroyed and has no memory there any
// more; ok is false where the pool is not destroyed.
func (p *Pool) forget(c *Context) (ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.destroyed {
		delete(p.contexts, c)
	}
	return p.destroyed
}

// reserve counts n bytes that an arena takes from the device.
func (p *Pool) reserve(n uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n > p.max-min(p.max, p.reserved.now) {
		return fmt.Errorf("%d bytes more than the %d of a pool that may reserve %d: %w", n, p.reserved.now, p.max, syscall.ENOMEM)
	}
	p.reserved.add(n)
	return nil
}

// exceeds reports whether the pool has reserved more than keep bytes.
func (p *Pool) exceeds(keep uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reserved.now > keep
}

func (p *Pool) unreserve(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reserved.now -= n
}

func (p *Pool) use(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used.add(n)
}

func (p *Pool) unuse(n uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used.now -= n
}

// releaseThreshold is how many bytes synchronization leaves in the pool.
func (p *Pool) releaseThreshold() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.threshold
}

// MemAllocAsync is cuMemAllocAsync: MemAllocFromPool with the device's current pool.
func (c *Context) MemAllocAsync(n uint64, s *Stream) (DevicePtr, error) {
	return c.allocAsync("cuMemAllocAsync", c.dev.Pool(), n, s)
}

// MemAllocFromPool is cuMemAllocFromPoolAsync: n bytes of device memory for work
// that is queued on the stream after the call, and for other work that is ordered
// after it.
func (c *Context) MemAllocFromPool(p *Pool, n uint64, s *Stream) (DevicePtr, error) {
	return c.allocAsync("cuMemAllocFromPoolAsync", p, n, s)
}

func (c *Context) allocAsync(call string, p *Pool, n uint64, s *Stream) (DevicePtr, error) {
	s, err := c.enterFor(call, s)
	if err != nil {
		return 0, err
	}
	defer c.life.RUnlock()
	if n == 0 {
		return 0, errorf(call, ErrInvalidValue, "the size is 0")
	}
	if err := p.lives(call); err != nil {
		return 0, err
	}
	if p.dev != c.dev || p.imported {
		return 0, errorf(call, ErrInvalidValue, "the pool belongs to another device or process")
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	addr, err := c.memory.arena(p, c).alloc(call, n, s)
	if err != nil {
		return 0, err
	}
	return DevicePtr(addr), nil
}

// MemFreeAsync is cuMemFreeAsync: the memory is free for work that is queued on the
// stream after the call. Memory that is of no pool goes back to the device when
// that work would begin.
func (c *Context) MemFreeAsync(at DevicePtr, s *Stream) error {
	const call = "cuMemFreeAsync"
	s, err := c.enterFor(call, s)
	if err != nil {
		return err
	}
	defer c.life.RUnlock()
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byAddr.find(uint64(at), 1)
	if !ok || e.start != uint64(at) || !e.value.freeable() {
		return errorf(call, ErrInvalidValue, "no device memory was allocated at 0x%x, or it is freed already", uint64(at))
	}
	after, err := c.frontier(call, s)
	if err != nil {
		return err
	}
	if e.value.graph != nil {
		return e.value.graph.freed(call, after)
	}
	if x := e.value.imported; x != nil {
		if m.closes(x) {
			m.leaving = append(m.leaving, leaving{after: after, imported: x})
			m.pooled.Store(true)
		}
		return c.letGo(call)
	}
	m.byAddr.remove(e.start)
	if e.value.pooled != nil {
		e.value.pooled.free(e.start, s, after)
		return nil
	}
	m.leaving = append(m.leaving, leaving{after: after, block: *e.value.vram})
	m.pooled.Store(true)
	return c.letGo(call)
}

// frontier lists what the next work of s would follow and is not known to be done.
func (c *Context) frontier(call string, s *Stream) ([]point, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.dead:
		return nil, errorf(call, ErrInvalidHandle, "the stream is destroyed")
	case s.task != nil:
		return nil, errorf(call, ErrNotPermitted, "the stream collects a task, whose memory cannot be freed in the order of the stream")
	}
	return c.unreached(s), nil
}

// unreached is frontier for any stream, one that is destroyed, too. C.mu is held.
func (c *Context) unreached(s *Stream) []point {
	var after []point
	if s.last > s.done {
		after = append(after, point{s, s.last})
	}
	c.collectWaits(s)
	return append(after, c.waited...)
}

// PoolOf is CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE: the pool in whose memory p lies, or
// nil where there is none or it is destroyed.
func (c *Context) PoolOf(p DevicePtr) *Pool {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	e, ok := c.memory.byAddr.find(uint64(p), 1)
	var of *Pool
	switch {
	case ok && e.value.pooled != nil:
		of = e.value.pooled.of.pool
	case ok && e.value.imported != nil:
		of = e.value.imported.pool
	}
	if of == nil {
		return nil
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	if of.destroyed {
		return nil
	}
	return of
}

// trimPool is Pool.trim for a context, which may be destroyed or lost: then it has
// nothing to free.
func (c *Context) trimPool(call string, p *Pool, keep uint64) error {
	if c.enter(call) != nil {
		return nil
	}
	defer c.life.RUnlock()
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	a := c.memory.arenas[p]
	if a == nil {
		return nil
	}
	if err := a.settle(call, true); err != nil {
		return err
	}
	if err := a.shrink(call, keep); err != nil {
		return err
	}
	if err := c.memory.dropSpare(); err != nil {
		return c.fail(call, err)
	}
	return nil
}

// releasePools frees what pools keep beyond their thresholds after the program has
// waited for work.
func (c *Context) releasePools(call string) error {
	if !c.memory.pooled.Load() {
		return nil
	}
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	all := []error{c.letGo(call), c.trimGraphs(call, false)}
	for _, a := range c.memory.arenas {
		if keep := a.pool.releaseThreshold(); a.pool.exceeds(keep) {
			all = append(all, a.settle(call, false), a.shrink(call, keep))
		}
	}
	return errors.Join(all...)
}
