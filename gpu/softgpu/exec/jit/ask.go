//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// helped reports whether native code asks for an operation (help.go).
func (e *emitter) helped(in *ir.Inst) bool {
	if e.known(in) {
		return false
	}
	if in.Kind == ir.KWarpSync && in.X != nil && in.X.Matrix != nil {
		return !e.masked && in.Guard == 0 && e.allLanes(in.E)
	}
	return isHelped(in)
}

// enters reports whether native code can be entered at an operation.
func (e *emitter) enters(in *ir.Inst) bool { return e.known(in) || e.helped(in) }

// allLanes reports whether a register is always the mask of all lanes.
func (e *emitter) allLanes(reg uint32) bool {
	for _, c := range e.fn.Const32 {
		if c.Reg == reg {
			return e.fixed32[reg] && c.Value == ir.AllLanes
		}
	}
	return false
}

// help asks for the operation at pc.
func (e *emitter) help(pc int32) {
	e.save(e.unsaved(nil))
	behind := e.a.NewLabel()
	e.a.MI(x86.MOV, false, frameAt(offPC), pc)
	e.a.MI(x86.MOV, false, frameAt(offAsks), 1)
	e.a.Address(x86.RCX, behind)
	e.a.Store(true, frameAt(offTarget), x86.RCX)
	e.a.Jump(e.leave)
	e.clear()
	clear(e.places)
	if at := &e.entries[pc+1-e.fn.Entry]; *at == 0 {
		*at = behind
	}
	e.a.Entry(behind)
	e.a.Bind(behind)
}
