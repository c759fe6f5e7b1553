package run

import (
	"fmt"
	"math/bits"
	"slices"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// accept checks that a state belongs to the launch and that its blocks can run: states
// come from outside, and a worker trusts the frames and positions of its warps.
func (r *run) accept(s *State) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: state of a preempted launch: %s", gpu.ErrInvalid, fmt.Sprintf(format, args...))
	}
	l := r.launch
	switch {
	case s.kernel != r.kernel.attrs.Name || s.program != r.kernel.prog.Fingerprint():
		return invalid("it is of another program than %s, or the program has another address", r.kernel.attrs.Name)
	case s.grid != l.Grid || s.block != l.Block || s.cluster != l.Cluster || s.dynamic != l.SharedBytes || !slices.Equal(s.params, l.Params):
		return invalid("it is of a launch with another grid, block, cluster, shared memory or parameters")
	case s.cooperative != l.Cooperative:
		return invalid("it is cooperative, or the launch is")
	case s.tree != nil && s.tree.depth > MaxNesting:
		return invalid("its kernel is %d launches deep", s.tree.depth)
	case s.next > r.blocks || s.next%r.size != 0:
		return invalid("block %d of %d is next", s.next, r.blocks)
	case l.Model != nil && s.cycles != nil && !l.Model.SetCounts(s.cycles):
		return invalid("it has cycles of %d multiprocessors", len(s.cycles))
	}
	if uint64(len(s.blocks))%r.size != 0 {
		return invalid("%d blocks, of clusters of %d", len(s.blocks), r.size)
	}
	for i := range s.blocks {
		b := &s.blocks[i]
		if b.number >= s.next || i > 0 && b.number <= s.blocks[i-1].number {
			return invalid("block %d is out of order", b.number)
		}
		if first := i - i%int(r.size); b.number != s.blocks[first].number+uint64(i-first) || (len(b.warps) == 0) != (len(s.blocks[first].warps) == 0) {
			return invalid("block %d is not with its cluster", b.number)
		}
		if len(b.warps) == 0 {
			continue
		}
		if why := r.acceptBlock(b); why != "" {
			return invalid("block %d: %s", b.number, why)
		}
	}
	return nil
}

// acceptBlock returns what is wrong with a block, or "".
func (r *run) acceptBlock(b *blockState) string {
	threads := int(r.launch.Block[0]) * int(r.launch.Block[1]) * int(r.launch.Block[2])
	if len(b.warps) != (threads+31)/32 || len(b.shared) != r.sharedBytes() {
		return fmt.Sprintf("%d warps and %d bytes of .shared", len(b.warps), len(b.shared))
	}
	arrived := make([][]uint32, barriers)
	for _, bar := range b.bars {
		if bar.id >= barriers || arrived[bar.id] != nil || len(bar.arrived) != len(b.warps) || bar.need%32 != 0 ||
			int(bar.need) > 32*len(b.warps) || int(bar.count) > threads {
			return fmt.Sprintf("barrier %d is malformed", bar.id)
		}
		arrived[bar.id] = bar.arrived
	}
	for i := range b.warps {
		w := &b.warps[i]
		frames, why := r.frames(w)
		if why == "" {
			why = r.acceptFragments(w, frames, lanesOf(threads, i), func(id uint32) uint32 {
				switch {
				case id == clusterBarrier:
					return w.met
				case id > clusterBarrier || arrived[id] == nil:
					return 0
				}
				return arrived[id][i]
			})
		}
		if why != "" {
			return fmt.Sprintf("warp %d: %s", i, why)
		}
	}
	return ""
}

// lanesOf is the lanes that exist of warp i of a block.
func lanesOf(threads, i int) uint32 { return uint32(1<<min(32, threads-32*i) - 1) }

// frames makes the frames of a warp. It returns what is wrong with one, or "".
func (r *run) frames(w *warpState) (list []ir.Frame, why string) {
	prog := r.kernel.prog
	list = make([]ir.Frame, len(w.frames))
	n32, n64, preds, rows := 0, 0, 0, 0
	for i, s := range w.frames {
		if int(s.fn) >= len(prog.Funcs) {
			return nil, fmt.Sprintf("frame of function %d of %d", s.fn, len(prog.Funcs))
		}
		f := ir.Frame{Fn: prog.Funcs[s.fn], Ret: s.ret, Base: int(s.base), Top: int(s.top), Stacked: int(s.stacked)}
		if i == 0 {
			if f.Fn != r.kernel.fn || f.Base != 0 || f.Stacked != f.Fn.FrameBytes {
				return nil, "its first frame is not that of the kernel"
			}
		} else {
			if int(s.parent) >= i {
				return nil, fmt.Sprintf("frame %d comes before its caller", i)
			}
			up := &list[s.parent]
			if f.Site = callBefore(prog, up.Fn, f.Fn, f.Ret); f.Site == nil {
				return nil, fmt.Sprintf("frame %d returns to no call of %s", i, f.Fn.Name)
			}
			f.Parent, f.Depth = up, up.Depth+1
			f.Base32, f.Base64, f.BasePr = up.Base32+up.Fn.Regs32, up.Base64+up.Fn.Regs64, up.BasePr+up.Fn.Preds
			if f.Base < up.Base+up.Fn.LocalBytes/4 || f.Stacked < up.Stacked+f.Fn.FrameBytes {
				return nil, fmt.Sprintf("frame %d lies in that of its caller", i)
			}
		}
		limit := r.launch.Limits.StackBytes
		if f.Stacked > limit || 4*f.Base+f.Fn.LocalBytes > f.Stacked || f.Top < f.Base+f.Fn.LocalBytes/4 || f.StackBytes() > limit {
			return nil, fmt.Sprintf("frame %d is beyond the stack", i)
		}
		n32, n64, preds = max(n32, f.Base32+f.Fn.Regs32), max(n64, f.Base64+f.Fn.Regs64), max(preds, f.BasePr+f.Fn.Preds)
		rows = max(rows, f.Top)
		list[i] = f
	}
	if len(w.r32) != n32 || len(w.r64) != n64 || len(w.pr) != preds || len(w.local) != rows {
		return nil, "it has other registers or local memory than its frames"
	}
	return list, ""
}

// callBefore is the call of fn in the function up that returns to a position, or nil.
func callBefore(p *ir.Program, up, fn *ir.Function, ret int32) *ir.CallSite {
	if ret <= up.Entry || ret >= up.End || p.Code[ret-1].Kind != ir.KCall {
		return nil
	}
	site := p.Code[ret-1].X.Call
	if site.Fn != fn && (site.Fn != nil || !p.MayCall(fn, site)) {
		return nil
	}
	return site
}

// acceptFragments returns what is wrong with the fragments of a warp, or "". Arrived is
// the lanes of the warp that have arrived at a barrier.
func (r *run) acceptFragments(w *warpState, frames []ir.Frame, exist uint32, arrived func(id uint32) uint32) string {
	code, seen := r.kernel.prog.Code, uint32(0)
	for i, f := range w.fragments {
		switch {
		case f.mask == 0 || f.mask&seen != 0:
			return fmt.Sprintf("fragment %d has no lanes, or those of another", i)
		case int(f.frame) >= len(frames):
			return fmt.Sprintf("fragment %d has no frame", i)
		}
		seen |= f.mask
		fn, legal := frames[f.frame].Fn, false
		if f.pc >= fn.Entry && f.pc < fn.End {
			switch f.state {
			case ir.Ready:
				legal = true
			case ir.AtSync:
				legal = code[f.pc].Kind == ir.KWarpSync
			case ir.AtBarrier:
				legal = f.pc > fn.Entry && code[f.pc-1].Kind == ir.KBarrier && f.mask&^arrived(f.barrier) == 0 &&
					code[f.pc-1].X.Barrier.Cluster == (f.barrier == clusterBarrier)
			}
		}
		if !legal {
			return fmt.Sprintf("fragment %d cannot be at %d", i, f.pc)
		}
	}
	if (w.met|w.passed)&^exist != 0 {
		return "lanes at the barrier of the cluster do not exist"
	}
	if seen != w.live || w.live&^exist != 0 {
		return fmt.Sprintf("%d of %d lanes are in fragments", bits.OnesCount32(seen), bits.OnesCount32(w.live))
	}
	return ""
}

// load makes a block that has just begun go on from a state, which was accepted. It empties the state,
// so that a block is not in memory twice.
func (b *block) load(r *run, s *blockState) {
	b.again = false
	copy(b.Shared, s.shared)
	for _, bar := range s.bars {
		to := &b.bars[bar.id]
		to.used, to.need, b.waited = true, int(bar.need), true
		to.reduce = reduction{count: int(bar.count), and: bar.and, or: bar.or}
		copy(to.arrived, bar.arrived)
	}
	s.shared = nil
	for i := range s.warps {
		b.warps[i].load(r, &s.warps[i])
		s.warps[i] = warpState{}
	}
}

// load makes a warp that has just begun go on from a state.
func (w *warp) load(r *run, s *warpState) {
	w.Mask, w.Live, w.boost, w.forced = 0, s.live, s.boost, s.forced
	w.Groups, w.met, w.passed = s.groups, s.met, s.passed
	if len(s.fragments) == 0 {
		return
	}
	frames, _ := r.frames(s) // it has none of what accept refuses
	at := func(n uint32) *ir.Frame {
		if n == 0 {
			return &w.root
		}
		return &frames[n]
	}
	w.root.Top = frames[0].Top
	for i := range frames {
		if f := &frames[i]; f.Parent == &frames[0] {
			f.Parent = &w.root
		}
		w.reserve(&frames[i])
	}
	copy(w.Store32, s.r32)
	copy(w.Store64, s.r64)
	copy(w.StorePr, s.pr)
	copy(w.Local, s.local)
	code := w.code
	for _, f := range s.fragments {
		out := ir.Fragment{Mask: f.mask, PC: f.pc, Frame: at(f.frame), State: f.state, Barrier: f.barrier}
		if f.state == ir.AtBarrier {
			out.Wait = &code[f.pc-1]
		}
		w.Rest = append(w.Rest, out)
	}
	// Native code takes constants of the kernel as the same in all lanes.
	w.view(&w.root)
	live := w.Live
	w.Mask, w.Live = ir.AllLanes, ir.AllLanes
	w.writeConstants(w.root.Fn)
	w.Mask, w.Live = 0, live
}
