package run

import (
	"maps"
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
)

// Kernels that wait for what they have launched (cudaDeviceSynchronize of CUDA 11).
//
// A device runs one kernel at a time, so a kernel that waits stops as one that is preempted does. Its
// state lies in the tree, below what it has launched, and it goes on when all of that has ended.

// Bounds of kernels that wait. NVIDIA's GPUs have the first; memory bounds the second there, too.
const (
	maxSyncDepth = 24
	maxStopped   = 48 << 20 // bytes of the states of all kernels of a device that wait
)

// parent is a kernel that waits for what it has launched.
type parent struct {
	state  *State
	errors map[thread]uint32
	depth  uint32
	child  bool
	bytes  int // that it counts for
}

func (w *Waiting) stop(n int) bool {
	if w == nil || w.stopped.Add(int64(n)) <= maxStopped {
		return true
	}
	w.stopped.Add(int64(-n))
	return false
}

func (w *Waiting) goOn(n int) {
	if w != nil {
		w.stopped.Add(int64(-n))
	}
}

// Synchronize implements ir.Launcher.
func (t launcher) Synchronize(depth uint32, bytes int) (wait bool, code uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.depth >= min(depth, maxSyncDepth):
		return false, ir.ErrSyncDepth
	case len(t.made.next) == 0:
		return false, 0
	case t.reserved != 0: // for another thread
		return true, 0
	case bytes > maxStopped-t.stopped || !t.waiting.stop(bytes):
		return false, ir.ErrSyncDepth
	}
	t.reserved = bytes
	t.stopped += bytes
	return true, 0
}

// Awaits reports whether the launch goes on only when all that it has launched has ended: Tree.Suspend
// is to take it.
func (s *State) Awaits() bool { return s.awaits }

// Suspend takes a kernel that waits for what it has launched. Next gives that first, and then the kernel.
func (t *Tree) Suspend(s *State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s.awaits = false
	t.made.sort()
	t.made.parent = &parent{state: s, errors: t.errors, depth: t.depth, child: t.child, bytes: t.reserved}
	t.levels = append(t.levels, t.made)
	t.made, t.errors, t.reserved = level{}, nil, 0
}

// goOn returns the kernel of the last level, of which all that it waits for has ended.
func (t *Tree) goOn() *Pending {
	last := &t.levels[len(t.levels)-1]
	p := last.parent
	t.made = level{tails: last.tails}
	t.errors, t.depth, t.child = p.errors, p.depth, p.child
	t.levels = t.levels[:len(t.levels)-1]
	t.stopped -= p.bytes
	t.waiting.goOn(p.bytes)
	return p.state.pending()
}

// pending is the launch of a state.
func (s *State) pending() *Pending {
	return &Pending{Kernel: s.kernel, Grid: s.grid, Block: s.block, Shared: s.dynamic, Params: s.params, From: s, Cluster: s.cluster, Cooperative: s.cooperative}
}

// Counts are the cycles of the multiprocessors, as Model.Counts returns them; nil without a Model.
func (s *State) Counts() []uint64 { return s.cycles }

func (p *parent) clone() *parent {
	if p == nil {
		return nil
	}
	c := *p
	c.errors = maps.Clone(p.errors)
	return &c
}

// sort puts launches in the order of the blocks that made them, so that the order is not one of chance.
func (l *level) sort() {
	slices.SortStableFunc(l.next, byBlock)
	slices.SortStableFunc(l.tails, byBlock)
}

// awaitChildren lets the active lanes wait for what the kernel has launched. It reports false when no fragment of
// the warp can run on.
func (w *warp) awaitChildren(in *ir.Inst) bool {
	w.passHead()
	codes, wait := &w.R32[in.D], uint32(0)
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		codes[lane] = ir.ErrNoLaunchesHere
		if l := w.Warp.Worker.Launcher; l != nil {
			waits, code := l.Synchronize(w.R32[in.A][lane], w.worker.run.stateBytes())
			if codes[lane] = code; waits {
				wait |= 1 << lane
			}
		}
	}
	if wait == 0 {
		return true
	}
	w.worker.awaiting = true
	w.worker.run.awaits.Store(true)
	w.Rest = append(w.Rest, ir.Fragment{Mask: wait, PC: w.PC, Frame: w.Frame, State: ir.AtChildren})
	if w.Mask &^= wait; w.Mask != 0 {
		return true
	}
	return w.pick()
}

// parent appends the kernel that waits at a level, or that there is none.
func (w *stateWriter) parent(p *parent) {
	if p == nil {
		w.flags(false)
		return
	}
	w.flags(true, p.child)
	w.u32(p.depth)
	w.errors(p.errors)
	w.state(p.state)
}

// parent decodes a kernel that waits. What its state says is checked when it goes on.
func (r *stateReader) parent(t *Tree) *parent {
	present, child := r.flags()
	if !present {
		return nil
	}
	p := &parent{child: child, depth: r.u32(), errors: r.errors()}
	if p.depth >= maxSyncDepth || len(t.levels) >= MaxNesting {
		r.short = true
	}
	p.state = r.state(false)
	p.bytes = p.state.Bytes()
	if t.stopped += p.bytes; t.stopped > maxStopped {
		r.short = true
	}
	return p
}
