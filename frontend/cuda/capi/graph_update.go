package capi

import (
	"errors"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// Results of CUgraphExecUpdateResult.
const (
	updateDone     = 0
	updateTopology = 2
	updateKind     = 3

	updateNotSupported = 6

	updateFailure cuda.Result = 910
)

// change changes the executable graph in argument 0. The next launch does what it says then.
func (c *call) change(do func(e *graphExec) error) error {
	return c.withExec(func(e *graphExec) error {
		if err := do(e); err != nil {
			return err
		}
		e.steps = nil
		return nil
	})
}

// withExec calls do with the executable graph in argument 0 while nothing else uses it.
func (c *call) withExec(do func(e *graphExec) error) error {
	return c.withGraphs(func(*graphs) error {
		e, err := c.exec(0)
		if err != nil {
			return err
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		return do(e)
	})
}

// twin is the executable copy of the node in argument 1.
func (c *call) twin(e *graphExec) (*graph.Node, error) {
	n, ok := find[*graph.Node](c.lib, c.u64(1))
	if ok {
		n = e.graph.Twin(n)
	}
	if n == nil {
		return nil, c.fail(cuda.ErrInvalidValue, "0x%x is no node of the graph that was instantiated", c.u64(1))
	}
	return n, nil
}

// setExecWork gives the copy of the node in argument 1 other work.
func (c *call) setExecWork(kind graph.Kind, work func() (any, error)) error {
	return c.change(func(e *graphExec) error {
		n, err := c.twin(e)
		if err != nil {
			return err
		}
		if n.Kind() != kind {
			return c.fail(cuda.ErrInvalidValue, "the node is of type %d and not %d", n.Kind(), kind)
		}
		w, err := work()
		if err != nil {
			return err
		}
		if w, err = c.inherit(w, n.Work); err == nil {
			n.Work = w
		}
		return err
	})
}

func graphExecKernelNodeSetParams(c *call) error {
	return c.setExecWork(graph.Kernel, func() (any, error) { return c.readKernel(c.u64(2), kernelNodeBytes) })
}

func graphExecKernelNodeSetParamsV2(c *call) error {
	return c.setExecWork(graph.Kernel, func() (any, error) { return c.readKernel(c.u64(2), kernelNodeBytesV2) })
}

func graphExecMemcpyNodeSetParams(c *call) error {
	return c.setExecWork(graph.Copy, func() (any, error) {
		x, err := c.contextOr(c.u64(3))
		if err != nil {
			return nil, err
		}
		return c.readCopy(c.u64(2), x)
	})
}

func graphExecMemsetNodeSetParams(c *call) error {
	return c.setExecWork(graph.Fill, func() (any, error) {
		x, err := c.contextOr(c.u64(3))
		if err != nil {
			return nil, err
		}
		return c.readFill(c.u64(2), x)
	})
}

func graphExecHostNodeSetParams(c *call) error {
	return c.setExecWork(graph.Host, func() (any, error) { return c.readHost(c.u64(2)) })
}

func graphExecEventRecordNodeSetEvent(c *call) error {
	return c.setExecWork(graph.Record, func() (any, error) { return c.eventWork(c.u64(2)) })
}

func graphExecEventWaitNodeSetEvent(c *call) error {
	return c.setExecWork(graph.Wait, func() (any, error) { return c.eventWork(c.u64(2)) })
}

func graphExecChildGraphNodeSetParams(c *call) error {
	return c.change(func(e *graphExec) error {
		n, err := c.twin(e)
		if err != nil {
			return err
		}
		child, err := c.graph(2)
		if err != nil {
			return err
		}
		return c.replaceChild(e, n, child)
	})
}

// replaceChild gives the nodes of a child the work of the graph's, which must have the same
// edges. References to user objects of the child before stay with the executable graph.
func (c *call) replaceChild(e *graphExec, n *graph.Node, by *graph.Graph) error {
	if n.Kind() != graph.Child {
		return c.fail(cuda.ErrInvalidValue, "the node is of type %d and has no graph", n.Kind())
	}
	pairs, mismatch := n.Child().Pair(by)
	if mismatch != nil {
		return c.fail(cuda.ErrInvalidValue, "the graph has other nodes or edges than the one that was instantiated")
	}
	takeWork(pairs)
	c.lib.graphs.share(e.graph, by)
	return nil
}

// unlike says what nodes of a pair do that an update cannot change, empty if nothing.
func unlike(from, to *graph.Node) string {
	switch w := to.Work.(type) {
	case *conditionalWork:
		if w.kind != from.Work.(*conditionalWork).kind {
			return "has a conditional node of another type"
		}
	case *memoryWork:
		if !w.same(from.Work) {
			return "allocates or frees other memory"
		}
	}
	return ""
}

func takeWork(pairs map[*graph.Node]*graph.Node) {
	for from, to := range pairs {
		if w, ok := to.Work.(*conditionalWork); ok {
			to.Work = w.updated(from.Work.(*conditionalWork))
			continue
		}
		to.Work = from.Work
	}
}

func graphExecNodeSetParams(c *call) error {
	return c.change(func(e *graphExec) error {
		n, err := c.twin(e)
		if err != nil {
			return err
		}
		if kind, _, child, err := c.readWork(c.u64(2)); err == nil && kind == graph.Child && child != nil {
			return c.replaceChild(e, n, child)
		}
		return c.replaceWork(n, c.u64(2))
	})
}

// graphExecUpdate gets (exec, graph, error node, result).
func graphExecUpdate(c *call) error {
	node, err := c.out64(2)
	if err != nil {
		return err
	}
	result, err := c.out32(3)
	if err != nil {
		return err
	}
	return c.update(func(r, at, _ uint64) error { return errors.Join(node.set(at), result.set(r)) })
}

// graphExecUpdateV2 gets (exec, graph, CUgraphExecUpdateResultInfo): the result, the node of the
// graph, and its pair in the graph that was instantiated.
func graphExecUpdateV2(c *call) error {
	to, err := c.out(2, 24)
	if err != nil {
		return err
	}
	return c.update(func(r, at, from uint64) error { return to.write(wordBytes([]uint64{r, at, from})) })
}

func (c *call) update(report func(result, at, from uint64) error) error {
	before := graph.New() // has the references that the executable graph gives up
	var x *context
	var last *cuda.Stream
	err := c.change(func(e *graphExec) error {
		g, err := c.graph(1)
		if err != nil {
			return err
		}
		if len(updatables(e.graph))+len(updatables(g)) > 0 {
			return errors.Join(c.fail(cuda.ErrNotSupported, "a graph has nodes that kernels may change"), report(updateDone, 0, 0))
		}
		pairs, mismatch := e.graph.Pair(g)
		if mismatch == nil {
			for from, to := range pairs {
				if why := unlike(from, to); why != "" {
					return errors.Join(c.fail(updateFailure, "the graph %s than the one that was instantiated", why),
						report(updateNotSupported, c.graphHandle(from), 0))
				}
			}
			takeWork(pairs)
			e.take(conditionsOf(e.graph))
			c.lib.graphs.exchange(e.graph, g, before)
			x, last = e.ctx, e.last
			return report(updateDone, 0, 0)
		}
		result, at := uint64(updateTopology), uint64(0)
		switch {
		case mismatch.Kinds:
			result = updateKind
		case mismatch.Bodies:
			result = updateNotSupported
		}
		if mismatch.To != nil {
			at = c.graphHandle(mismatch.To)
		}
		return errors.Join(c.fail(updateFailure, "the graph has other nodes or edges than the one that was instantiated"), report(result, at, 0))
	})
	return errors.Join(err, c.dropWhenDone(before, x, last))
}

// execNode is twin for a node that can be disabled.
func (c *call) execNode(e *graphExec) (*graph.Node, error) {
	n, err := c.twin(e)
	if err == nil && n.Kind() > graph.Fill {
		err = c.fail(cuda.ErrInvalidValue, "only kernels, copies and fills can be disabled")
	}
	return n, err
}

// graphNodeSetEnabled gets (exec, node, 0 or 1).
func graphNodeSetEnabled(c *call) error {
	return c.change(func(e *graphExec) error {
		n, err := c.execNode(e)
		if err != nil {
			return err
		}
		e.off[n] = c.u32(2) == 0
		return nil
	})
}

func graphNodeGetEnabled(c *call) error {
	to, err := c.out32(2)
	if err != nil {
		return err
	}
	return c.withExec(func(e *graphExec) error {
		n, err := c.execNode(e)
		if err != nil {
			return err
		}
		if e.off[n] {
			return to.set(0)
		}
		return to.set(1)
	})
}
