//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
	"pvdrm/gpu/softgpu/exec/lane"
)

// Shuffles and votes of warps that run with all lanes: whichever lanes their masks name
// are there, as long as all name the same.

// exchanges reports whether an operation moves values between lanes.
func exchanges(op ir.Opcode) bool { return op >= ir.OpShfl && op <= ir.OpMeet }

// known reports whether an operation is compiled here.
func (e *emitter) known(in *ir.Inst) bool {
	if exchanges(in.Op) {
		return !e.masked && in.Kind == ir.KWarpSync && in.Guard == 0
	}
	if in.Op == ir.OpMatrix {
		return !e.masked && knownMatrix(in)
	}
	return known(in)
}

// exchange compiles a shuffle or vote.
func (e *emitter) exchange(pc int32, in *ir.Inst) {
	e.sameMasks(pc, in.E)
	switch in.Op {
	case ir.OpShfl:
		e.shuffle(in)
		return
	case ir.OpMatchAny:
		e.matchAny(in)
		return
	case ir.OpMatchAll:
		e.matchAll(in)
		return
	case ir.OpRedux:
		e.redux(in)
		return
	case ir.OpElect:
		e.elect(in)
		return
	}
	if in.Op == ir.OpMeet || in.D == ir.NoReg { // of a vote whose result is not wanted
		return
	}
	e.a.RM(x86.MOV, false, x86.RAX, pred(in.A))
	if in.Neg {
		e.a.Not(x86.RAX)
	}
	if in.Op == ir.OpBallot {
		// Not uniform: where lanes name different masks, the interpreter goes on behind this
		// with a ballot for each.
		z, _ := e.write(ir.In32, in.D, false)
		e.a.FromGP(&x86.FROMGPD, z[0], x86.RAX, x86.Arg{})
		e.copyTo(z[1], z[0])
		return
	}
	end := e.a.NewLabel()
	if in.Op == ir.OpVoteUni { // 0 and all lanes become 1 and 0
		e.a.RI(x86.ADD, false, x86.RAX, 1)
		e.a.RI(x86.CMP, false, x86.RAX, 1)
		e.a.RI(x86.MOV, false, x86.RAX, -1)
		e.a.JumpIf(x86.Below, end)
		e.a.JumpIf(x86.Equal, end)
		e.a.RI(x86.MOV, false, x86.RAX, 0)
	} else if in.Op == ir.OpVoteAll {
		e.a.RI(x86.CMP, false, x86.RAX, -1)
		e.a.RI(x86.MOV, false, x86.RAX, -1)
		e.a.JumpIf(x86.Equal, end)
		e.a.RI(x86.MOV, false, x86.RAX, 0)
	} else {
		e.a.RR(x86.TEST, false, x86.RAX, x86.RAX)
		e.a.JumpIf(x86.Equal, end)
		e.a.RI(x86.MOV, false, x86.RAX, -1)
	}
	e.a.Bind(end)
	e.setPred(in.D, x86.RAX)
}

// sameMasks leaves where lanes name different masks.
func (e *emitter) sameMasks(pc int32, reg uint32) {
	v := *e.use(ir.In32, reg, false)
	if v.uniform {
		return
	}
	out := e.aside(pc)
	e.a.V(&x86.BROADCASTD, t0, 0, v.z[0], x86.Arg{})
	e.plain(&x86.PXORD, t1, t0, v.z[0])
	e.a.V(&x86.PTERNLOGD, t1, t0, v.z[1], x86.Arg{Imm: orXor})
	e.a.VK(&x86.PTESTMD, k7, t1, t1, x86.Arg{})
	e.a.KK(&x86.KORTESTD, k7, 0, k7)
	e.a.JumpIf(x86.NotEqual, out)
}

// shuffle compiles shfl; see lane.ShflLanes.
func (e *emitter) shuffle(in *ir.Inst) {
	a, b, c := *e.use(ir.In32, in.A, false), *e.use(ir.In32, in.B, false), *e.use(ir.In32, in.C, false)
	s := e.scratches(4)
	high, segment, number, from := s[0], s[1], s[2], s[3]
	for h, source := range []x86.Z{t0, t1} {
		e.a.VM(&x86.LOADD, number, 0, constant(offLanes+int32(64*h)), x86.Arg{})
		e.a.V(&x86.PSRLD, segment, 0, c.part(h), x86.Arg{Imm: 8})
		e.with(&x86.PANDD, segment, segment, constant(off31))
		e.with(&x86.PANDD, t2, c.part(h), constant(off31))
		e.copyTo(high, segment)
		e.a.V(&x86.PTERNLOGD, high, number, t2, x86.Arg{Imm: choose})
		e.with(&x86.PANDD, from, b.part(h), constant(off31))
		inRange := uint8(intLessEqual)
		switch in.X.Shfl.Mode {
		case lane.ShflUp:
			e.plain(&x86.PSUBD, from, number, from)
			inRange = intGreatEq
		case lane.ShflDown:
			e.plain(&x86.PADDD, from, number, from)
		case lane.ShflButterfly:
			e.plain(&x86.PXORD, from, number, from)
		default:
			e.a.V(&x86.PTERNLOGD, segment, number, from, x86.Arg{Imm: choose})
			from = segment
		}
		k := [2]x86.K{k7, k6}[h]
		e.a.VK(&x86.PCMPD, k, from, high, x86.Arg{Imm: inRange})
		e.a.V(&x86.MOVD, number, 0, from, x86.Arg{Mask: k})
		e.copyTo(source, number)
		from = s[3]
	}
	e.a.KK(&x86.KUNPCKWD, k7, k6, k7)
	for _, z := range []x86.Z{t0, t1} {
		e.plain(&x86.PERMI2D, z, a.part(0), a.part(1))
	}
	e.a.KTo(x86.RAX, k7) // making room takes k7
	z, _ := e.write(ir.In32, in.D, false)
	e.copyTo(z[0], t0)
	e.copyTo(z[1], t1)
	if in.Other >= 0 {
		e.setPred(uint32(in.Other), x86.RAX)
	}
}

// exchanged is the register file of what lanes compare or combine.
func exchanged(in *ir.Inst) ir.RegKind {
	if in.Op != ir.OpRedux && in.Imm == 8 {
		return ir.In64
	}
	return ir.In32
}

// compiles reports whether an operation is compiled for warps with all lanes.
func compiles(in *ir.Inst) bool { return new(emitter).known(in) }
