package capi

import (
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// addNode gets (node, graph, dependencies, count, …) and adds a node with what work returns.
func (c *call) addNode(kind graph.Kind, work func() (any, error)) error {
	return c.addTo(c.u64(3), func(g *graph.Graph, before []*graph.Node) (*graph.Node, error) {
		w, err := work()
		if err != nil {
			return nil, err
		}
		return g.Add(kind, w, before)
	})
}

// addTo gets (node, graph, dependencies) and the number of dependencies.
func (c *call) addTo(n uint64, add func(*graph.Graph, []*graph.Node) (*graph.Node, error)) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	return c.withGraphs(func(*graphs) error {
		g, err := c.graph(1)
		if err != nil {
			return err
		}
		before, err := c.nodes(c.u64(2), n)
		if err != nil {
			return err
		}
		made, err := add(g, before)
		if err != nil {
			return err
		}
		return to.set(c.graphHandle(made))
	})
}

func graphAddKernelNode(c *call) error {
	return c.addNode(graph.Kernel, func() (any, error) { return c.readKernel(c.u64(4), kernelNodeBytes) })
}

func graphAddKernelNodeV2(c *call) error {
	return c.addNode(graph.Kernel, func() (any, error) { return c.readKernel(c.u64(4), kernelNodeBytesV2) })
}

func graphAddMemcpyNode(c *call) error {
	return c.addNode(graph.Copy, func() (any, error) {
		x, err := c.contextOr(c.u64(5))
		if err != nil {
			return nil, err
		}
		return c.readCopy(c.u64(4), x)
	})
}

func graphAddMemsetNode(c *call) error {
	return c.addNode(graph.Fill, func() (any, error) {
		x, err := c.contextOr(c.u64(5))
		if err != nil {
			return nil, err
		}
		return c.readFill(c.u64(4), x)
	})
}

func graphAddHostNode(c *call) error {
	return c.addNode(graph.Host, func() (any, error) { return c.readHost(c.u64(4)) })
}

func graphAddEmptyNode(c *call) error {
	return c.addNode(graph.Empty, func() (any, error) { return nil, nil })
}

func graphAddEventRecordNode(c *call) error {
	return c.addNode(graph.Record, func() (any, error) { return c.eventWork(c.u64(4)) })
}

func graphAddEventWaitNode(c *call) error {
	return c.addNode(graph.Wait, func() (any, error) { return c.eventWork(c.u64(4)) })
}

func graphAddChildGraphNode(c *call) error {
	return c.addTo(c.u64(3), func(g *graph.Graph, before []*graph.Node) (*graph.Node, error) {
		child, err := c.graph(4)
		if err == nil {
			err = c.plain(child, "it cannot be a child")
		}
		if err != nil {
			return nil, err
		}
		return c.addChild(g, child, before)
	})
}

// addChild adds a node with a copy of a graph, for whose user objects g holds references.
func (c *call) addChild(g, child *graph.Graph, before []*graph.Node) (*graph.Node, error) {
	n, err := g.AddChild(child, before)
	if err == nil {
		c.lib.graphs.share(g, child)
	}
	return n, err
}

func graphAddNode(c *call) error { return c.addAnyNode(c.u64(3), c.u64(4)) }

func (c *call) addAnyNode(n, params uint64) error {
	b, err := c.read(params, nodeParamsBytes)
	if err != nil {
		return err
	}
	switch graph.Kind(le32(b)) {
	case graph.MemAlloc:
		return c.addAllocNode(n, params+nodeParamsUnion)
	case graph.MemFree:
		return c.addFreeNode(n, le64(b[nodeParamsUnion:]))
	case graph.Conditional:
		return c.addConditionalNode(n, params, b)
	}
	return c.addTo(n, func(g *graph.Graph, before []*graph.Node) (*graph.Node, error) {
		kind, work, child, err := c.readWork(params)
		switch {
		case err != nil:
			return nil, err
		case child != nil:
			return c.addChild(g, child, before)
		}
		return g.Add(kind, work, before)
	})
}

// nodeOf is the node in an argument, which must be of a kind.
func (c *call) nodeOf(i int, kind graph.Kind) (*graph.Node, error) {
	n, err := c.node(i)
	if err == nil && n.Kind() != kind {
		err = c.fail(cuda.ErrInvalidValue, "the node is of type %d and not %d", n.Kind(), kind)
	}
	return n, err
}

// getWork gets (node, to) and writes what of returns.
func (c *call) getWork(kind graph.Kind, size int, of func(*graph.Node) []byte) error {
	to, err := c.out(1, size)
	if err != nil {
		return err
	}
	return c.withGraphs(func(*graphs) error {
		n, err := c.nodeOf(0, kind)
		if err != nil {
			return err
		}
		return to.write(of(n)[:size])
	})
}

func kernelNodeGetParams(c *call) error {
	return c.getWork(graph.Kernel, kernelNodeBytes, func(n *graph.Node) []byte { return n.Work.(*kernelWork).bytes(c) })
}

func kernelNodeGetParamsV2(c *call) error {
	return c.getWork(graph.Kernel, kernelNodeBytesV2, func(n *graph.Node) []byte { return n.Work.(*kernelWork).bytes(c) })
}

func memcpyNodeGetParams(c *call) error {
	return c.getWork(graph.Copy, copy3DBytes, func(n *graph.Node) []byte { return n.Work.(*copyWork).raw })
}

func memsetNodeGetParams(c *call) error {
	return c.getWork(graph.Fill, fillNodeBytes, func(n *graph.Node) []byte { return n.Work.(*fillWork).bytes() })
}

func hostNodeGetParams(c *call) error {
	return c.getWork(graph.Host, 16, func(n *graph.Node) []byte {
		w := n.Work.(*hostWork)
		return wordBytes([]uint64{w.fn, w.data})
	})
}

func childNodeGetGraph(c *call) error {
	return c.getWork(graph.Child, 8, func(n *graph.Node) []byte { return wordBytes([]uint64{c.graphHandle(n.Child())}) })
}

func eventRecordNodeGetEvent(c *call) error { return c.getEvent(graph.Record) }
func eventWaitNodeGetEvent(c *call) error   { return c.getEvent(graph.Wait) }

func (c *call) getEvent(kind graph.Kind) error {
	return c.getWork(kind, 8, func(n *graph.Node) []byte { return wordBytes([]uint64{n.Work.(*eventWork).handle}) })
}

// setWork gives the node in argument i other work, of the context that it has.
func (c *call) setWork(i int, kind graph.Kind, work func(now any) (any, error)) error {
	return c.withGraphs(func(*graphs) error {
		n, err := c.nodeOf(i, kind)
		if err != nil {
			return err
		}
		w, err := work(n.Work)
		if err != nil {
			return err
		}
		if w, err = c.inherit(w, n.Work); err != nil {
			return err
		}
		n.Work = w
		return nil
	})
}

func kernelNodeSetParams(c *call) error {
	return c.setWork(0, graph.Kernel, func(any) (any, error) { return c.readKernel(c.u64(1), kernelNodeBytes) })
}

func kernelNodeSetParamsV2(c *call) error {
	return c.setWork(0, graph.Kernel, func(any) (any, error) { return c.readKernel(c.u64(1), kernelNodeBytesV2) })
}

func memcpyNodeSetParams(c *call) error {
	return c.setWork(0, graph.Copy, func(now any) (any, error) { return c.readCopy(c.u64(1), now.(*copyWork).x) })
}

func memsetNodeSetParams(c *call) error {
	return c.setWork(0, graph.Fill, func(now any) (any, error) { return c.readFill(c.u64(1), now.(*fillWork).x) })
}

func hostNodeSetParams(c *call) error {
	return c.setWork(0, graph.Host, func(any) (any, error) { return c.readHost(c.u64(1)) })
}

func eventRecordNodeSetEvent(c *call) error {
	return c.setWork(0, graph.Record, func(any) (any, error) { return c.eventWork(c.u64(1)) })
}

func eventWaitNodeSetEvent(c *call) error {
	return c.setWork(0, graph.Wait, func(any) (any, error) { return c.eventWork(c.u64(1)) })
}

func nodeSetParams(c *call) error {
	return c.withGraphs(func(*graphs) error {
		n, err := c.node(0)
		if err != nil {
			return err
		}
		return c.replaceWork(n, c.u64(1))
	})
}

// replaceWork gives a node the work of CUgraphNodeParams, which must be of its kind.
func (c *call) replaceWork(n *graph.Node, params uint64) error {
	kind, work, child, err := c.readWork(params)
	switch {
	case err != nil:
		return err
	case kind != n.Kind():
		return c.fail(cuda.ErrInvalidValue, "the node is of type %d and not %d", n.Kind(), kind)
	case child != nil:
		c.lib.dropHandle(n.Child())
		n.SetChild(child)
		c.lib.graphs.share(n.Graph(), child)
		return nil
	}
	if work, err = c.inherit(work, n.Work); err != nil {
		return err
	}
	n.Work = work
	return nil
}
