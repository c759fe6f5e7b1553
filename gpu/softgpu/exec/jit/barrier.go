//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// inRing reports whether an operation is one at which a ring or a crew goes on with the next warp: a barrier, or the end.
func (e *emitter) inRing(pc int32) bool {
	in := &e.code[pc]
	return e.crew.some && inCrew(in) && pc+1 < e.fn.End || e.ring.some && !e.masked && endsWarp(in)
}

// passBarrier is a barrier. All registers go to memory; the warp of the next frame goes on where it is, or
// begins. Without a ring and a crew it is left to the interpreter.
func (e *emitter) passBarrier(pc int32) {
	e.save(e.unsaved(nil))
	out, behind := e.a.NewLabel(), e.a.NewLabel()
	e.clear()
	clear(e.places)
	e.enterable(pc)
	if e.ring.some && !e.masked {
		e.ringBarrier(pc, behind, out)
	} else {
		e.crewBarrier(pc, behind, out)
	}
	e.later = append(e.later, func() {
		e.a.Bind(out)
		e.exitWith(pc, nil)
	})
	e.a.Entry(behind)
	e.a.Bind(behind)
	e.told[pc+1] = behind
	e.tell(pc)
	e.enterable(pc + 1)
}

// ringBarrier has the next warp of the ring go on, and this one at a label then. It goes to out where the interpreter has
// to look at it.
func (e *emitter) ringBarrier(pc int32, behind, out x86.Label) {
	park, crew := e.a.NewLabel(), e.a.NewLabel()
	here := e.entries[pc-e.fn.Entry]
	e.a.RM(x86.MOV, true, x86.RAX, frameAt(offNext))
	e.a.RR(x86.TEST, true, x86.RAX, x86.RAX)
	e.a.JumpIf(x86.Equal, crew)
	e.a.MI(x86.CMP, true, frameAt(offFresh), 0)
	e.a.JumpIf(x86.NotEqual, park)
	if e.ring.several {
		e.checkBarrier(keyOf(&e.code[pc]), out)
	}
	e.a.MI(x86.MOV, false, frameAt(offPassed), pc+1)
	e.nextWarp(behind)
	e.later = append(e.later, func() {
		e.a.Bind(crew)
		e.crewBarrier(pc, behind, out)
		e.a.Bind(park)
		e.park(pc, here)
	})
}

// checkBarrier goes to out where the warp before this one in the order has come to another barrier. The first of them
// comes first.
func (e *emitter) checkBarrier(key int32, out x86.Label) {
	first := e.a.NewLabel()
	e.a.RM(x86.MOV, true, x86.RCX, frameAt(offBefore))
	e.a.RM(x86.MOV, false, x86.RDX, frameAt(offPlace))
	e.a.RM(x86.CMP, false, x86.RDX, x86.Mem{Base: x86.RCX, Disp: offPlace})
	e.a.JumpIf(x86.LessEqual, first)
	e.a.MI(x86.CMP, false, x86.Mem{Base: x86.RCX, Disp: offBarrier}, key)
	e.a.JumpIf(x86.NotEqual, out)
	e.a.Bind(first)
	e.a.MI(x86.MOV, false, frameAt(offBarrier), key)
}

// nextWarp has the warp of the frame in rax go on. This one goes on at a label then.
func (e *emitter) nextWarp(at x86.Label) {
	e.a.Address(x86.RCX, at)
	e.a.Store(true, frameAt(offTarget), x86.RCX)
	e.enterNext()
}

// enterNext goes on with the warp of the frame in rax, of the same ring or chain, which has all but the registers of the
// warp in common with this one.
func (e *emitter) enterNext() {
	e.a.RR(x86.MOV, true, rFrame, x86.RAX)
	e.a.RM(x86.MOV, true, r32base, frameAt(offR32))
	e.a.RM(x86.MOV, true, r64base, frameAt(offR64))
	e.a.RM(x86.MOV, true, rPreds, frameAt(offPreds))
	e.a.JumpMem(frameAt(offTarget))
}

// park ends the first turn of a warp in a ring, which goes on at pc. The next frame is in rax.
func (e *emitter) park(pc int32, at x86.Label) {
	e.a.RM(x86.MOV, true, x86.RCX, frameAt(offFresh))
	e.a.Store(true, frameAt(offBudget), x86.RCX)
	e.a.MI(x86.MOV, true, frameAt(offFresh), 0)
	e.a.MI(x86.MOV, false, frameAt(offParked), pc)
	e.nextWarp(at)
}

// leaveHead leaves at a jump back from pc, where the first turn of a warp in a ring ends.
func (e *emitter) leaveHead(pc, target int32, list []saved) {
	at := e.entries[target-e.fn.Entry]
	if !e.ring.some || e.masked || at == 0 {
		e.exitWith(pc, list)
		return
	}
	out := e.a.NewLabel()
	e.save(list)
	e.a.MI(x86.CMP, true, frameAt(offFresh), 0)
	e.a.JumpIf(x86.Equal, out)
	e.a.RM(x86.MOV, true, x86.RAX, frameAt(offNext))
	e.a.RR(x86.TEST, true, x86.RAX, x86.RAX)
	e.a.JumpIf(x86.Equal, out) // it is in a crew
	e.park(target, at)
	e.a.Bind(out)
	e.exitWith(pc, nil)
}

// endWarp is the end of a warp: that of the next frame of its ring goes on, or that of its chain begins. Without one it
// is left to the interpreter.
func (e *emitter) endWarp(pc int32) {
	e.a.MI(x86.MOV, false, frameAt(offPC), pc)
	if e.ring.count != 0 { // a thread that has exited does not arrive
		e.a.Jump(e.leave)
		return
	}
	off := offChain
	if e.ring.some {
		off = offNext
	}
	e.a.RM(x86.MOV, true, x86.RAX, frameAt(off))
	e.a.RR(x86.TEST, true, x86.RAX, x86.RAX)
	e.a.JumpIf(x86.Equal, e.leave)
	if e.ring.some {
		e.a.RR(x86.CMP, true, x86.RAX, rFrame) // the last one
		e.a.JumpIf(x86.Equal, e.leave)
		e.a.RM(x86.MOV, true, x86.RCX, frameAt(offBefore))
		e.a.Store(true, x86.Mem{Base: x86.RCX, Disp: offNext}, x86.RAX)
		e.a.Store(true, x86.Mem{Base: x86.RAX, Disp: offBefore}, x86.RCX)
	}
	e.enterNext()
}

// isPlainBarrier reports whether a barrier may be one of a ring: all threads of the warp wait at it, and get nothing back.
func isPlainBarrier(in *ir.Inst) bool {
	op := in.X.Barrier
	return !op.Cluster && op.Number < maxBarriers && !op.Arrive && op.Pred == ir.NoReg && in.D == ir.NoReg && in.Guard == 0
}
