package run

import (
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
	"pvdrm/gpu/softgpu/exec/lane"
)

// maxMended is how many operations the interpreter runs before a ring goes on.
const maxMended = 16

// inRing has the warps of a block run in a ring (package jit) for as long as they are in native code, or come back
// to it soon, and puts down where they are then. It does nothing unless all can. It reports whether it did.
func (b *block) inRing() bool {
	w := b.warps[0].worker
	n := w.run.native
	if n == nil || !n.Rings(b.count) {
		return false
	}
	if b.again && b.ringAgain(n) {
		return true
	}
	if !b.inStep() || n.Counts() && len(b.ring) != len(b.warps) {
		return false
	}
	count := len(b.ring)
	for i, one := range b.ring {
		before, next := b.ring[(i+count-1)%count], b.ring[(i+1)%count]
		one.Budget = quantum
		if !n.Join(&one.frame0, &one.Warp, jit.Link{Before: &before.frame0, Next: &next.frame0, Place: i, Warps: count, Seen: w.seen, Fresh: one.fresh}) {
			for _, one := range b.ring[:i] {
				n.Part(&one.frame0, &one.Warp, w.sites)
			}
			return false
		}
	}
	if c := w.counts; c != nil {
		c.entered += uint64(count)
	}
	b.passRing(n)
	return true
}

// passRing runs a ring until it ends.
func (b *block) passRing(n *jit.Code) {
	for f := &b.ring[0].frame0; f != nil; {
		f = b.mend(n, n.Pass(f))
	}
	if b.endedTogether(n, b.ring) {
		return
	}
	b.waited = true
	b.leaveRing(n)
}

// leaveRing puts down where the warps of a ring are.
func (b *block) leaveRing(n *jit.Code) {
	arrived, ended := true, 0
	for _, one := range b.ring {
		p := n.Part(&one.frame0, &one.Warp, one.worker.sites)
		one.see()
		one.fresh = p.Fresh
		switch {
		case p.Ended:
			if c := one.worker.counts; c != nil {
				c.interpret(one, p.Left, false)
			}
			one.PC, one.Live, one.Mask, one.fresh = p.Left, 0, 0, false
			ended++
			arrived = arrived && !n.Counts() // else it is the one that left
		case p.Left >= 0:
			one.PC, one.limit, arrived = p.Left, p.Limit, false
			one.arriveHeld(p.Held, p.HeldAt)
		case p.Passed >= 0 && arrived:
			b.suspendBehind(one, p.Passed)
		case p.Passed >= 0:
			one.PC = p.Passed
		case p.Parked >= 0:
			one.PC = p.Parked
		}
	}
	if ended != 0 {
		b.left -= ended
		b.exited()
	}
}

// suspendBehind has a warp of a ring wait at the barrier before a position.
func (b *block) suspendBehind(one *warp, pc int32) {
	in := &one.code[pc-1]
	op := in.X.Barrier
	bar := &b.bars[op.Number]
	one.PC = pc
	bar.used, bar.missing, bar.arrived[one.Index] = true, len(b.warps)-1, one.Mask
	if bar.need = 0; op.Count != ir.NoReg {
		bar.need = b.count
	}
	one.suspendAt(in, op.Number)
}

// mend has the interpreter run what made a warp of a ring leave native code, where that is no matter of other warps,
// or of the Control. It returns its frame if the ring is to go on with it.
func (b *block) mend(n *jit.Code, f *jit.Frame) *jit.Frame {
	one := b.ring[slices.IndexFunc(b.ring, func(w *warp) bool { return &w.frame0 == f })]
	w := one.worker
	pc := n.Leave(f, &one.Warp, w.sites)
	if f.Called() {
		return nil // the interpreter is to have frames of what was called
	}
	if one.Mask != ir.AllLanes {
		if one.Mask == one.Live {
			return nil
		}
		return b.gather(n, f, one, pc)
	}
	for range maxMended {
		if w.control.word.Load() != w.seen {
			break
		}
		next, ok := one.simple(pc)
		if ok && next <= pc {
			w.control.look()
			ok = n.MayLoop(f) // others of the block, or of its cluster, may be what it waits for
		}
		if !ok {
			break
		}
		if c := w.counts; c != nil {
			c.interpret(one, pc, false)
		}
		if pc = next; n.GoOn(f, &one.Warp, pc, len(b.ring)) {
			if c := w.counts; c != nil {
				c.entered++
			}
			return f
		}
	}
	return nil
}

// simple runs the operation at pc for all lanes that run, if they go on together behind it. It returns where they do.
func (w *warp) simple(pc int32) (next int32, ok bool) {
	in, active := &w.code[pc], w.Mask
	w.PC = pc
	switch in.Kind {
	case ir.KJump:
		return in.Target, w.Mask == w.Live
	case ir.KBranch:
		return w.together(in, w.sense(in, w.Pr[in.A]))
	case ir.KCompareBranch:
		m := in.Cmp(&w.Warp, in)
		w.SetPred(in.D, m)
		return w.together(in, w.sense(in, m))
	case ir.KLane32, ir.KLane64, ir.KMasked, ir.KCompare:
		if in.Guard != 0 {
			w.Mask = w.guard(in)
		}
		if w.Mask != 0 {
			lane.Step(&w.Warp, in)
		}
		w.Mask = active
		return pc + 1, true
	}
	return pc, false
}

// together returns where the warp goes on if lanes m branch, if those are all of the warp or none.
func (w *warp) together(in *ir.Inst, m uint32) (next int32, ok bool) {
	if m == w.Mask {
		return in.Target, w.Mask == w.Live
	}
	return in.Other, m == 0 && w.Mask == w.Live
}

// inStep reports whether all warps of the block that have not ended are ready with all their lanes, and none has begun
// or all have had their first turn.
func (b *block) inStep() bool {
	b.ring = b.ring[:0]
	for i := range b.warps {
		w := &b.warps[i]
		if w.Live == 0 {
			continue
		}
		if w.Live != ir.AllLanes || w.fresh && b.begun || w.boost || w.sleepers != 0 || w.Frame.Depth != 0 {
			return false
		}
		switch {
		case w.Mask == ir.AllLanes && len(w.Rest) == 0:
		case w.Mask == 0 && len(w.Rest) == 1 && w.Rest[0].State == ir.Ready && w.Rest[0].Mask == ir.AllLanes:
			w.resumeOnly()
		default:
			return false
		}
		b.ring = append(b.ring, w)
	}
	return len(b.ring) != 0
}
