package capi

import (
	"encoding/binary"
	"errors"
	"slices"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// memoryWork allocates or frees the memory of a graph.
type memoryWork struct {
	x   *context
	mem *cuda.GraphMem
	raw []byte // of a node that allocates: CUDA_MEM_ALLOC_NODE_PARAMS
}

// CUDA_MEM_ALLOC_NODE_PARAMS: CUmemPoolProps, a list of accesses with its length, the size and the
// address.
const (
	allocNodeBytes    = 120
	allocNodeAccesses = 88
	allocNodeCount    = 96
	allocNodeSize     = 104
	allocNodeAddress  = 112
)

// autoFreeOnLaunch is CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH.
const autoFreeOnLaunch = 1

// hasMemory says whether nodes of a graph allocate or free. Children never do.
func hasMemory(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes(), func(n *graph.Node) bool { return n.Kind() == graph.MemAlloc || n.Kind() == graph.MemFree })
}

// withoutMemory refuses what CUDA does not do with graphs that allocate or free.
func (c *call) withoutMemory(g *graph.Graph, what string) error {
	if hasMemory(g) {
		return c.fail(cuda.ErrNotSupported, "the graph allocates or frees memory, so %s", what)
	}
	return nil
}

// plain refuses what CUDA does not do with graphs that allocate, free, or have conditional nodes.
func (c *call) plain(g *graph.Graph, what string) error {
	if hasConditions(g) {
		return c.fail(cuda.ErrNotSupported, "the graph has conditional nodes, so %s", what)
	}
	if len(updatables(g)) > 0 {
		return c.fail(cuda.ErrNotSupported, "the graph has nodes that kernels may change, so %s", what)
	}
	return errors.Join(c.noBody(g, what), c.withoutMemory(g, what))
}

// memoryOf lists the memory that nodes of a graph and of bodies allocate and free.
func memoryOf(g *graph.Graph) []*cuda.GraphMem {
	var all []*cuda.GraphMem
	for _, n := range g.Nodes() {
		if w, ok := n.Work.(*memoryWork); ok {
			all = append(all, w.mem)
		}
		all = append(all, innerMemory(n)...)
	}
	return all
}

// innerMemory is memoryOf for the graphs of a node.
func innerMemory(n *graph.Node) []*cuda.GraphMem {
	var all []*cuda.GraphMem
	for _, inner := range n.Inner() {
		all = append(all, memoryOf(inner)...)
	}
	return all
}

func releaseAll(all []*cuda.GraphMem) error {
	var failed []error
	for _, m := range all {
		failed = append(failed, m.Release())
	}
	return errors.Join(failed...)
}

// same says whether other work is with the same memory.
func (w *memoryWork) same(other any) bool {
	o, ok := other.(*memoryWork)
	return ok && o.mem == w.mem
}

// graphAddMemAllocNode gets (node, graph, dependencies, count, CUDA_MEM_ALLOC_NODE_PARAMS), where
// the address goes, too.
func graphAddMemAllocNode(c *call) error { return c.addAllocNode(c.u64(3), c.u64(4)) }

func (c *call) addAllocNode(n, params uint64) error {
	return c.addTo(n, func(g *graph.Graph, before []*graph.Node) (*graph.Node, error) {
		raw, err := c.read(params, allocNodeBytes)
		if err != nil {
			return nil, err
		}
		x, err := c.allocNodeContext(raw)
		if err != nil {
			return nil, err
		}
		made, err := c.allocNode(g, before, x, raw)
		if err != nil {
			return nil, err
		}
		addr := uint64(made.Work.(*memoryWork).mem.Addr())
		return made, out{c: c, addr: params + allocNodeAddress, n: 8}.set(addr)
	})
}

// allocNode adds a node that allocates what raw says, and completes raw.
func (c *call) allocNode(g *graph.Graph, before []*graph.Node, x *context, raw []byte) (*graph.Node, error) {
	size := le64(raw[allocNodeSize:])
	mem := freedBefore(before, x, size)
	if mem != nil {
		mem.Hold()
	} else {
		var err error
		if mem, err = x.NewGraphMem(size); err != nil {
			return nil, err
		}
	}
	binary.LittleEndian.PutUint64(raw[allocNodeAddress:], uint64(mem.Addr()))
	clear(raw[allocNodeAccesses:allocNodeSize])
	n, err := g.Add(graph.MemAlloc, &memoryWork{x: x, mem: mem, raw: raw}, before)
	if err != nil {
		return nil, errors.Join(err, mem.Release())
	}
	return n, nil
}

// freedBefore is memory of a size that nodes free before a new one behind some others begins, or
// nil. The new one can have it, as NVIDIA's driver does: neither is in use while the other is.
func freedBefore(before []*graph.Node, x *context, size uint64) *cuda.GraphMem {
	if len(before) == 0 {
		return nil
	}
	seen, todo := map[*graph.Node]bool{}, slices.Clone(before)
	freed := map[*cuda.GraphMem]int{} // how often before the new one
	for len(todo) > 0 {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[n] {
			continue
		}
		seen[n] = true
		todo = append(todo, n.Before()...)
		if w, ok := n.Work.(*memoryWork); ok && n.Kind() == graph.MemFree && w.x == x && w.mem.Bytes() == size {
			freed[w.mem]++
		}
	}
	for _, n := range before[0].Graph().Nodes() { // in their order, so that each time the same is found
		w, ok := n.Work.(*memoryWork)
		if ok && n.Kind() == graph.MemFree && freed[w.mem] > 0 {
			if allocs, frees := uses(n.Graph(), w.mem); allocs == frees && frees == freed[w.mem] {
				return w.mem
			}
		}
	}
	return nil
}

// uses counts the nodes of a graph that allocate and free some memory.
func uses(g *graph.Graph, mem *cuda.GraphMem) (allocs, frees int) {
	for _, n := range g.Nodes() {
		if w, ok := n.Work.(*memoryWork); ok && w.mem == mem {
			if n.Kind() == graph.MemFree {
				frees++
			} else {
				allocs++
			}
		}
	}
	return allocs, frees
}

// allocNodeContext checks where a node is to allocate, and finds its context: pinned memory of
// the current context's device, which other processes do not see. Accesses of peers are those of
// the device itself, so their list says nothing new.
func (c *call) allocNodeContext(raw []byte) (*context, error) {
	const (
		pinned, device = 1, 1 // CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE
		maxAccesses    = 64
	)
	switch {
	case le32(raw) != pinned:
		return nil, c.fail(cuda.ErrInvalidValue, "allocations of type %d", le32(raw))
	case le32(raw[4:]) != 0:
		return nil, c.fail(cuda.ErrNotSupported, "memory of a graph has no handles for other processes")
	case le32(raw[8:]) == 0:
		return nil, c.fail(cuda.ErrInvalidValue, "memory without a location")
	case le32(raw[8:]) != device:
		return nil, c.fail(cuda.ErrNotSupported, "memory at a location of type %d", le32(raw[8:]))
	case le64(raw[allocNodeCount:]) > maxAccesses:
		return nil, c.fail(cuda.ErrInvalidValue, "%d accesses", le64(raw[allocNodeCount:]))
	}
	dev, err := c.of(uint64(le32(raw[12:]))).device(0)
	if err != nil {
		return nil, c.fail(cuda.ErrInvalidValue, "memory of the device %d", le32(raw[12:]))
	}
	x, err := c.current()
	if err != nil {
		return nil, err
	}
	if dev != x.Device() {
		return nil, c.fail(cuda.ErrNotSupported, "memory of the device %d, while a context of the device %d is current", dev.Ordinal(), x.Device().Ordinal())
	}
	for i := range le64(raw[allocNodeCount:]) {
		b, err := c.read(le64(raw[allocNodeAccesses:])+12*i, 12)
		if err != nil {
			return nil, err
		}
		if le32(b) != device || le32(b[8:]) != uint32(cuda.AccessReadWrite) {
			return nil, c.fail(cuda.ErrNotSupported, "access %d of a location of type %d", le32(b[8:]), le32(b))
		}
		if err := c.onlyOn(x.Device(), b); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// graphAddMemFreeNode gets (node, graph, dependencies, count, address).
func graphAddMemFreeNode(c *call) error { return c.addFreeNode(c.u64(3), c.u64(4)) }

func (c *call) addFreeNode(n, addr uint64) error {
	return c.addTo(n, func(g *graph.Graph, before []*graph.Node) (*graph.Node, error) {
		x, err := c.current()
		if err != nil {
			return nil, err
		}
		return c.freeNode(g, before, x, addr)
	})
}

// freeNode adds a node that frees the memory of a graph, this one or another.
func (c *call) freeNode(g *graph.Graph, before []*graph.Node, x *context, addr uint64) (*graph.Node, error) {
	mem := x.GraphMemAt(cuda.DevicePtr(addr))
	if mem == nil {
		return nil, c.fail(cuda.ErrInvalidValue, "no node of a graph allocates memory at 0x%x", addr)
	}
	allocs, frees := uses(g, mem)
	if frees >= max(allocs, 1) {
		return nil, c.fail(cuda.ErrInvalidValue, "a node of the graph frees the memory at 0x%x already", addr)
	}
	if allocs == 0 && !mem.Launched() {
		return nil, c.fail(cuda.ErrInvalidValue, "the memory at 0x%x of another graph was never allocated", addr)
	}
	n, err := g.Add(graph.MemFree, &memoryWork{x: x, mem: mem}, before)
	if err == nil {
		mem.Hold()
	}
	return n, err
}

func memAllocNodeGetParams(c *call) error {
	return c.getWork(graph.MemAlloc, allocNodeBytes, func(n *graph.Node) []byte { return n.Work.(*memoryWork).raw })
}

func memFreeNodeGetParams(c *call) error {
	return c.getWork(graph.MemFree, 8, func(n *graph.Node) []byte { return wordBytes([]uint64{uint64(n.Work.(*memoryWork).mem.Addr())}) })
}

// captureAlloc captures an allocation of argument 1 bytes, whose address goes to argument 0.
func captureAlloc(c *call, g *graphs, x *context, s *cuda.Stream) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if c.u64(1) == 0 {
		return to.set(0)
	}
	raw := make([]byte, allocNodeBytes)
	raw[0], raw[8] = 1, 1 // pinned, of a device
	binary.LittleEndian.PutUint32(raw[12:], uint32(x.Device().Ordinal()))
	binary.LittleEndian.PutUint64(raw[allocNodeSize:], c.u64(1))
	var addr uint64
	err = g.captures.Put(s, func(into *graph.Graph, before []*graph.Node) (*graph.Node, error) {
		n, err := c.allocNode(into, before, x, raw)
		if err == nil {
			addr = le64(raw[allocNodeAddress:])
		}
		return n, err
	})
	if err != nil {
		return err
	}
	return to.set(addr)
}

// captureAllocFromPool is captureAlloc with a pool in argument 2, whose properties are those of all
// pools.
func captureAllocFromPool(c *call, g *graphs, x *context, s *cuda.Stream) error {
	if _, err := c.pool(2); err != nil {
		return err
	}
	return captureAlloc(c, g, x, s)
}

// captureFree captures the freeing of argument 0, which must be memory of a graph.
func captureFree(c *call, g *graphs, x *context, s *cuda.Stream) error {
	if c.u64(0) == 0 {
		return nil
	}
	return g.captures.Put(s, func(into *graph.Graph, before []*graph.Node) (*graph.Node, error) {
		return c.freeNode(into, before, x, c.u64(0))
	})
}

// launchMemory is what a launch allocates and frees.
type launchMemory map[*context][]cuda.GraphMemOp

// use begins a launch on a stream, all or nothing.
func (m launchMemory) use(s *cuda.Stream, autoFree bool) error {
	used := launchMemory{}
	for x, ops := range m {
		if err := x.UseGraphMem(ops, autoFree); err != nil {
			return errors.Join(err, used.queued(s))
		}
		used[x] = ops
	}
	return nil
}

// queued ends what use began: all work of the launch is queued on the stream, or it has failed.
func (m launchMemory) queued(s *cuda.Stream) error {
	var failed []error
	for x, ops := range m {
		failed = append(failed, x.GraphMemQueued(ops, s))
	}
	return errors.Join(failed...)
}

func deviceGraphMemTrim(c *call) error {
	dev, err := c.device(0)
	if err != nil {
		return err
	}
	return dev.GraphMemTrim()
}

// deviceGetGraphMemAttribute gets (device, attribute, value).
func deviceGetGraphMemAttribute(c *call) error {
	to, dev, err := c.outAndDevice(2, 8, 0)
	if err != nil {
		return err
	}
	v, err := dev.GraphMemAttribute(cuda.GraphMemAttribute(c.i32(1)))
	if err != nil {
		return err
	}
	return to.set(v)
}

func deviceSetGraphMemAttribute(c *call) error {
	dev, err := c.device(0)
	if err != nil {
		return err
	}
	v, err := c.read64(c.u64(2))
	if err != nil {
		return err
	}
	return dev.SetGraphMemAttribute(cuda.GraphMemAttribute(c.i32(1)), v)
}
