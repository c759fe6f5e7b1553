//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Barriers of warps that run in a crew (crew.go).

// crewLabels are where the code is that all barriers of a function share: for warps that wait, and for those that go on.
type crewLabels struct {
	wait, arrive x86.Label
}

// sameInLanes has in a general register what a 32-bit register is in all lanes that run, or goes to out where they differ. All
// registers are in memory. It changes rax and rbx.
func (e *emitter) sameInLanes(r x86.R, reg uint32, out x86.Label) {
	a, at := &e.a, home(ir.In32, reg, 0)
	if value, ok := constantOf(e.fn, reg); ok {
		a.RI(x86.MOV, false, r, int32(value))
		return
	}
	if e.constant(ir.In32, reg) {
		a.RM(x86.MOV, false, r, at)
		return
	}
	a.FirstBit(x86.RBX, rMask)
	a.RP(x86.MOV, false, r, x86.Place{Base: at.Base, Index: x86.RBX, Shift: 2, Disp: at.Disp})
	a.FromGP(&x86.FROMGPD, t0, r, x86.Arg{})
	var v value
	for p, z := range []x86.Z{t1, t2} {
		v.z[p] = z
		a.VM(&x86.LOADD, z, 0, home(ir.In32, reg, p), x86.Arg{})
	}
	e.sameAs(&v, ir.In32, t0)
	a.Not(x86.RAX)
	a.RR(x86.AND, false, x86.RAX, rMask)
	a.JumpIf(x86.NotEqual, out)
}

// crewBarrier has the warp come to the barrier at pc with its crew, and go on at a label then. It goes to out where
// the interpreter has to look at it. All registers are in memory.
func (e *emitter) crewBarrier(pc int32, behind, out x86.Label) {
	a, op := &e.a, e.code[pc].X.Barrier
	a.MI(x86.CMP, true, frameAt(offCrew), 0)
	a.JumpIf(x86.Equal, out)
	if e.masked { // some lanes are elsewhere
		a.RM(x86.CMP, false, rMask, frameAt(offLive))
		a.JumpIf(x86.NotEqual, out)
	}
	a.RI(x86.MOV, false, x86.RDX, 0)
	if op.Count != ir.NoReg {
		e.sameInLanes(x86.RDX, op.Count, out)
		a.RR(x86.MOV, false, x86.RBX, x86.RDX)
		a.RI(x86.AND, false, x86.RBX, 31)
		a.JumpIf(x86.NotEqual, out)
		a.RR(x86.TEST, false, x86.RDX, x86.RDX)
		a.JumpIf(x86.Equal, out)
	}
	e.sameInLanes(x86.RCX, op.ID, out)
	a.RI(x86.CMP, false, x86.RCX, maxBarriers)
	a.JumpIf(x86.AboveEqual, out)
	a.RM(x86.MOV, true, x86.RAX, frameAt(offCrew))
	a.RM(x86.CMP, false, x86.RDX, x86.Mem{Base: x86.RAX, Disp: crewMost})
	a.JumpIf(x86.Above, out)
	switch {
	case !e.crew.reduces:
	case op.Pred == ir.NoReg:
		a.RI(x86.MOV, false, x86.R14, 0)
		a.RI(x86.MOV, false, x86.R15, 0)
	default:
		a.RM(x86.MOV, false, x86.R14, pred(op.Pred))
		if op.PredNeg {
			a.Not(x86.R14)
		}
		a.RR(x86.AND, false, x86.R14, rMask)
		a.RR(x86.MOV, false, x86.R15, x86.R14)
		a.RR(x86.XOR, false, x86.R15, rMask)
		a.CountBits(x86.R14, x86.R14)
	}
	e.goesOnAt(behind)
	a.MI(x86.MOV, false, frameAt(offPassed), pc+1)
	if op.Arrive {
		a.Jump(e.muster.arrive)
	} else {
		a.Jump(e.muster.wait)
	}
}

// goesOnAt has the warp enter this code at a label when it goes on by Frame.entry. It changes rbx.
func (e *emitter) goesOnAt(at x86.Label) {
	e.a.Address(x86.RBX, at)
	e.a.Store(true, frameAt(offTarget), x86.RBX)
	e.a.Address(x86.RBX, e.start)
	e.a.Store(true, frameAt(offEntry), x86.RBX)
}

// tell writes what a barrier that combines predicates gives, where the warp goes on behind it.
func (e *emitter) tell(pc int32) {
	in := &e.code[pc]
	if in.D == ir.NoReg {
		return
	}
	a, op := &e.a, in.X.Barrier
	e.mode = allOfThem
	if e.masked {
		e.mode = active
	}
	if op.Popc {
		a.RM(x86.MOV, false, x86.RAX, frameAt(offTrues))
		a.FromGP(&x86.FROMGPD, t0, x86.RAX, x86.Arg{})
		for p := range parts(ir.In32) {
			a.VM(&x86.STORED, t0, 0, home(ir.In32, in.D, p), x86.Arg{Mask: e.lanes(false, p)})
		}
		e.forgetPlaces(in)
		return
	}
	off, holds, set := offTrues, x86.NotEqual, a.NewLabel()
	if op.Reduce == ir.BoolAnd {
		off, holds = offFalses, x86.Equal
	}
	a.RI(x86.MOV, false, x86.RAX, -1)
	a.MI(x86.CMP, false, frameAt(off), 0)
	a.JumpIf(holds, set)
	a.RI(x86.MOV, false, x86.RAX, 0)
	a.Bind(set)
	e.setPred(in.D, x86.RAX)
}

// musterCode is what barriers share. Rax is the crew, ecx the number of the barrier, edx that of threads, or 0, r14d and r15d
// those that have a true predicate and those that have a false one. What it changes, the warp that goes on loads again.
func (e *emitter) musterCode() {
	if !e.crew.some {
		return
	}
	const waits, self, arrived, threads, waiting = x86.R9, x86.R10, x86.RBX, x86.R11, x86.R8
	a, common, first, refuse, wait := &e.a, e.a.NewLabel(), e.a.NewLabel(), e.a.NewLabel(), e.a.NewLabel()
	complete, all, on, yield := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	at := func(off int32) x86.Place { return x86.Place{Base: x86.RAX, Index: x86.RCX, Shift: 3, Disp: off} }
	add := func(op x86.Alu, off int32, r x86.R) {
		a.RP(op, false, r, at(off))
		a.StoreTo(false, at(off), r)
	}
	a.Bind(e.muster.arrive)
	a.RI(x86.MOV, false, waits, 0)
	a.Jump(common)
	a.Bind(e.muster.wait)
	a.RM(x86.MOV, false, waits, frameAt(offBit))
	a.Bind(common)
	for range 2 { // a meeting has 32 bytes
		a.RR(x86.ADD, false, x86.RCX, x86.RCX)
	}
	a.RM(x86.MOV, false, self, frameAt(offBit))
	a.RP(x86.MOV, false, arrived, at(meetingArrived))
	a.RR(x86.TEST, false, arrived, arrived)
	a.JumpIf(x86.Equal, first)
	a.RP(x86.CMP, false, x86.RDX, at(meetingNeed))
	a.JumpIf(x86.NotEqual, refuse)
	a.RR(x86.MOV, false, x86.R8, arrived)
	a.RR(x86.AND, false, x86.R8, self)
	a.JumpIf(x86.NotEqual, refuse)
	a.Bind(first)
	a.StoreTo(false, at(meetingNeed), x86.RDX)
	a.RR(x86.OR, false, arrived, self)
	a.StoreTo(false, at(meetingArrived), arrived)
	a.RR(x86.MOV, false, waiting, waits)
	add(x86.OR, meetingWaiting, waiting)
	a.RI(x86.MOV, false, threads, 32)
	add(x86.ADD, meetingThreads, threads)
	if e.crew.reduces {
		add(x86.ADD, meetingTrues, x86.R14)
		add(x86.OR, meetingFalses, x86.R15)
	}
	a.RR(x86.TEST, false, x86.RDX, x86.RDX)
	a.JumpIf(x86.Equal, all)
	a.RR(x86.CMP, false, threads, x86.RDX)
	a.JumpIf(x86.Less, wait)
	a.Jump(complete)
	a.Bind(all)
	a.Not(arrived)
	a.RM(x86.AND, false, arrived, x86.Mem{Base: x86.RAX, Disp: crewLive})
	a.JumpIf(x86.NotEqual, wait)
	a.Bind(complete)
	e.tellAll(waiting)
	a.RM(x86.OR, false, waiting, x86.Mem{Base: x86.RAX, Disp: crewReady})
	a.Store(false, x86.Mem{Base: x86.RAX, Disp: crewReady}, waiting)
	a.RI(x86.MOV, false, x86.RDX, 0)
	for _, off := range []int32{meetingArrived, meetingWaiting, meetingThreads, meetingTrues, meetingFalses} {
		a.StoreTo(false, at(off), x86.RDX)
	}
	a.Bind(on)
	a.MI(x86.CMP, true, frameAt(offFresh), 0)
	a.RM(x86.MOV, false, x86.R8, x86.Mem{Base: x86.RAX, Disp: crewReady})
	a.JumpIf(x86.NotEqual, yield)
	a.JumpMem(frameAt(offEntry))

	a.Bind(wait)
	a.RR(x86.TEST, false, waits, waits)
	a.JumpIf(x86.Equal, on)
	a.RM(x86.MOV, false, x86.R8, x86.Mem{Base: x86.RAX, Disp: crewReady})
	a.RR(x86.XOR, false, x86.R8, waits) // it was ready
	a.Store(false, x86.Mem{Base: x86.RAX, Disp: crewReady}, x86.R8)
	a.Bind(yield)
	e.nextOfCrew()
	a.Bind(refuse)
	a.RM(x86.MOV, false, x86.RAX, frameAt(offPassed))
	a.RI(x86.SUB, false, x86.RAX, 1)
	a.Store(false, frameAt(offPC), x86.RAX)
	a.Jump(e.leave)
}

// tellAll puts down for warps that wait what a barrier that is complete gives. It changes rdx, r9 and r10.
func (e *emitter) tellAll(waiting x86.R) {
	if !e.crew.reduces {
		return
	}
	a, next, told := &e.a, e.a.NewLabel(), e.a.NewLabel()
	a.RR(x86.MOV, false, x86.RDX, waiting)
	a.Bind(next)
	a.RR(x86.TEST, false, x86.RDX, x86.RDX)
	a.JumpIf(x86.Equal, told)
	a.FirstBit(x86.R9, x86.RDX)
	a.RP(x86.MOV, true, x86.R10, x86.Place{Base: x86.RAX, Index: x86.R9, Shift: 3, Disp: crewFrames})
	a.Store(false, x86.Mem{Base: x86.R10, Disp: offTrues}, x86.R14)
	a.Store(false, x86.Mem{Base: x86.R10, Disp: offFalses}, x86.R15)
	a.DropBit(x86.RDX, x86.RDX)
	a.Jump(next)
	a.Bind(told)
}

// nextOfCrew ends the turn of this warp, and has the next one of those in r8d that can run go on: one behind it, or one
// before, or itself. It leaves where there is none.
func (e *emitter) nextOfCrew() {
	a, found, begun := &e.a, e.a.NewLabel(), e.a.NewLabel()
	a.RM(x86.MOV, true, x86.RDX, frameAt(offFresh))
	a.RR(x86.TEST, true, x86.RDX, x86.RDX)
	a.JumpIf(x86.Equal, begun)
	a.Store(true, frameAt(offBudget), x86.RDX)
	a.MI(x86.MOV, true, frameAt(offFresh), 0)
	a.Bind(begun)
	a.RR(x86.TEST, false, x86.R8, x86.R8)
	a.JumpIf(x86.Equal, e.leave)
	a.RM(x86.MOV, false, x86.RBX, frameAt(offBit))
	a.RR(x86.MOV, false, x86.R11, x86.RBX)
	a.RI(x86.SUB, false, x86.R11, 1)
	a.RR(x86.OR, false, x86.R11, x86.RBX)
	a.Not(x86.R11)
	a.RR(x86.AND, false, x86.R11, x86.R8)
	a.JumpIf(x86.NotEqual, found)
	a.RR(x86.MOV, false, x86.R11, x86.R8)
	a.Bind(found)
	a.FirstBit(x86.RBX, x86.R11)
	a.RP(x86.MOV, true, rFrame, x86.Place{Base: x86.RAX, Index: x86.RBX, Shift: 3, Disp: crewFrames})
	a.JumpMem(frameAt(offEntry))
}
