//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
	"pvdrm/gpu/softgpu/exec/lane"
)

// Shuffles and votes. Where not all lanes run, those that they wait for must be there (meet.go).

// exchanges reports whether an operation moves values between lanes.
func exchanges(op ir.Opcode) bool { return op >= ir.OpShfl && op <= ir.OpMeet }

// known reports whether an operation is compiled here.
func (e *emitter) known(in *ir.Inst) bool {
	if exchanges(in.Op) {
		return in.Kind == ir.KWarpSync && in.Guard == 0
	}
	switch in.Op {
	case ir.OpMatrix:
		return !e.masked && knownMatrix(in)
	case ir.OpRows, ir.OpRowsOut, ir.OpTurn:
		return !e.masked && knownRows(in)
	case ir.OpTransfer, ir.OpTransferOut:
		return !e.masked && shapeOfTransfer(in) != transferNone
	}
	return known(in) && !(e.narrow && needsFused(in.Op))
}

// needsFused reports whether an operation is a product and a sum of float64 that are rounded once: without FMA, its function
// does it.
func needsFused(op ir.Opcode) bool {
	return op >= ir.OpRow && rowOps[op-ir.OpRow] != nil && rowOps[op-ir.OpRow].fused
}

// exchange compiles a shuffle or vote.
func (e *emitter) exchange(pc int32, in *ir.Inst) {
	e.gathers(pc, in)
	e.exchanged(in)
}

// exchanged compiles it for lanes that are all there.
func (e *emitter) exchanged(in *ir.Inst) {
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
	if e.masked {
		e.a.RR(x86.AND, false, x86.RAX, rMask)
	}
	if in.Op == ir.OpBallot {
		e.inAllLanes(in.D, x86.RAX)
		return
	}
	end := e.a.NewLabel()
	if in.Op != ir.OpVoteAny { // all, or of uni none
		if in.Op == ir.OpVoteUni {
			none := e.a.NewLabel()
			e.a.RR(x86.TEST, false, x86.RAX, x86.RAX)
			e.a.JumpIf(x86.NotEqual, none)
			e.a.RR(x86.MOV, false, x86.RAX, rMask)
			e.a.Bind(none)
		}
		e.a.RR(x86.CMP, false, x86.RAX, rMask)
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

// sameMasks goes to another place where lanes name different masks, which are in use.
func (e *emitter) sameMasks(v *value, differ x86.Label) {
	if v.uniform {
		return
	}
	e.a.V(&x86.BROADCASTD, t0, 0, v.z[0], x86.Arg{})
	e.plain(&x86.PXORD, t1, t0, v.z[0])
	e.a.V(&x86.PTERNLOGD, t1, t0, v.z[1], x86.Arg{Imm: orXor})
	e.a.VK(&x86.PTESTMD, k7, t1, t1, x86.Arg{})
	e.a.KK(&x86.KORTESTD, k7, 0, k7)
	e.a.JumpIf(x86.NotEqual, differ)
}

// shuffle compiles shfl; see lane.ShflLanes.
func (e *emitter) shuffle(in *ir.Inst) {
	a, b, c := *e.use(ir.In32, in.A, false), *e.use(ir.In32, in.B, false), *e.use(ir.In32, in.C, false)
	s := e.scratches(4)
	high, segment, number, at := s[0], s[1], s[2], s[3]
	for h, source := range []x86.Z{t0, t1} {
		e.a.VM(&x86.LOADD, number, 0, constant(offLanes+int32(64*h)), x86.Arg{})
		e.a.V(&x86.PSRLD, segment, 0, c.part(h), x86.Arg{Imm: 8})
		e.with(&x86.PANDD, segment, segment, constant(off31))
		e.with(&x86.PANDD, t2, c.part(h), constant(off31))
		e.copyTo(high, segment)
		e.a.V(&x86.PTERNLOGD, high, number, t2, x86.Arg{Imm: choose})
		e.with(&x86.PANDD, at, b.part(h), constant(off31))
		inRange := uint8(intLessEqual)
		switch in.X.Shfl.Mode {
		case lane.ShflUp:
			e.plain(&x86.PSUBD, at, number, at)
			inRange = intGreatEq
		case lane.ShflDown:
			e.plain(&x86.PADDD, at, number, at)
		case lane.ShflButterfly:
			e.plain(&x86.PXORD, at, number, at)
		default:
			e.a.V(&x86.PTERNLOGD, segment, number, at, x86.Arg{Imm: choose})
			at = segment
		}
		k := [2]x86.K{k7, k6}[h]
		e.a.VK(&x86.PCMPD, k, at, high, x86.Arg{Imm: inRange})
		e.a.V(&x86.MOVD, number, 0, at, x86.Arg{Mask: k})
		e.copyTo(source, number)
		at = s[3]
	}
	e.a.KK(&x86.KUNPCKWD, k7, k6, k7)
	from := [2]x86.Z{a.part(0), a.part(1)}
	if e.masked { // lanes that take no part give 0
		for p := range from {
			e.a.V(&x86.MOVD, s[p], 0, from[p], x86.Arg{Mask: e.lanes(false, p), Zero: true})
			from[p] = s[p]
		}
	}
	for _, z := range []x86.Z{t0, t1} {
		e.plain(&x86.PERMI2D, z, from[0], from[1])
	}
	e.a.KTo(x86.RAX, k7) // making room takes k7
	z, _ := e.write(ir.In32, in.D, false)
	e.inLanes(z, t0, t1)
	if in.Other >= 0 {
		e.setPred(uint32(in.Other), x86.RAX)
	}
}

// exchangedFile is the register file of what lanes compare or combine.
func exchangedFile(in *ir.Inst) ir.RegKind {
	if in.Op != ir.OpRedux && in.Imm == 8 {
		return ir.In64
	}
	return ir.In32
}

// compiles reports whether an operation is compiled for warps with all lanes.
func compiles(in *ir.Inst, isa ISA) bool { return (&emitter{narrow: isa == Plain}).known(in) }
