//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Calls in native code, see calls.go. All registers of the caller are in memory while it waits.

// inCalls is a word of Calls, or of an open one where base has its offset added.
func inCalls(base x86.R, off int32) x86.Mem { return x86.Mem{Base: base, Disp: off} }

// call compiles a call. The interpreter makes those that it cannot.
func (e *emitter) call(pc int32, in *ir.Inst) {
	a := &e.a
	e.save(e.unsaved(nil))
	e.clear()
	clear(e.places)
	e.enterable(pc)
	out, after, list := a.NewLabel(), a.NewLabel(), e.callees[in]
	e.later = append(e.later, func() {
		e.a.Bind(out)
		e.exitWith(pc, nil)
	})
	if in.X.Call.Fn != nil {
		e.callOne(pc, in, list[0], out)
	} else {
		e.sameTarget(pc, in, out)
		for i, fn := range list {
			next := out
			if i+1 < len(list) {
				next = a.NewLabel()
			}
			a.Imm64(x86.RDX, ir.FuncBase+ir.FuncStep*uint64(fn.Number))
			a.RR(x86.CMP, true, x86.RCX, x86.RDX)
			a.JumpIf(x86.NotEqual, next)
			e.callOne(pc, in, fn, out)
			if i+1 < len(list) {
				a.Jump(after)
				a.Bind(next)
			}
		}
	}
	a.Bind(after)
	if !e.masked {
		e.withoutSome(pc + 1)
	}
	if e.masked {
		meet := a.NewLabel()
		a.MI(x86.CMP, false, frameAt(offLimit), pc+1)
		a.JumpIf(x86.LessEqual, meet)
		e.later = append(e.later, func() {
			e.a.Bind(meet)
			e.a.RI(x86.MOV, false, x86.RAX, pc+1)
			e.a.Jump(e.fragments.meet)
		})
	}
	e.enterable(pc + 1)
}

// withoutSome goes on in the masked variant where lanes have exited in a function that all have called.
func (e *emitter) withoutSome(pc int32) {
	some := e.a.NewLabel()
	e.a.RI(x86.CMP, false, rMask, -1)
	e.a.JumpIf(x86.NotEqual, some)
	e.later = append(e.later, func() {
		a := &e.a
		a.Bind(some)
		a.RI(x86.MOV, false, x86.RAX, pc)
		a.MI(x86.CMP, true, frameAt(offMasked+variantTable), 0)
		a.JumpIf(x86.NotEqual, e.fragments.run)
		a.Store(false, frameAt(offPC), x86.RAX)
		a.Jump(e.leave)
	})
}

// sameTarget has the target of a call through a register in rcx. Lanes with another target than the first one wait at pc.
func (e *emitter) sameTarget(pc int32, in *ir.Inst, out x86.Label) {
	a := &e.a
	v := *e.use(ir.In64, in.A, false)
	a.FirstBit(x86.RAX, rMask)
	a.RP(x86.MOV, true, x86.RCX, x86.Place{Base: r64base, Index: x86.RAX, Shift: 3, Disp: home(ir.In64, in.A, 0).Disp})
	if v.uniform {
		e.clear()
		return
	}
	a.FromGP(&x86.FROMGPQ, t0, x86.RCX, x86.Arg{})
	e.sameAs(&v, ir.In64, t0)
	e.unpin()
	e.clear()
	differ, done := a.NewLabel(), a.NewLabel()
	a.RR(x86.AND, false, x86.RAX, rMask)
	a.RR(x86.CMP, false, x86.RAX, rMask)
	a.JumpIf(x86.NotEqual, differ)
	e.later = append(e.later, func() {
		a := &e.a
		a.Bind(differ)
		e.mayPart(out)
		a.RR(x86.MOV, false, x86.RDX, rMask)
		a.RR(x86.XOR, false, x86.RDX, x86.RAX)
		a.RR(x86.MOV, false, rMask, x86.RAX)
		a.RI(x86.MOV, false, x86.RCX, pc)
		e.addFragment(done)
		a.Bind(done)
		a.RI(x86.MOV, false, x86.RAX, pc)
		a.Jump(e.fragments.run)
	})
}

// callOne calls a function of which the target is. It leaves at out before anything has changed.
func (e *emitter) callOne(pc int32, in *ir.Inst, fn *ir.Function, out x86.Label) {
	e.mayCall(in, fn, out)
	ret := e.a.NewLabel()
	e.open(pc, fn, ret)
	site := in.X.Call
	e.enterFrame(fn)
	for i := range fn.Params {
		p := &fn.Params[i]
		e.move(fn, moved{to: p.Place(), inCalled: true}, moved{to: site.Args[i]}, p.Size)
	}
	e.a.JumpMem(frameAt(offTarget))

	e.a.Entry(ret)
	e.a.Bind(ret)
	e.backs[callOf{pc, fn.Number}] = ret
	e.closeCall(fn)
	for i := range min(len(fn.Results), len(site.Results)) {
		r := &fn.Results[i]
		e.move(fn, moved{to: site.Results[i]}, moved{to: r.Place(), inCalled: true}, r.Size)
	}
}

// mayCall leaves at out unless the function can be called. It has the code of the function in rcx, the masked one in r15, which is
// 0 if there is none, and Calls in rbx. Where to go is in Frame.target.
func (e *emitter) mayCall(in *ir.Inst, fn *ir.Function, out x86.Label) {
	a := &e.a
	a.RM(x86.MOV, true, x86.RBX, frameAt(offCalls))
	a.RR(x86.TEST, true, x86.RBX, x86.RBX)
	a.JumpIf(x86.Equal, out)
	a.MI(x86.CMP, true, inCalls(x86.RBX, callsDepth), maxCalls*callBytes)
	a.JumpIf(x86.AboveEqual, out)
	a.MI(x86.CMP, true, inCalls(x86.RBX, callsLeft), int32(fn.FrameBytes))
	a.JumpIf(x86.Less, out)
	room := func(base x86.R, own, more int, bytes, end int32) {
		if more != 0 {
			a.RR(x86.MOV, true, x86.RAX, base)
			a.RI(x86.ADD, true, x86.RAX, int32(own+more)*bytes)
			a.RM(x86.CMP, true, x86.RAX, inCalls(x86.RBX, end))
			a.JumpIf(x86.Above, out)
		}
	}
	room(r32base, e.fn.Regs32, fn.Regs32, 128, callsEnd32)
	room(r64base, e.fn.Regs64, fn.Regs64, 256, callsEnd64)
	room(rPreds, e.fn.Preds, fn.Preds, 4, callsPreds)
	if fn.LocalBytes != 0 {
		a.RM(x86.MOV, true, x86.RAX, frameAt(offLocalBase))
		a.RI(x86.ADD, true, x86.RAX, int32(e.fn.LocalBytes+fn.LocalBytes))
		a.RM(x86.CMP, true, x86.RAX, inCalls(x86.RBX, callsLocal))
		a.JumpIf(x86.Above, out)
	}
	a.MI(x86.SUB, true, frameAt(offFuel), fn.End-fn.Entry+int32(fn.LocalBytes/4+len(fn.Const32)+len(fn.Const64))+headCost)
	a.JumpIf(x86.Negative, out)
	a.RM(x86.MOV, true, x86.RCX, frameAt(offWord))
	a.RM(x86.MOV, true, x86.RCX, x86.Mem{Base: x86.RCX})
	a.RM(x86.CMP, true, x86.RCX, frameAt(offSeen))
	a.JumpIf(x86.NotEqual, out)

	load := func(d x86.R, m x86.Mem, none x86.Label) {
		a.RM(x86.MOV, true, d, m)
		a.RR(x86.TEST, true, d, d)
		a.JumpIf(x86.Equal, none)
	}
	a.RM(x86.MOV, true, x86.RAX, inCalls(x86.RBX, callsTable))
	load(x86.RAX, x86.Mem{Base: x86.RAX, Disp: 8 * int32(fn.Number)}, out)
	load(x86.RCX, x86.Mem{Base: x86.RAX, Disp: codeFull}, out)
	load(x86.RDX, x86.Mem{Base: x86.RCX, Disp: codeCalled}, out)
	a.RM(x86.MOV, true, x86.R15, x86.Mem{Base: x86.RAX, Disp: codeMasked})
	if e.masked {
		a.RR(x86.TEST, true, x86.R15, x86.R15)
		a.JumpIf(x86.Equal, out)
		load(x86.RDX, x86.Mem{Base: x86.R15, Disp: codeCalled}, out)
	}
	a.Store(true, frameAt(offTarget), x86.RDX)
	e.countCall(in, out)
}

// countCall counts a call as the head of a loop, or takes it from those that a first turn may make.
func (e *emitter) countCall(in *ir.Inst, out x86.Label) {
	a, spent, done := &e.a, out, e.a.NewLabel()
	if IsBounded(in.X.Call) {
		spent = a.NewLabel()
		e.later = append(e.later, func() {
			e.a.Bind(spent)
			e.a.MI(x86.CMP, true, inCalls(x86.RBX, callsGrace), 0)
			e.a.JumpIf(x86.LessEqual, out)
			e.a.MI(x86.SUB, true, inCalls(x86.RBX, callsGrace), 1)
			e.a.Jump(done)
		})
	}
	a.MI(x86.CMP, true, frameAt(offBudget), 1)
	a.JumpIf(x86.LessEqual, spent)
	a.MI(x86.SUB, true, frameAt(offBudget), 1)
	a.Bind(done)
}

// open writes down an open call, which returns to a label.
func (e *emitter) open(pc int32, fn *ir.Function, ret x86.Label) {
	a := &e.a
	const temp = x86.R11 // the function that is called loads it
	a.RM(x86.MOV, true, x86.R14, inCalls(x86.RBX, callsDepth))
	a.RR(x86.ADD, true, x86.R14, x86.RBX)
	a.MI(x86.ADD, true, inCalls(x86.RBX, callsDepth), callBytes)
	a.MI(x86.SUB, true, inCalls(x86.RBX, callsLeft), int32(fn.FrameBytes))
	for _, at := range []int32{0, variantTable} {
		a.RM(x86.MOV, true, temp, frameAt(offFull+at))
		a.Store(true, inCalls(x86.R14, callFull+at), temp)
		a.RM(x86.MOV, true, temp, frameAt(offMasked+at))
		a.Store(true, inCalls(x86.R14, callMasked+at), temp)
	}
	variant := func(code x86.R, to int32) {
		a.RM(x86.MOV, true, temp, x86.Mem{Base: code, Disp: codeEntry})
		a.Store(true, frameAt(to), temp)
		a.RM(x86.MOV, true, temp, x86.Mem{Base: code, Disp: codeEntries})
		a.Store(true, frameAt(to+variantTable), temp)
	}
	variant(x86.RCX, offFull)
	none, done := a.NewLabel(), a.NewLabel()
	if !e.masked {
		a.RR(x86.TEST, true, x86.R15, x86.R15)
		a.JumpIf(x86.Equal, none)
		e.later = append(e.later, func() {
			e.a.Bind(none)
			e.a.MI(x86.MOV, true, frameAt(offMasked+variantTable), 0)
			e.a.Jump(done)
		})
	}
	variant(x86.R15, offMasked)
	a.Bind(done)

	a.RM(x86.MOV, true, x86.RAX, frameAt(offCount))
	a.RI(x86.ADD, true, x86.RAX, waitBytes)
	a.Store(true, frameAt(offCount), x86.RAX)
	a.Store(true, inCalls(x86.R14, callCount), x86.RAX)
	a.RI(x86.MOV, false, temp, noLimit)
	a.StoreTo(true, waitAt(x86.RAX, 0), temp) // of no lanes
	a.Store(false, frameAt(offLimit), temp)
	a.MI(x86.MOV, true, inCalls(x86.R14, callTurn), 0)
	a.Store(false, inCalls(x86.R14, callMask), rMask)
	a.MI(x86.MOV, false, inCalls(x86.R14, callFn), int32(fn.Number))
	a.MI(x86.MOV, false, inCalls(x86.R14, callPC), pc)
	a.Address(temp, ret)
	a.Store(true, inCalls(x86.R14, callRet), temp)
}

// Registers that have the rows of local memory while arguments and results move.
const (
	rowsHere   = x86.RAX // of the function that calls
	rowsCalled = x86.RCX
)

// rowsOf has in a register where the local memory of the frame begins that Frame.localBase says.
func (e *emitter) rowsOf(d x86.R) {
	e.a.RM(x86.MOV, true, d, frameAt(offLocalBase))
	for range rowShift {
		e.a.RR(x86.ADD, true, d, d)
	}
	e.a.RM(x86.ADD, true, d, frameAt(offLocal))
}

// moveFrame moves what Frame says of registers and memory from one function to the next, or back.
func (e *emitter) moveFrame(op x86.Alu) {
	e.a.MI(op, true, frameAt(offR32), int32(e.fn.Regs32)*128)
	e.a.MI(op, true, frameAt(offR64), int32(e.fn.Regs64)*256)
	e.a.MI(op, true, frameAt(offPreds), int32(e.fn.Preds)*4)
	if e.fn.LocalBytes != 0 {
		e.a.MI(op, true, frameAt(offLocalBase), int32(e.fn.LocalBytes))
	}
}

// enterFrame has Frame be at a function that is called.
func (e *emitter) enterFrame(fn *ir.Function) {
	e.a.RM(x86.MOV, true, rowsHere, frameAt(offRows))
	e.moveFrame(x86.ADD)
	if fn.LocalBytes != 0 {
		e.rowsOf(rowsCalled)
		e.a.Store(true, frameAt(offRows), rowsCalled)
	}
}

// closeCall has Frame be at this function again, which the last call has returned to.
func (e *emitter) closeCall(fn *ir.Function) {
	a := &e.a
	a.RM(x86.MOV, true, x86.RBX, frameAt(offCalls))
	a.RM(x86.MOV, true, x86.R14, inCalls(x86.RBX, callsDepth))
	a.RI(x86.SUB, true, x86.R14, callBytes)
	a.Store(true, inCalls(x86.RBX, callsDepth), x86.R14)
	a.RR(x86.ADD, true, x86.R14, x86.RBX)
	a.MI(x86.ADD, true, inCalls(x86.RBX, callsLeft), int32(fn.FrameBytes))
	a.RM(x86.MOV, false, rMask, inCalls(x86.R14, callMask))
	a.RM(x86.AND, false, rMask, frameAt(offLive)) // less those that have exited in the function
	a.Store(false, frameAt(offMask), rMask)
	for _, at := range []int32{0, variantTable} {
		a.RM(x86.MOV, true, x86.RAX, inCalls(x86.R14, callFull+at))
		a.Store(true, frameAt(offFull+at), x86.RAX)
		a.RM(x86.MOV, true, x86.RAX, inCalls(x86.R14, callMasked+at))
		a.Store(true, frameAt(offMasked+at), x86.RAX)
	}
	a.RM(x86.MOV, true, x86.RBX, inCalls(x86.R14, callCount))
	a.RI(x86.SUB, true, x86.RBX, waitBytes)
	a.Store(true, frameAt(offCount), x86.RBX)
	a.RP(x86.MOV, false, x86.RDX, waitAt(x86.RBX, 0))
	a.Store(false, frameAt(offLimit), x86.RDX)
	if fn.LocalBytes != 0 {
		a.RM(x86.MOV, true, rowsCalled, frameAt(offRows))
	}
	e.moveFrame(x86.SUB)
	if e.fn.LocalBytes != 0 {
		e.rowsOf(rowsHere)
		a.Store(true, frameAt(offRows), rowsHere)
	}
	e.loadView()
	e.forgetAllKept()
}

// forgetAllKept forgets the places that this function keeps: another one had theirs there.
func (e *emitter) forgetAllKept() {
	for n := range len(e.kept) {
		e.forgetPlace(maxPlaces + n)
	}
}

// lastCall is the last open call, from where the next one would be.
const lastCall = -callBytes

// behindOpen has the place where the next open call would be in rbx. It goes to out where no call of native code's is open.
func (e *emitter) behindOpen(out x86.Label) {
	a := &e.a
	a.RM(x86.MOV, true, x86.RBX, frameAt(offCalls))
	a.RR(x86.TEST, true, x86.RBX, x86.RBX)
	a.JumpIf(x86.Equal, out)
	a.RM(x86.MOV, true, x86.RAX, inCalls(x86.RBX, callsDepth))
	a.RR(x86.TEST, true, x86.RAX, x86.RAX)
	a.JumpIf(x86.Equal, out)
	a.RR(x86.ADD, true, x86.RBX, x86.RAX)
}

// ret returns the lanes that run to the code that called. It leaves where the interpreter made the call.
func (e *emitter) ret(pc int32) {
	a := &e.a
	e.save(e.unsaved(nil))
	out, wait := a.NewLabel(), a.NewLabel()
	e.behindOpen(out)
	if e.masked {
		a.RM(x86.MOV, true, x86.RCX, frameAt(offCount))
		a.RM(x86.CMP, true, x86.RCX, inCalls(x86.RBX, callCount+lastCall))
		a.JumpIf(x86.NotEqual, wait)
	}
	a.JumpMem(inCalls(x86.RBX, callRet+lastCall))
	e.later = append(e.later, func() {
		a := &e.a
		a.Bind(out)
		e.exitWith(pc, nil)
		if !e.masked {
			return
		}
		a.Bind(wait)
		a.MI(x86.CMP, true, inCalls(x86.RBX, callTurn+lastCall), 0)
		a.JumpIf(x86.NotEqual, e.fragments.pick)
		a.RM(x86.MOV, true, x86.RCX, frameAt(offTurn))
		a.RI(x86.ADD, true, x86.RCX, 1)
		a.Store(true, frameAt(offTurn), x86.RCX)
		a.Store(true, inCalls(x86.RBX, callTurn+lastCall), x86.RCX)
		a.Jump(e.fragments.pick)
	})
}
