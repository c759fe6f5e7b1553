package capi

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
	"pvdrm/frontend/cuda/link"
)

// conditions are the values of a context's conditional handles, in pinned memory: kernels set them,
// and launches of graphs read them when the kernels are done.
type conditions struct {
	mu   sync.Mutex
	mem  *cuda.HostMem // nil until there is a handle, or a module that sets one
	next uint64
	free []uint64 // handles that were given back
	live map[uint64]*condition
}

// A handle has two words: its value, and whether an executable graph has it.
const (
	maxConditions  = 32 << 10 // of a context
	conditionBytes = 8
	maxBodies      = 1 << 16 // of a node
)

// condition is a CUgraphConditionalHandle. Root, node and execs are guarded by graphs.mu.
type condition struct {
	x      *context
	handle uint64
	start

	root  *graph.Graph // that it was made for; nil when that is destroyed
	node  *graph.Node  // that uses it, or nil
	execs int          // executable graphs that have it
}

// start is the value of a handle when a launch begins, if one was asked for.
type start struct {
	value  uint32
	assign bool
}

// Kinds of conditional nodes: CUgraphConditionalNodeType.
const (
	conditionIf = iota
	conditionWhile
	conditionSwitch
)

// conditionalWork runs one of a node's bodies.
type conditionalWork struct {
	kind      uint32
	condition *condition
	start     start // of the condition, or of the one that an update has replaced
}

// memory is where the values are. The first handle is 1, so the words of handle 0 stay 0.
//
// Preconditions: s.mu is held.
func (s *conditions) memory(x *context) (*cuda.HostMem, error) {
	if s.mem != nil {
		return s.mem, nil
	}
	mem, err := x.MemAllocHost(maxConditions * conditionBytes)
	if err != nil {
		return nil, err
	}
	for off := uint64(0); off < maxConditions*conditionBytes; off += 4 {
		if err := mem.SetWord(off, 0); err != nil {
			return nil, errors.Join(err, mem.Free())
		}
	}
	s.mem, s.next, s.live = mem, 1, map[uint64]*condition{}
	return mem, nil
}

// led lets the kernels of a module set handles of its context, if they call for it.
func (m *module) led() error {
	if err := errors.Join(m.answers(), m.launches()); err != nil {
		return err
	}
	at, n, err := m.Global(link.ConditionsVariable)
	if err != nil || n != 16 {
		return nil // it has none
	}
	s := &m.ctx.conditions
	s.mu.Lock()
	defer s.mu.Unlock()
	mem, err := s.memory(m.ctx)
	if err != nil {
		return err
	}
	return m.ctx.MemcpyHtoD(at, wordBytes([]uint64{uint64(mem.DevicePtr()), maxConditions}))
}

// newCondition makes a handle.
func (c *call) newCondition(x *context, root *graph.Graph, begin start) (*condition, error) {
	s := &x.conditions
	s.mu.Lock()
	defer s.mu.Unlock()
	mem, err := s.memory(x)
	if err != nil {
		return nil, err
	}
	h := s.next
	if last := len(s.free) - 1; last >= 0 {
		h, s.free = s.free[last], s.free[:last]
	} else if s.next++; h >= maxConditions {
		s.next = maxConditions
		return nil, c.fail(cuda.ErrOutOfMemory, "a context has at most %d conditional handles; destroy graphs first", maxConditions-1)
	}
	if err := errors.Join(mem.SetWord(h*conditionBytes, 0), mem.SetWord(h*conditionBytes+4, 0)); err != nil {
		return nil, err
	}
	s.live[h] = &condition{x: x, handle: h, start: begin, root: root}
	return s.live[h], nil
}

// find returns the condition of a handle, or nil.
func (s *conditions) find(h uint64) *condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.live[h]
}

// keep counts an executable graph that has the handle, or with -1 one that has it no more.
//
// Preconditions: graphs.mu is held; no launch uses the handle.
func (d *condition) keep(n int) {
	before := d.execs
	d.execs += n
	s := &d.x.conditions
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case before == 0 && n > 0:
		_ = s.mem.SetWord(d.handle*conditionBytes+4, 1) // it fails with the context
	case d.execs == 0:
		_ = s.mem.SetWord(d.handle*conditionBytes+4, 0)
	}
	if d.execs == 0 && d.root == nil {
		delete(s.live, d.handle)
		s.free = append(s.free, d.handle)
	}
}

// read returns the value, once all work of the stream that sets it is done.
func (d *condition) read(s *cuda.Stream) (uint32, error) {
	if err := s.Synchronize(); err != nil {
		return 0, err
	}
	return d.x.conditions.mem.Word(d.handle * conditionBytes)
}

// begin adds the setting of the value with which a launch begins.
func (w *conditionalWork) begin(b *cuda.Batch) error {
	x := w.condition.x
	at := x.conditions.mem.DevicePtr() + cuda.DevicePtr(w.condition.handle*conditionBytes)
	return b.Add(func(s *cuda.Stream) error { return x.MemsetD32Async(at, w.start.value, 1, s) })
}

// updated is the work of a node of an executable graph after an update by another.
func (w *conditionalWork) updated(by *conditionalWork) *conditionalWork {
	return &conditionalWork{kind: w.kind, condition: by.condition, start: w.start}
}

// graphConditionalHandleCreate gets (handle, graph, context, default, flags).
func graphConditionalHandleCreate(c *call) error {
	const assignDefault = 1 // CU_GRAPH_COND_ASSIGN_DEFAULT
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if flags := c.u32(4); flags&^assignDefault != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", flags)
	}
	return c.withGraphs(func(g *graphs) error {
		of, err := c.graph(1)
		if err != nil {
			return err
		}
		x, err := c.context(2)
		if err != nil {
			return err
		}
		d, err := c.newCondition(x, of.Root(), start{value: c.u32(3), assign: c.u32(4) == assignDefault})
		if err != nil {
			return err
		}
		if g.conditions == nil {
			g.conditions = map[*graph.Graph][]*condition{}
		}
		g.conditions[d.root] = append(g.conditions[d.root], d)
		return to.set(d.handle)
	})
}

// Layout of CUDA_CONDITIONAL_NODE_PARAMS in CUgraphNodeParams: handle, kind, number of bodies,
// where the array of bodies goes, context.
const conditionalBodies = nodeParamsUnion + 16

// addConditionalNode adds a node, and writes where its bodies' handles are.
func (c *call) addConditionalNode(n, params uint64, b []byte) error {
	b = b[nodeParamsUnion:]
	handle, kind, size := le64(b), le32(b[8:]), le32(b[12:])
	return c.addTo(n, func(g *graph.Graph, before []*graph.Node) (*graph.Node, error) {
		x, err := c.of(le64(b[24:])).context(0)
		if err != nil {
			return nil, err
		}
		most := map[uint32]uint32{conditionIf: 2, conditionWhile: 1, conditionSwitch: math.MaxUint32}
		if size == 0 || size > most[kind] {
			return nil, c.fail(cuda.ErrInvalidValue, "a conditional node of type %d with %d bodies", kind, size)
		}
		if size > maxBodies {
			return nil, c.fail(cuda.ErrOutOfMemory, "a conditional node has at most %d bodies", maxBodies)
		}
		d := x.conditions.find(handle)
		if d == nil || d.root == nil || d.root != g.Root() {
			return nil, c.fail(cuda.ErrInvalidValue, "0x%x is no conditional handle of the graph", handle)
		}
		if d.node != nil {
			return nil, c.fail(cuda.ErrInvalidValue, "a node has the conditional handle 0x%x already", handle)
		}
		made, err := g.AddConditional(&conditionalWork{kind: kind, condition: d, start: d.start}, int(size), before)
		if err != nil {
			return nil, err
		}
		d.node = made
		handles := make([]uint64, size)
		for i, body := range made.Bodies() {
			handles[i] = c.graphHandle(body)
		}
		return made, out{c: c, addr: params + conditionalBodies, n: 8}.set(c.lib.cfg.Memory.Keep(wordBytes(handles)))
	})
}

// hasConditions says whether there are conditional nodes in a graph.
func hasConditions(g *graph.Graph) bool {
	return slices.ContainsFunc(g.Nodes(), func(n *graph.Node) bool {
		return n.Kind() == graph.Conditional || n.Child() != nil && hasConditions(n.Child())
	})
}

// conditionsOf lists what the conditional nodes of a graph do.
func conditionsOf(g *graph.Graph) []*conditionalWork {
	var all []*conditionalWork
	for _, n := range g.Nodes() {
		if w, ok := n.Work.(*conditionalWork); ok {
			all = append(all, w)
		}
		for _, inner := range n.Inner() {
			all = append(all, conditionsOf(inner)...)
		}
	}
	return all
}

// checkConditions refuses a graph with handles that no node has, and bodies with work that is not
// the device's alone.
//
// Preconditions: g.mu is held.
func (c *call) checkConditions(g *graphs, of *graph.Graph) error {
	if err := c.noBody(of, "it cannot be instantiated"); err != nil {
		return err
	}
	for _, d := range g.conditions[of] {
		if d.node == nil {
			return c.fail(cuda.ErrInvalidValue, "no node has the conditional handle 0x%x", d.handle)
		}
	}
	return c.checkBodies(of, false)
}

// noBody refuses the body of a conditional node, or what is inside of one.
func (c *call) noBody(g *graph.Graph, what string) error {
	for n := g.Owner(); n != nil; n = n.Graph().Owner() {
		if n.Kind() == graph.Conditional {
			return c.fail(cuda.ErrNotSupported, "the graph is the body of a conditional node, so %s", what)
		}
		if n.Graph() == nil {
			break
		}
	}
	return nil
}

func (c *call) checkBodies(of *graph.Graph, body bool) error {
	for _, n := range of.Nodes() {
		if body && !c.fitsBody(n) {
			return c.fail(cuda.ErrInvalidValue, "the body of a conditional node has a node of type %d, which must not be there or needs the host", n.Kind())
		}
		for _, inner := range n.Inner() {
			if err := c.checkBodies(inner, body || n.Kind() == graph.Conditional); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *call) fitsBody(n *graph.Node) bool {
	switch w := n.Work.(type) {
	case *copyWork:
		pageable, err := w.addTo(c, w.x.NewBatch())
		return err == nil && !pageable && le32(w.raw[copy3DDst.kind:]) != memoryArray && le32(w.raw[copy3DSrc.kind:]) != memoryArray
	case *kernelWork, *fillWork, *conditionalWork:
		return true
	}
	return n.Kind() == graph.Empty || n.Kind() == graph.Child
}

// forgetConditions gives up the handles of a graph that is destroyed.
//
// Preconditions: g.mu is held.
func (g *graphs) forgetConditions(of *graph.Graph) {
	for _, d := range g.conditions[of] {
		d.root, d.node = nil, nil
		if d.execs == 0 {
			d.keep(0)
		}
	}
	delete(g.conditions, of)
}

// dropNode lets the handles of a node that is destroyed be used again.
func dropNode(n *graph.Node) {
	if w, ok := n.Work.(*conditionalWork); ok && w.condition.node == n {
		w.condition.node = nil
	}
	for _, inner := range n.Inner() {
		for _, m := range inner.Nodes() {
			dropNode(m)
		}
	}
}

// take notes the handles that an executable graph has from now on, besides those that it had.
//
// Preconditions: graphs.mu is held.
func (e *graphExec) take(all []*conditionalWork) {
	for _, w := range all {
		if d := w.condition; !slices.Contains(e.conditions, d) {
			e.conditions = append(e.conditions, d)
			d.keep(1)
		}
	}
}

// conditional adds a conditional node: what its bodies do, and the choice among them when the
// stream gets there.
func (p *preparation) conditional(n *graph.Node, w *conditionalWork) error {
	branches := make([][]graphStep, len(n.Bodies()))
	for i, body := range n.Bodies() {
		inner := preparation{c: p.c, e: p.e}
		if err := inner.walk(body); err != nil {
			return err
		}
		branches[i] = inner.steps
	}
	p.steps = append(p.steps, graphStep{program: func(c *call, x *context, s *cuda.Stream) error {
		return w.run(c, x, s, branches)
	}})
	return nil
}

// run runs the body that the value says.
func (w *conditionalWork) run(c *call, x *context, s *cuda.Stream, branches [][]graphStep) error {
	for {
		v, err := w.condition.read(s)
		if err != nil {
			return err
		}
		i := uint64(v)
		if w.kind != conditionSwitch {
			i = 0
			if v == 0 {
				i = 1
			}
		}
		if i >= uint64(len(branches)) {
			return nil
		}
		if err := c.finishSteps(x, s, branches[i]); err != nil || w.kind != conditionWhile {
			return err
		}
	}
}

// label describes the node.
func (w *conditionalWork) label() string {
	kind := [...]string{conditionIf: "IF", conditionWhile: "WHILE", conditionSwitch: "SWITCH"}[w.kind]
	return fmt.Sprintf("CONDITIONAL\n%s\n%d", kind, w.condition.handle)
}
