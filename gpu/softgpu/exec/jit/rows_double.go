//go:build amd64 && linux

package jit

import "pvdrm/gpu/softgpu/exec/jit/internal/x86"

// Float64 arithmetic returns the NaN of an operand, made quiet, as in lane/scalar: the
// second before the first, in a*b+c b, c and a in this order. The processor prefers its
// first source.

// swapped is a commutative operation.
func swapped(op *x86.Op, mode x86.Round) func(*emitter, vec) {
	return func(e *emitter, l vec) { e.a.V(op, l.d, l.b, l.a, x86.Arg{Mask: l.k, Round: mode}) }
}

// takeNaN gives the lanes of t in which z is NaN that NaN, made quiet.
func (e *emitter) takeNaN(t, z x86.Z) {
	e.a.VK(&x86.CMPPD, k7, z, z, x86.Arg{Imm: cmpUnordered})
	e.a.V(&x86.ADDPD, t, z, z, x86.Arg{Mask: k7})
}

func subtraction(mode x86.Round) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.a.V(&x86.SUBPD, t2, l.a, l.b, x86.Arg{Round: mode})
		e.takeNaN(t2, l.b)
		e.a.V(&x86.MOVQ, l.d, 0, t2, l.arg())
	}
}

// fusedDouble is a*b+c by an operation that adds to its destination.
func fusedDouble(op *x86.Op, mode x86.Round) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		r := e.scratch()
		e.copyTo(r, l.c)
		e.a.V(op, r, l.a, l.b, x86.Arg{Round: mode})
		odd, back := e.a.NewLabel(), e.a.NewLabel()
		e.a.VK(&x86.CMPPD, k7, r, r, x86.Arg{Imm: cmpUnordered})
		e.a.KK(&x86.KORTESTD, k7, 0, k7)
		e.a.JumpIf(x86.NotEqual, odd)
		e.a.Bind(back)
		e.a.V(&x86.MOVQ, l.d, 0, r, l.arg())
		e.later = append(e.later, func() {
			e.a.Bind(odd)
			for _, z := range []x86.Z{l.a, l.c, l.b} {
				e.takeNaN(r, z)
			}
			e.a.Jump(back)
		})
	}
}

// signOfDouble is neg or abs, by the operation on the sign; NaNs become quiet.
func signOfDouble(op *x86.Op, bits uint64) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.with(op, t2, l.a, double(bits))
		e.a.VK(&x86.CMPPD, k7, l.a, l.a, x86.Arg{Imm: cmpUnordered})
		e.a.VB(&x86.PORQ, t2, l.a, double(1<<51), x86.Arg{Mask: k7})
		e.a.V(&x86.MOVQ, l.d, 0, t2, l.arg())
	}
}

// extremeDouble is extreme for float64.
func extremeDouble(join *x86.Op, notOther, than uint8) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.plain(join, t2, l.a, l.b)
		e.a.VK(&x86.CMPPD, k7, l.a, l.b, x86.Arg{Imm: notOther})
		e.a.V(&x86.MOVQ, t2, 0, l.a, x86.Arg{Mask: k7})
		e.a.VK(&x86.CMPPD, k7, l.b, l.a, x86.Arg{Imm: than})
		e.a.V(&x86.MOVQ, t2, 0, l.b, x86.Arg{Mask: k7})
		e.a.VK(&x86.CMPPD, k7, l.a, l.a, x86.Arg{Imm: cmpUnordered})
		e.a.V(&x86.MOVQ, t2, 0, l.b, x86.Arg{Mask: k7})
		e.takeNaN(t2, t2) // both were
		e.a.V(&x86.MOVQ, l.d, 0, t2, l.arg())
	}
}

// narrowed is a conversion of 64 bits to 32, a half of the lanes at a time: fix corrects
// the lanes of d, converted from s.
func narrowed(op *x86.Op, fix func(e *emitter, d, s x86.Z)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		for _, t := range []struct{ d, s x86.Z }{{d: t0, s: l.a}, {d: t1, s: l.high}} {
			e.a.V(op, t.d, 0, t.s, x86.Arg{})
			if fix != nil {
				fix(e, t.d, t.s)
			}
		}
		e.a.V(&x86.INSERTI64X4, t0, t0, t1, x86.Arg{Imm: 1})
		e.a.V(&x86.MOVD, l.d, 0, t0, l.arg())
	}
}

// The processor gives the top bit alone, or all ones, for what does not fit.

func clampSigned(e *emitter, d, s x86.Z) {
	e.a.VKB(&x86.CMPPD, k7, s, f64(1<<31), x86.Arg{Imm: cmpGreatEqual})
	e.a.VB(&x86.PXORD, d, d, constant(offOnes), x86.Arg{Mask: k7})
}

func clampUnsigned(e *emitter, d, s x86.Z) {
	e.plain(&x86.PXORD, t2, t2, t2)
	e.a.VK(&x86.CMPPD, k7, s, t2, x86.Arg{Imm: cmpGreater})
	e.a.V(&x86.MOVD, d, 0, d, x86.Arg{Mask: k7, Zero: true})
	e.a.VK(&x86.CMPPD, k7, s, s, x86.Arg{Imm: cmpUnordered})
	e.a.VM(&x86.BROADCASTD, d, 0, word(1<<31), x86.Arg{Mask: k7})
}

// toInt64 is cvt.rzi.s64.f64.
func toInt64(e *emitter, l vec) {
	e.a.V(&x86.CVTTPD2QQ, t2, 0, l.a, x86.Arg{})
	e.a.VKB(&x86.CMPPD, k7, l.a, f64(1<<63), x86.Arg{Imm: cmpGreatEqual})
	e.a.VB(&x86.PXORQ, t2, t2, constant(offOnes), x86.Arg{Mask: k7})
	e.a.V(&x86.MOVQ, l.d, 0, t2, l.arg())
}

func doubleRows(rows map[string]rowOp) {
	for _, m := range roundings {
		rows["add"+m.key+".f64"] = rowOp{form: "g=gg", emit: swapped(&x86.ADDPD, m.mode)}
		rows["mul"+m.key+".f64"] = rowOp{form: "g=gg", emit: swapped(&x86.MULPD, m.mode)}
		rows["sub"+m.key+".f64"] = rowOp{form: "g=gg", emit: subtraction(m.mode)}
		rows["fma"+m.key+".f64"] = rowOp{form: "g=ggg", emit: fusedDouble(&x86.FMADD231PD, m.mode), fused: true}
		rows["div"+m.key+".f64"] = rowOp{form: "g=gg", emit: rounded(&x86.DIVPD, m.mode, false)}
		rows["sqrt"+m.key+".f64"] = rowOp{form: "g=g", emit: rounded(&x86.SQRTPD, m.mode, true)}
		rows["rcp"+m.key+".f64"] = rowOp{form: "g=g", emit: func(e *emitter, l vec) {
			e.a.VM(&x86.BROADCASTQ, t2, 0, f64(1), x86.Arg{})
			e.a.V(&x86.DIVPD, l.d, t2, l.a, x86.Arg{Mask: l.k, Round: m.mode})
		}}
	}
	for key, op := range map[string]*x86.Op{"fms": &x86.FMSUB231PD, "fnma": &x86.FNMADD231PD, "fnms": &x86.FNMSUB231PD} {
		rows[key+".f64"] = rowOp{form: "g=ggg", emit: fusedDouble(op, x86.AsSet), fused: true}
	}
	rows["neg.f64"] = rowOp{form: "q=q", emit: signOfDouble(&x86.PXORQ, 1<<63)}
	rows["abs.f64"] = rowOp{form: "q=q", emit: signOfDouble(&x86.PANDQ, 1<<63-1)}
	rows["min.f64"] = rowOp{form: "g=gg", emit: extremeDouble(&x86.PORQ, cmpNotGreatEq, cmpLess)}
	rows["max.f64"] = rowOp{form: "g=gg", emit: extremeDouble(&x86.PANDQ, cmpNotLessEq, cmpGreater)}
	rows["copysign.f64"] = rowOp{form: "q=qq", emit: func(e *emitter, l vec) {
		e.a.VM(&x86.BROADCASTQ, t2, 0, double(1<<63), x86.Arg{})
		e.a.V(&x86.PTERNLOGQ, t2, l.a, l.b, x86.Arg{Imm: choose})
		e.a.V(&x86.MOVQ, l.d, 0, t2, l.arg())
	}}
	// The operands come converted.
	rows["cvt.f64.f32"] = rowOp{form: "g=f", emit: one(&x86.MOVQ), widen: &x86.CVTPS2PD}
	rows["cvt.rn.f64.s32"] = rowOp{form: "g=w", emit: one(&x86.MOVQ), widen: &x86.CVTDQ2PD}
	rows["cvt.rn.f64.u32"] = rowOp{form: "g=w", emit: one(&x86.MOVQ), widen: &x86.CVTUDQ2PD}
	rows["cvt.rn.f64.s64"] = rowOp{form: "g=q", emit: one(&x86.CVTQQ2PD)}
	rows["cvt.rn.f64.u64"] = rowOp{form: "g=q", emit: one(&x86.CVTUQQ2PD)}
	rows["cvt.rn.f32.s64"] = rowOp{form: "f=q", emit: narrowed(&x86.CVTQQ2PS, nil)}
	rows["cvt.rn.f32.u64"] = rowOp{form: "f=q", emit: narrowed(&x86.CVTUQQ2PS, nil)}
	rows["cvt.ftz.f64.f32"] = rowOp{form: "g=f", emit: func(e *emitter, l vec) {
		e.with(&x86.PANDQ, t2, l.a, double(1<<63-1))
		e.a.VKB(&x86.CMPPD, k7, t2, f64(flushLimit), x86.Arg{Mask: l.k, Imm: cmpLess})
		e.a.V(&x86.MOVQ, l.d, 0, l.a, l.arg())
		e.a.VB(&x86.PANDQ, l.d, l.a, double(1<<63), x86.Arg{Mask: k7})
		e.a.VK(&x86.CMPPD, k7, l.a, l.a, x86.Arg{Mask: l.k, Imm: cmpUnordered})
		e.a.VM(&x86.BROADCASTQ, l.d, 0, double(wideNaN), x86.Arg{Mask: k7})
	}, widen: &x86.CVTPS2PD}
	rows["cvt.rn.f32.f64"] = rowOp{form: "w=g", emit: narrowed(&x86.CVTPD2PS, nil)}
	rows["cvt.rzi.s32.f64"] = rowOp{form: "w=g", emit: narrowed(&x86.CVTTPD2DQ, clampSigned)}
	rows["cvt.rzi.u32.f64"] = rowOp{form: "w=g", emit: narrowed(&x86.CVTTPD2UDQ, clampUnsigned)}
	rows["cvt.rzi.s64.f64"] = rowOp{form: "q=g", emit: toInt64}
	for mode, imm := range map[string]uint8{"rni": 8, "rmi": 9, "rpi": 10, "rzi": 11} {
		rows["cvt."+mode+".f64.f64"] = rowOp{form: "g=g", emit: func(e *emitter, l vec) {
			e.a.V(&x86.RNDSCALED, l.d, 0, l.a, x86.Arg{Mask: l.k, Imm: imm})
		}}
		whole := func(e *emitter, l vec) { e.a.V(&x86.RNDSCALE, l.d, 0, l.a, x86.Arg{Mask: l.k, Imm: imm}) }
		rows["cvt."+mode+".f32.f32"] = rowOp{form: "f=f", emit: whole, float: true}
		rows["cvt."+mode+".ftz.f32.f32"] = rowOp{form: "f=f", emit: flushed(whole, 1), float: true}
	}
}
