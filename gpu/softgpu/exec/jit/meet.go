//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Lanes that wait for one another: an operation whose lanes name those that take part runs in native code where all of
// these that have not exited are among the lanes that run, which all name the same. Otherwise the interpreter has them wait.

// gathers has lanes that name different masks go elsewhere (tiles.go), and leaves where they name some that are not there.
func (e *emitter) gathers(pc int32, in *ir.Inst) {
	reg := in.E
	v := *e.use(ir.In32, reg, false)
	out := e.aside(pc)
	differ := out
	if e.known(in) {
		differ = e.byGroups(pc, in)
	}
	if !e.masked {
		e.sameMasks(&v, differ)
		return
	}
	if !v.uniform {
		e.firstOf(&v, ir.In32, reg, t0)
		e.sameAs(&v, ir.In32, t0)
		e.a.Not(x86.RAX)
		e.a.RR(x86.AND, false, x86.RAX, rMask)
		e.a.JumpIf(x86.NotEqual, differ)
		e.a.ToGP(&x86.TOGPD, x86.RAX, t0)
	} else {
		e.a.ToGP(&x86.TOGPD, x86.RAX, v.z[0])
	}
	e.a.RM(x86.AND, false, x86.RAX, frameAt(offLive))
	e.a.RR(x86.MOV, false, x86.RCX, rMask)
	e.a.Not(x86.RCX)
	e.a.RR(x86.AND, false, x86.RAX, x86.RCX)
	e.a.JumpIf(x86.NotEqual, out)
}

// firstOf has in all lanes of t what the first lane that runs has of a register.
func (e *emitter) firstOf(v *value, file ir.RegKind, reg uint32, t x86.Z) {
	op, from, shift := &x86.BROADCASTD, &x86.FROMGPD, uint8(2)
	if file == ir.In64 {
		op, from, shift = &x86.BROADCASTQ, &x86.FROMGPQ, 3
	}
	if !e.masked || v.uniform {
		e.a.V(op, t, 0, v.part(0), x86.Arg{})
		return
	}
	e.writeBack(file, reg)
	at := home(file, reg, 0)
	e.a.FirstBit(x86.RBX, rMask)
	e.a.RP(x86.MOV, file == ir.In64, x86.RAX, x86.Place{Base: at.Base, Index: x86.RBX, Shift: shift, Disp: at.Disp})
	e.a.FromGP(from, t, x86.RAX, x86.Arg{})
}
