package capi

import (
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// lossyQuery is CUDA_ERROR_LOSSY_QUERY.
const lossyQuery cuda.Result = 402

// CUgraphEdgeData: the port of the first node, that of the second, the type of the edge, and bytes
// that must be 0. Edges from a port wait for less than the end of a kernel. The nodes run one after
// the other here, which satisfies them all.
const (
	portProgrammatic = 1       // CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC
	portLaunchOrder  = 2       // CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER
	typeProgrammatic = 1 << 16 // CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
)

// edgeData reads the data of n edges from an argument, if there is one (not negative). It returns
// nil for a null pointer.
func (c *call) edgeData(arg int, n uint64) ([]graph.Data, error) {
	if arg < 0 || c.u64(arg) == 0 || n == 0 {
		return nil, nil
	}
	if n > maxNodes {
		return nil, c.fail(cuda.ErrInvalidValue, "%d edges", n)
	}
	b, err := c.read(c.u64(arg), 8*int(n))
	if err != nil {
		return nil, err
	}
	all := make([]graph.Data, n)
	for i := range all {
		all[i] = graph.Data(le64(b[8*i:]))
	}
	return all, nil
}

// checkEdge refuses data that an edge between nodes of two kinds cannot have.
func (c *call) checkEdge(from, to graph.Kind, d graph.Data) error {
	switch d {
	case 0:
		return nil
	case portProgrammatic | typeProgrammatic, portLaunchOrder | typeProgrammatic, portLaunchOrder:
		if from == graph.Kernel && to == graph.Kernel {
			return nil
		}
	}
	return c.fail(cuda.ErrInvalidValue, "an edge with the data 0x%x between nodes of the types %d and %d", uint64(d), from, to)
}

// listOfNode writes the nodes at the other ends of a node's edges and, with data, the edges' data.
func (c *call) listOfNode(data bool, nodes func(*graph.Node) []*graph.Node, edge func(n, other *graph.Node) graph.Edge) error {
	return c.withGraphs(func(*graphs) error {
		n, err := c.node(0)
		if err != nil {
			return err
		}
		var edges []graph.Edge
		for _, other := range nodes(n) {
			edges = append(edges, edge(n, other))
		}
		to, at := []int{1}, 2
		if data {
			to, at = []int{1, 2}, 3
		}
		return c.listEdges(n.Graph(), edges, at, to, c.nodeHandles(nodes(n)))
	})
}

// listEdges is list for edges, whose data is the last column. A program that asks for edges with
// data without a place for it would take them for others.
func (c *call) listEdges(of *graph.Graph, edges []graph.Edge, count int, to []int, columns ...[]uint64) error {
	var data []uint64
	lossy := false
	for _, e := range edges {
		d := uint64(of.Data(e))
		data, lossy = append(data, d), lossy || d != 0
	}
	if len(to) > len(columns) && c.u64(to[len(to)-1]) != 0 {
		lossy = false
	}
	if lossy && c.u64(to[0]) != 0 {
		return c.fail(lossyQuery, "edges have data, for which there is no room")
	}
	return c.list(count, to, append(columns, data)...)
}

func toNode(n, before *graph.Node) graph.Edge  { return graph.Edge{From: before, To: n} }
func fromNode(n, after *graph.Node) graph.Edge { return graph.Edge{From: n, To: after} }

func nodeGetDependencies(c *call) error   { return c.listOfNode(false, (*graph.Node).Before, toNode) }
func nodeGetDependenciesV2(c *call) error { return c.listOfNode(true, (*graph.Node).Before, toNode) }
func nodeGetDependents(c *call) error     { return c.listOfNode(false, (*graph.Node).After, fromNode) }
func nodeGetDependentsV2(c *call) error   { return c.listOfNode(true, (*graph.Node).After, fromNode) }

func graphGetEdges(c *call) error   { return c.edges(3, []int{1, 2}) }
func graphGetEdgesV2(c *call) error { return c.edges(4, []int{1, 2, 3}) }

func (c *call) edges(count int, to []int) error {
	return c.withGraphs(func(*graphs) error {
		g, err := c.graph(0)
		if err != nil {
			return err
		}
		var from, after []uint64
		for _, e := range g.Edges() {
			from, after = append(from, c.graphHandle(e.From)), append(after, c.graphHandle(e.To))
		}
		return c.listEdges(g, g.Edges(), count, to, from, after)
	})
}

func graphAddDependencies(c *call) error      { return c.changeEdges(-1, connect) }
func graphAddDependenciesV2(c *call) error    { return c.changeEdges(3, connect) }
func graphRemoveDependencies(c *call) error   { return c.changeEdges(-1, disconnect) }
func graphRemoveDependenciesV2(c *call) error { return c.changeEdges(3, disconnect) }

// connect adds edges with data.
func connect(c *call, g *graph.Graph, edges []graph.Edge, data []graph.Data) error {
	for i, d := range data {
		if err := c.checkEdge(edges[i].From.Kind(), edges[i].To.Kind(), d); err != nil {
			return err
		}
	}
	err := g.Connect(edges)
	for i, d := range data {
		if err == nil {
			g.SetData(edges[i], d)
		}
	}
	return err
}

// disconnect removes edges, which must have the data if some is given.
func disconnect(c *call, g *graph.Graph, edges []graph.Edge, data []graph.Data) error {
	if err := c.withoutMemory(g, "its edges stay"); err != nil {
		return err
	}
	for i, d := range data {
		if g.Data(edges[i]) != d {
			return c.fail(cuda.ErrInvalidValue, "the edge %d has other data", i)
		}
	}
	return g.Disconnect(edges)
}

// changeEdges gets (graph, from, to, count), with data of edges before the count if data is not
// negative.
func (c *call) changeEdges(data int, change func(*call, *graph.Graph, []graph.Edge, []graph.Data) error) error {
	n := c.u64(max(data, 2) + 1)
	all, err := c.edgeData(data, n)
	if err != nil {
		return err
	}
	return c.withGraphs(func(*graphs) error {
		var lists [2][]*graph.Node
		g, err := c.graph(0)
		for i := range lists {
			if err == nil {
				lists[i], err = c.nodes(c.u64(1+i), n)
			}
		}
		if err != nil {
			return err
		}
		edges := make([]graph.Edge, n)
		for i := range edges {
			edges[i] = graph.Edge{From: lists[0][i], To: lists[1][i]}
		}
		return change(c, g, edges, all)
	})
}

// graphAddNodeV2 gets (node, graph, dependencies, their data, count, CUgraphNodeParams).
func graphAddNodeV2(c *call) error {
	data, err := c.edgeData(3, c.u64(4))
	if err != nil {
		return err
	}
	b, err := c.read(c.u64(5), nodeParamsBytes)
	if err != nil {
		return err
	}
	kind, plain := graph.Kind(le32(b)), true
	for _, d := range data {
		plain = plain && d == 0
	}
	if plain {
		return c.addAnyNode(c.u64(4), c.u64(5))
	}
	// Only kernels have edges with data.
	return c.addTo(c.u64(4), func(g *graph.Graph, before []*graph.Node) (*graph.Node, error) {
		for i, d := range data {
			if err := c.checkEdge(before[i].Kind(), kind, d); err != nil {
				return nil, err
			}
		}
		w, err := c.readKernel(c.u64(5)+nodeParamsUnion, kernelNodeBytesV2)
		if err != nil {
			return nil, err
		}
		n, err := g.Add(graph.Kernel, w, before)
		for i, d := range data {
			if err == nil {
				g.SetData(graph.Edge{From: before[i], To: n}, d)
			}
		}
		return n, err
	})
}
