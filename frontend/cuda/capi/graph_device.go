package capi

import (
	"errors"
	"slices"
	"sync"

	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/graph"
	"pvdrm/frontend/cuda/link"
)

// Graphs that kernels launch.
//
// A kernel asks for a launch in pinned memory of its context (link.GraphsVariable), and the program's library
// makes it when the graph of the kernel has ended: first those that were asked for as fire-and-forget or as
// siblings, each with all that it asks for itself, then tail launches. Graphs of a context that may launch
// others run one after the other, so the graph that runs is known.

// Layout of that memory; frontend/cuda/link/runtime_graph.ptx has it, too.
const (
	launchRuns    = 0
	launchCount   = 4
	launchCurrent = 8
	launchGraphs  = 16
	maxLaunchable = 256
	launchAsked   = launchGraphs + 16*maxLaunchable
	maxAsked      = 1024
	launchBytes   = launchAsked + 16*maxAsked

	askedTail = 1 // as a kind of launch
)

// launcher is what a context has for graphs that kernels launch.
type launcher struct {
	mu     sync.Mutex    // held while a launch waits for its turn
	last   launchedOn    // where the graph that may launch others, and runs or ran last, was launched
	memory sync.Mutex    // guards the following
	mem    *cuda.HostMem // nil until a module or a graph needs it
	slots  [maxLaunchable]*graphExec
}

// launchedOn is a stream and its context.
type launchedOn struct {
	x *context
	s *cuda.Stream
}

// box is where launches are asked for.
func (l *launcher) box(x *context) (*cuda.HostMem, error) {
	l.memory.Lock()
	defer l.memory.Unlock()
	if l.mem != nil {
		return l.mem, nil
	}
	mem, err := x.MemAllocHost(launchBytes)
	if err != nil {
		return nil, err
	}
	for off := uint64(0); off < launchBytes; off += 4 {
		if err := mem.SetWord(off, 0); err != nil {
			return nil, errors.Join(err, mem.Free())
		}
	}
	l.mem = mem
	return mem, nil
}

// launches lets the kernels of a module ask for launches of graphs, if they call for it.
func (m *module) launches() error {
	at, n, err := m.Global(link.GraphsVariable)
	if err != nil || n != 8 {
		return nil // it has none
	}
	mem, err := m.ctx.launcher.box(m.ctx)
	if err != nil {
		return err
	}
	m.launcher = true
	return m.ctx.MemcpyHtoD(at, wordBytes([]uint64{uint64(mem.DevicePtr())}))
}

// Results of CUgraphInstantiateResult for graphs that kernels are to launch.
const (
	instantiateOperation = 3 // a node that the device cannot run
	instantiateElsewhere = 4 // a copy that needs the program
)

// notForDevice is why kernels cannot launch a graph.
type notForDevice struct {
	error
	result uint64
	node   *graph.Node
}

// Unwrap gives what the call returns.
func (e *notForDevice) Unwrap() error { return e.error }

// forDevice checks that kernels can launch a graph.
func (c *call) forDevice(g *graph.Graph, flags uint64) error {
	if flags&autoFreeOnLaunch != 0 || len(g.Nodes()) == 0 {
		return c.fail(cuda.ErrInvalidValue, "kernels launch neither graphs without nodes nor those that free memory")
	}
	return c.nodesForDevice(g)
}

func (c *call) nodesForDevice(g *graph.Graph) error {
	for _, n := range g.Nodes() {
		refuse := func(result uint64) error {
			return &notForDevice{error: c.fail(cuda.ErrInvalidValue, "kernels cannot launch a graph with a node of type %d", n.Kind()), result: result, node: n}
		}
		switch n.Kind() {
		case graph.Kernel, graph.Fill:
		case graph.Child:
			if err := c.nodesForDevice(n.Child()); err != nil {
				return err
			}
		case graph.Copy:
			w, ok := n.Work.(*copyWork)
			if !ok {
				return refuse(instantiateOperation)
			}
			dst, src, err := w.ends(c)
			if err != nil {
				return err
			}
			if dst.host || src.host {
				return refuse(instantiateElsewhere)
			}
		default:
			return refuse(instantiateOperation)
		}
	}
	return nil
}

// launcherOf is the context whose kernels in a graph may ask for launches, nil if none does.
func (e *graphExec) launcherOf() (x *context) {
	_ = e.graph.Walk(func(*graph.Node) bool { return false }, func(n *graph.Node) error { // it was walked before
		if w, ok := n.Work.(*kernelWork); ok && w.f.mod.launcher {
			x = w.f.mod.ctx
		}
		return nil
	})
	return x
}

// upload makes a graph one that kernels of a context can launch.
//
// Preconditions: e.mu is held.
func (e *graphExec) upload(c *call, x *context) error {
	if e.flags&instantiateDevice == 0 {
		return nil
	}
	l := &x.launcher
	mem, err := l.box(x)
	if err != nil {
		return err
	}
	l.memory.Lock()
	defer l.memory.Unlock()
	if e.uploaded != nil {
		return nil
	}
	at := slices.Index(l.slots[:], nil)
	if at < 0 {
		return c.fail(cuda.ErrOutOfMemory, "kernels of a context can launch %d graphs; destroy some first", maxLaunchable)
	}
	off := uint64(launchGraphs + 16*at)
	l.slots[at], e.uploaded = e, x
	return errors.Join(mem.SetWord(off+8, 0), mem.SetWord(off+4, uint32(e.handle>>32)), mem.SetWord(off, uint32(e.handle)))
}

// forgetUpload takes a graph from those that kernels can launch.
func (e *graphExec) forgetUpload() {
	if e.uploaded == nil {
		return
	}
	l := &e.uploaded.launcher
	l.memory.Lock()
	defer l.memory.Unlock()
	if at := slices.Index(l.slots[:], e); at >= 0 {
		off := uint64(launchGraphs + 16*at)
		l.slots[at] = nil
		_ = errors.Join(l.mem.SetWord(off, 0), l.mem.SetWord(off+4, 0)) // it fails with the context
	}
}

// asked takes the launches that kernels have asked for, in the order in which they are to be made. The work
// that asks for them must be done.
func (l *launcher) asked() (list []*graphExec, err error) {
	l.memory.Lock()
	defer l.memory.Unlock()
	n, err := l.mem.Word(launchCount)
	if err != nil || n == 0 {
		return nil, err
	}
	var tails []*graphExec
	for at := uint64(launchAsked); at < launchAsked+16*uint64(min(n, maxAsked)); at += 16 {
		low, err1 := l.mem.Word(at)
		high, err2 := l.mem.Word(at + 4)
		kind, err3 := l.mem.Word(at + 8)
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		handle := uint64(low) | uint64(high)<<32
		slot := slices.IndexFunc(l.slots[:], func(e *graphExec) bool { return e != nil && e.handle == handle })
		switch {
		case slot < 0: // destroyed meanwhile, or no launch
		case kind != askedTail:
			list = append(list, l.slots[slot])
		default:
			tails = append(tails, l.slots[slot])
			if err := l.mem.SetWord(uint64(launchGraphs+16*slot)+8, 0); err != nil {
				return nil, err
			}
		}
	}
	return append(list, tails...), l.mem.SetWord(launchCount, 0)
}

// begins says which graph runs from now on; 0 for one that only the host launches.
func (l *launcher) begins(runs uint32, handle uint64) error {
	return errors.Join(l.mem.SetWord(launchCurrent, uint32(handle)), l.mem.SetWord(launchCurrent+4, uint32(handle>>32)), l.mem.SetWord(launchRuns, runs))
}

// current is what kernels of a graph know it by.
func (e *graphExec) current() uint64 {
	if e.flags&instantiateDevice == 0 {
		return 0
	}
	return e.handle
}

// following are the steps of a launch by the host, of a graph whose kernels may launch others.
func (e *graphExec) following(steps []graphStep) []graphStep {
	l := &e.launcher.launcher
	return []graphStep{{program: func(c *call, x *context, s *cuda.Stream) error {
		if err := s.Synchronize(); err != nil {
			return err
		}
		if err := l.begins(1, e.current()); err != nil {
			return err
		}
		if err := c.finishSteps(x, s, steps); err != nil {
			return err
		}
		return errors.Join(c.follow(l, x, s), l.begins(0, 0))
	}}}
}

// follow makes the launches that kernels have asked for.
func (c *call) follow(l *launcher, x *context, s *cuda.Stream) error {
	var queue []*graphExec
	for {
		if err := s.Synchronize(); err != nil {
			return err
		}
		more, err := l.asked()
		if err != nil {
			return err
		}
		if queue = append(more, queue...); len(queue) == 0 {
			return nil
		}
		if len(queue) > maxPending {
			return c.fail(cuda.ErrOutOfMemory, "more than %d graphs that kernels have launched wait", maxPending)
		}
		e := queue[0]
		queue = queue[1:]
		e.mu.Lock()
		err = e.prepare(c)
		steps := e.steps
		e.mu.Unlock()
		if err != nil {
			return err
		}
		if err := errors.Join(l.begins(1, e.handle), c.finishSteps(x, s, steps)); err != nil {
			return err
		}
	}
}

// maxPending bounds the launches by kernels that wait.
const maxPending = 1 << 16

// inTurn waits for other graphs of the context that may launch some, and calls queue.
func (l *launcher) inTurn(x *context, s *cuda.Stream, queue func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := l.last; last.s != nil && last.s != s {
		for _, done := range last.x.hostFunctions(last.s) {
			<-done
		}
	}
	l.last = launchedOn{x: x, s: s}
	return queue()
}
