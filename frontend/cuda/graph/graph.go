package graph

import (
	"errors"
	"maps"
	"slices"
)

// Kind says what a node does. The numbers are those of CUgraphNodeType.
type Kind uint32

// Kinds of nodes.
const (
	Kernel Kind = iota
	Copy
	Fill
	Host
	Child
	Empty
	Wait
	Record

	MemAlloc Kind = 10 // CU_GRAPH_NODE_TYPE_MEM_ALLOC
	MemFree  Kind = 11 // CU_GRAPH_NODE_TYPE_MEM_FREE
	MemOps   Kind = 12 // CU_GRAPH_NODE_TYPE_BATCH_MEM_OP

	Conditional Kind = 13 // CU_GRAPH_NODE_TYPE_CONDITIONAL
)

// Errors of graphs.
var (
	ErrCycle   = errors.New("the graph has a cycle")
	ErrForeign = errors.New("a node is not of the graph")
	ErrEdge    = errors.New("the edge is there already, is not there, or leads from a node to itself")
)

// Graph is a set of nodes and the edges between them.
type Graph struct {
	nodes []*Node // in the order in which they were added
	edges map[Edge]Data
	node  *Node           // the node that owns the graph as a child or a body, or nil
	twins map[*Node]*Node // of a clone: its nodes by those of the original, children's too
}

// Node is one piece of work.
type Node struct {
	// Work is what the node does. Clones share it, so it must not change; another may be put
	// in its place.
	Work any

	kind   Kind
	graph  *Graph   // nil: removed
	child  *Graph   // of kind Child
	bodies []*Graph // of kind Conditional
	before []*Node
	after  []*Node
}

// Edge says that To begins after From.
type Edge struct{ From, To *Node }

// Data says what an edge waits for: a CUgraphEdgeData, of which the first three bytes are used. 0 is
// the end of the first node. All others let the second begin earlier, so an order of the nodes is
// enough for them.
type Data uint64

// New makes an empty graph.
func New() *Graph { return &Graph{edges: map[Edge]Data{}} }

// Data returns the data of an edge.
func (g *Graph) Data(e Edge) Data { return g.edges[e] }

// SetData sets the data of an edge, which must be there.
func (g *Graph) SetData(e Edge, d Data) {
	if _, there := g.edges[e]; there {
		g.edges[e] = d
	}
}

// Kind returns what the node does.
func (n *Node) Kind() Kind { return n.kind }

// Graph returns the graph of the node, nil if it was removed.
func (n *Node) Graph() *Graph { return n.graph }

// Child returns the graph that a node of kind Child owns.
func (n *Node) Child() *Graph { return n.child }

// Bodies lists the graphs of which a node of kind Conditional runs one, or none.
func (n *Node) Bodies() []*Graph { return n.bodies }

// Inner lists all graphs that the node owns.
func (n *Node) Inner() []*Graph {
	if n.child != nil {
		return []*Graph{n.child}
	}
	return n.bodies
}

// Before lists the nodes that n depends on, in the order in which the edges were added.
func (n *Node) Before() []*Node { return n.before }

// After lists the nodes that depend on n.
func (n *Node) After() []*Node { return n.after }

// Owner returns the node whose child or body the graph is, or nil.
func (g *Graph) Owner() *Node { return g.node }

// Root returns the graph that contains this one and is in no other.
func (g *Graph) Root() *Graph {
	for g.node != nil && g.node.graph != nil {
		g = g.node.graph
	}
	return g
}

// Nodes lists all nodes in the order in which they were added.
func (g *Graph) Nodes() []*Node { return g.nodes }

// Add adds a node that depends on others of the graph.
func (g *Graph) Add(kind Kind, work any, before []*Node) (*Node, error) {
	if err := g.own(before); err != nil {
		return nil, err
	}
	for i, b := range before {
		if slices.Contains(before[:i], b) {
			return nil, ErrEdge
		}
	}
	n := &Node{Work: work, kind: kind, graph: g}
	g.nodes = append(g.nodes, n)
	for _, b := range before {
		g.link(Edge{From: b, To: n})
	}
	return n, nil
}

// AddChild adds a node that does what a copy of child does.
func (g *Graph) AddChild(child *Graph, before []*Node) (*Node, error) {
	n, err := g.Add(Child, nil, before)
	if err != nil {
		return nil, err
	}
	n.SetChild(child)
	return n, nil
}

// SetChild replaces the graph of a node of kind Child by a copy of another.
func (n *Node) SetChild(child *Graph) {
	n.child = child.Clone()
	n.child.node = n
}

// AddConditional adds a node that runs one of n new bodies, or none.
func (g *Graph) AddConditional(work any, n int, before []*Node) (*Node, error) {
	made, err := g.Add(Conditional, work, before)
	if err != nil {
		return nil, err
	}
	for range n {
		b := New()
		b.node = made
		made.bodies = append(made.bodies, b)
	}
	return made, nil
}

// own checks that nodes are of the graph.
func (g *Graph) own(nodes []*Node) error {
	for _, n := range nodes {
		if n == nil || n.graph != g {
			return ErrForeign
		}
	}
	return nil
}

func (g *Graph) link(e Edge) {
	g.edges[e] = 0
	e.From.after = append(e.From.after, e.To)
	e.To.before = append(e.To.before, e.From)
}

func (g *Graph) unlink(e Edge) {
	delete(g.edges, e)
	e.From.after = without(e.From.after, e.To)
	e.To.before = without(e.To.before, e.From)
}

func without(nodes []*Node, n *Node) []*Node {
	i := slices.Index(nodes, n)
	return slices.Delete(slices.Clone(nodes), i, i+1)
}

// Connect adds edges, all or none. It allows cycles, as CUDA does.
func (g *Graph) Connect(edges []Edge) error {
	return g.change(edges, func(e Edge) error {
		if _, there := g.edges[e]; there || e.From == e.To {
			return ErrEdge
		}
		g.link(e)
		return nil
	}, g.unlink)
}

// Disconnect removes edges, all or none.
func (g *Graph) Disconnect(edges []Edge) error {
	return g.change(edges, func(e Edge) error {
		if _, there := g.edges[e]; !there {
			return ErrEdge
		}
		g.unlink(e)
		return nil
	}, g.link)
}

// change applies do to edges. If one fails, it undoes those before.
func (g *Graph) change(edges []Edge, do func(Edge) error, undo func(Edge)) error {
	for i, e := range edges {
		err := g.own([]*Node{e.From, e.To})
		if err == nil {
			err = do(e)
		}
		if err != nil {
			for _, done := range slices.Backward(edges[:i]) {
				undo(done)
			}
			return err
		}
	}
	return nil
}

// Remove takes a node and its edges out of its graph.
func (n *Node) Remove() {
	g := n.graph
	for _, b := range n.before {
		g.unlink(Edge{From: b, To: n})
	}
	for _, a := range n.after {
		g.unlink(Edge{From: n, To: a})
	}
	g.nodes = without(g.nodes, n)
	n.graph = nil
}

// Roots lists the nodes that depend on no other.
func (g *Graph) Roots() []*Node { return g.ends(func(n *Node) []*Node { return n.before }) }

// leaves lists the nodes that no other depends on.
func (g *Graph) leaves() []*Node { return g.ends(func(n *Node) []*Node { return n.after }) }

func (g *Graph) ends(edges func(*Node) []*Node) []*Node {
	var all []*Node
	for _, n := range g.nodes {
		if len(edges(n)) == 0 {
			all = append(all, n)
		}
	}
	return all
}

// Edges lists all edges, by the order of the nodes that they come from.
func (g *Graph) Edges() []Edge {
	var all []Edge
	for _, n := range g.nodes {
		for _, a := range n.after {
			all = append(all, Edge{From: n, To: a})
		}
	}
	return all
}

// Order lists the nodes so that each comes after those that it depends on, and otherwise as they
// were added and became free. It is ErrCycle where there is no such order.
func (g *Graph) Order() ([]*Node, error) {
	left := make(map[*Node]int, len(g.nodes))
	order := make([]*Node, 0, len(g.nodes))
	for _, n := range g.nodes {
		if left[n] = len(n.before); left[n] == 0 {
			order = append(order, n)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, a := range order[i].after {
			if left[a]--; left[a] == 0 {
				order = append(order, a)
			}
		}
	}
	if len(order) < len(g.nodes) {
		return nil, ErrCycle
	}
	return order, nil
}

// Walk calls do for each node in Order, and for the nodes of a child in its place. Nodes for
// which skip is true are left out, with their children. It does not go into bodies.
func (g *Graph) Walk(skip func(*Node) bool, do func(*Node) error) error {
	order, err := g.Order()
	if err != nil {
		return err
	}
	for _, n := range order {
		switch {
		case skip(n):
		case n.kind == Child:
			err = n.child.Walk(skip, do)
		default:
			err = do(n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Clone returns a copy of the graph, of its children and of its bodies.
func (g *Graph) Clone() *Graph {
	c := New()
	c.twins = make(map[*Node]*Node, len(g.nodes))
	for _, n := range g.nodes {
		t := &Node{Work: n.Work, kind: n.kind, graph: c}
		c.nodes = append(c.nodes, t)
		c.twins[n] = t
		if n.kind == Child {
			t.SetChild(n.child)
		}
		for _, b := range n.bodies {
			b = b.Clone()
			b.node = t
			t.bodies = append(t.bodies, b)
		}
		for _, inner := range t.Inner() {
			maps.Copy(c.twins, inner.twins)
		}
	}
	for _, n := range g.nodes {
		t := c.twins[n]
		for _, b := range n.before {
			t.before = append(t.before, c.twins[b])
			c.edges[Edge{From: c.twins[b], To: t}] = g.edges[Edge{From: b, To: n}]
		}
		for _, a := range n.after {
			t.after = append(t.after, c.twins[a])
		}
	}
	return c
}

// Twin returns the node of a clone that is the copy of n, or nil.
func (g *Graph) Twin(n *Node) *Node {
	t := g.twins[n]
	for at := t; at != nil; at = at.graph.node {
		if at.graph == nil {
			return nil // removed since
		}
		if at.graph == g {
			return t
		}
	}
	return nil
}
