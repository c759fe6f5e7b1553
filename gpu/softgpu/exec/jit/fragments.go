//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// What fragments do in native code, see apart.go. All registers are in memory where one gives way to another.

// fragmentLabels are where the code is that all branches and jumps of a function share.
type fragmentLabels struct {
	part, meet, pick, run x86.Label
}

// waitAt is what the fragment in Frame.waits has at an offset that a register holds.
func waitAt(offset x86.R, more int32) x86.Place {
	return x86.Place{Base: rFrame, Index: offset, Disp: offWaits + more}
}

// mayPart leaves where the interpreter has the fragments.
func (e *emitter) mayPart(out x86.Label) {
	e.a.MI(x86.CMP, true, frameAt(offMasked+variantTable), 0)
	e.a.JumpIf(x86.Equal, out)
}

// part has the lanes in eax of those that run take a branch, and the others not.
func (e *emitter) part(pc int32, in *ir.Inst, list []saved, out x86.Label) {
	a := &e.a
	e.mayPart(out)
	run, wait := min(in.Target, in.Other), max(in.Target, in.Other)
	if e.parksAt(pc, in) {
		back := a.NewLabel()
		e.goesBack(pc, run, back)
		e.later = append(e.later, func() {
			e.a.Bind(back)
			e.leaveHead(pc, pc, list)
		})
	} else {
		e.goesBack(pc, run, out)
	}
	e.saveFor(list, run, wait)
	if wait == in.Target {
		a.RR(x86.MOV, false, x86.RDX, x86.RAX)
		a.RR(x86.XOR, false, rMask, x86.RAX)
	} else {
		a.RR(x86.MOV, false, x86.RDX, rMask)
		a.RR(x86.XOR, false, x86.RDX, x86.RAX)
		a.RR(x86.MOV, false, rMask, x86.RAX)
	}
	a.RI(x86.MOV, false, x86.RCX, wait)
	a.RI(x86.MOV, false, x86.RAX, run)
	a.Jump(e.fragments.part)
}

// parksAt reports whether the first turn of a warp in a ring ends at a branch on which its lanes disagree, of which some go
// back: it is parked before the branch, and looks at it again.
func (e *emitter) parksAt(pc int32, in *ir.Inst) bool {
	return e.ring.some && !e.masked && in.E == 0 && min(in.Target, in.Other) <= pc
}

// meetAt has the fragment wait at the block at target, or run on with one that waits there, if another one is next
// by then. It leaves at out where the interpreter has the others.
func (e *emitter) meetAt(pc, target int32, list []saved, out x86.Label) {
	meet := e.a.NewLabel()
	e.a.MI(x86.CMP, false, frameAt(offLimit), target)
	e.a.JumpIf(x86.LessEqual, meet)
	e.later = append(e.later, func() {
		e.a.Bind(meet)
		e.mayPart(out)
		e.goesBack(pc, target, out)
		e.saveFor(list, target, target)
		e.a.RI(x86.MOV, false, x86.RAX, target)
		e.a.Jump(e.fragments.meet)
	})
}

// fragmentCode is what branches and jumps share. The fragment that runs has its position in eax and its lanes in
// rMask; at part, one begins to wait, of which these are in ecx and edx; at meet, the running one has come to the
// lowest position of those that wait, or beyond it; at pick, there is none that runs.
func (e *emitter) fragmentCode() {
	a := &e.a
	check, run := a.NewLabel(), e.fragments.run
	a.Bind(e.fragments.part)
	e.addFragment(check)
	a.Bind(check)
	a.RM(x86.CMP, false, x86.RAX, frameAt(offLimit))
	a.JumpIf(x86.Less, run)

	a.Bind(e.fragments.meet) // with the last, if it waits here; else that runs, and this one waits
	e.takeFragment()
	a.RR(x86.CMP, false, x86.RCX, x86.RAX)
	slow := a.NewLabel()
	a.JumpIf(x86.NotEqual, slow)
	a.RR(x86.OR, false, rMask, x86.RDX)
	a.Jump(run)
	a.Bind(slow)
	a.RR(x86.MOV, false, x86.R14, x86.RCX)
	a.RR(x86.MOV, false, x86.R15, x86.RDX)
	a.RR(x86.MOV, false, x86.RCX, x86.RAX)
	a.RR(x86.MOV, false, x86.RDX, rMask)
	a.RR(x86.MOV, false, x86.RAX, x86.R14)
	a.RR(x86.MOV, false, rMask, x86.R15)
	a.Jump(e.fragments.part)

	a.Bind(e.fragments.pick)
	e.takeFragment()
	a.RR(x86.MOV, false, x86.RAX, x86.RCX)
	a.RR(x86.MOV, false, rMask, x86.RDX)

	a.Bind(run)
	e.runFragment()
}

// takeFragment takes the last fragment from those that wait: its position is in ecx and its lanes in edx then.
func (e *emitter) takeFragment() {
	a := &e.a
	a.RM(x86.MOV, true, x86.RBX, frameAt(offCount))
	a.RP(x86.MOV, false, x86.RCX, waitAt(x86.RBX, 0))
	a.RP(x86.MOV, false, x86.RDX, waitAt(x86.RBX, waitMask))
	a.RP(x86.MOV, false, x86.R14, waitAt(x86.RBX, -waitBytes))
	a.Store(false, frameAt(offLimit), x86.R14)
	a.RI(x86.SUB, true, x86.RBX, waitBytes)
	a.Store(true, frameAt(offCount), x86.RBX)
}

// addFragment has one wait, of which the position is in ecx and the lanes in edx, and goes to done. Its place
// is behind the first, from the last on, whose position is above. It changes rbx, r14 and r15, too.
func (e *emitter) addFragment(done x86.Label) {
	a := &e.a
	search, merge, shift, put := a.NewLabel(), a.NewLabel(), a.NewLabel(), a.NewLabel()
	a.RM(x86.MOV, true, x86.RBX, frameAt(offCount))
	a.Bind(search)
	a.RP(x86.CMP, false, x86.RCX, waitAt(x86.RBX, 0))
	a.JumpIf(x86.Equal, merge)
	a.RM(x86.MOV, true, x86.R14, frameAt(offCount))
	a.JumpIf(x86.Less, shift)
	a.RI(x86.SUB, true, x86.RBX, waitBytes)
	a.Jump(search)

	a.Bind(merge)
	a.RP(x86.OR, false, x86.RDX, waitAt(x86.RBX, waitMask))
	a.StoreTo(false, waitAt(x86.RBX, waitMask), x86.RDX)
	a.Jump(done)

	a.Bind(shift)
	a.RR(x86.CMP, true, x86.R14, x86.RBX)
	a.JumpIf(x86.Equal, put)
	a.RP(x86.MOV, true, x86.R15, waitAt(x86.R14, 0))
	a.StoreTo(true, waitAt(x86.R14, waitBytes), x86.R15)
	a.RP(x86.MOV, true, x86.R15, waitAt(x86.R14, offTurns-offWaits))
	a.StoreTo(true, waitAt(x86.R14, offTurns-offWaits+waitBytes), x86.R15)
	a.RI(x86.SUB, true, x86.R14, waitBytes)
	a.Jump(shift)

	a.Bind(put)
	a.StoreTo(false, waitAt(x86.RBX, waitBytes), x86.RCX)
	a.StoreTo(false, waitAt(x86.RBX, waitBytes+waitMask), x86.RDX)
	a.RM(x86.MOV, true, x86.R14, frameAt(offTurn))
	a.StoreTo(true, waitAt(x86.RBX, offTurns-offWaits+waitBytes), x86.R14)
	a.RI(x86.ADD, true, x86.R14, 1)
	a.Store(true, frameAt(offTurn), x86.R14)
	a.RM(x86.MOV, true, x86.R14, frameAt(offCount))
	a.RI(x86.ADD, true, x86.R14, waitBytes)
	a.Store(true, frameAt(offCount), x86.R14)
	a.RP(x86.MOV, false, x86.RCX, waitAt(x86.R14, 0))
	a.Store(false, frameAt(offLimit), x86.RCX)
	a.Jump(done)
}

// runFragment enters the variant of the code that the lanes in rMask need, at the position in eax, or leaves there.
func (e *emitter) runFragment() {
	a := &e.a
	some, out := a.NewLabel(), a.NewLabel()
	a.Store(false, frameAt(offMask), rMask)
	a.RI(x86.CMP, false, rMask, -1)
	a.RM(x86.MOV, true, x86.RDX, frameAt(offMasked+variantTable))
	a.RM(x86.MOV, true, x86.RCX, frameAt(offMasked))
	a.JumpIf(x86.NotEqual, some)
	a.RM(x86.MOV, true, x86.RDX, frameAt(offFull+variantTable))
	a.RM(x86.MOV, true, x86.RCX, frameAt(offFull))
	a.Bind(some)
	a.Store(true, frameAt(offEntry), x86.RCX)
	a.RP(x86.MOV, true, x86.RDX, x86.Place{Base: x86.RDX, Index: x86.RAX, Shift: 3, Disp: -8 * e.fn.Entry})
	a.RR(x86.TEST, true, x86.RDX, x86.RDX)
	a.JumpIf(x86.Equal, out)
	a.Store(true, frameAt(offTarget), x86.RDX)
	a.JumpMem(frameAt(offEntry))
	a.Bind(out)
	a.Store(false, frameAt(offPC), x86.RAX)
	a.Jump(e.leave)
}

// endsLanes reports whether the lanes that run end at an operation without others that could wait for it: they exit. While
// others of their warp run, which have come to no barrier, none becomes complete by that.
func (e *emitter) endsLanes(in *ir.Inst) bool {
	return e.masked && e.simple && endsWarp(in) && (e.fn.Kernel || in.Kind == ir.KExit)
}

// isSimple reports whether native code knows that there is no barrier of clusters in a kernel and all that it calls, or in any
// program that has a function.
func isSimple(p *ir.Program, fn *ir.Function) bool {
	if !fn.Kernel {
		return !p.Clusters
	}
	list, all := reached(p, fn)
	for _, fn := range list {
		for pc := fn.Entry; pc < fn.End; pc++ {
			if in := &p.Code[pc]; in.Kind == ir.KBarrier && !inCrew(in) {
				return false
			}
		}
	}
	return all
}

// endLanes ends the lanes that run. The last ones of a warp end in Go, and so do the last ones of those that have called a function
// if none of them has returned.
func (e *emitter) endLanes(pc int32) {
	a, out := &e.a, e.a.NewLabel()
	if !e.fn.Kernel {
		e.endCalled(out)
	} else {
		a.MI(x86.CMP, true, frameAt(offCount), 0)
		a.JumpIf(x86.Equal, out)
		e.endLive()
		a.Jump(e.fragments.pick)
	}
	e.later = append(e.later, func() {
		e.a.Bind(out)
		e.exitWith(pc, nil)
	})
}

// endLive takes the lanes that run from those that have not exited.
func (e *emitter) endLive() {
	e.a.RM(x86.MOV, false, x86.RAX, frameAt(offLive))
	e.a.RR(x86.XOR, false, x86.RAX, rMask)
	e.a.Store(false, frameAt(offLive), x86.RAX)
}

// endCalled is endLanes in a function: others of it run then, or those that have returned from it do. It goes to out where
// there are neither, or the interpreter made the call.
func (e *emitter) endCalled(out x86.Label) {
	a, none := &e.a, e.a.NewLabel()
	e.behindOpen(out)
	a.RM(x86.MOV, true, x86.RCX, frameAt(offCount))
	a.RM(x86.CMP, true, x86.RCX, inCalls(x86.RBX, callCount+lastCall))
	a.JumpIf(x86.Equal, none)
	e.endLive()
	a.Jump(e.fragments.pick)

	a.Bind(none)
	a.RR(x86.MOV, false, x86.RDX, rMask)
	a.Not(x86.RDX)
	a.RM(x86.AND, false, x86.RDX, inCalls(x86.RBX, callMask+lastCall))
	a.RM(x86.AND, false, x86.RDX, frameAt(offLive))
	a.JumpIf(x86.Equal, out)
	e.endLive()
	a.JumpMem(inCalls(x86.RBX, callRet+lastCall))
}

// indexed compiles brx.idx: the lanes with each target begin to wait, in the order of their first ones, and then the
// lowest position runs.
func (e *emitter) indexed(pc int32, in *ir.Inst) {
	a, out, bad, table := &e.a, e.a.NewLabel(), e.a.NewLabel(), e.a.NewLabel()
	list := e.unsaved(nil)
	e.mayPart(out)
	back := pc // control flow that may go back counts
	for _, t := range in.X.Targets {
		back = min(back, t)
	}
	e.goesBack(pc, back, out)
	e.save(list)
	e.later = append(e.later, func() {
		e.a.Bind(out)
		e.exitWith(pc, list)
		e.a.Bind(bad) // the kernel ends with a fault
		e.exitWith(pc, nil)
		e.a.Entry(table)
		e.a.Bind(table)
		e.a.Words(in.X.Targets)
	})
	index := func(lane x86.R) x86.Place {
		return x86.Place{Base: r32base, Index: lane, Shift: 2, Disp: home(ir.In32, in.A, 0).Disp}
	}
	const left, lane = x86.R11, x86.RAX // what r11 holds otherwise is loaded where a fragment runs
	next, added := a.NewLabel(), a.NewLabel()
	for h, z := range []x86.Z{t0, t1} {
		a.VM(&x86.LOADD, z, 0, home(ir.In32, in.A, h), x86.Arg{})
	}
	a.RR(x86.MOV, false, left, rMask)
	a.Bind(next)
	a.FirstBit(lane, left)
	a.RP(x86.MOV, false, x86.RCX, index(lane))
	a.RI(x86.CMP, false, x86.RCX, int32(len(in.X.Targets)))
	a.JumpIf(x86.AboveEqual, bad)
	a.FromGP(&x86.FROMGPD, t2, x86.RCX, x86.Arg{})
	a.VK(&x86.PCMPUD, k7, t0, t2, x86.Arg{Imm: intEqual})
	a.VK(&x86.PCMPUD, k6, t1, t2, x86.Arg{Imm: intEqual})
	a.KK(&x86.KUNPCKWD, k7, k6, k7)
	a.KTo(x86.RDX, k7)
	a.RR(x86.AND, false, x86.RDX, left)
	a.RR(x86.XOR, false, left, x86.RDX)
	a.Address(x86.RBX, table)
	a.RP(x86.MOV, false, x86.RCX, x86.Place{Base: x86.RBX, Index: x86.RCX, Shift: 2})
	e.addFragment(added)
	a.Bind(added)
	a.RR(x86.TEST, false, left, left)
	a.JumpIf(x86.NotEqual, next)
	a.Jump(e.fragments.pick)
}
