//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Tiles: lanes that run together but name masks of their own, as the tiles of 8 lanes of cooperative groups do. Those of each
// mask are a group. Where all groups are complete, they have their results one after the other, and the warp goes on.

// byGroups compiles an exchange at pc for lanes that name different masks, off the main path. It leaves to the interpreter
// where lanes of a group are missing. The registers are as they are now.
func (e *emitter) byGroups(pc int32, in *ir.Inst) x86.Label {
	start, list := e.a.NewLabel(), e.unsaved(nil)
	e.later = append(e.later, func() {
		e.a.Bind(start)
		e.save(list)
		e.clear()
		masked := e.masked
		e.masked = true
		refuse := e.a.NewLabel()
		e.checkGroups(in.E, refuse)
		e.eachGroup(in)
		e.masked = masked
		e.clear()
		e.a.RM(x86.MOV, false, rMask, frameAt(offMask))
		e.forgetPlaces(in)
		e.goesOnAt(e.entries[pc+1-e.fn.Entry])
		e.a.JumpMem(frameAt(offEntry))
		e.a.Bind(refuse)
		e.exitWith(pc, nil)
	})
	return start
}

// sameMask has in eax those of the lanes in ecx that name the mask of the first of them, which is in edx.
func (e *emitter) sameMask(reg uint32) {
	at, v := home(ir.In32, reg, 0), value{z: [4]x86.Z{t1, t2}}
	for p, z := range v.z[:2] {
		e.a.VM(&x86.LOADD, z, 0, home(ir.In32, reg, p), x86.Arg{})
	}
	e.a.FirstBit(x86.RBX, x86.RCX)
	e.a.RP(x86.MOV, false, x86.RDX, x86.Place{Base: at.Base, Index: x86.RBX, Shift: 2, Disp: at.Disp})
	e.a.FromGP(&x86.FROMGPD, t0, x86.RDX, x86.Arg{})
	e.sameAs(&v, ir.In32, t0)
	e.a.RR(x86.AND, false, x86.RAX, x86.RCX)
}

// checkGroups goes to refuse where lanes of a group are missing that have not exited.
func (e *emitter) checkGroups(reg uint32, refuse x86.Label) {
	next := e.a.NewLabel()
	e.a.RR(x86.MOV, false, x86.RCX, rMask)
	e.a.Bind(next)
	e.sameMask(reg)
	e.a.RM(x86.AND, false, x86.RDX, frameAt(offLive))
	e.a.RR(x86.MOV, false, x86.RBX, x86.RAX)
	e.a.Not(x86.RBX)
	e.a.RR(x86.AND, false, x86.RDX, x86.RBX)
	e.a.JumpIf(x86.NotEqual, refuse)
	e.a.RR(x86.XOR, false, x86.RCX, x86.RAX)
	e.a.JumpIf(x86.NotEqual, next)
}

// eachGroup compiles the operation for the lanes of one group after the other. The lanes that are left are in the frame.
func (e *emitter) eachGroup(in *ir.Inst) {
	next := e.a.NewLabel()
	e.a.Store(false, frameAt(offTiles), rMask)
	e.a.Bind(next)
	e.a.RM(x86.MOV, false, x86.RCX, frameAt(offTiles))
	e.sameMask(in.E)
	e.a.RR(x86.XOR, false, x86.RCX, x86.RAX)
	e.a.Store(false, frameAt(offTiles), x86.RCX)
	e.a.RR(x86.MOV, false, rMask, x86.RAX)
	e.activate()
	e.mode = active
	e.exchanged(in)
	e.unpin()
	e.save(e.unsaved(nil))
	e.clear()
	e.a.MI(x86.CMP, false, frameAt(offTiles), 0)
	e.a.JumpIf(x86.NotEqual, next)
}
