package capi

import (
	"errors"

	"encoding/binary"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// put adds a node to the capture of a stream.
func put(g *graphs, s *cuda.Stream, kind graph.Kind, work any) error {
	return g.captures.Put(s, func(to *graph.Graph, before []*graph.Node) (*graph.Node, error) { return to.Add(kind, work, before) })
}

func captureLaunch(c *call, g *graphs, x *context, s *cuda.Stream) error {
	return c.captureKernel(g, s, c.u64(0), c.launchShape(), priorityValue(x.priority(s)), c.u64(9), c.u64(10))
}

func captureCooperative(c *call, g *graphs, x *context, s *cuda.Stream) error {
	return c.captureKernel(g, s, c.u64(0), c.cooperativeShape(), priorityValue(x.priority(s)), c.u64(9), 0)
}

func (c *call) captureKernel(g *graphs, s *cuda.Stream, f uint64, cfg cuda.LaunchConfig, priority []byte, params, extra uint64) error {
	w, err := c.kernelWork(f, cfg, params, extra)
	if err == nil {
		err = c.sized(w.f, w.f.clusterFor(&w.cfg))
	}
	if errors.Is(err, cuda.ErrInvalidClusterSize) {
		g.captures.Of(s).Invalidate() // as on an H100
	}
	if err != nil {
		return err
	}
	if le32(priority) != 0 {
		w.attributes = map[uint32][]byte{launchPriority: priority}
	}
	return put(g, s, graph.Kernel, w)
}

func captureLaunchEx(c *call, g *graphs, x *context, s *cuda.Stream) error {
	cfg, _, hints, err := c.launchConfig(0)
	if err != nil {
		return err
	}
	if hints.priority == nil {
		hints.priority = priorityValue(x.priority(s))
	}
	if hints.programmatic {
		g.captures.Of(s).SetData(s, portProgrammatic|typeProgrammatic)
	}
	return c.captureKernel(g, s, c.u64(1), cfg, hints.priority, c.u64(2), c.u64(3))
}

// captureLine captures a copy of argument 2 bytes from argument 1 to argument 0.
func captureLine(dst, src uint32) func(*call, *graphs, *context, *cuda.Stream) error {
	return func(c *call, g *graphs, x *context, s *cuda.Stream) error {
		return c.captureCopy(g, x, s, line(dst, c.u64(0), src, c.u64(1), c.u64(2)))
	}
}

func (c *call) captureCopy(g *graphs, x *context, s *cuda.Stream, raw []byte) error {
	w, err := c.copyWork(x, raw)
	if err != nil {
		return err
	}
	return put(g, s, graph.Copy, w)
}

func capturePeer(c *call, g *graphs, x *context, s *cuda.Stream) error {
	to, from, err := c.peers()
	if err != nil {
		return err
	}
	if to != from {
		return c.fail(cuda.ErrNotSupported, "a copy between two contexts in a graph")
	}
	return c.captureCopy(g, x, s, line(memoryDevice, c.u64(0), memoryDevice, c.u64(2), c.u64(4)))
}

// captureHtoA captures (array, offset, source, bytes), captureAtoH (destination, array, offset, bytes).
func captureHtoA(c *call, g *graphs, x *context, s *cuda.Stream) error {
	b := line(memoryArray, c.u64(0), memoryHost, c.u64(2), c.u64(3))
	binary.LittleEndian.PutUint64(b[copy3DDst.x:], c.u64(1))
	return c.captureCopy(g, x, s, b)
}

func captureAtoH(c *call, g *graphs, x *context, s *cuda.Stream) error {
	b := line(memoryHost, c.u64(0), memoryArray, c.u64(1), c.u64(3))
	binary.LittleEndian.PutUint64(b[copy3DSrc.x:], c.u64(2))
	return c.captureCopy(g, x, s, b)
}

func captureCopy2D(c *call, g *graphs, x *context, s *cuda.Stream) error {
	b, err := c.read(c.u64(0), copy2DBytes)
	if err != nil {
		return err
	}
	return c.captureCopy(g, x, s, asCopy3D(b))
}

func captureCopy3D(c *call, g *graphs, x *context, s *cuda.Stream) error {
	b, err := c.read(c.u64(0), copy3DBytes)
	if err != nil {
		return err
	}
	return c.captureCopy(g, x, s, b)
}

// captureFill captures (dst, value, count), captureFillRows (dst, pitch, value, width, height).
func captureFill(element uint32) func(*call, *graphs, *context, *cuda.Stream) error {
	return func(c *call, g *graphs, x *context, s *cuda.Stream) error {
		return c.captureRows(g, s, &fillWork{x: x, dst: c.u64(0), value: c.u32(1), element: element, width: c.u64(2), height: 1})
	}
}

func captureFillRows(element uint32) func(*call, *graphs, *context, *cuda.Stream) error {
	return func(c *call, g *graphs, x *context, s *cuda.Stream) error {
		return c.captureRows(g, s, &fillWork{x: x, dst: c.u64(0), pitch: c.u64(1), value: c.u32(2), element: element, width: c.u64(3), height: c.u64(4)})
	}
}

func (c *call) captureRows(g *graphs, s *cuda.Stream, w *fillWork) error {
	w, err := c.fillWork(w)
	if err != nil {
		return err
	}
	return put(g, s, graph.Fill, w)
}

func captureHost(c *call, g *graphs, _ *context, s *cuda.Stream) error {
	if c.u64(1) == 0 {
		return c.fail(cuda.ErrInvalidValue, "the function is a null pointer")
	}
	return put(g, s, graph.Host, &hostWork{fn: c.u64(1), data: c.u64(2)})
}

// recordWhileCapturing gets (event, stream, flags). In a capture the event stands for what was
// captured so far, or with a flag is recorded by a node.
func recordWhileCapturing(c *call, g *graphs) (bool, error) {
	w, err := c.eventWork(c.u64(0))
	if err != nil {
		return false, nil // the call itself fails
	}
	done, err := c.forCaptured(g, captureRule{stream: 1, take: func(c *call, g *graphs, _ *context, s *cuda.Stream) error {
		switch {
		case c.entry.args == 3 && c.u32(2) == eventExternal:
			return put(g, s, graph.Record, w)
		case c.entry.args == 3 && c.u32(2) != 0:
			return c.fail(cuda.ErrInvalidValue, "flags 0x%x", c.u32(2))
		}
		return g.captures.Record(w.e, s)
	}})
	if !done {
		g.captures.Forget(w.e)
	}
	return done, err
}

func forgetEvent(c *call, g *graphs) (bool, error) {
	if e, err := c.event(0); err == nil {
		g.captures.Forget(e)
	}
	return false, nil
}

func dropStream(c *call, g *graphs) (bool, error) {
	if _, s := c.ruleStream(0); s != nil {
		if err := c.lib.dropCapture(s); err != nil {
			return true, err
		}
	}
	return false, nil // streamDestroy runs the destructors of what goes with a capture
}

// captureGraph captures a launch as a node with a copy of the graph.
func captureGraph(c *call, g *graphs, _ *context, s *cuda.Stream) error {
	e, err := c.exec(0)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.single() {
		g.captures.Of(s).Invalidate()
		return graph.ErrUnsupported
	}
	for _, off := range e.off {
		if off {
			g.captures.Of(s).Invalidate()
			return c.fail(cuda.ErrNotSupported, "a capture of a graph with disabled nodes, which its copy would run")
		}
	}
	return g.captures.Put(s, func(to *graph.Graph, before []*graph.Node) (*graph.Node, error) {
		return c.addChild(to, e.graph, before)
	})
}

// waitWhileCapturing gets (stream, event, flags). With a flag a captured stream waits by a node for
// what the event is recorded for when the graph runs.
func waitWhileCapturing(c *call, g *graphs) (bool, error) {
	x, s := c.ruleStream(0)
	e, err := c.event(1)
	if s == nil || err != nil {
		return false, nil // the call says what is wrong
	}
	k := g.captures.Of(s)
	switch flags := c.u32(2); {
	case flags == eventExternal && k != nil:
		return true, put(g, s, graph.Wait, &eventWork{e: e, handle: c.u64(1)})
	case flags != 0:
		return false, nil
	case s == x.DefaultStream():
		if g.captures.Stands(e) {
			return true, graph.ErrImplicit
		}
		return c.forCaptured(g, captureRule{stream: 0})
	}
	return g.captures.Await(s, e)
}
