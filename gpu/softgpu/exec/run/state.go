package run

import (
	"cmp"
	"fmt"
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
)

// State is what a preempted launch has still to do: the blocks that had begun, with their
// registers, memory, barriers and divergence, and the first one that had not. It holds no
// global memory and no part of its program, which must be the same, linked to the same
// address, where the launch goes on (Launch.From). A State does not change, and may be used
// more than once.
type State struct {
	kernel  string
	program uint64 // ir.Program.Fingerprint
	grid    [3]uint32
	block   [3]uint32
	cluster [3]uint32 // of the launch
	dynamic uint32    // bytes of dynamic .shared
	params  []byte
	launch  uint64 // for %gridid
	next    uint64 // number of the first block that no worker has taken
	blocks  []blockState
	cycles  []uint64 // of the multiprocessors, with a Model

	tree *Tree // what the kernel and those before it have launched; nil if they cannot

	cooperative bool
	workspace   uint64 // its first word, of a cooperative launch

	awaits bool // the launch goes on when all that it has launched itself has ended; not encoded
}

// Preempted is the error of a launch that was preempted before its end.
type Preempted struct{ State *State }

// Error implements error.
func (e *Preempted) Error() string {
	return fmt.Sprintf("%s was preempted, with %d blocks under way", e.State.kernel, len(e.State.blocks))
}

// blockState is a block that a worker had taken. It has no warps if it had not begun.
type blockState struct {
	number uint64
	cycles uint64
	shared []byte
	bars   []barrierState // those in use
	warps  []warpState
}

// barrierState is a barrier at which threads have arrived.
type barrierState struct {
	id      uint32
	need    uint32
	count   uint32 // of the reduction, as are the next
	and, or bool
	arrived []uint32 // by warp
}

// warpState is a warp between two instructions of each of its fragments.
type warpState struct {
	live          uint32
	groups        uint32 // that it has committed
	boost, forced bool
	met, passed   uint32 // at the barrier of the cluster
	r32           [][32]uint32
	r64           [][32]uint64
	pr            []uint32
	local         [][32]uint32
	frames        []frameState // the kernel's first, callers before those they call
	fragments     []fragmentState
}

// frameState is an activation of a function.
type frameState struct {
	parent  uint32 // its caller, by position in warpState.frames
	fn      uint32 // by position in Program.Funcs
	ret     int32  // position after the call
	base    uint32 // rows of local memory
	top     uint32
	stacked uint32
}

// fragmentState is a group of lanes with one position.
type fragmentState struct {
	mask    uint32
	pc      int32
	frame   uint32
	state   ir.State
	barrier uint32
}

// keep adds blocks to what a preempted launch leaves.
func (w *worker) keep(blocks ...blockState) {
	w.control.mu.Lock()
	defer w.control.mu.Unlock()
	w.run.kept = append(w.run.kept, blocks...)
}

// rest is the state of a launch whose workers have stopped, or nil if nothing is left.
func (r *run) rest() *State {
	next := min(r.next.Load(), r.blocks/r.size) * r.size
	if len(r.kept) == 0 && next == r.blocks {
		return nil
	}
	slices.SortFunc(r.kept, func(a, b blockState) int { return cmp.Compare(a.number, b.number) })
	s := &State{
		kernel: r.kernel.attrs.Name, program: r.kernel.prog.Fingerprint(), grid: r.launch.Grid, block: r.launch.Block, cluster: r.launch.Cluster,
		dynamic: r.launch.SharedBytes, params: slices.Clone(r.launch.Params), launch: r.id, next: next, blocks: r.kept,
	}
	switch s.awaits = r.awaits.Load(); {
	case s.awaits: // it becomes a part of the tree
	case r.launch.Tree != nil:
		s.tree = r.launch.Tree.clone()
	}
	if r.grid != nil {
		s.cooperative, s.workspace = true, r.grid.words[0]
	}
	if m := r.launch.Model; m != nil {
		s.cycles = m.Counts()
	}
	return s
}

// save is the state of a block of which every warp has stopped. It takes the memory of the block,
// which does not run any more: a copy would need as much again.
func (b *block) save(number, cycles uint64) blockState {
	s := blockState{number: number, cycles: cycles, shared: b.Shared}
	for i := range b.bars {
		if bar := &b.bars[i]; bar.used {
			s.bars = append(s.bars, barrierState{id: uint32(i), need: uint32(bar.need), count: uint32(bar.reduce.count),
				and: bar.reduce.and, or: bar.reduce.or, arrived: bar.arrived})
		}
	}
	for i := range b.warps {
		s.warps = append(s.warps, b.warps[i].save())
	}
	return s
}

// save is the state of a warp that does not run.
func (w *warp) save() warpState {
	if w.Mask != 0 {
		w.suspend() // it has not begun
	}
	s := warpState{live: w.Live, groups: w.Groups, boost: w.boost, forced: w.forced, met: w.met, passed: w.passed}
	at := map[*ir.Frame]uint32{}
	for _, f := range w.Rest {
		out := fragmentState{mask: f.Mask, pc: f.PC, frame: s.frame(w, f.Frame, at), state: f.State}
		switch f.State {
		case ir.AtBarrier:
			out.barrier = f.Barrier
		case ir.Asleep, ir.AtChildren: // it wakes early; it goes on when they have ended
			out.state = ir.Ready
		}
		s.fragments = append(s.fragments, out)
	}
	if len(at) == 0 {
		return s // all of its lanes have exited
	}
	n32, n64, preds, rows := 0, 0, 0, 0
	for f := range at {
		n32, n64, preds = max(n32, f.Base32+f.Fn.Regs32), max(n64, f.Base64+f.Fn.Regs64), max(preds, f.BasePr+f.Fn.Preds)
		rows = max(rows, f.Top)
	}
	s.r32, s.r64, s.pr, s.local = w.Store32[:n32], w.Store64[:n64], w.StorePr[:preds], w.Local[:rows]
	return s
}

// Bytes is what a state takes of memory, but for the launches in its tree.
func (s *State) Bytes() int {
	n := len(s.params) + 8*cap(s.cycles)
	for i := range s.blocks {
		b := &s.blocks[i]
		n += blockOverhead + cap(b.shared) + len(b.bars)*(barOverhead+4*len(b.warps))
		for k := range b.warps {
			w := &b.warps[k]
			n += warpOverhead + 32*4*(cap(w.r32)+cap(w.local)) + 32*8*cap(w.r64) + 4*cap(w.pr) + minFrame*cap(w.frames) + minFragment*cap(w.fragments)
		}
	}
	return n
}

// What the parts of a State take beside their lists, in bytes.
const (
	blockOverhead = 128
	barOverhead   = 64
	warpOverhead  = 192
)

// frame is the position of a frame in s, which it adds after its callers.
func (s *warpState) frame(w *warp, f *ir.Frame, at map[*ir.Frame]uint32) uint32 {
	if n, ok := at[f]; ok {
		return n
	}
	var chain []*ir.Frame
	for f := f; f != nil && !has(at, f); f = f.Parent {
		chain = append(chain, f)
	}
	for _, f := range slices.Backward(chain) {
		at[f] = uint32(len(s.frames))
		out := frameState{fn: uint32(slices.Index(w.Block.Prog.Funcs, f.Fn)), ret: f.Ret, base: uint32(f.Base), top: uint32(f.Top), stacked: uint32(f.Stacked)}
		if f.Parent != nil {
			out.parent = at[f.Parent]
		}
		s.frames = append(s.frames, out)
	}
	return at[f]
}

func has[K comparable, V any](m map[K]V, k K) bool {
	_, ok := m[k]
	return ok
}
