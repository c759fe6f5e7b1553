package softgpu

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
)

// context is one address space with its memories, modules and channels. It
// implements gpu.Context.
type context struct {
	dev   *device
	label string
	space *space
	life
	hold hold

	mu       sync.Mutex // one call at a time; see the package comment
	closed   bool
	memories map[*memory]struct{}
	modules  map[*module]struct{}
	channels map[*channel]struct{}
	lastID   uint64 // of memories, modules and channels

	output output
	heap   atomic.Pointer[mallocHeap] // nil before the first module that calls malloc

	busy [gpu.Engines]time.Duration // before the turn that goes on; under the mu of each engine

	closing sync.Once
}

func newContext(d *device, label string, s *space) *context {
	c := &context{
		dev: d, label: label, space: s,
		memories: map[*memory]struct{}{},
		modules:  map[*module]struct{}{},
		channels: map[*channel]struct{}{},
	}
	c.life.init()
	c.hold.init()
	c.output.all = &d.output
	return c
}

// Busy implements gpu.Meter.
func (c *context) Busy() (compute, copies time.Duration) {
	return c.dev.compute.busyFor(c), c.dev.copy.busyFor(c)
}

// nextID numbers the objects of the context in the order in which they are made.
// Preconditions: c.mu is held.
func (c *context) nextID() uint64 {
	c.lastID++
	return c.lastID
}

// Err implements gpu.Context.
func (c *context) Err() error { return c.life.Err() }

// wrap says which context an error is of.
func (c *context) wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("context %q: %s: %w", c.label, doing, err)
}

// lose ends the context after a fault.
func (c *context) lose(fault *gpu.LostError) {
	if !c.end(fault) {
		return
	}
	c.dev.faults.Add(1)
}

// NewVRAM implements gpu.Context.
func (c *context) NewVRAM(size uint64) (gpu.Memory, error) {
	m, err := c.newVRAM(size)
	if err != nil {
		return nil, c.wrap("allocate VRAM", err)
	}
	return m, nil
}

func (c *context) newVRAM(size uint64) (*memory, error) {
	if err := check.VRAM(&c.dev.props, size); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	ext, err := c.dev.vram.alloc(size)
	if err != nil {
		return nil, err
	}
	m := newVRAMMemory(c, ext)
	m.id = c.nextID()
	c.memories[m] = struct{}{}
	return m, nil
}

// NewSystem implements gpu.Context.
func (c *context) NewSystem(runs [][]byte) (gpu.Memory, error) {
	m, err := c.newSystem(runs)
	if err != nil {
		return nil, c.wrap("take system memory", err)
	}
	return m, nil
}

func (c *context) newSystem(runs [][]byte) (*memory, error) {
	if err := check.System(&c.dev.props, runs); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	c.space.mu.Lock()
	o, err := c.space.Bus.Add(runs)
	c.space.mu.Unlock()
	if err != nil {
		return nil, err
	}
	m := &memory{ctx: c, id: c.nextID(), size: o.Size, object: o}
	c.memories[m] = struct{}{}
	return m, nil
}

// Map implements gpu.Context.
func (c *context) Map(va uint64, m gpu.Memory, off, n uint64, prot gpu.Prot) error {
	return c.wrap("map", c.mapMemory(va, m, off, n, prot))
}

func (c *context) mapMemory(va uint64, mem gpu.Memory, off, n uint64, prot gpu.Prot) error {
	m, ok := mem.(*memory)
	if !ok || m == nil || m.ctx != c {
		return fmt.Errorf("%w: memory is not of this context", gpu.ErrInvalid)
	}
	if err := check.Map(m.window(), m.size, va, off, n, prot); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return err
	}
	if m.closed {
		return fmt.Errorf("memory %w", gpu.ErrClosed)
	}
	return c.space.insert(va, m, off, n, prot&gpu.ProtWrite == 0)
}

// Unmap implements gpu.Context.
func (c *context) Unmap(va, n uint64) error {
	return c.wrap("unmap", c.unmap(va, n))
}

func (c *context) unmap(va, n uint64) error {
	if err := check.Unmap(&c.dev.props, va, n); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return gpu.ErrClosed
	}
	dead, found, err := c.space.remove(va, n)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: nothing is mapped in %d bytes at 0x%x", gpu.ErrNotFound, n, va)
	}
	c.flushTLB()
	c.dev.vram.free(dead...)
	return nil
}

// flushTLB returns when no engine uses a translation of this context that it
// looked up before the call.
func (c *context) flushTLB() {
	c.space.settle()
	for _, k := range c.controls() {
		k.FlushTLB()
	}
}

// release takes a memory's mappings away and frees it. Preconditions: c.mu is held.
func (c *context) release(m *memory) {
	if m.closed {
		return
	}
	m.closed = true
	delete(c.memories, m)
	dead, found := c.space.removeMemory(m)
	if found {
		c.flushTLB()
	}
	c.dev.vram.free(dead...)
	m.freePages()
	if m.object != nil {
		c.space.mu.Lock()
		c.space.Bus.Remove(m.object)
		c.space.mu.Unlock()
	}
}

// Close implements gpu.Context.
func (c *context) Close() error {
	c.closing.Do(func() {
		c.end(gpu.ErrClosed)
		c.mu.Lock()
		c.closed = true
		open := make([]*channel, 0, len(c.channels))
		for ch := range c.channels {
			open = append(open, ch)
		}
		c.mu.Unlock()
		for _, ch := range open {
			ch.Close()
		}
		// Nothing runs any more, and nothing new comes.
		c.mu.Lock()
		defer c.mu.Unlock()
		for m := range c.modules {
			m.closed.Store(true)
		}
		for m := range c.memories {
			m.closed = true
			m.freePages()
		}
		clear(c.modules)
		clear(c.memories)
		c.space.destroy()
		c.output.close()
		c.dev.forget(c)
	})
	return nil
}
