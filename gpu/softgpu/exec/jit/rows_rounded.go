//go:build amd64 && linux

package jit

import "pvdrm/gpu/softgpu/exec/jit/internal/x86"

// Arithmetic of float32 that rounds otherwise than to nearest, with .ftz and .sat, and conversions of floating point
// with modifiers.

// roundedRows are those operations.
func roundedRows(rows map[string]rowOp) {
	for _, m := range roundings[1:] {
		add := func(op, form string, plain, ftz func(*emitter, vec), sat bool) {
			key := op + m.key
			rows[key+".ftz.f32"] = rowOp{form: form, emit: ftz, float: true}
			if sat {
				rows[key+".sat.f32"] = rowOp{form: form, emit: saturated(plain), float: true}
				rows[key+".ftz.sat.f32"] = rowOp{form: form, emit: saturated(ftz), float: true}
			}
		}
		for op, ins := range map[string]*x86.Op{"add": &x86.ADDPS, "sub": &x86.SUBPS} {
			plain := rounded(ins, m.mode, false)
			add(op, "f=ff", plain, flushed(plain, 2), true)
		}
		mul, div := rounded(&x86.MULPS, m.mode, false), rounded(&x86.DIVPS, m.mode, false)
		add("mul", "f=ff", mul, flushedExactly(mul, 2, toZero(&x86.MULPD)), true)
		add("div", "f=ff", div, flushedExactly(div, 2, toZero(&x86.DIVPD)), false)
		add("rcp", "f=f", nil, flushedExactly(reciprocal(m.mode), 1, oneOver), false)
		add("sqrt", "f=f", nil, flushed(rounded(&x86.SQRTPS, m.mode, true), 1), false)
		fma := fusedAdd(&x86.FMADD231PS, &x86.FMADD213PS, m.mode)
		rows["fma"+m.key+".sat.f32"] = rowOp{form: "f=fff", emit: saturated(fma), float: true}
	}
	for mode, imm := range wholeModes {
		whole := func(e *emitter, l vec) { e.a.V(&x86.RNDSCALE, l.d, 0, l.a, x86.Arg{Mask: l.k, Imm: imm}) }
		rows["cvt."+mode+".sat.f32.f32"] = rowOp{form: "f=f", emit: saturated(whole), float: true}
		rows["cvt."+mode+".ftz.sat.f32.f32"] = rowOp{form: "f=f", emit: saturated(flushed(whole, 1)), float: true}
		rows["cvt."+mode+".sat.f64.f64"] = rowOp{form: "g=g", emit: clampedDouble(func(e *emitter, l vec) {
			e.a.V(&x86.RNDSCALED, l.d, 0, l.a, x86.Arg{Imm: imm})
		})}
	}
	rows["cvt.sat.f64.f64"] = rowOp{form: "g=g", emit: clampedDouble(one(&x86.MOVQ))}
	for _, ftz := range []string{"", ".ftz"} {
		r := rows["cvt"+ftz+".f64.f32"]
		rows["cvt"+ftz+".sat.f64.f32"] = rowOp{form: "g=f", emit: clampedDouble(r.emit), widen: r.widen}
		rows["cvt"+ftz+".sat.f32.f16"] = rowOp{form: "f=w", emit: saturated(func(e *emitter, l vec) { fromF16(e, l.d, l.a) }), float: true}
	}
	tf32Rows(rows)
}

// oneOver is 1/a in float64, towards zero.
func oneOver(e *emitter, d x86.Z, args [3]x86.Z) {
	e.a.VM(&x86.BROADCASTQ, d, 0, f64(1), x86.Arg{})
	e.a.V(&x86.DIVPD, d, d, args[0], x86.Arg{Round: x86.Truncate})
}

// tf32Rows are the conversions to tf32, whose lower 13 bits are zero.
func tf32Rows(rows map[string]rowOp) {
	away := func(e *emitter, l vec) {
		e.with(&x86.PANDD, t2, l.a, word(0x7f800000))
		e.a.VKB(&x86.PCMPUD, k7, t2, word(0x7f800000), x86.Arg{Imm: intNotEqual})
		e.copyTo(t0, l.a)
		e.a.VB(&x86.PADDD, t0, t0, word(1<<12), x86.Arg{Mask: k7})
		e.with(&x86.PANDD, t0, t0, word(0xffffe000))
	}
	rows["cvt.rna.tf32.f32"] = rowOp{form: "w=w", emit: computed(32, away)}
	rows["cvt.rna.satfinite.tf32.f32"] = rowOp{form: "w=w", emit: computed(32, func(e *emitter, l vec) {
		away(e, l)
		e.with(&x86.PANDD, t2, t0, word(0x7f800000))
		e.a.VKB(&x86.PCMPUD, k7, t2, word(0x7f800000), x86.Arg{Imm: intEqual})
		e.a.VB(&x86.PSUBD, t0, t0, word(1<<13), x86.Arg{Mask: k7})
	})}
	for mode, nearest := range map[string]bool{"rn": true, "rz": false} {
		for relu, positive := range map[string]bool{"": false, ".relu": true} {
			rows["cvt."+mode+relu+".tf32.f32"] = rowOp{form: "w=f", emit: computed(32, func(e *emitter, l vec) {
				e.copyTo(t0, l.a)
				if nearest {
					e.a.V(&x86.PSRLD, t2, 0, t0, x86.Arg{Imm: 13})
					e.with(&x86.PANDD, t2, t2, word(1))
					e.plain(&x86.PADDD, t0, t0, t2)
					e.with(&x86.PADDD, t0, t0, word(0xfff))
				}
				e.with(&x86.PANDD, t0, t0, word(0xffffe000))
				if positive {
					e.plain(&x86.PXORD, t2, t2, t2)
					e.a.VK(&x86.PCMPD, k7, t0, t2, x86.Arg{Imm: intGreatEq})
					e.a.V(&x86.MOVD, t0, 0, t0, x86.Arg{Mask: k7, Zero: true})
				}
				e.a.VK(&x86.CMPPS, k7, l.a, l.a, x86.Arg{Imm: cmpUnordered})
				e.a.VM(&x86.BROADCASTD, t0, 0, word(0x7fffe000), x86.Arg{Mask: k7})
			})}
		}
	}
}
