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
	return isHelped(in)
}

// enters reports whether native code can be entered at an operation.
func (e *emitter) enters(in *ir.Inst) bool {
	return e.known(in) || e.helped(in) || len(e.callees[in]) != 0 || in.Kind == ir.KRet && !e.fn.Kernel
}

// help asks for the operation at pc.
func (e *emitter) help(pc int32) {
	if in := &e.code[pc]; in.Kind == ir.KWarpSync {
		e.mode = allOfThem
		e.gathers(pc, in)
		e.unpin()
	}
	behind := e.a.NewLabel()
	e.ask(pc, e.unsaved(nil), behind)
	e.clear()
	clear(e.places)
	if at := &e.entries[pc+1-e.fn.Entry]; *at == 0 {
		*at = behind
	}
	e.a.Entry(behind)
	e.a.Bind(behind)
}

// ask leaves native code to have the operation at pc done, with registers written to memory; the warp goes on at a label.
func (e *emitter) ask(pc int32, list []saved, behind x86.Label) {
	e.save(list)
	e.a.MI(x86.MOV, false, frameAt(offPC), pc)
	e.a.MI(x86.MOV, false, frameAt(offAsks), 1)
	e.a.Address(x86.RCX, behind)
	e.a.Store(true, frameAt(offTarget), x86.RCX)
	e.a.Jump(e.leave)
}

// asideHelp is a label for asking for the operation at pc off the main path, like aside. Behind the operation there is
// an entry (resume).
func (e *emitter) asideHelp(pc int32) x86.Label {
	l, list := e.a.NewLabel(), e.unsaved(nil)
	e.later = append(e.later, func() {
		e.a.Bind(l)
		e.ask(pc, list, e.entries[pc+1-e.fn.Entry])
	})
	return l
}
