package simt

import "pvdrm/gpu"

// split divides the running fragment: the lanes in m go to target, the others
// to other. The lower position goes on running and is returned.
func (w *warp) split(m uint32, target, other int32) int32 {
	run, wait := fragment{mask: m, pc: target}, fragment{mask: w.mask &^ m, pc: other}
	if other < target {
		run, wait = wait, run
	}
	wait.frame = w.frame
	w.mask = run.mask
	w.add(wait)
	if wait.pc < w.limit {
		w.limit = wait.pc
	}
	return run.pc
}

// add puts a ready fragment to those that wait, merging it with its like.
func (w *warp) add(f fragment) {
	for i := range w.rest {
		if o := &w.rest[i]; o.pc == f.pc && o.frame == f.frame && o.state == ready {
			o.mask |= f.mask
			return
		}
	}
	w.rest = append(w.rest, f)
}

// suspend puts the running fragment to those that wait.
func (w *warp) suspend(s state) {
	f := fragment{mask: w.mask, pc: w.pc, frame: w.frame, state: s}
	w.mask = 0
	if s == ready {
		w.add(f)
		return
	}
	w.rest = append(w.rest, f)
}

// reschedule runs the fragment that comes first, which may be another one now.
// Precondition: a fragment is running.
func (w *warp) reschedule() {
	w.suspend(ready)
	w.pick()
}

// pick makes the fragment run that has the deepest call stack and then the
// lowest position, merged with all that have the same. It reports false when
// none is ready.
func (w *warp) pick() bool {
	if w.mask != 0 {
		if len(w.rest) == 0 { // the only one runs on
			w.limit, w.boosted, w.boost = noLimit, w.boost, false
			return true
		}
		w.suspend(ready)
	}
	best := -1
	for i := range w.rest {
		f := &w.rest[i]
		if f.state != ready {
			continue
		}
		if w.boost {
			best = i
			break
		}
		if best < 0 || before(f, &w.rest[best]) {
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

func before(a, b *fragment) bool {
	if a.frame.depth != b.frame.depth {
		return a.frame.depth > b.frame.depth
	}
	return a.pc < b.pc
}

// resume makes fragment i of the waiting ones the running one.
func (w *warp) resume(i int) {
	f := w.rest[i]
	w.rest = append(w.rest[:i], w.rest[i+1:]...)
	w.limit = noLimit
	kept := w.rest[:0]
	for _, o := range w.rest {
		if o.state == ready && o.pc == f.pc && o.frame == f.frame {
			f.mask |= o.mask
			continue
		}
		if o.state == ready && o.frame.depth == f.frame.depth && o.pc < w.limit {
			w.limit = o.pc
		}
		kept = append(kept, o)
	}
	w.rest = kept
	w.boosted = w.boost
	w.boost = false
	if w.boosted {
		w.limit = noLimit
	}
	w.mask, w.pc = f.mask, f.pc
	w.view(f.frame)
}

// force lets a fragment that waits for lanes of its warp go ahead, since none
// of them can come any more. Programs that do this have no defined result.
func (w *warp) force() bool {
	best := -1
	for i := range w.rest {
		if f := &w.rest[i]; f.state == atSync && (best < 0 || before(f, &w.rest[best])) {
			best = i
		}
	}
	if best < 0 {
		return false
	}
	w.forced = true
	w.rest[best].state = ready
	w.resume(best)
	return true
}

// loopHead is called where the running fragment, at w.pc, goes back. It answers
// the Control, and gives way where the quantum is used up: it reports true if
// run must return.
func (w *warp) loopHead() bool {
	w.passHead()
	if w.budget > 0 {
		if w.pc >= w.limit {
			w.reschedule()
		}
		return false
	}
	w.worker.control.expire() // the next loop head polls
	// The longest waiting fragment is next, then the usual order again, in
	// which fragments meet.
	w.suspend(ready)
	w.boost = !w.boosted
	return true
}

// arrived reports whether all lanes that in waits for are here. If not, the
// running fragment waits for them and another one runs (false: none is ready).
// Lanes that name different masks part: those of each mask are a group.
func (w *warp) arrived(in *inst) (here, running bool) {
	at, masks := w.pc-1, &w.r32[in.e]
	mask := masks[w.first()]
	if others := differing(masks, mask) & w.mask; others != 0 {
		w.add(fragment{mask: others, pc: at, frame: w.frame})
		w.mask &^= others
		w.limit = min(w.limit, at)
	}
	need := mask & w.live &^ w.mask
	if need == 0 || w.forced || len(w.rest) == 0 {
		w.forced = false
		return true, true
	}
	kept := w.rest[:0]
	for _, o := range w.rest {
		if o.state == atSync && o.pc == at && o.frame == w.frame && masks[firstOf(o.mask)] == mask {
			w.mask |= o.mask
			continue
		}
		kept = append(kept, o)
	}
	w.rest = kept
	if need &^= w.mask; need == 0 {
		return true, true
	}
	w.pc = at
	w.suspend(atSync)
	return false, w.pick()
}

// differing is the lanes whose value is not x.
func differing(row *[32]uint32, x uint32) (m uint32) {
	any := uint32(0)
	for i := range row {
		any |= row[i] ^ x
	}
	if any == 0 {
		return 0
	}
	for i := range row {
		m |= bit(row[i] != x) << i
	}
	return m
}

// passHead counts a loop head, for control flow that may go back.
func (w *warp) passHead() {
	w.budget--
	w.warm()
	if w.worker.control.word.Load() != w.worker.seen {
		w.worker.poll()
	}
}

// control runs control flow that is not a plain branch. It reports false when
// no fragment of the warp can run on.
func (w *warp) control(in *inst) bool {
	switch in.kind {
	case kIndexed:
		return w.branchIndexed(in)
	case kCall:
		w.call(in)
		return true
	case kRet:
		if w.frame.parent != nil {
			w.ret()
			return true
		}
		return w.exit()
	case kExit:
		return w.exit()
	case kBarrier:
		return w.barrier(in)
	case kWarpSync:
		here, running := w.arrived(in)
		if here {
			in.fn(w, in)
		}
		return running
	case kYield:
		w.budget = 0
		return true
	}
	w.fail(gpu.LostTrap, in.x.detail)
	return false
}

// exit ends the running lanes.
func (w *warp) exit() bool {
	w.live &^= w.mask
	w.mask = 0
	w.block.exited()
	return w.pick()
}

// branchIndexed runs brx.idx: lanes with different targets part. An index
// beyond the list is an illegal instruction.
func (w *warp) branchIndexed(in *inst) bool {
	idx := &w.r32[in.a]
	left := w.mask
	for left != 0 {
		i := firstOf(left)
		if int64(idx[i]) >= int64(len(in.x.targets)) {
			w.failLane(i, gpu.LostInstruction, "indexed branch beyond its list of targets")
		}
		same := uint32(0)
		for m := left; m != 0; m &= m - 1 {
			if j := firstOf(m); idx[j] == idx[i] {
				same |= 1 << j
			}
		}
		w.add(fragment{mask: same, pc: in.x.targets[idx[i]], frame: w.frame})
		left &^= same
	}
	w.mask = 0
	w.passHead()
	return w.pick()
}
