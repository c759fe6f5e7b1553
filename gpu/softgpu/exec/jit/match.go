//go:build amd64 && linux

package jit

import (
	"math"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Lanes that find one another: match, redux, elect and activemask. Those that wait for others are
// in exchange.go.

// sameAs has in eax the lanes whose value is that of all lanes of t, the same in each.
func (e *emitter) sameAs(v *value, file ir.RegKind, t x86.Z) {
	if file == ir.In32 {
		e.a.VK(&x86.PCMPUD, k7, v.part(0), t, x86.Arg{Imm: intEqual})
		e.a.VK(&x86.PCMPUD, k6, v.part(1), t, x86.Arg{Imm: intEqual})
		e.a.KK(&x86.KUNPCKWD, k7, k6, k7)
		e.a.KTo(x86.RAX, k7)
		return
	}
	for half, r := range []x86.R{x86.RAX, x86.RDX} {
		e.a.VK(&x86.PCMPUQ, k7, v.part(2*half), t, x86.Arg{Imm: intEqual})
		e.a.VK(&x86.PCMPUQ, k6, v.part(2*half+1), t, x86.Arg{Imm: intEqual})
		e.a.KK(&x86.KUNPCKBW, k7, k6, k7)
		e.a.KTo(r, k7)
	}
	e.a.KFrom(k7, x86.RAX)
	e.a.KFrom(k6, x86.RDX)
	e.a.KK(&x86.KUNPCKWD, k7, k6, k7)
	e.a.KTo(x86.RAX, k7)
}

// matchAny finds for one lane after the other, of those that are left, which have its value.
func (e *emitter) matchAny(in *ir.Inst) {
	file := exchangedFile(in)
	v := *e.use(file, in.A, false)
	for p := range parts(file) {
		e.a.VM(&x86.STORED, v.part(p), 0, inArea(areaB, p), x86.Arg{})
	}
	z, _ := e.write(ir.In32, in.D, false)
	from, shift := &x86.FROMGPD, uint8(2)
	if file == ir.In64 {
		from, shift = &x86.FROMGPQ, 3
	}
	// The result is collected in scratch: the operand may be in the same register.
	s := e.scratches(2)
	for _, t := range s { // any: all lanes are written
		e.a.VM(&x86.LOADD, t, 0, inArea(areaB, 0), x86.Arg{})
	}
	next := e.a.NewLabel()
	e.a.RR(x86.MOV, false, x86.RCX, rMask)
	e.a.Bind(next)
	e.a.FirstBit(x86.RBX, x86.RCX)
	e.a.RP(x86.MOV, file == ir.In64, x86.RAX, x86.Place{Base: x86.Area, Index: x86.RBX, Shift: shift, Disp: areaB})
	e.a.FromGP(from, t0, x86.RAX, x86.Arg{})
	e.sameAs(&v, file, t0)
	if e.masked {
		e.a.RR(x86.AND, false, x86.RAX, rMask)
	}
	e.a.FromGP(&x86.FROMGPD, t1, x86.RAX, x86.Arg{})
	e.a.V(&x86.MOVD, s[0], 0, t1, x86.Arg{Mask: k7})
	e.a.KShift(&x86.KSHIFTRD, k7, k7, 16)
	e.a.V(&x86.MOVD, s[1], 0, t1, x86.Arg{Mask: k7})
	e.a.RR(x86.XOR, false, x86.RCX, x86.RAX) // which are among those that are left
	e.a.JumpIf(x86.NotEqual, next)
	e.inLanes(z, s[0], s[1])
}

// matchAll compares all lanes with the first. The predicate of all lanes that run is their mask, or 0.
func (e *emitter) matchAll(in *ir.Inst) {
	file := exchangedFile(in)
	v := *e.use(file, in.A, false)
	e.firstOf(&v, file, in.A, t0)
	e.sameAs(&v, file, t0)
	end := e.a.NewLabel()
	if e.masked {
		e.a.RR(x86.AND, false, x86.RAX, rMask)
	}
	e.a.RR(x86.CMP, false, x86.RAX, rMask)
	e.a.JumpIf(x86.Equal, end)
	e.a.RI(x86.MOV, false, x86.RAX, 0)
	e.a.Bind(end)
	if in.Other >= 0 {
		e.setPred(uint32(in.Other), x86.RAX)
	}
	if in.D != ir.NoReg {
		e.inAllLanes(in.D, x86.RAX)
	}
}

// inAllLanes writes a general register to all lanes that run. The result is not uniform: where lanes name different
// masks, the interpreter goes on behind this with a result for each.
func (e *emitter) inAllLanes(reg uint32, r x86.R) {
	z, _ := e.write(ir.In32, reg, false)
	for p := range parts(ir.In32) {
		e.a.FromGP(&x86.FROMGPD, z[p], r, x86.Arg{Mask: e.lanes(false, p)})
	}
}

// inLanes writes both halves of a result to the lanes that run.
func (e *emitter) inLanes(z [4]x86.Z, low, high x86.Z) {
	for p, from := range []x86.Z{low, high} {
		e.a.V(&x86.MOVD, z[p], 0, from, x86.Arg{Mask: e.lanes(false, p)})
	}
}

// redux combines the halves of the warp, and quarters, as vectors, and then eight words.
func (e *emitter) redux(in *ir.Inst) {
	v := *e.use(ir.In32, in.A, false)
	op := [...]*x86.Op{ir.ReduxAdd: &x86.PADDD, ir.ReduxMin: &x86.PMINUD, ir.ReduxMax: &x86.PMAXUD, ir.ReduxMinSigned: &x86.PMINSD,
		ir.ReduxMaxSigned: &x86.PMAXSD, ir.ReduxAnd: &x86.PANDD, ir.ReduxOr: &x86.PORD, ir.ReduxXor: &x86.PXORD}[in.Imm]
	low, high := v.part(0), v.part(1)
	if e.masked {
		low, high = t0, t1
		e.broadcast32(t0, neutral(ir.ReduxKind(in.Imm)))
		e.copyTo(t1, t0)
		e.inLanes([4]x86.Z{t0, t1}, v.part(0), v.part(1))
	}
	e.plain(op, t0, low, high)
	e.a.V(&x86.EXTRACTI64X4, t0, 0, t1, x86.Arg{Imm: 1})
	e.plain(op, t0, t0, t1)
	e.a.VM(&x86.STORED, t0, 0, inArea(areaB, 0), x86.Arg{})
	word := func(n int) x86.Mem { return x86.Mem{Base: x86.Area, Disp: int32(areaB + 4*n)} }
	e.a.RM(x86.MOV, false, x86.RAX, word(0))
	for n := 1; n < 8; n++ {
		switch kind := ir.ReduxKind(in.Imm); kind {
		case ir.ReduxAdd, ir.ReduxAnd, ir.ReduxOr, ir.ReduxXor:
			alu := map[ir.ReduxKind]x86.Alu{ir.ReduxAdd: x86.ADD, ir.ReduxAnd: x86.AND, ir.ReduxOr: x86.OR, ir.ReduxXor: x86.XOR}[kind]
			e.a.RM(alu, false, x86.RAX, word(n))
		default:
			c := map[ir.ReduxKind]x86.Cond{ir.ReduxMin: x86.Above, ir.ReduxMax: x86.Below, ir.ReduxMinSigned: x86.Greater, ir.ReduxMaxSigned: x86.Less}[kind]
			e.a.RM(x86.CMP, false, x86.RAX, word(n))
			e.a.MoveIf(c, false, x86.RAX, x86.Place{Base: x86.Area, Index: x86.RSP, Disp: word(n).Disp})
		}
	}
	e.inAllLanes(in.D, x86.RAX)
}

// neutral is what changes nothing in a combination.
func neutral(kind ir.ReduxKind) uint32 {
	switch kind {
	case ir.ReduxMin, ir.ReduxAnd:
		return math.MaxUint32
	case ir.ReduxMinSigned:
		return math.MaxInt32
	case ir.ReduxMaxSigned:
		return 1 << 31
	}
	return 0
}

// elect chooses the first lane.
func (e *emitter) elect(in *ir.Inst) {
	e.a.FirstBit(x86.RAX, rMask)
	e.inAllLanes(in.D, x86.RAX)
	if in.Other >= 0 {
		e.a.DropBit(x86.RAX, rMask)
		e.a.RR(x86.XOR, false, x86.RAX, rMask)
		e.setPred(uint32(in.Other), x86.RAX)
	}
}

// activeMask is the lanes that run the operation.
func (e *emitter) activeMask(in *ir.Inst) {
	if e.mode == guarded {
		e.a.KTo(x86.RAX, k5)
	} else {
		e.a.RR(x86.MOV, false, x86.RAX, rMask)
	}
	z, n := e.write(ir.In32, in.D, false)
	for p := range n {
		e.a.FromGP(&x86.FROMGPD, z[p], x86.RAX, x86.Arg{Mask: e.lanes(false, p)})
	}
}

// special reads a special register of lanes, or of the warp.
func (e *emitter) special(in *ir.Inst) {
	number := int32(in.Imm)
	e.load(in, func(z x86.Z, part int) {
		arg := x86.Arg{Mask: e.lanes(false, part)}
		if in.Op == ir.OpOfWarp {
			e.a.VM(&x86.BROADCASTD, z, 0, frameAt(offOfWarp+4*number), arg)
		} else {
			e.a.VM(&x86.LOADD, z, 0, constant(offOfLane+128*number+64*int32(part)), arg)
		}
	}, in.Op == ir.OpOfWarp)
}
