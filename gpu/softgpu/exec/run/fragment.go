package run

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// split divides the running fragment: the lanes in m go to target, the others
// to other. The lower position goes on running and is returned.
func (w *warp) split(m uint32, target, other int32) int32 {
	run, wait := ir.Fragment{Mask: m, PC: target}, ir.Fragment{Mask: w.Mask &^ m, PC: other}
	if other < target {
		run, wait = wait, run
	}
	wait.Frame = w.Frame
	w.Mask = run.Mask
	w.add(wait)
	if wait.PC < w.limit {
		w.limit = wait.PC
	}
	return run.PC
}

// add puts a ready fragment to those that wait, merging it with its like.
func (w *warp) add(f ir.Fragment) {
	for i := range w.Rest {
		if o := &w.Rest[i]; o.PC == f.PC && o.Frame == f.Frame && o.State == ir.Ready {
			o.Mask |= f.Mask
			return
		}
	}
	w.Rest = append(w.Rest, f)
}

// suspend puts the running fragment to those that wait for their turn.
func (w *warp) suspend() {
	f := ir.Fragment{Mask: w.Mask, PC: w.PC, Frame: w.Frame}
	w.Mask = 0
	w.add(f)
}

// reschedule runs the fragment that comes first, which may be another one now.
// Precondition: a fragment is running.
func (w *warp) reschedule() {
	w.suspend()
	w.pick()
}

// pick makes the fragment run that has the deepest call stack and then the
// lowest position, merged with all that have the same. It reports false when
// none is ready.
func (w *warp) pick() bool {
	if w.Mask != 0 {
		if len(w.Rest) == 0 { // the only one runs on
			w.limit, w.boosted, w.boost = noLimit, w.boost, false
			return true
		}
		w.suspend()
	} else if len(w.Rest) == 1 && w.Rest[0].State == ir.Ready {
		w.resumeOnly()
		return true
	}
	best := -1
	for i := range w.Rest {
		f := &w.Rest[i]
		if f.State != ir.Ready {
			continue
		}
		if w.boost {
			best = i
			break
		}
		if best < 0 || before(f, &w.Rest[best]) {
			best = i
		}
	}
	if best < 0 {
		w.boost = false
		return w.force()
	}
	w.resume(best)
	return true
}

func before(a, b *ir.Fragment) bool {
	if a.Frame.Depth != b.Frame.Depth {
		return a.Frame.Depth > b.Frame.Depth
	}
	return a.PC < b.PC
}

// resume makes fragment i of the waiting ones the running one.
func (w *warp) resume(i int) {
	f := w.Rest[i]
	w.Rest = append(w.Rest[:i], w.Rest[i+1:]...)
	w.limit = noLimit
	kept := w.Rest[:0]
	for _, o := range w.Rest {
		if o.State == ir.Ready && o.PC == f.PC && o.Frame == f.Frame {
			f.Mask |= o.Mask
			continue
		}
		if o.State == ir.Ready && o.Frame.Depth == f.Frame.Depth && o.PC < w.limit {
			w.limit = o.PC
		}
		kept = append(kept, o)
	}
	w.Rest = kept
	w.boosted = w.boost
	w.boost = false
	if w.boosted {
		w.limit = noLimit
	}
	w.Mask, w.PC = f.Mask, f.PC
	w.view(f.Frame)
}

// resumeOnly is resume for the only fragment of the warp, as behind most barriers.
func (w *warp) resumeOnly() {
	f := &w.Rest[0]
	w.Mask, w.PC = f.Mask, f.PC
	w.limit, w.boosted, w.boost = noLimit, w.boost, false
	if w.Frame != f.Frame {
		w.view(f.Frame)
	}
	w.Rest = w.Rest[:0]
}

// force lets a fragment that waits for lanes of its warp go ahead, since none
// of them can come any more. Programs that do this have no defined result.
func (w *warp) force() bool {
	best := -1
	for i := range w.Rest {
		if f := &w.Rest[i]; f.State == ir.AtSync && (best < 0 || before(f, &w.Rest[best])) {
			best = i
		}
	}
	if best < 0 || w.sleepers != 0 || w.worker.awaiting || w.expects() {
		return false
	}
	w.forced = true
	w.Rest[best].State = ir.Ready
	w.resume(best)
	return true
}

// loopHead is called where the running fragment, at w.pc, goes back. It answers
// the Control, and gives way where the quantum is used up: it reports true if
// run must return.
func (w *warp) loopHead() bool {
	w.passHead()
	if w.Budget > 0 {
		if w.PC >= w.limit {
			w.reschedule()
		}
		return false
	}
	if w.first { // no time has passed that were worth a look
		w.suspend()
		return true
	}
	w.worker.control.look() // the next loop head polls
	// The longest waiting fragment is next, then the usual order again, in
	// which fragments meet.
	w.suspend()
	w.boost = !w.boosted
	return true
}

// arrived reports whether all lanes that in waits for are here. If not, the
// running fragment waits for them and another one runs (false: none is ready).
// Lanes that name different masks part: those of each mask are a group.
func (w *warp) arrived(in *ir.Inst) (here, running bool) {
	at, masks := w.PC-1, &w.R32[in.E]
	mask := masks[w.First()]
	if others := lane.Differing(masks, mask) & w.Mask; others != 0 {
		w.add(ir.Fragment{Mask: others, PC: at, Frame: w.Frame})
		w.Mask &^= others
		w.limit = min(w.limit, at)
	}
	need := mask & w.Live &^ w.Mask
	if need == 0 || w.forced || len(w.Rest) == 0 {
		w.forced = false
		return true, true
	}
	kept := w.Rest[:0]
	for _, o := range w.Rest {
		if o.State == ir.AtSync && o.PC == at && o.Frame == w.Frame && masks[ir.FirstOf(o.Mask)] == mask {
			w.Mask |= o.Mask
			continue
		}
		kept = append(kept, o)
	}
	w.Rest = kept
	if need &^= w.Mask; need == 0 {
		return true, true
	}
	w.PC = at
	w.Rest = append(w.Rest, ir.Fragment{Mask: w.Mask, PC: at, Frame: w.Frame, State: ir.AtSync})
	w.Mask = 0
	return false, w.pick()
}

// inGroups runs an operation for lanes that name different masks, those of each mask on their own, if all are here. Then they go
// on together. It reports whether it did.
func (w *warp) inGroups(in *ir.Inst) bool {
	masks := &w.R32[in.E]
	if w.forced || lane.Differing(masks, masks[w.First()])&w.Mask == 0 {
		return false
	}
	groups, n, complete := lane.Groups(masks, w.Mask, w.Live)
	if !complete {
		return false
	}
	all := w.Mask
	for _, w.Mask = range groups[:n] {
		in.Fn(&w.Warp, in)
	}
	w.Mask = all
	return true
}

// passHead counts a loop head, for control flow that may go back.
func (w *warp) passHead() {
	w.Budget--
	if w.Budget%yieldHeads == 0 {
		w.worker.control.makeRoom()
	}
	w.warm()
	if w.worker.control.word.Load() != w.worker.seen {
		w.worker.poll()
		if w.worker.preempting {
			w.Budget = 0
		}
	}
}

// control runs control flow that is not a plain branch. It reports false when
// no fragment of the warp can run on.
func (w *warp) control(in *ir.Inst) bool {
	switch in.Kind {
	case ir.KIndexed:
		return w.branchIndexed(in)
	case ir.KCall:
		w.call(in)
		return true
	case ir.KRet:
		if w.Frame.Parent != nil {
			w.ret()
			return true
		}
		return w.exit()
	case ir.KExit:
		return w.exit()
	case ir.KBarrier:
		return w.barrier(in)
	case ir.KWarpSync:
		if w.inGroups(in) {
			return true
		}
		here, running := w.arrived(in)
		if here {
			in.Fn(&w.Warp, in)
		}
		return running
	case ir.KSleep:
		return w.sleep(in)
	case ir.KPass:
		w.passHead()
		return true
	case ir.KChildren:
		return w.awaitChildren(in)
	}
	w.Fail(gpu.LostTrap, in.X.Detail)
	return false
}

// exit ends the running lanes.
func (w *warp) exit() bool {
	if w.Live &^= w.Mask; w.Live == 0 {
		w.block.left--
	}
	w.Mask = 0
	w.block.exited()
	return w.Live != 0 && w.pick()
}

// branchIndexed runs brx.idx: lanes with different targets part. An index
// beyond the list is an illegal instruction.
func (w *warp) branchIndexed(in *ir.Inst) bool {
	idx := &w.R32[in.A]
	left := w.Mask
	for left != 0 {
		i := ir.FirstOf(left)
		if int64(idx[i]) >= int64(len(in.X.Targets)) {
			w.FailLane(i, gpu.LostInstruction, "indexed branch beyond its list of targets")
		}
		same := uint32(0)
		for m := left; m != 0; m &= m - 1 {
			if j := ir.FirstOf(m); idx[j] == idx[i] {
				same |= 1 << j
			}
		}
		w.add(ir.Fragment{Mask: same, PC: in.X.Targets[idx[i]], Frame: w.Frame})
		left &^= same
	}
	w.Mask = 0
	w.passHead()
	return w.pick()
}

// warm is called where warps begin, and where they pass heads of loops.
func (w *warp) warm() {
	if n := w.native; n != nil {
		n.Warm()
	}
}
