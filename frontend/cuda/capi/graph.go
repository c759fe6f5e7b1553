package capi

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// graphs is what a Library knows of graphs and of stream capture.
type graphs struct {
	// watched says which calls look into captureRules first.
	watched atomic.Uint32

	mu       sync.Mutex // all graphs and nodes, but not executable graphs
	handles  map[any]uint64
	captures graph.Captures[*cuda.Stream, *event]
	rooms    map[*cuda.Stream]room                   // for the dependencies that cuStreamGetCaptureInfo shows
	spare    []room                                  // of captures that have ended
	objects  map[*graph.Graph]map[*userObject]uint64 // references that graphs hold
	dead     []*userObject                           // whose destructors are to run when mu is free
	ready    map[*graph.Graph]*graphExec             // executable copies of graphs that allocate or have conditional nodes, of which there is one

	conditions map[*graph.Graph][]*condition // by the graph that they were made for
}

// Values of graphs.watched.
const (
	watchNothing = iota
	watchEvents  // an event was recorded in a capture that has ended: calls about events
	watchAll     // a stream is captured
)

// graphErrors are CUDA's results for errors of package graph.
var graphErrors = map[error]cuda.Result{
	graph.ErrCycle: cuda.ErrInvalidValue, graph.ErrForeign: cuda.ErrInvalidValue, graph.ErrEdge: cuda.ErrInvalidValue,
	graph.ErrState: illegalState, graph.ErrEnded: cuda.ErrInvalidValue,
	graph.ErrUnsupported: 900, graph.ErrInvalidated: 901, graph.ErrMerge: 902, graph.ErrUnmatched: 903,
	graph.ErrUnjoined: 904, graph.ErrIsolation: 905, graph.ErrImplicit: 906, graph.ErrEvent: 907, graph.ErrThread: 908,
}

// graphError gives an error of package graph its result.
func (c *call) graphError(err error) error {
	for is, r := range graphErrors {
		if errors.Is(err, is) {
			return c.fail(r, "%w", err)
		}
	}
	return err
}

// withGraphs calls do while nothing else uses graphs.
func (c *call) withGraphs(do func(g *graphs) error) error {
	g := &c.lib.graphs
	g.mu.Lock()
	defer g.mu.Unlock()
	return c.graphError(do(g))
}

// handle is the handle of a graph or of a node, which it gets when it is first asked for.
//
// Preconditions: g.mu is held.
func (c *call) graphHandle(v any) uint64 {
	g := &c.lib.graphs
	if h := g.handles[v]; h != 0 {
		return h
	}
	if g.handles == nil {
		g.handles = map[any]uint64{}
	}
	g.handles[v] = c.lib.handles.add(v)
	return g.handles[v]
}

// dropHandle forgets the handle of a graph with all its nodes, or of a node with its graphs.
func (l *Library) dropHandle(v any) {
	g := &l.graphs
	if h, ok := g.handles[v]; ok {
		l.handles.remove(h)
		delete(g.handles, v)
	}
	switch v := v.(type) {
	case *graph.Graph:
		for _, n := range v.Nodes() {
			l.dropHandle(n)
		}
	case *graph.Node:
		for _, inner := range v.Inner() {
			l.dropHandle(inner)
		}
	}
}

// dropGraph gives up what a graph has: handles, user objects, conditions and memory.
//
// Preconditions: l.graphs.mu is held; endUserObjects follows.
func (l *Library) dropGraph(of *graph.Graph) error {
	l.dropHandle(of)
	l.graphs.forgo(of)
	l.graphs.forgetConditions(of)
	return releaseAll(memoryOf(of))
}

func (c *call) graph(i int) (*graph.Graph, error) { return c.graphAt(c.u64(i)) }

func (c *call) graphAt(handle uint64) (*graph.Graph, error) {
	g, ok := find[*graph.Graph](c.lib, handle)
	if !ok {
		return nil, c.fail(cuda.ErrInvalidValue, "0x%x is no graph", handle)
	}
	return g, nil
}

func (c *call) node(i int) (*graph.Node, error) { return c.nodeAt(c.u64(i)) }

func (c *call) nodeAt(handle uint64) (*graph.Node, error) {
	n, ok := find[*graph.Node](c.lib, handle)
	if !ok || n.Graph() == nil {
		return nil, c.fail(cuda.ErrInvalidValue, "0x%x is no node of a graph", handle)
	}
	return n, nil
}

// maxNodes bounds lists of nodes that a program hands over.
const maxNodes = 1 << 24

// nodes reads a list of n nodes.
func (c *call) nodes(addr, n uint64) ([]*graph.Node, error) {
	if n == 0 {
		return nil, nil
	}
	if n > maxNodes {
		return nil, c.fail(cuda.ErrInvalidValue, "%d nodes", n)
	}
	b, err := c.read(addr, 8*int(n))
	if err != nil {
		return nil, err
	}
	all := make([]*graph.Node, n)
	for i := range all {
		if all[i], err = c.nodeAt(le64(b[8*i:])); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func graphCreate(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if err := c.noFlags(1); err != nil {
		return err
	}
	return c.withGraphs(func(*graphs) error { return to.set(c.graphHandle(graph.New())) })
}

func graphDestroy(c *call) error {
	return c.withUserObjects(func(g *graphs) error {
		of, err := c.graph(0)
		if err != nil {
			return err
		}
		if of.Owner() != nil || g.captures.Into(of) {
			return c.fail(cuda.ErrInvalidValue, "the graph belongs to a node, or is being captured")
		}
		return c.lib.dropGraph(of)
	})
}

func graphClone(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	return c.withGraphs(func(g *graphs) error {
		of, err := c.graph(1)
		if err == nil {
			err = c.plain(of, "it cannot be cloned")
		}
		if err != nil {
			return err
		}
		clone := of.Clone()
		g.share(clone, of)
		return to.set(c.graphHandle(clone))
	})
}

// nodeFindInClone gets (node, original, clone).
func nodeFindInClone(c *call) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	return c.withGraphs(func(*graphs) error {
		n, err := c.node(1)
		if err != nil {
			return err
		}
		clone, err := c.graph(2)
		if err != nil {
			return err
		}
		twin := clone.Twin(n)
		if twin == nil {
			return c.fail(cuda.ErrInvalidValue, "the graph has no copy of the node")
		}
		return to.set(c.graphHandle(twin))
	})
}

func graphDestroyNode(c *call) error {
	return c.withGraphs(func(*graphs) error {
		n, err := c.node(0)
		if err == nil {
			err = c.withoutMemory(n.Graph(), "its nodes stay")
		}
		if w, ok := workOf(n).(*kernelWork); err == nil && ok && w.updatable != nil {
			err = c.fail(cuda.ErrNotSupported, "kernels may change the node, so it stays")
		}
		if err != nil {
			return err
		}
		c.lib.dropHandle(n)
		dropNode(n)
		memory := innerMemory(n)
		n.Remove()
		return releaseAll(memory)
	})
}

func nodeGetType(c *call) error {
	to, err := c.out32(1)
	if err != nil {
		return err
	}
	return c.withGraphs(func(*graphs) error {
		n, err := c.node(0)
		if err != nil {
			return err
		}
		return to.set(uint64(n.Kind()))
	})
}

// list writes up to as many handles as there is room for, and zeros to the rest of the room; to
// arguments that are null it writes nothing. The number in argument count is how many there is
// room for and becomes how many were written, or how many there are if there is no room.
func (c *call) list(count int, to []int, columns ...[]uint64) error {
	n, err := c.out64(count)
	if err != nil {
		return err
	}
	have := uint64(len(columns[0]))
	some := false
	for _, i := range to {
		some = some || c.u64(i) != 0
	}
	if !some {
		return n.set(have)
	}
	room, err := c.read64(c.u64(count))
	if err != nil {
		return err
	}
	if room > maxNodes {
		return c.fail(cuda.ErrInvalidValue, "room for %d nodes", room)
	}
	for k, i := range to {
		if c.u64(i) == 0 || room == 0 {
			continue
		}
		words := make([]uint64, room)
		copy(words, columns[k])
		if err := c.lib.cfg.Memory.Write(c.u64(i), wordBytes(words)); err != nil {
			return err
		}
	}
	return n.set(min(room, have))
}

// nodeHandles are the handles of nodes.
func (c *call) nodeHandles(nodes []*graph.Node) []uint64 {
	all := make([]uint64, len(nodes))
	for i, n := range nodes {
		all[i] = c.graphHandle(n)
	}
	return all
}

func (c *call) listOfGraph(nodes func(*graph.Graph) []*graph.Node) error {
	return c.withGraphs(func(*graphs) error {
		g, err := c.graph(0)
		if err != nil {
			return err
		}
		return c.list(2, []int{1}, c.nodeHandles(nodes(g)))
	})
}

func graphGetNodes(c *call) error     { return c.listOfGraph((*graph.Graph).Nodes) }
func graphGetRootNodes(c *call) error { return c.listOfGraph((*graph.Graph).Roots) }

// graphDebugDotPrint gets (graph, path, flags). The flags ask for more than it prints.
func graphDebugDotPrint(c *call) error {
	path, err := c.text(1)
	if err != nil {
		return err
	}
	return c.withGraphs(func(*graphs) error {
		g, err := c.graph(0)
		if err != nil {
			return err
		}
		text := g.Dot(func(n *graph.Node) string { return describeWork(n) })
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			return c.fail(cuda.ErrOperatingSystem, "%w", err)
		}
		return nil
	})
}

// describeWork is the label of a node.
func describeWork(n *graph.Node) string {
	switch w := n.Work.(type) {
	case *kernelWork:
		return fmt.Sprintf("KERNEL\n%s\n%v %v", w.f.Name(), w.cfg.Grid, w.cfg.Block)
	case *copyWork:
		return fmt.Sprintf("MEMCPY\n%d×%d×%d", w.extent().width, w.extent().height, w.extent().depth)
	case *fillWork:
		return fmt.Sprintf("MEMSET\n%d×%d", w.width, w.height)
	case *memoryWork:
		kind := "MEM_ALLOC"
		if n.Kind() == graph.MemFree {
			kind = "MEM_FREE"
		}
		return fmt.Sprintf("%s\n0x%x", kind, uint64(w.mem.Addr()))
	case *libraryWork:
		return fmt.Sprintf("LIBRARY\n%s\n%d bytes", w.call.Name, w.bytes)
	case *memOpWork:
		return fmt.Sprintf("BATCH_MEM_OP\n%d", len(w.ops))
	case *hostWork:
		return fmt.Sprintf("HOST\n0x%x", w.fn)
	case *conditionalWork:
		return w.label()
	case *eventWork:
		return fmt.Sprintf("EVENT\n0x%x", w.handle)
	}
	return map[graph.Kind]string{graph.Child: "GRAPH", graph.Empty: "EMPTY"}[n.Kind()]
}
