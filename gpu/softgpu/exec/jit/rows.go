//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
	"pvdrm/gpu/softgpu/exec/lane/table"
)

// Predicates of comparisons (Intel manual, volume 2, VCMPPS and VPCMPD).
const (
	cmpEqual      = 0  // ordered, quiet
	cmpLess       = 17 // ordered, quiet
	cmpLessEqual  = 18
	cmpUnordered  = 3
	cmpNotEqual   = 12 // ordered, quiet
	cmpUnequal    = 4  // or unordered
	cmpNotLess    = 21 // or unordered
	cmpNotLessEq  = 22
	cmpOrdered    = 7
	cmpNotGreatEq = 25
	cmpNotGreater = 26
	cmpGreatEqual = 29
	cmpGreater    = 30
	cmpEqualU     = 8 // or unordered

	intEqual     = 0
	intLess      = 1
	intLessEqual = 2
	intNotEqual  = 4
	intGreatEq   = 5
	intGreater   = 6
)

// vec is a part of an operation: one vector of the result.
type vec struct {
	d       x86.Z
	k       x86.K // lanes of d to write; 0: all
	a, b, c x86.Z
	e       x86.Z // the fourth operand, of the few that have it
	// Of operations that narrow, the second half of a's lanes.
	high x86.Z
	pred x86.Mem // of a selection: the predicate
	part int
	imm  uint64
}

// rowOp is how a row of the lane table is compiled. Emit makes the code for one
// vector; its last instruction is the one that writes l.d, under l.k.
type rowOp struct {
	form string // as in the lane table
	emit func(e *emitter, l vec)
	// float: the result is a float32 whose NaNs are to be made canonical. Such
	// an operation does not tell NaNs apart in its operands. Where it does not write
	// all lanes, l.d is scratch of which the others may hold anything.
	float bool
	// low: of operands of 64 bits only the lower halves matter.
	low bool
	// signed: operands of 32 bits are extended with their sign to 64.
	signed bool
	// cmp and flags: a comparison, by the instruction and its predicate.
	cmp  *x86.Op
	pred uint8
	// signs: the signs of NaNs among the operands count.
	signs bool
	// from: both operands of the comparison come through this.
	from func(e *emitter, d, s x86.Z)
	// move: the operation copies its operand.
	move bool
	// widen: operands of 32 bits are converted by this to lanes of 64; nil: extended. Their
	// NaNs count.
	widen *x86.Op
	// fused: it needs FMA of float64.
	fused bool
	// check leaves at out what emit cannot do, before a part of the result is written.
	check func(e *emitter, l vec, out x86.Label)
}

func (l vec) arg() x86.Arg { return x86.Arg{Mask: l.k} }

func two(op *x86.Op) func(*emitter, vec) {
	return func(e *emitter, l vec) { e.a.V(op, l.d, l.a, l.b, l.arg()) }
}

func one(op *x86.Op) func(*emitter, vec) {
	return func(e *emitter, l vec) { e.a.V(op, l.d, 0, l.a, l.arg()) }
}

// rounded is two or one with a rounding mode.
func rounded(op *x86.Op, mode x86.Round, unary bool) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		if unary {
			l.a, l.b = 0, l.a
		}
		e.a.V(op, l.d, l.a, l.b, x86.Arg{Mask: l.k, Round: mode})
	}
}

// fusedAdd is d = a*b+c by the forms that add to the destination and that multiply it.
func fusedAdd(add, mul *x86.Op, mode x86.Round) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		arg := x86.Arg{Mask: l.k, Round: mode}
		switch {
		case l.d == l.c:
			e.a.V(add, l.d, l.a, l.b, arg)
		case l.d == l.a:
			e.a.V(mul, l.d, l.b, l.c, arg)
		case l.d == l.b:
			e.a.V(mul, l.d, l.a, l.c, arg)
		default:
			e.a.V(&x86.MOVD, l.d, 0, l.c, x86.Arg{})
			e.a.V(add, l.d, l.a, l.b, arg)
		}
	}
}

// added is a product, to which c is added.
func added(mul, add *x86.Op) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.a.V(mul, t2, l.a, l.b, x86.Arg{})
		e.a.V(add, l.d, t2, l.c, l.arg())
	}
}

// withConstant is op a, constant.
func withConstant(op *x86.Op, off int32) func(*emitter, vec) {
	return func(e *emitter, l vec) { e.a.VB(op, l.d, l.a, constant(off), l.arg()) }
}

// rowOps are the rows that can be compiled, by their opcode from OpRow on; nil: not this one.
var rowOps = numberRows()

func numberRows() []*rowOp {
	list := make([]*rowOp, len(table.Lanes)+len(table.Compares))
	for key, row := range nativeRows() {
		list[opcodeOf(key)-ir.OpRow] = &row
	}
	return list
}

// opcodeOf is the opcode of a row of the lane table.
func opcodeOf(key string) ir.Opcode {
	if row, ok := table.Lanes[key]; ok {
		return row.Op
	}
	return table.Compares[key].Op
}

// nativeRows are the rows that can be compiled, by their first key.
func nativeRows() map[string]rowOp {
	rows := map[string]rowOp{}
	for key, r := range map[string]struct {
		form string
		op   *x86.Op
	}{
		"add.u32": {form: "w=ww", op: &x86.PADDD}, "sub.u32": {form: "w=ww", op: &x86.PSUBD}, "and.u32": {form: "w=ww", op: &x86.PANDD}, "or.u32": {form: "w=ww", op: &x86.PORD},
		"xor.u32": {form: "w=ww", op: &x86.PXORD}, "mul.lo.u32": {form: "w=ww", op: &x86.PMULLD},
		"min.u32": {form: "w=ww", op: &x86.PMINUD}, "max.u32": {form: "w=ww", op: &x86.PMAXUD}, "min.s32": {form: "w=ww", op: &x86.PMINSD}, "max.s32": {form: "w=ww", op: &x86.PMAXSD},
		"shl.b32": {form: "w=ww", op: &x86.PSLLVD}, "shr.u32": {form: "w=ww", op: &x86.PSRLVD}, "shr.s32": {form: "w=ww", op: &x86.PSRAVD},
		"add.u64": {form: "q=qq", op: &x86.PADDQ}, "sub.u64": {form: "q=qq", op: &x86.PSUBQ}, "and.u64": {form: "q=qq", op: &x86.PANDQ}, "or.u64": {form: "q=qq", op: &x86.PORQ},
		"xor.u64": {form: "q=qq", op: &x86.PXORQ}, "mul.lo.u64": {form: "q=qq", op: &x86.PMULLQ},
		"min.u64": {form: "q=qq", op: &x86.PMINUQ}, "max.u64": {form: "q=qq", op: &x86.PMAXUQ}, "min.s64": {form: "q=qq", op: &x86.PMINSQ}, "max.s64": {form: "q=qq", op: &x86.PMAXSQ},
		"shl.b64": {form: "q=qw", op: &x86.PSLLVQ}, "shr.u64": {form: "q=qw", op: &x86.PSRLVQ}, "shr.s64": {form: "q=qw", op: &x86.PSRAVQ},
		"mul.wide.u32": {form: "q=ww", op: &x86.PMULUDQ}, "mul.wide.s32": {form: "q=ww", op: &x86.PMULDQ},
	} {
		rows[key] = rowOp{form: r.form, emit: two(r.op), low: r.op == &x86.PMULUDQ || r.op == &x86.PMULDQ}
	}
	rows["mad.lo.u32"] = rowOp{form: "w=www", emit: added(&x86.PMULLD, &x86.PADDD)}
	rows["mad.lo.u64"] = rowOp{form: "q=qqq", emit: added(&x86.PMULLQ, &x86.PADDQ)}
	rows["mad.wide.u32"] = rowOp{form: "q=wwq", emit: added(&x86.PMULUDQ, &x86.PADDQ), low: true}
	rows["mad.wide.s32"] = rowOp{form: "q=wwq", emit: added(&x86.PMULDQ, &x86.PADDQ), low: true}
	rows["not.u32"] = rowOp{form: "w=w", emit: withConstant(&x86.PXORD, offOnes)}
	rows["not.u64"] = rowOp{form: "q=q", emit: withConstant(&x86.PXORQ, offOnes)}
	rows["neg.u32"] = rowOp{form: "w=w", emit: negate(&x86.PXORD, &x86.PSUBD)}
	rows["neg.u64"] = rowOp{form: "q=q", emit: negate(&x86.PXORQ, &x86.PSUBQ)}
	rows["abs.s32"] = rowOp{form: "w=w", emit: one(&x86.PABSD)}
	rows["mov.32"] = rowOp{form: "w=w", emit: one(&x86.MOVD), move: true}
	rows["mov.64"] = rowOp{form: "q=q", emit: one(&x86.MOVQ), move: true}
	rows["selp.32"] = rowOp{form: "w=wwp", emit: selection(&x86.MOVD)}
	rows["selp.64"] = rowOp{form: "q=qqp", emit: selection(&x86.MOVQ)}
	rows["bfe.u32"] = rowOp{form: "w=www", emit: bitField}
	rows["shf.l.wrap.b32"] = rowOp{form: "w=www", emit: funnel(&x86.PSLLVD, &x86.PSRLVD, false, true)}
	rows["shf.r.wrap.b32"] = rowOp{form: "w=www", emit: funnel(&x86.PSRLVD, &x86.PSLLVD, true, true)}
	rows["shf.l.clamp.b32"] = rowOp{form: "w=www", emit: funnel(&x86.PSLLVD, &x86.PSRLVD, false, false)}
	rows["shf.r.clamp.b32"] = rowOp{form: "w=www", emit: funnel(&x86.PSRLVD, &x86.PSLLVD, true, false)}
	rows["lop3.b32"] = rowOp{form: "w=www", emit: func(e *emitter, l vec) {
		e.a.V(&x86.MOVD, t2, 0, l.a, x86.Arg{})
		e.a.V(&x86.PTERNLOGD, t2, l.b, l.c, x86.Arg{Imm: uint8(l.imm)})
		e.a.V(&x86.MOVD, l.d, 0, t2, l.arg())
	}}
	rows["pack.b64"] = rowOp{form: "q=ww", emit: func(e *emitter, l vec) {
		e.a.V(&x86.PSLLQ, t2, 0, l.b, x86.Arg{Imm: 32})
		e.a.V(&x86.PORQ, l.d, t2, l.a, l.arg())
	}}
	rows["field.b32"] = rowOp{form: "w=w", emit: func(e *emitter, l vec) {
		e.a.V(&x86.PSRLD, t2, 0, l.a, x86.Arg{Imm: uint8(l.imm & 31)})
		e.broadcast32(t3, uint32(l.imm>>32))
		e.a.V(&x86.PANDD, l.d, t2, t3, l.arg())
	}}
	rows["field.b64"] = rowOp{form: "w=q", emit: func(e *emitter, l vec) {
		n := x86.Arg{Imm: uint8(l.imm & 63)}
		e.a.V(&x86.PSRLQ, t0, 0, l.a, n)
		e.a.V(&x86.PSRLQ, t1, 0, l.high, n)
		e.halves(t0, t0, t1)
		e.broadcast32(t3, uint32(l.imm>>32))
		e.a.V(&x86.PANDD, l.d, t0, t3, l.arg())
	}}
	nativeConversions(rows)
	nativeFloats(rows)
	nativeCompares(rows)
	flushRows(rows)
	doubleRows(rows)
	intRows(rows)
	mathRows(rows)
	halfRows(rows)
	bitRows(rows)
	wideRows(rows)
	halvesRows(rows)
	integerRows(rows)
	roundedRows(rows)
	eighthRows(rows)
	classRows(rows)
	chooseRows(rows)
	smallRows(rows)
	return rows
}

// negate is 0 - a.
func negate(xor, sub *x86.Op) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.a.V(xor, t2, t2, t2, x86.Arg{})
		e.a.V(sub, l.d, t2, l.a, l.arg())
	}
}

// selection is a where the predicate holds, else b.
func selection(move *x86.Op) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.a.KLoad(k7, l.pred)
		if n := firstLane(move == &x86.MOVQ, l.part); n > 0 {
			e.a.KShift(&x86.KSHIFTRD, k7, k7, n)
		}
		d := l.d
		if l.k != 0 || d == l.a {
			d = t2
		}
		if d != l.b {
			e.a.V(move, d, 0, l.b, x86.Arg{})
		}
		e.a.V(move, d, 0, l.a, x86.Arg{Mask: k7})
		if d != l.d {
			e.a.V(move, l.d, 0, d, l.arg())
		}
	}
}

// firstLane is the first lane of a part.
func firstLane(wide bool, part int) uint8 {
	if wide {
		return uint8(8 * part)
	}
	return uint8(16 * part)
}

// bitField is bfe.u32: a >> pos & (1<<n - 1), each of pos and n a byte.
func bitField(e *emitter, l vec) {
	e.a.VB(&x86.PANDD, t2, l.b, constant(offByte), x86.Arg{})
	e.a.V(&x86.PSRLVD, t2, l.a, t2, x86.Arg{})
	e.a.VB(&x86.PANDD, t3, l.c, constant(offByte), x86.Arg{})
	e.a.VM(&x86.BROADCASTD, t1, 0, constant(offOne), x86.Arg{})
	e.a.V(&x86.PSLLVD, t3, t1, t3, x86.Arg{})
	e.a.V(&x86.PSUBD, t3, t3, t1, x86.Arg{})
	e.a.V(&x86.PANDD, l.d, t2, t3, l.arg())
}

// funnel shifts b:a; first is the part that is shifted by n, the other by 32-n.
func funnel(by, back *x86.Op, right, wrap bool) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		first, second := l.b, l.a
		if right {
			first, second = l.a, l.b
		}
		if wrap {
			e.a.VB(&x86.PANDD, t2, l.c, constant(off31), x86.Arg{})
		} else {
			e.a.VB(&x86.PMINUD, t2, l.c, constant(off32), x86.Arg{})
		}
		e.a.VM(&x86.BROADCASTD, t3, 0, constant(off32), x86.Arg{})
		e.a.V(&x86.PSUBD, t3, t3, t2, x86.Arg{})
		e.a.V(by, t2, first, t2, x86.Arg{})
		e.a.V(back, t3, second, t3, x86.Arg{})
		e.a.V(&x86.PORD, l.d, t2, t3, l.arg())
	}
}

// halves joins the lower halves of the 64-bit lanes of two vectors.
func (e *emitter) halves(d, low, high x86.Z) {
	e.a.V(&x86.PMOVQD, low, 0, t2, x86.Arg{})
	e.a.V(&x86.PMOVQD, high, 0, t3, x86.Arg{})
	e.a.V(&x86.INSERTI64X4, d, t2, t3, x86.Arg{Imm: 1})
}

// broadcast32 gives all lanes a constant.
func (e *emitter) broadcast32(d x86.Z, x uint32) {
	e.a.RI(x86.MOV, false, x86.RAX, int32(x))
	e.a.FromGP(&x86.FROMGPD, d, x86.RAX, x86.Arg{})
}

func nativeConversions(rows map[string]rowOp) {
	narrow := func(e *emitter, l vec) {
		if l.k == 0 {
			e.halves(l.d, l.a, l.high)
			return
		}
		e.halves(t0, l.a, l.high)
		e.a.V(&x86.MOVD, l.d, 0, t0, l.arg())
	}
	for _, d := range []string{"u", "s"} {
		for _, s := range []string{"u", "s"} {
			rows["cvt."+d+"32."+s+"64"] = rowOp{form: "w=q", emit: narrow}
			rows["cvt."+d+"32."+s+"32"] = rowOp{form: "w=w", emit: one(&x86.MOVD), move: true}
			rows["cvt."+d+"64."+s+"64"] = rowOp{form: "q=q", emit: one(&x86.MOVQ), move: true}
		}
		// The operand comes extended.
		rows["cvt."+d+"64.u32"] = rowOp{form: "q=w", emit: one(&x86.MOVQ)}
		rows["cvt."+d+"64.s32"] = rowOp{form: "q=w", emit: one(&x86.MOVQ), signed: true}
	}
	rows["cvt.rn.f32.s32"] = rowOp{form: "f=w", emit: one(&x86.CVTDQ2PS)}
	rows["cvt.rn.f32.u32"] = rowOp{form: "f=w", emit: one(&x86.CVTUDQ2PS)}
	rows["cvt.rzi.s32.f32"] = rowOp{form: "w=f", emit: truncSigned}
	rows["cvt.rzi.u32.f32"] = rowOp{form: "w=f", emit: truncUnsigned}
}

// truncSigned: the instruction gives the top bit alone for what does not fit.
func truncSigned(e *emitter, l vec) {
	e.a.V(&x86.CVTTPS2DQ, t2, 0, l.a, x86.Arg{})
	e.a.VKB(&x86.CMPPS, k7, l.a, constant(offTwo31), x86.Arg{Imm: cmpGreatEqual})
	e.a.VB(&x86.PXORD, t2, t2, constant(offOnes), x86.Arg{Mask: k7})
	e.a.VK(&x86.CMPPS, k7, l.a, l.a, x86.Arg{Imm: cmpOrdered})
	e.a.V(&x86.MOVD, t2, 0, t2, x86.Arg{Mask: k7, Zero: true})
	e.a.V(&x86.MOVD, l.d, 0, t2, l.arg())
}

// truncUnsigned: the instruction gives all ones for what does not fit.
func truncUnsigned(e *emitter, l vec) {
	e.a.V(&x86.CVTTPS2UDQ, t2, 0, l.a, x86.Arg{})
	e.a.V(&x86.PXORD, t3, t3, t3, x86.Arg{})
	e.a.VK(&x86.CMPPS, k7, l.a, t3, x86.Arg{Imm: cmpGreater})
	e.a.V(&x86.MOVD, t2, 0, t2, x86.Arg{Mask: k7, Zero: true})
	e.a.V(&x86.MOVD, l.d, 0, t2, l.arg())
}

// roundings are the modes of arithmetic, by their part of a key.
var roundings = []struct {
	key  string
	mode x86.Round
}{{key: "", mode: x86.AsSet}, {key: ".rz", mode: x86.Truncate}, {key: ".rm", mode: x86.Down}, {key: ".rp", mode: x86.Up}}

func nativeFloats(rows map[string]rowOp) {
	for _, m := range roundings {
		for op, ins := range map[string]*x86.Op{"add": &x86.ADDPS, "sub": &x86.SUBPS, "mul": &x86.MULPS, "div": &x86.DIVPS} {
			rows[op+m.key+".f32"] = rowOp{form: "f=ff", emit: rounded(ins, m.mode, false), float: true}
		}
		rows["fma"+m.key+".f32"] = rowOp{form: "f=fff", emit: fusedAdd(&x86.FMADD231PS, &x86.FMADD213PS, m.mode), float: true}
		rows["sqrt"+m.key+".f32"] = rowOp{form: "f=f", emit: rounded(&x86.SQRTPS, m.mode, true), float: true}
		rows["rcp"+m.key+".f32"] = rowOp{form: "f=f", emit: reciprocal(m.mode), float: true}
	}
	rows["fms.f32"] = rowOp{form: "f=fff", emit: fusedAdd(&x86.FMSUB231PS, &x86.FMSUB213PS, x86.AsSet), float: true}
	rows["fnma.f32"] = rowOp{form: "f=fff", emit: fusedAdd(&x86.FNMADD231PS, &x86.FNMADD213PS, x86.AsSet), float: true}
	rows["fnms.f32"] = rowOp{form: "f=fff", emit: fusedAdd(&x86.FNMSUB231PS, &x86.FNMSUB213PS, x86.AsSet), float: true}
	rows["rcp.approx.f32"] = rowOp{form: "f=f", emit: reciprocal(x86.AsSet), float: true}
	rows["sqrt.approx.f32"] = rowOp{form: "f=f", emit: one(&x86.SQRTPS), float: true}
	rows["div.full.f32"] = rowOp{form: "f=ff", emit: two(&x86.DIVPS), float: true}
	rows["div.approx.f32"] = rowOp{form: "f=ff", emit: divideApprox, float: true}
	rows["rsqrt.approx.f32"] = rowOp{form: "f=f", emit: rootApprox, float: true}
	rows["neg.f32"] = rowOp{form: "f=f", emit: withConstant(&x86.PXORD, offSign), float: true}
	rows["abs.f32"] = rowOp{form: "f=f", emit: withConstant(&x86.PANDD, offAbs), float: true}
	rows["min.f32"] = rowOp{form: "f=ff", emit: extreme(&x86.PORD, cmpNotGreatEq, cmpLess), float: true}
	rows["max.f32"] = rowOp{form: "f=ff", emit: extreme(&x86.PANDD, cmpNotLessEq, cmpGreater), float: true}
}

func reciprocal(mode x86.Round) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.a.VM(&x86.BROADCASTD, t2, 0, constant(offOneF), x86.Arg{})
		e.a.V(&x86.DIVPS, l.d, t2, l.a, x86.Arg{Mask: l.k, Round: mode})
	}
}

// divideApprox is a*0 for divisors of 2^126 and above.
func divideApprox(e *emitter, l vec) {
	e.a.VB(&x86.PANDD, t1, l.b, constant(offAbs), x86.Arg{})
	e.a.VKB(&x86.PCMPUD, k7, t1, constant(offHuge), x86.Arg{Imm: intGreater})
	e.a.VKB(&x86.PCMPUD, k7, t1, constant(offInf), x86.Arg{Mask: k7, Imm: intLess})
	e.a.V(&x86.PXORD, t1, t1, t1, x86.Arg{})
	e.a.V(&x86.MULPS, t1, l.a, t1, x86.Arg{})
	e.a.V(&x86.DIVPS, l.d, l.a, l.b, x86.Arg{})
	e.a.V(&x86.MOVD, l.d, 0, t1, x86.Arg{Mask: k7})
}

// rootApprox is 1/sqrt(a) in float64, rounded once.
func rootApprox(e *emitter, l vec) {
	e.a.VM(&x86.BROADCASTQ, t2, 0, constant(offOneD), x86.Arg{})
	e.a.V(&x86.EXTRACTI64X4, l.a, 0, t1, x86.Arg{Imm: 1})
	for _, t := range []struct{ d, s x86.Z }{{d: t0, s: l.a}, {d: t1, s: t1}} {
		e.a.V(&x86.CVTPS2PD, t.d, 0, t.s, x86.Arg{})
		e.a.V(&x86.SQRTPD, t.d, 0, t.d, x86.Arg{})
		e.a.V(&x86.DIVPD, t.d, t2, t.d, x86.Arg{})
		e.a.V(&x86.CVTPD2PS, t.d, 0, t.d, x86.Arg{})
	}
	e.a.V(&x86.INSERTI64X4, l.d, t0, t1, x86.Arg{Imm: 1})
}

// extreme is min or max: where b is NaN or a is the one, a; and the other way
// round. Of equal numbers the bits are the same but for the sign of zero.
func extreme(join *x86.Op, notOther, than uint8) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.a.V(join, t2, l.a, l.b, x86.Arg{})
		e.a.VK(&x86.CMPPS, k7, l.a, l.b, x86.Arg{Imm: notOther})
		e.a.V(&x86.MOVD, t2, 0, l.a, x86.Arg{Mask: k7})
		e.a.VK(&x86.CMPPS, k7, l.b, l.a, x86.Arg{Imm: than})
		e.a.V(&x86.MOVD, t2, 0, l.b, x86.Arg{Mask: k7})
		e.a.VK(&x86.CMPPS, k7, l.a, l.a, x86.Arg{Imm: cmpUnordered})
		e.a.V(&x86.MOVD, t2, 0, l.b, x86.Arg{Mask: k7})
		e.a.V(&x86.MOVD, l.d, 0, t2, x86.Arg{})
	}
}

// floatPredicates are the predicates of comparisons of floating point, by their names.
var floatPredicates = map[string]uint8{
	"eq": cmpEqual, "ne": cmpNotEqual, "lt": cmpLess, "le": cmpLessEqual, "gt": cmpGreater, "ge": cmpGreatEqual,
	"equ": cmpEqualU, "neu": cmpUnequal, "ltu": cmpNotGreatEq, "leu": cmpNotGreater, "gtu": cmpNotLessEq, "geu": cmpNotLess,
	"num": cmpOrdered, "nan": cmpUnordered,
}

func nativeCompares(rows map[string]rowOp) {
	for name, p := range map[string]uint8{"eq": intEqual, "ne": intNotEqual, "lt": intLess, "le": intLessEqual, "gt": intGreater, "ge": intGreatEq} {
		for t, op := range map[string]*x86.Op{"u32": &x86.PCMPUD, "s32": &x86.PCMPD, "u64": &x86.PCMPUQ, "s64": &x86.PCMPQ} {
			form := "?=ww"
			if t[1] == '6' {
				form = "?=qq"
			}
			if equality := name == "eq" || name == "ne"; !equality || t[0] == 'u' {
				rows[name+"."+t] = rowOp{form: form, cmp: op, pred: p}
			}
		}
	}
	for name, p := range floatPredicates {
		rows[name+".f32"] = rowOp{form: "?=ff", cmp: &x86.CMPPS, pred: p, float: true}
		rows[name+".ftz.f32"] = rowOp{form: "?=ff", cmp: &x86.CMPPS, pred: p, float: true, from: (*emitter).flush}
		rows[name+".f64"] = rowOp{form: "?=gg", cmp: &x86.CMPPD, pred: p}
	}
}
