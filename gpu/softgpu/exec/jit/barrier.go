//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// passes reports whether native code goes from a barrier to the next warp of a ring: if what is behind it
// can be entered.
func (e *emitter) passes(pc, last int32) bool {
	return !e.masked && isPlainBarrier(&e.code[pc]) && pc+1 < last && e.enters(&e.code[pc+1]) && e.entries[pc+1-e.fn.Entry] == 0
}

// passBarrier is a barrier. All registers go to memory; the warp of the next frame goes on where it is, or
// begins. Without a ring it is left to the interpreter.
func (e *emitter) passBarrier(pc int32) {
	e.save(e.unsaved(nil))
	out, behind := e.a.NewLabel(), e.a.NewLabel()
	e.a.RM(x86.MOV, true, x86.RAX, frameAt(offNext))
	e.a.RR(x86.TEST, true, x86.RAX, x86.RAX)
	e.a.JumpIf(x86.Equal, out)
	e.a.MI(x86.MOV, false, frameAt(offPassed), pc+1)
	e.a.Address(x86.RCX, behind)
	e.a.Store(true, frameAt(offTarget), x86.RCX)
	e.a.RR(x86.MOV, true, rFrame, x86.RAX)
	e.a.Jump(e.start)
	e.later = append(e.later, func() {
		e.a.Bind(out)
		e.exitWith(pc, nil)
	})
	e.clear()
	clear(e.places)
	e.entries[pc+1-e.fn.Entry] = behind
	e.a.Entry(behind)
	e.a.Bind(behind)
}

// endWarp is the end of a warp: that of the next frame of its chain begins. Without a chain it is left to the interpreter.
func (e *emitter) endWarp(pc int32) {
	out := e.a.NewLabel()
	e.a.MI(x86.MOV, false, frameAt(offPC), pc)
	e.a.RM(x86.MOV, true, x86.RAX, frameAt(offChain))
	e.a.RR(x86.TEST, true, x86.RAX, x86.RAX)
	e.a.JumpIf(x86.Equal, out)
	e.a.RR(x86.MOV, true, rFrame, x86.RAX)
	e.a.Jump(e.start)
	e.later = append(e.later, func() {
		e.a.Bind(out)
		e.a.Jump(e.leave)
	})
}

// ringOf reports whether warps may run in a ring: all barriers of the function are plain.
func ringOf(p *ir.Program, fn *ir.Function) (some bool) {
	for pc := fn.Entry; pc < fn.End; pc++ {
		if in := &p.Code[pc]; in.Kind == ir.KBarrier {
			if !isPlainBarrier(in) {
				return false
			}
			some = true
		}
	}
	return some
}

// isPlainBarrier reports whether a barrier is number 0, for all threads of the block.
func isPlainBarrier(in *ir.Inst) bool {
	op := in.X.Barrier
	return !op.Cluster && op.Number == 0 && op.Count == ir.NoReg && !op.Arrive && op.Pred == ir.NoReg && in.D == ir.NoReg && in.Guard == 0
}
