package capi

import (
	"errors"
	"slices"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// Results of stream capture that are not errors of package graph.
const captureUnsupported cuda.Result = 900

// captureStatus is a CUstreamCaptureStatus.
func captureStatus(k *graph.Capture[*cuda.Stream]) uint64 {
	switch {
	case k == nil:
		return 0
	case k.Invalid():
		return 2
	}
	return 1
}

// watch tells Library.run which calls need to look for captures.
//
// Preconditions: g.mu is held.
func (g *graphs) watch() {
	switch {
	case g.captures.Active():
		g.watched.Store(watchAll)
		return
	case g.captures.Marked():
		g.watched.Store(watchEvents)
	default:
		g.watched.Store(watchNothing)
	}
	for _, r := range g.rooms {
		g.spare = append(g.spare, r)
	}
	clear(g.rooms)
}

// dropCaptures ends the captures of streams that go.
func (l *Library) dropCaptures(goes func(*cuda.Stream) bool) {
	g := &l.graphs
	if g.watched.Load() == watchNothing {
		return
	}
	g.mu.Lock()
	for _, s := range g.captures.Streams() {
		if goes(s) {
			_ = l.dropCapture(s) // of a context or thread that ends; no caller waits for the error
		}
	}
	g.watch()
	g.mu.Unlock()
	l.endUserObjects()
}

// dropCapture forgets a stream that goes, and the graph of a capture that ends by that.
//
// Preconditions: l.graphs.mu is held; endUserObjects follows.
func (l *Library) dropCapture(s *cuda.Stream) error {
	k := l.graphs.captures.Of(s)
	l.graphs.captures.Drop(s)
	return l.discard(k)
}

// begin begins a capture on the stream in argument 0.
func (c *call) begin(mode uint32, into func() (*graph.Graph, []*graph.Node, error), data []graph.Data) error {
	if mode > lastCaptureMode {
		return c.fail(cuda.ErrInvalidValue, "mode %d", mode)
	}
	x, s, err := c.stream(0)
	if err != nil {
		return err
	}
	if s == x.DefaultStream() {
		return c.fail(captureUnsupported, "the legacy stream cannot be captured")
	}
	return c.withGraphs(func(g *graphs) error {
		to, tips, err := into()
		if err != nil {
			return err
		}
		if err := c.checkTips(tips, data); err != nil {
			return err
		}
		if err := g.captures.Begin(s, c.thread.id, graph.Mode(mode), to, tips, data); err != nil {
			return err
		}
		g.captures.Of(s).Given = g.handles[to] != 0
		g.watch()
		return nil
	})
}

func streamBeginCapture(c *call) error {
	return c.begin(c.u32(1), func() (*graph.Graph, []*graph.Node, error) { return graph.New(), nil, nil }, nil)
}

// streamBeginCaptureOld is of CUDA 10.0, which had no modes.
func streamBeginCaptureOld(c *call) error {
	return c.begin(0, func() (*graph.Graph, []*graph.Node, error) { return graph.New(), nil, nil }, nil)
}

// streamBeginCaptureToGraph gets (stream, graph, dependencies, their data, count, mode).
func streamBeginCaptureToGraph(c *call) error {
	data, err := c.edgeData(3, c.u64(4))
	if err != nil {
		return err
	}
	return c.begin(c.u32(5), func() (*graph.Graph, []*graph.Node, error) {
		to, err := c.graph(1)
		if err != nil {
			return nil, nil, err
		}
		tips, err := c.nodes(c.u64(2), c.u64(4))
		return to, tips, err
	}, data)
}

// checkTips refuses data that the edges from nodes to a kernel cannot have.
func (c *call) checkTips(tips []*graph.Node, data []graph.Data) error {
	for i, d := range data {
		if err := c.checkEdge(tips[i].Kind(), graph.Kernel, d); err != nil {
			return err
		}
	}
	return nil
}

func streamEndCapture(c *call) error {
	_, s, err := c.stream(0)
	if err != nil {
		return err
	}
	to, err := c.optional(1, 8)
	if err != nil {
		return err
	}
	return c.withUserObjects(func(g *graphs) error {
		k := g.captures.Of(s)
		made, err := g.captures.End(s, c.thread.id)
		g.watch()
		if err != nil {
			_ = to.set(0) // it could be written before
			return errors.Join(err, c.lib.discard(k))
		}
		if c.u64(1) == 0 && g.handles[made] == 0 {
			return c.lib.dropGraph(made) // the program does not want it
		}
		return to.set(c.graphHandle(made))
	})
}

// discard destroys the graph of a capture that has ended without a result. The program may have a
// handle of it, by cuStreamGetCaptureInfo, and does not own it.
//
// Preconditions: l.graphs.mu is held; endUserObjects follows.
func (l *Library) discard(k *graph.Capture[*cuda.Stream]) error {
	if k == nil || !k.Ended() || k.Given {
		return nil
	}
	return l.dropGraph(k.Graph)
}

// asked is the capture of the stream in argument 0, which may be none, for a call that asks.
//
// Preconditions: g.mu is held.
func (c *call) asked(g *graphs) (*cuda.Stream, *graph.Capture[*cuda.Stream], error) {
	x, s, err := c.stream(0)
	if err != nil {
		return nil, nil, err
	}
	if s == x.DefaultStream() && len(g.blocking(x)) > 0 {
		return nil, nil, graph.ErrImplicit
	}
	return s, g.captures.Of(s), nil
}

func streamIsCapturing(c *call) error {
	to, err := c.out32(1)
	if err != nil {
		return err
	}
	return c.withGraphs(func(g *graphs) error {
		_, k, err := c.asked(g)
		if err != nil {
			return err
		}
		return to.set(captureStatus(k))
	})
}

// streamGetCaptureInfo gets (stream, status, id), and later versions (graph, dependencies, data of
// edges, count). The data are only of the last version.
func streamGetCaptureInfo(c *call) error   { return c.captureInfo(-1, -1) }
func streamGetCaptureInfoV2(c *call) error { return c.captureInfo(-1, 5) }
func streamGetCaptureInfoV3(c *call) error { return c.captureInfo(5, 6) }

func (c *call) captureInfo(data, count int) error {
	status, err := c.out32(1)
	if err != nil {
		return err
	}
	var to [7]out
	for i := 2; i <= max(count, 2); i++ {
		if to[i], err = c.optional(i, 8); err != nil {
			return err
		}
	}
	return c.withGraphs(func(g *graphs) error {
		s, k, err := c.asked(g)
		if err != nil {
			return err
		}
		if err := status.set(captureStatus(k)); err != nil || k == nil || k.Invalid() {
			return err
		}
		if err := to[2].set(k.ID); err != nil || count < 0 {
			return err
		}
		tips := c.nodeHandles(k.Tips(s))
		at, dataAt, err := c.show(g, s, tips, k.Data(s))
		if err != nil {
			return err
		}
		values := [7]uint64{3: c.graphHandle(k.Graph), 4: at}
		if data < 0 && slices.ContainsFunc(k.Data(s), func(d graph.Data) bool { return d != 0 }) && c.u64(4) != 0 {
			return c.fail(lossyQuery, "edges have data, for which there is no room")
		}
		if data > 0 {
			values[data] = dataAt
		}
		values[count] = uint64(len(tips))
		for i := 3; i <= count; i++ {
			if err := to[i].set(values[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// room is memory of the program that shows it nodes and as many words of data.
type room struct {
	at    uint64
	words uint64
}

// show writes nodes, and the data of the edges from them, to memory of the program that is good until the next call for the stream.
//
// Preconditions: g.mu is held.
func (c *call) show(g *graphs, s *cuda.Stream, nodes []uint64, data []graph.Data) (at, dataAt uint64, err error) {
	n := uint64(len(nodes))
	r := g.rooms[s]
	if last := len(g.spare) - 1; r.at == 0 && last >= 0 {
		r, g.spare = g.spare[last], g.spare[:last]
	}
	if r.words < n || r.at == 0 {
		r.words = max(2*n, 8)
		r.at = c.lib.cfg.Memory.Keep(make([]byte, 16*r.words))
	}
	if g.rooms == nil {
		g.rooms = map[*cuda.Stream]room{}
	}
	g.rooms[s] = r
	dataAt = r.at + 8*r.words
	if n > 0 {
		words := make([]uint64, n)
		for i, d := range data {
			words[i] = uint64(d)
		}
		err = errors.Join(c.lib.cfg.Memory.Write(r.at, wordBytes(nodes)), c.lib.cfg.Memory.Write(dataAt, wordBytes(words)))
	}
	return r.at, dataAt, err
}

// streamUpdateCaptureDependencies gets (stream, dependencies, count, flags).
func streamUpdateCaptureDependencies(c *call) error {
	return c.updateTips(c.u64(2), nil, c.u32(3))
}

// streamUpdateCaptureDependenciesV2 gets (stream, dependencies, their data, count, flags).
func streamUpdateCaptureDependenciesV2(c *call) error {
	data, err := c.edgeData(2, c.u64(3))
	if err != nil {
		return err
	}
	return c.updateTips(c.u64(3), data, c.u32(4))
}

func (c *call) updateTips(n uint64, data []graph.Data, flags uint32) error {
	if flags > 1 { // CU_STREAM_SET_CAPTURE_DEPENDENCIES
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", flags)
	}
	_, s, err := c.stream(0)
	if err != nil {
		return err
	}
	return c.withGraphs(func(g *graphs) error {
		nodes, err := c.nodes(c.u64(1), n)
		if err != nil {
			return err
		}
		if err := c.checkTips(nodes, data); err != nil {
			return err
		}
		return g.captures.Update(s, nodes, data, flags == 1)
	})
}

// blocking lists the captures of a context that the legacy stream would wait for.
//
// Preconditions: g.mu is held.
func (g *graphs) blocking(x *context) []*graph.Capture[*cuda.Stream] {
	var all []*graph.Capture[*cuda.Stream]
	for _, s := range g.captures.Streams() {
		if !s.NonBlocking() && s.Context() == x.Context {
			all = append(all, g.captures.Of(s))
		}
	}
	return all
}
