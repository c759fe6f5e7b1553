package jit

import "pvdrm/gpu/softgpu/exec/ir"

// Lanes that come to a barrier before others of their warp are held there, in a ring and a crew, while those run; the warp
// arrives when all are there. That is no other order than the interpreter's, which counts lanes as they come: no barrier
// is complete before all lanes of a warp are there that have not exited, if none names a number of threads.

// Gather has the lanes of the warp of f that run wait, which have left native code at a position while others of their
// warp have not exited: at a barrier, or where they exit. It returns where the warp goes on, with the lanes that w.Mask has
// then, or false where the interpreter has to look at it.
func (n *Code) Gather(f *Frame, w *ir.Warp, pc int32) (next int32, ok bool) {
	switch in := &n.prog.Code[pc]; {
	case f.held != 0 && f.heldAt != pc && !endsWarp(in):
		return pc, false
	case inCrew(in):
		if !n.hold(f, pc, in) {
			return pc, false
		}
		if next = pc; f.held != 0 {
			next = f.runNext()
		}
	case endsWarp(in) && f.held != 0 && f.count == 0 && f.mask|f.held == f.live:
		next = f.heldAt
		f.mask, f.live, f.held = f.held, f.held, 0
	default:
		return pc, false
	}
	w.Mask, w.Live = f.mask, f.live
	return next, true
}

// hold holds the lanes that run at the barrier at pc, or has all of the warp run that are left if they are there. Lanes
// that are about to exit do.
func (n *Code) hold(f *Frame, pc int32, in *ir.Inst) bool {
	here, exiting, others := f.mask|f.held, uint32(0), false
	for _, o := range f.waits[1 : 1+f.count/int64(waitBytes)] {
		if endsWarp(&n.prog.Code[o.pc]) {
			exiting |= o.mask
		} else {
			others = true
		}
	}
	switch {
	case here|exiting == f.live:
		f.mask, f.live, f.held, f.count, f.limit = here, here, 0, 0, noLimit
	case n.crew.counts || in.X.Barrier.Number >= maxBarriers || !others:
		return false
	default:
		f.held, f.heldAt = here, pc
	}
	return true
}

// runNext has the fragment run that has the lowest position of those that wait, which it returns.
func (f *Frame) runNext() int32 {
	at := f.count / int64(waitBytes)
	o := f.waits[at]
	f.count -= int64(waitBytes)
	f.mask, f.limit = o.mask, f.waits[at-1].pc
	return o.pc
}
