package cuda

import (
	"crypto/rand"

	"pvdrm/drm"
)

// Pools whose memory other processes of the guest may have. What a process hands to another is the
// id of the pool, which names nothing but ties pointers to it, and then keys of the memory in which
// allocations lie.

// NewSharedPool is NewPool for other processes, too.
func (dev *Device) NewSharedPool(most uint64) (*Pool, error) {
	if dev.Shares() == 0 {
		return nil, errUnshared("cuMemPoolCreate")
	}
	p := dev.NewPool(most)
	_, _ = rand.Read(p.id[:]) // it never fails: the program ends instead
	return p, nil
}

// Share is cuMemPoolExportToShareableHandle: the id by which other processes import the pool.
func (p *Pool) Share() (drm.Key, error) {
	const call = "cuMemPoolExportToShareableHandle"
	if err := p.lives(call); err != nil {
		return drm.Key{}, err
	}
	if p.id == (drm.Key{}) || p.imported {
		return drm.Key{}, errorf(call, ErrInvalidValue, "the pool was not created for other processes, or is another process's")
	}
	return p.id, nil
}

// ImportPool is cuMemPoolImportFromShareableHandle. Its memory is opened by OpenPoolMemory; nothing
// can be allocated from it.
func (dev *Device) ImportPool(id drm.Key) (*Pool, error) {
	const call = "cuMemPoolImportFromShareableHandle"
	if dev.Shares() == 0 {
		return nil, errUnshared(call)
	}
	if id == (drm.Key{}) {
		return nil, errorf(call, ErrInvalidValue, "the handle names no pool")
	}
	p := dev.NewPool(0)
	p.id, p.imported = id, true
	return p, nil
}

// Shareable reports whether memory of cuMemCreate or of a pool at an address was made for other
// processes, too.
func (c *Context) Shareable(p DevicePtr) bool {
	c.memory.mu.Lock()
	e, _ := c.memory.byAddr.find(uint64(p), 1)
	c.memory.mu.Unlock()
	switch a := e.value; {
	case a.pooled != nil:
		return a.pooled.of.pool.id != (drm.Key{})
	case a.mapped:
		v := &c.dev.virtual
		v.mu.Lock()
		defer v.mu.Unlock()
		x, ok := v.mappings.find(uint64(p), 1)
		return ok && x.value.mem.shareable
	}
	return e.value.imported != nil && e.value.imported.pool != nil
}

// SharePoolMemory is cuMemPoolExportPointer: the names of the pool and of an allocation from it.
func (c *Context) SharePoolMemory(p DevicePtr) (pool drm.Key, name SharedMemory, err error) {
	const call = "cuMemPoolExportPointer"
	if err := c.enter(call); err != nil {
		return pool, name, err
	}
	defer c.life.RUnlock()
	by, err := c.sharer(call)
	if err != nil {
		return pool, name, err
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.byAddr.find(uint64(p), 1)
	if !ok || e.start != uint64(p) || e.value.pooled == nil || e.value.pooled.of.pool.id == (drm.Key{}) {
		return pool, name, errorf(call, ErrInvalidValue, "0x%x is no allocation from a pool that was created for other processes", uint64(p))
	}
	o := e.value.pooled.obj
	if o.key == (drm.Key{}) {
		if o.key, err = by.GemShare(o.handle); err != nil {
			return pool, name, c.fail(call, err)
		}
	}
	return e.value.pooled.of.pool.id, SharedMemory{Key: o.key, At: e.start - o.addr, Len: e.n}, nil
}

// OpenPoolMemory is cuMemPoolImportPointer: an allocation from a pool of another process, until it
// is freed here as often as it was opened. Each time it has the same address.
func (c *Context) OpenPoolMemory(p *Pool, pool drm.Key, name SharedMemory) (DevicePtr, error) {
	const call = "cuMemPoolImportPointer"
	if err := p.lives(call); err != nil {
		return 0, err
	}
	if !p.imported || p.id != pool || p.dev != c.dev {
		return 0, errorf(call, ErrInvalidValue, "the memory is of another pool, or the pool is this process's own")
	}
	return c.openMemory(call, name, p)
}
