package nvidia

import (
	"fmt"
	"os"
	"slices"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/internal/hostmem"
)

// memory is VRAM, or granted pages, of one context. It implements gpu.Memory.
type memory struct {
	ctx    *context
	id     uint64
	size   uint64         // bytes
	runs   []hostmem.Span // of granted pages; nil for VRAM
	closed bool           // guarded by ctx.mu
	kept   uint64         // by what name the keeper keeps it; 0 if it does not
	used   []bool         // pages that were mapped, and so cleared; where it is kept

	// Where it is not kept, for those who share it.
	touched []bool  // pages that were mapped
	first   uint32  // number of its first page among those that the worker has made
	known   bool    // that number is
	shared  *common // with others
	foreign bool    // another GPU has it
}

// Size implements gpu.Memory.
func (m *memory) Size() uint64 { return m.size }

// window returns where the memory may be mapped.
func (m *memory) window() gpu.Window {
	if m.runs != nil {
		return m.ctx.dev.props.System
	}
	return m.ctx.dev.props.VRAM
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
	if err := c.dev.charge(size); err != nil {
		return nil, err
	}
	m := &memory{ctx: c, id: c.id(), size: size}
	if err := c.allocate(m); err != nil {
		c.dev.discharge(size)
		return nil, err
	}
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
	m := &memory{ctx: c}
	for i, r := range runs {
		s, err := hostmem.Locate(r)
		if err != nil {
			return nil, fmt.Errorf("%w: run %d: %w", gpu.ErrInvalid, i, err)
		}
		if s.FileOffset()%uint64(os.Getpagesize()) != 0 {
			return nil, fmt.Errorf("%w: run %d lies at offset %#x of its file, not at a page", gpu.ErrInvalid, i, s.FileOffset())
		}
		m.runs = append(m.runs, s)
		m.size += s.Len
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.Err(); err != nil {
		return nil, err
	}
	m.id = c.id()
	c.memories[m] = struct{}{}
	return m, nil
}

// pieces returns what of the files is [off, off+n) of the memory, and the files.
func (m *memory) pieces(off, n uint64) (runs []run, fds []int) {
	for _, s := range m.runs {
		if off >= s.Len {
			off -= s.Len
			continue
		}
		k := min(s.Len-off, n)
		fd := s.Region.FD()
		file := slices.Index(fds, fd)
		if file < 0 {
			file, fds = len(fds), append(fds, fd)
		}
		runs = append(runs, run{File: file, Off: s.FileOffset() + off, Len: k})
		if off, n = 0, n-k; n == 0 {
			break
		}
	}
	return runs, fds
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
	if !c.space.free(va, n) {
		return fmt.Errorf("%w: %d bytes at 0x%x", gpu.ErrExists, n, va)
	}
	x := mapping{va: va, n: n, mem: m, off: off, write: prot&gpu.ProtWrite != 0}
	if err := c.establish(x); err != nil {
		return err
	}
	m.isUsed(off, n)
	c.space.insert(x)
	return nil
}

// establish has the worker map something. C.mu is held.
func (c *context) establish(x mapping) error {
	q, fds := x.request()
	if len(fds) > maxFiles {
		return fmt.Errorf("%w: granted pages of %d files; at most %d can be mapped at once", gpu.ErrInvalid, len(fds), maxFiles)
	}
	return c.do(q, fds, nil)
}

// request is what asks a worker for a mapping, and the files that go with it.
func (m *mapping) request() (q *request, fds []int) {
	q = &request{Op: opMap, ID: m.mem.id, VA: m.va, Off: m.off, Size: m.n, Write: m.write}
	if m.mem.runs != nil {
		q.Op = opMapSystem
		q.Runs, fds = m.mem.pieces(m.off, m.n)
	}
	return q, fds
}

// maxFiles is how many descriptors go with a request (SCM_MAX_FD).
const maxFiles = 253

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
	if c.space.free(va, n) {
		return fmt.Errorf("%w: nothing is mapped in %d bytes at 0x%x", gpu.ErrNotFound, n, va)
	}
	c.withdraw(va, n)
	return nil
}

// withdraw takes mappings away. When the worker cannot, the context is lost: then
// nothing of it is in use any more either. C.mu is held.
func (c *context) withdraw(va, n uint64) {
	c.graphs.unmap(va, n)
	c.loseWaits(va, n)
	cut := c.space.overlapping(va, n)
	rest := c.space.remove(va, n)
	err, worker := c.Err(), c.worker
	for _, x := range cut {
		if err != nil || c.worker != worker { // a new one maps what is left only
			break
		}
		if x.mem.runs != nil { // registrations go as a whole
			err = c.do(&request{Op: opUnmapSystem, VA: x.va, Size: x.n}, nil, nil)
			continue
		}
		from, to := max(x.va, va), min(x.end(), va+n)
		err = c.do(&request{Op: opUnmap, VA: from, Size: to - from}, nil, nil)
	}
	for _, x := range rest {
		if err == nil && c.worker == worker && x.mem.runs != nil {
			err = c.establish(x)
		}
	}
	if err != nil {
		c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: "unmapping: " + err.Error()})
		<-c.worker.Gone()
	}
}

// Close implements gpu.Memory.
func (m *memory) Close() error {
	c := m.ctx
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.closed {
		return nil
	}
	for _, x := range c.space.of(m) {
		c.withdraw(x.va, x.n)
	}
	if m.runs == nil && c.Err() == nil {
		if err := c.do(&request{Op: opRelease, ID: m.id}, nil, nil); err != nil {
			c.lose(&gpu.LostError{Cause: gpu.LostDevice, Detail: "freeing VRAM: " + err.Error()})
		}
	}
	m.unkeep()
	if c.Err() != nil {
		<-c.worker.Gone() // whatever it was doing with the pages
	}
	if m.runs != nil {
		c.awaitRetired() // likewise
	}
	m.forget()
	return nil
}

// forget takes the memory off the books. C.mu is held, and the worker is done with it.
func (m *memory) forget() {
	m.closed = true
	delete(m.ctx.memories, m)
	switch {
	case m.runs != nil, m.foreign: // another device pays for it
	case m.shared != nil:
		m.shared.leave()
	default:
		m.ctx.dev.discharge(m.size)
	}
}
