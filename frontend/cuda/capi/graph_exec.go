package capi

import (
	"errors"
	"sync"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
)

// graphExec is a CUgraphExec: a copy of a graph, and its work in the order in which it is queued.
// All of it goes to the stream of the launch, one node after the other.
type graphExec struct {
	mu    sync.Mutex // after graphs.mu
	graph *graph.Graph
	flags uint64
	off   map[*graph.Node]bool // disabled nodes
	steps []graphStep          // nil: to be made at the next launch

	conditions []*condition // that it has or had; guarded by graphs.mu

	of     *graph.Graph // that was instantiated
	memory launchMemory // of a launch by the steps
	ctx    *context     // of the last launch, and its stream: launches wait for each other
	last   *cuda.Stream

	handle   uint64
	launcher *context // whose kernels in it may ask for launches of graphs, or nil; as of steps
	uploaded *context // whose kernels may launch it, or nil
}

// graphStep is one of three: work for the device that has the context, an event, or what the program itself
// must do when the stream gets there.
type graphStep struct {
	x       *context
	batch   *cuda.Batch
	event   *event
	wait    bool // for the event; otherwise it is recorded
	program func(c *call, x *context, s *cuda.Stream) error
}

// Flags of cuGraphInstantiateWithFlags.
const (
	instantiateUpload = 2 // CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD
	instantiateDevice = 4 // CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH
	instantiateFlags  = 15
)

// uploadNew uploads the executable graph that argument 0 leads to, on a stream.
func (c *call) uploadNew(stream uint64) error {
	h, err := c.read64(c.u64(0))
	if err != nil {
		return err
	}
	return graphUpload(c.of(h, stream))
}

// Results of CUgraphInstantiateResult.
const (
	instantiateError   = 1
	instantiateInvalid = 2
)

// instantiate makes an executable graph of the graph in argument 1.
func (c *call) instantiate(flags uint64) error {
	to, err := c.out64(0)
	if err != nil {
		return err
	}
	if flags&^instantiateFlags != 0 {
		return c.fail(cuda.ErrInvalidValue, "flags 0x%x", flags)
	}
	return c.withGraphs(func(gs *graphs) error {
		g, err := c.graph(1)
		if err != nil {
			return err
		}
		if flags&instantiateDevice != 0 {
			if err := c.forDevice(g, flags); err != nil {
				return err
			}
			flags = instantiateDevice // as an H100 answers later
		}
		if gs.ready[g] != nil {
			return c.fail(cuda.ErrNotSupported, "the graph allocates or frees memory, has conditional nodes or nodes that kernels may change, and has an executable copy already")
		}
		if err := c.checkConditions(gs, g); err != nil {
			return err
		}
		e := &graphExec{graph: g.Clone(), flags: flags, off: map[*graph.Node]bool{}, of: g}
		if err := e.prepare(c); err != nil {
			return err
		}
		if e.single() {
			if gs.ready == nil {
				gs.ready = map[*graph.Graph]*graphExec{}
			}
			gs.ready[g] = e
			e.take(conditionsOf(e.graph))
			for _, m := range memoryOf(g) {
				m.Hold()
			}
		}
		gs.share(e.graph, g)
		e.handle = c.lib.handles.add(e)
		return to.set(e.handle)
	})
}

// single reports whether the graph that was instantiated may have no other executable copy.
func (e *graphExec) single() bool {
	return hasMemory(e.graph) || hasConditions(e.graph) || len(updatables(e.graph)) > 0
}

// graphInstantiate gets (exec, graph, error node, log, bytes of the log). It never writes a log.
func graphInstantiate(c *call) error {
	node, err := c.optional(2, 8)
	if err != nil {
		return err
	}
	if c.u64(4) > 0 {
		log, err := c.optional(3, 1)
		if err == nil {
			err = log.set(0)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(c.instantiate(0), node.set(0))
}

func graphInstantiateWithFlags(c *call) error {
	if both := uint64(instantiateDevice | instantiateUpload); c.u64(2)&both == both {
		return c.fail(cuda.ErrInvalidValue, "an upload needs a stream")
	}
	return c.instantiate(c.u64(2))
}

// graphInstantiateWithParams gets (exec, graph, CUDA_GRAPH_INSTANTIATE_PARAMS): flags, a stream
// for the upload, and where the node of an error and the result go.
func graphInstantiateWithParams(c *call) error {
	b, err := c.read(c.u64(2), 32)
	if err != nil {
		return err
	}
	done := c.instantiate(le64(b))
	result, node := uint64(0), uint64(0)
	if done != nil {
		if result = instantiateError; errors.Is(done, graph.ErrCycle) {
			result = instantiateInvalid
		}
		if why, ok := errors.AsType[*notForDevice](done); ok {
			result, node, done = why.result, c.nodeHandles([]*graph.Node{why.node})[0], why.error
		}
	} else if both := uint64(instantiateDevice | instantiateUpload); le64(b)&both == both {
		done = c.uploadNew(le64(b[8:]))
	}
	return errors.Join(done, out{c: c, addr: c.u64(2) + 16, n: 8}.set(node), out{c: c, addr: c.u64(2) + 24, n: 4}.set(result))
}

func (c *call) exec(i int) (*graphExec, error) {
	e, ok := find[*graphExec](c.lib, c.u64(i))
	if !ok {
		return nil, c.fail(cuda.ErrInvalidValue, "0x%x is no executable graph", c.u64(i))
	}
	return e, nil
}

func graphExecDestroy(c *call) error {
	e, err := c.exec(0)
	if err != nil {
		return err
	}
	c.lib.handles.remove(c.u64(0))
	e.mu.Lock()
	e.forgetUpload()
	x, last := e.ctx, e.last
	e.mu.Unlock()
	if err := c.dropWhenDone(e.graph, x, last); err != nil || !e.single() {
		return err
	}
	conditions := e.conditions
	return errors.Join(c.withGraphs(func(g *graphs) error {
		delete(g.ready, e.of)
		return releaseAll(memoryOf(e.graph))
	}), c.whenDone(x, last, func(d *call) error {
		return d.withGraphs(func(*graphs) error {
			for _, o := range conditions {
				o.keep(-1)
			}
			return nil
		})
	}))
}

// dropWhenDone gives up the references of a graph to user objects when a launch on a stream, if
// there was one, is over.
func (c *call) dropWhenDone(of *graph.Graph, x *context, last *cuda.Stream) error {
	some := false
	if err := c.withGraphs(func(g *graphs) error { some = len(g.objects[of]) > 0; return nil }); err != nil || !some {
		return err
	}
	return c.whenDone(x, last, func(d *call) error {
		return d.withUserObjects(func(g *graphs) error { g.forgo(of); return nil })
	})
}

// whenDone calls do when a launch on a stream, if there was one, is over.
func (c *call) whenDone(x *context, last *cuda.Stream, do func(d *call) error) error {
	d := c.of()
	if last == nil {
		return do(d)
	}
	x.afterHostFunctions(last, func() {
		_ = last.Synchronize() // it fails with the work, and the program hears of that elsewhere
		_ = do(d)              // nothing in it fails
	})
	return nil
}

func graphExecGetFlags(c *call) error {
	to, err := c.out64(1)
	if err != nil {
		return err
	}
	e, err := c.exec(0)
	if err != nil {
		return err
	}
	return to.set(e.flags)
}

// prepare makes the steps.
//
// Preconditions: nothing else uses e, or e.mu is held.
func (e *graphExec) prepare(c *call) error {
	if e.steps != nil {
		return nil
	}
	p := preparation{c: c, e: e, steps: []graphStep{}, memory: launchMemory{}}
	for _, w := range conditionsOf(e.graph) {
		if !w.start.assign {
			continue
		}
		if err := w.begin(p.batch(w.condition.x)); err != nil {
			return err
		}
	}
	if err := p.walk(e.graph); err != nil {
		return err
	}
	e.steps, e.memory, e.launcher = p.steps, p.memory, e.launcherOf()
	return nil
}

// preparation makes the steps of an executable graph, or of a body in it.
type preparation struct {
	c      *call
	e      *graphExec
	steps  []graphStep
	memory launchMemory
}

// batch is the batch that work of a context goes to, the last step if it can be.
func (p *preparation) batch(x *context) *cuda.Batch {
	if n := len(p.steps); n > 0 && p.steps[n-1].batch != nil && p.steps[n-1].x == x {
		return p.steps[n-1].batch
	}
	p.steps = append(p.steps, graphStep{x: x, batch: x.NewBatch()})
	return p.steps[len(p.steps)-1].batch
}

func (p *preparation) walk(g *graph.Graph) error {
	skip := func(n *graph.Node) bool {
		w, ok := n.Work.(*kernelWork)
		return p.e.off[n] && (!ok || w.updatable == nil) // kernels may enable those
	}
	return g.Walk(skip, p.node)
}

func (p *preparation) node(n *graph.Node) error {
	switch w := n.Work.(type) {
	case *kernelWork:
		if err := p.c.sized(w.f, w.f.clusterFor(&w.cfg)); err != nil {
			return err
		}
		if w.updatable != nil {
			return p.changeable(w, !p.e.off[n])
		}
		return w.add(p.batch(w.f.mod.ctx))
	case *copyWork:
		pageable, err := w.addTo(p.c, p.batch(w.x))
		if pageable {
			p.steps = append(p.steps, graphStep{x: w.x, program: w.inProgram})
		}
		return err
	case *fillWork:
		return w.add(p.c, p.batch(w.x))
	case *memOpWork:
		return w.add(p.batch(w.x))
	case *libraryWork:
		return w.add(p.batch(w.x))
	case *memoryWork:
		p.memory[w.x] = append(p.memory[w.x], cuda.GraphMemOp{Mem: w.mem, Free: n.Kind() == graph.MemFree})
	case *hostWork:
		p.steps = append(p.steps, graphStep{program: w.inProgram})
	case *eventWork:
		p.steps = append(p.steps, graphStep{event: w.e, wait: n.Kind() == graph.Wait})
	case *conditionalWork:
		return p.conditional(n, w)
	}
	return nil
}

// inProgram copies from or to memory that the device does not reach.
func (w *copyWork) inProgram(c *call, x *context, s *cuda.Stream) error {
	dst, src, err := w.ends(c)
	if err != nil {
		return err
	}
	if to, from := w.between(c, dst, src); to != nil {
		return errors.Join(s.Synchronize(), c.rowsBetween(to, from, dst, src, w.extent()))
	}
	if w.x == x {
		return c.copyRows(x, s, dst, src, w.extent(), true)
	}
	return w.x.beside(s, func(own *cuda.Stream) error { return c.copyRows(w.x, own, dst, src, w.extent(), true) })
}

// inProgram is what the program must do for a step on a stream of a context, nil if it is for the device.
func (t *graphStep) inProgram(x *context) func(*call, *context, *cuda.Stream) error {
	if t.program == nil && t.batch != nil && t.x != x {
		return func(_ *call, _ *context, s *cuda.Stream) error { return t.x.beside(s, t.batch.Queue) }
	}
	return t.program
}

func (w *hostWork) inProgram(c *call, _ *context, s *cuda.Stream) error {
	if err := s.Synchronize(); err != nil {
		return err
	}
	c.lib.cfg.Invoke(w.fn, w.data, 0, 0)
	return nil
}

func graphLaunch(c *call) error {
	e, err := c.exec(0)
	if err != nil {
		return err
	}
	x, s, err := c.stream(1)
	if err != nil {
		return err
	}
	l, last, err := e.start(c, x, s)
	if err != nil {
		return c.graphError(err)
	}
	// A launch waits for the one before. On one stream it does so anyway.
	if last != nil {
		for _, done := range x.hostFunctions(last) {
			<-done
		}
		s.After(last)
	}
	queue := func() error {
		before, done := x.reserve(s)
		for _, b := range before {
			<-b
		}
		if late := x.late.Load(); late != nil {
			done()
			return errors.Join(*late, l.memory.queued(s))
		}
		return c.runLaunch(x, s, l, done)
	}
	if l.launcher == nil {
		return queue()
	}
	l.steps = e.following(l.steps)
	return l.launcher.inTurn(x, s, queue)
}

// graphLaunching is a launch that is to be queued.
type graphLaunching struct {
	steps    []graphStep
	memory   launchMemory // in use for it
	launcher *launcher    // of kernels that may launch graphs, or nil
}

// start notes a launch on a stream. It returns what is to be done, and the stream of the launch
// before if that was another.
func (e *graphExec) start(c *call, x *context, s *cuda.Stream) (l graphLaunching, last *cuda.Stream, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.prepare(c); err != nil {
		return l, nil, err
	}
	if err := e.memory.use(s, e.flags&autoFreeOnLaunch != 0); err != nil {
		return l, nil, err
	}
	if e.last != s && e.ctx == x {
		last = e.last
	}
	e.ctx, e.last = x, s
	l = graphLaunching{steps: e.steps, memory: e.memory}
	if e.launcher != nil {
		l.launcher = &e.launcher.launcher
	}
	_ = e.upload(c, x) // where there is no room for it, the kernels that ask for it get an error
	return l, last, e.allow()
}

// runLaunch queues steps up to the first that the program must do. That and those behind it run
// when the stream gets there, as host functions do. It calls done when all is queued.
func (c *call) runLaunch(x *context, s *cuda.Stream, l graphLaunching, done func()) error {
	for i := range l.steps {
		if l.steps[i].inProgram(x) == nil {
			if err := l.steps[i].queue(s); err != nil {
				done()
				return errors.Join(err, l.memory.queued(s))
			}
			continue
		}
		d := c.of()
		go func() {
			defer done()
			if err := errors.Join(d.finishSteps(x, s, l.steps[i:]), l.memory.queued(s)); err != nil {
				x.late.CompareAndSwap(nil, &err)
			}
		}()
		return nil
	}
	defer done()
	return l.memory.queued(s)
}

func (c *call) finishSteps(x *context, s *cuda.Stream, steps []graphStep) error {
	for i := range steps {
		do := func() error { return steps[i].queue(s) }
		if program := steps[i].inProgram(x); program != nil {
			do = func() error { return program(c, x, s) }
		}
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

func (t *graphStep) queue(s *cuda.Stream) error {
	switch {
	case t.batch != nil:
		return t.batch.Queue(s)
	case t.wait:
		return s.WaitEvent(t.event.Event)
	}
	return t.event.Record(s)
}

// graphUpload gets (exec, stream). What a launch needs is made ready here already.
func graphUpload(c *call) error {
	e, err := c.exec(0)
	if err != nil {
		return err
	}
	x, _, err := c.stream(1)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return errors.Join(e.prepare(c), e.upload(c, x), e.allow())
}
