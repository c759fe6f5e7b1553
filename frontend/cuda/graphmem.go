package cuda

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"pvdrm/drm"
)

// GraphMem is memory that a node of a graph allocates. Its address is fixed when the node is made
// and is its own as long as somebody holds it or it is in use. The device memory behind the address
// comes with the first launch and stays there while it is free, for the next launch, until
// GraphMemTrim takes it back or other memory is short.
type GraphMem struct {
	c       *Context
	addr, n uint64 // n is what was asked for
	size    uint64 // n in whole pages

	// Guarded by memory.mu.
	handle  uint32 // of the memory behind the address, if it is backed
	backed  bool
	known   bool // it was in use once
	inUse   bool
	holders int
	queuing int     // launches that use the memory and have not queued all of their work
	after   []point // work that may use the memory, at most one point of each stream
}

// GraphMemOp is what a launch does with the memory of a node: it allocates or frees it.
type GraphMemOp struct {
	Mem  *GraphMem
	Free bool
}

// GraphMemAttribute is a CUgraphMem_attribute, with the numbers of cuda.h; all are bytes.
type GraphMemAttribute int

// Attributes of the memory of graphs.
const (
	GraphMemUsedCurrent     GraphMemAttribute = 0
	GraphMemUsedHigh        GraphMemAttribute = 1
	GraphMemReservedCurrent GraphMemAttribute = 2
	GraphMemReservedHigh    GraphMemAttribute = 3
)

// graphMemory counts the device memory behind addresses of graphs. It is all in use as NVIDIA's
// driver counts, that of graphs which do not run too.
type graphMemory struct {
	mu             sync.Mutex // innermost
	used, reserved level
	contexts       map[*Context]struct{} // that have memory of graphs
}

// NewGraphMem reserves the addresses of a node that allocates n bytes. The caller holds the memory
// and calls Release when the node is gone.
func (c *Context) NewGraphMem(n uint64) (*GraphMem, error) {
	const call = "cuGraphAddMemAllocNode"
	if err := c.enter(call); err != nil {
		return nil, err
	}
	defer c.life.RUnlock()
	page := c.dev.Granularity()
	if n == 0 {
		return nil, errorf(call, ErrInvalidValue, "the size is 0")
	}
	size := (n + page - 1) / page * page
	if size < n {
		return nil, errorf(call, ErrOutOfMemory, "%d bytes of GPU addresses", n)
	}
	m := &c.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	addr, err := m.vram.space.Alloc(size, page)
	if err != nil {
		return nil, c.fail(call, fmt.Errorf("%d bytes of GPU addresses: %w", n, err))
	}
	g := &GraphMem{c: c, addr: addr, n: n, size: size, holders: 1}
	m.note(addr, n, allocation{graph: g})
	if m.graphs == nil {
		m.graphs = map[*GraphMem]struct{}{}
	}
	m.graphs[g] = struct{}{}
	m.pooled.Store(true)
	c.dev.graphs.join(c)
	return g, nil
}

// Context is the context in which the memory lives.
func (g *GraphMem) Context() *Context { return g.c }

// Addr is the address of the memory.
func (g *GraphMem) Addr() DevicePtr { return DevicePtr(g.addr) }

// Bytes is how much was asked for.
func (g *GraphMem) Bytes() uint64 { return g.n }

// GraphMemAt returns the memory of a graph that begins at p, or nil.
func (c *Context) GraphMemAt(p DevicePtr) *GraphMem {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	if e, ok := c.memory.byAddr.find(uint64(p), 1); ok && e.start == uint64(p) {
		return e.value.graph
	}
	return nil
}

// InGraphMem reports whether p lies in memory of a graph, allocated or not.
func (c *Context) InGraphMem(p DevicePtr) bool {
	c.memory.mu.Lock()
	defer c.memory.mu.Unlock()
	e, ok := c.memory.byAddr.find(uint64(p), 1)
	return ok && e.value.graph != nil
}

// Launched says whether the memory was ever allocated.
func (g *GraphMem) Launched() bool {
	g.c.memory.mu.Lock()
	defer g.c.memory.mu.Unlock()
	return g.known
}

// Hold keeps the address until one more Release.
func (g *GraphMem) Hold() {
	g.c.memory.mu.Lock()
	defer g.c.memory.mu.Unlock()
	g.holders++
}

// Release gives up a hold. Without any, the memory is freed for good when it is not in use any
// more and the work before is done.
func (g *GraphMem) Release() error {
	const call = "cuGraphDestroy"
	if g.c.enter(call) != nil {
		return nil // it went with the context
	}
	defer g.c.life.RUnlock()
	g.c.memory.mu.Lock()
	defer g.c.memory.mu.Unlock()
	g.holders--
	return g.leave(call)
}

// UseGraphMem allocates and frees what a launch does, in the order of its nodes, all or nothing.
// Memory that is in use cannot be allocated, unless the launch frees what the one before left, and
// memory that is not in use cannot be freed: ErrInvalidValue. Where it succeeds the caller calls
// GraphMemQueued when the launch has queued its work, until when the memory stays.
func (c *Context) UseGraphMem(ops []GraphMemOp, autoFree bool) error {
	const call = "cuGraphLaunch"
	if err := c.enterMemory(call); err != nil {
		return err
	}
	defer c.leaveMemory()
	inUse := map[*GraphMem]bool{}
	for _, op := range ops {
		was, known := inUse[op.Mem]
		if !known {
			was = op.Mem.inUse && (op.Free || !autoFree)
		}
		switch {
		case op.Free && !was:
			return errorf(call, ErrInvalidValue, "the graph frees %d bytes at 0x%x, which are not allocated", op.Mem.n, op.Mem.addr)
		case !op.Free && was:
			return errorf(call, ErrInvalidValue, "the %d bytes at 0x%x that the graph allocates were not freed since its last launch", op.Mem.n, op.Mem.addr)
		}
		inUse[op.Mem] = !op.Free
	}
	before := make(map[*GraphMem]bool, len(inUse))
	for g := range inUse {
		before[g] = g.inUse
	}
	for _, op := range ops {
		if op.Free {
			continue
		}
		op.Mem.known, op.Mem.inUse = true, true // so that nothing takes back what is behind it
		if err := op.Mem.back(call); err != nil {
			setUses(before)
			return c.fail(call, err)
		}
	}
	setUses(inUse)
	for g := range inUse {
		g.queuing++
	}
	return nil
}

// enterMemory is enter for a call that holds memory.mu until leaveMemory.
func (c *Context) enterMemory(call string) error {
	err := c.enter(call)
	if err == nil {
		c.memory.mu.Lock()
	}
	return err
}

func (c *Context) leaveMemory() {
	c.memory.mu.Unlock()
	c.life.RUnlock()
}

func setUses(inUse map[*GraphMem]bool) {
	for g, now := range inUse {
		g.inUse = now
	}
}

// GraphMemQueued ends what UseGraphMem began: the launch has queued all its work, on a stream. That
// may be destroyed since, or be one of another context, whose work does not use the memory.
func (c *Context) GraphMemQueued(ops []GraphMemOp, s *Stream) error {
	const call = "cuGraphLaunch"
	if err := c.enterMemory(call); err != nil {
		return err
	}
	defer c.leaveMemory()
	var after []point
	if s.c == c {
		c.mu.Lock()
		after = c.unreached(s)
		c.mu.Unlock()
	}
	var failed []error
	seen := map[*GraphMem]bool{}
	for _, op := range ops {
		if g := op.Mem; !seen[g] {
			seen[g] = true
			g.queuing--
			g.until(call, after)
			failed = append(failed, g.leave(call))
		}
	}
	return errors.Join(failed...)
}

// until notes work that may use the memory. Memory.mu is held.
func (g *GraphMem) until(call string, after []point) {
	g.unfinished(call)
	for _, p := range after {
		if i := slices.IndexFunc(g.after, func(o point) bool { return o.s == p.s }); i >= 0 {
			g.after[i].seq = max(g.after[i].seq, p.seq)
		} else {
			g.after = append(g.after, p)
		}
	}
}

// freed notes that the program freed memory of a graph, and that it may be used until after.
// Memory.mu is held.
func (g *GraphMem) freed(call string, after []point) error {
	if !g.inUse {
		return errorf(call, ErrInvalidValue, "the memory of a graph at 0x%x is not allocated, or it is freed already", g.addr)
	}
	g.inUse = false
	g.until(call, after)
	return g.leave(call)
}

// unfinished forgets what of after is done, and returns the rest. A context that is lost has no
// work any more. Memory.mu is held.
func (g *GraphMem) unfinished(call string) []point {
	g.after = slices.DeleteFunc(g.after, func(p point) bool { return !errors.Is(g.c.wait(call, p, 0), ErrNotReady) })
	return g.after
}

// back puts device memory behind the address. Memory.mu is held.
func (g *GraphMem) back(call string) error {
	if g.backed {
		return nil
	}
	c := g.c
	handle, err := c.file.GemNew(g.size, drm.DomainVRAM, drm.GemNoShare|drm.GemDirty)
	if errors.Is(err, syscall.ENOMEM) {
		if err := c.reclaimLocked(call); err != nil {
			return err
		}
		handle, err = c.file.GemNew(g.size, drm.DomainVRAM, drm.GemNoShare|drm.GemDirty)
	}
	if err != nil {
		return fmt.Errorf("%d bytes of device memory for a graph: %w", g.size, err)
	}
	if err := c.file.VMBind([]drm.BindOp{{Op: drm.BindMap, Handle: handle, Addr: g.addr, Range: g.size}}, true); err != nil {
		return errors.Join(fmt.Errorf("mapping %d bytes at 0x%x: %w", g.size, g.addr, err), c.file.GemClose(handle))
	}
	g.handle, g.backed = handle, true
	c.dev.graphs.reserve(g.size)
	return nil
}

// unback takes the device memory from behind the address. No work uses it. Memory.mu is held.
func (g *GraphMem) unback() error {
	if !g.backed {
		return nil
	}
	f := g.c.file
	if err := f.VMBind([]drm.BindOp{{Op: drm.BindUnmap, Addr: g.addr, Range: g.size}}, true); err != nil {
		return fmt.Errorf("unmapping %d bytes at 0x%x: %w", g.size, g.addr, err)
	}
	g.backed = false
	g.c.dev.graphs.unreserve(g.size)
	return f.GemClose(g.handle)
}

// leave frees the memory for good if nothing holds it and no work uses it. Otherwise letGo tries
// again. Memory.mu is held.
func (g *GraphMem) leave(call string) error {
	if g.holders > 0 || g.inUse || g.queuing > 0 || len(g.unfinished(call)) > 0 {
		return nil
	}
	m := &g.c.memory
	if err := g.unback(); err != nil {
		return g.c.fail(call, err)
	}
	delete(m.graphs, g)
	m.byAddr.remove(g.addr)
	if _, err := m.vram.space.Free(g.addr); err != nil {
		return g.c.fail(call, err)
	}
	return nil
}

// trimGraphs takes back the device memory that graphs keep and do not use, and frees what nothing
// holds any more. With all false it does the latter only. Memory.mu is held.
func (c *Context) trimGraphs(call string, all bool) error {
	for g := range c.memory.graphs {
		if err := g.leave(call); err != nil {
			return err
		}
		if all && g.backed && !g.inUse && g.queuing == 0 && len(g.unfinished(call)) == 0 {
			if err := g.unback(); err != nil {
				return c.fail(call, err)
			}
		}
	}
	return nil
}

// closeGraphs frees the memory of graphs in a context that ends. M.mu is held.
func (m *memory) closeGraphs(report func(error)) {
	for g := range m.graphs {
		if g.backed {
			report(g.c.file.GemClose(g.handle))
			g.c.dev.graphs.unreserve(g.size)
		}
		g.c.dev.graphs.part(g.c)
	}
	clear(m.graphs)
}

// GraphMemTrim is cuDeviceGraphMemTrim: it gives back the memory that graphs have reserved and
// neither use nor will use before the next launch.
func (dev *Device) GraphMemTrim() error {
	const call = "cuDeviceGraphMemTrim"
	for _, c := range dev.graphs.members() {
		if c.enter(call) != nil {
			continue // its memory is gone
		}
		c.memory.mu.Lock()
		err := c.trimGraphs(call, true)
		c.memory.mu.Unlock()
		c.life.RUnlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// GraphMemAttribute is cuDeviceGetGraphMemAttribute.
func (dev *Device) GraphMemAttribute(a GraphMemAttribute) (uint64, error) {
	d := &dev.graphs
	d.mu.Lock()
	defer d.mu.Unlock()
	switch a {
	case GraphMemUsedCurrent:
		return d.used.now, nil
	case GraphMemUsedHigh:
		return d.used.high, nil
	case GraphMemReservedCurrent:
		return d.reserved.now, nil
	case GraphMemReservedHigh:
		return d.reserved.high, nil
	}
	return 0, errorf("cuDeviceGetGraphMemAttribute", ErrInvalidValue, "the memory of graphs has no attribute %d", int(a))
}

// SetGraphMemAttribute is cuDeviceSetGraphMemAttribute: the highest amounts can be set to 0, from
// when on they are counted again.
func (dev *Device) SetGraphMemAttribute(a GraphMemAttribute, v uint64) error {
	const call = "cuDeviceSetGraphMemAttribute"
	d := &dev.graphs
	d.mu.Lock()
	defer d.mu.Unlock()
	l := map[GraphMemAttribute]*level{GraphMemUsedHigh: &d.used, GraphMemReservedHigh: &d.reserved}[a]
	if l == nil || v != 0 {
		return errorf(call, ErrInvalidValue, "attribute %d cannot be set to %d", int(a), v)
	}
	l.high = l.now
	return nil
}

func (d *graphMemory) join(c *Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.contexts == nil {
		d.contexts = map[*Context]struct{}{}
	}
	d.contexts[c] = struct{}{}
}

func (d *graphMemory) part(c *Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.contexts, c)
}

func (d *graphMemory) members() []*Context {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]*Context, 0, len(d.contexts))
	for c := range d.contexts {
		all = append(all, c)
	}
	return all
}

func (d *graphMemory) reserve(n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used.add(n)
	d.reserved.add(n)
}

func (d *graphMemory) unreserve(n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.used.now -= n
	d.reserved.now -= n
}
