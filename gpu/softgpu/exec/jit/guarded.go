//go:build amd64 && linux

package jit

import "pvdrm/gpu/softgpu/exec/ir"

// Registers that only lanes of a guard read. An operation with a guard writes some lanes, so what others have in the register
// lives on. But where all that read the value have the same guard, as in the copy of a branch's side that lanes run together,
// no other lane's value counts: the register is not alive before the write, and nothing stores or loads it there.

// guardOf is a predicate, counted from 1, and whether its lanes run or the others.
type guardOf struct {
	pred uint32
	neg  bool
}

// guardedReads are the registers that lanes of one guard read behind an operation, of those that are not alive otherwise. It
// goes back over one block.
type guardedReads map[regRef]guardOf

// leavesPredicates reports whether an operation leaves a predicate as it is, as those do that lanes run together (package lower).
func leavesPredicates(in *ir.Inst, p uint32) bool {
	switch {
	case in.Op == ir.OpNone:
		return false
	case in.Kind == ir.KLane32 || in.Kind == ir.KLane64:
		return true
	case in.Kind == ir.KCompare:
		return in.D != p && in.E != p
	}
	return in.Kind == ir.KMasked && in.Op >= ir.OpLoad && in.Op <= ir.OpStoresWide
}

// reviveAll makes registers alive in all lanes whose guard an operation may write.
func (e *emitter) reviveAll(in *ir.Inst) {
	for ref, g := range e.guarded {
		if !leavesPredicates(in, g.pred-1) {
			e.revive(ref)
		}
	}
}

// revive makes a register alive in all lanes.
func (e *emitter) revive(ref regRef) {
	delete(e.guarded, ref)
	n := e.bit(ref.kind, ref.index)
	e.alive[n/64] |= 1 << (n % 64)
}

// endGuarded makes all registers alive that lanes of a guard read, where a block begins.
func (e *emitter) endGuarded() {
	for ref := range e.guarded {
		e.revive(ref)
	}
}

// reads notes that an operation reads a register.
func (e *emitter) reads(in *ir.Inst, ref regRef) {
	g, some := e.guarded[ref]
	by := guardOf{in.Guard, in.GuardNeg}
	switch {
	case e.isAlive(e.alive, ref.kind, ref.index):
	case in.Guard == 0 || some && g != by:
		e.revive(ref)
	default:
		e.guarded[ref] = by
	}
}

// written notes that an operation writes a register: in all lanes that count, or else it stays alive.
func (e *emitter) written(in *ir.Inst, ref regRef) {
	if in.Guard == 0 {
		n := e.bit(ref.kind, ref.index)
		e.alive[n/64] &^= 1 << (n % 64)
	}
	if in.Guard == 0 || e.guarded[ref] == (guardOf{in.Guard, in.GuardNeg}) {
		delete(e.guarded, ref)
	}
}

// isNeeded reports whether some lane reads a register behind an operation.
func (e *emitter) isNeeded(ref regRef) bool {
	_, some := e.guarded[ref]
	return some || e.isAlive(e.alive, ref.kind, ref.index)
}
