//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// f16 and bf16, one or two in a register of 32 bits: each is computed as a float32, which holds sums, products
// and quotients of them well enough to be rounded once more, or as a float64 rounded to odd (fma).

// half is a format of 16 bits.
type half struct {
	decode func(e *emitter, d, s x86.Z) // the lower 16 bits of s as float32; others do not matter
	encode func(e *emitter, d, s x86.Z) // a float32, rounded to nearest, in the lower 16 bits; NaN is 0x7fff
}

var halves = map[string]half{"f16": {decode: fromF16, encode: toF16}, "bf16": {decode: fromBF16, encode: toBF16}}

// fromF16 moves the bits to where a float32 has them, and corrects the exponent by a product, which subnormal numbers need, too.
func fromF16(e *emitter, d, s x86.Z) {
	e.with(&x86.PANDD, t2, s, word(0x7fff))
	e.a.V(&x86.PSLLD, t2, 0, t2, x86.Arg{Imm: 13})
	e.with(&x86.MULPS, t3, t2, word(0x77800000)) // 2 to the 112
	e.a.VKB(&x86.PCMPUD, k7, t2, word(0x0f800000), x86.Arg{Imm: intGreatEq})
	e.a.VB(&x86.PORD, t3, t3, word(0x7f800000), x86.Arg{Mask: k7})
	e.with(&x86.PANDD, t2, s, word(0x8000))
	e.a.V(&x86.PSLLD, t2, 0, t2, x86.Arg{Imm: 16})
	e.plain(&x86.PORD, d, t3, t2)
}

func fromBF16(e *emitter, d, s x86.Z) { e.a.V(&x86.PSLLD, d, 0, s, x86.Arg{Imm: 16}) }

func toF16(e *emitter, d, s x86.Z) {
	a, r := t2, t3
	e.with(&x86.PANDD, a, s, constant(offAbs))
	e.a.V(&x86.PSRLD, r, 0, a, x86.Arg{Imm: 13})
	e.with(&x86.PANDD, r, r, word(1))
	e.plain(&x86.PADDD, r, r, a)
	e.with(&x86.PADDD, r, r, word(0xc8000fff)) // the exponent, and less than a half of the last place
	e.a.V(&x86.PSRLD, r, 0, r, x86.Arg{Imm: 13})
	// The sum with 0.5 rounds what is subnormal.
	e.with(&x86.ADDPS, t0, a, word(0x3f000000))
	e.with(&x86.PSUBD, t0, t0, word(0x3f000000))
	e.a.VKB(&x86.PCMPUD, k7, a, word(0x38800000), x86.Arg{Imm: intLess})
	e.a.V(&x86.MOVD, r, 0, t0, x86.Arg{Mask: k7})
	e.a.VKB(&x86.PCMPUD, k7, a, word(0x47800000), x86.Arg{Imm: intGreatEq})
	e.a.VM(&x86.BROADCASTD, r, 0, word(0x7c00), x86.Arg{Mask: k7})
	e.a.V(&x86.PSRLD, t0, 0, s, x86.Arg{Imm: 16})
	e.with(&x86.PANDD, t0, t0, word(0x8000))
	e.plain(&x86.PORD, r, r, t0)
	e.a.VKB(&x86.PCMPUD, k7, a, word(0x7f800000), x86.Arg{Imm: intGreater})
	e.a.VM(&x86.BROADCASTD, r, 0, word(0x7fff), x86.Arg{Mask: k7})
	e.copyTo(d, r)
}

func toBF16(e *emitter, d, s x86.Z) {
	e.a.V(&x86.PSRLD, t2, 0, s, x86.Arg{Imm: 16})
	e.with(&x86.PANDD, t2, t2, word(1))
	e.plain(&x86.PADDD, t2, t2, s)
	e.with(&x86.PADDD, t2, t2, word(0x7fff))
	e.a.V(&x86.PSRLD, t2, 0, t2, x86.Arg{Imm: 16})
	e.a.VK(&x86.CMPPS, k7, s, s, x86.Arg{Imm: cmpUnordered})
	e.a.VM(&x86.BROADCASTD, t2, 0, word(0x7fff), x86.Arg{Mask: k7})
	e.copyTo(d, t2)
}

// onHalves is an operation of n operands, of the lower halves of registers or of both. Compute has in t1 the
// result of operands as float32, which it may overwrite, with so many registers more behind them.
func onHalves(h half, n, more int, both bool, compute func(e *emitter, args []x86.Z)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		s, low := e.scratches(n+more), x86.Z(0)
		parts := 1
		if both {
			parts, low = 2, e.scratch()
		}
		for part := range parts {
			for i, z := range []x86.Z{l.a, l.b, l.c}[:n] {
				if part == 1 {
					e.a.V(&x86.PSRLD, t1, 0, z, x86.Arg{Imm: 16})
					z = t1
				}
				h.decode(e, s[i], z)
			}
			compute(e, s)
			if both && part == 0 {
				h.encode(e, low, t1)
				continue
			}
			h.encode(e, t1, t1)
		}
		if both {
			e.a.V(&x86.PSLLD, t1, 0, t1, x86.Arg{Imm: 16})
			e.plain(&x86.PORD, t1, t1, low)
		}
		e.a.V(&x86.MOVD, l.d, 0, t1, l.arg())
	}
}

// fusedHalf is a*b+c: exact as a float64, or rounded to odd, and so again as a float32. Signs of a and c are
// turned where asked for.
func fusedHalf(negA, negC bool) func(e *emitter, args []x86.Z) {
	return func(e *emitter, args []x86.Z) {
		if negA {
			e.with(&x86.PXORD, args[0], args[0], constant(offSign))
		}
		if negC {
			e.with(&x86.PXORD, args[2], args[2], constant(offSign))
		}
		product, sum, out := args[3], args[4], args[5]
		for h := range uint8(2) {
			for i, t := range []x86.Z{product, t0, t1} {
				e.a.V(&x86.EXTRACTI64X4, args[i], 0, t, x86.Arg{Imm: h})
				e.a.V(&x86.CVTPS2PD, t, 0, t, x86.Arg{})
			}
			c := t1
			e.plain(&x86.MULPD, product, product, t0)
			e.plain(&x86.ADDPD, sum, product, c)
			// What the sum leaves out (Knuth's TwoSum).
			e.plain(&x86.SUBPD, t2, sum, product)
			e.plain(&x86.SUBPD, t3, sum, t2)
			e.plain(&x86.SUBPD, t3, product, t3)
			e.plain(&x86.SUBPD, t2, c, t2)
			e.plain(&x86.ADDPD, t3, t3, t2)
			e.a.V(&x86.ADDPD, sum, product, c, x86.Arg{Round: x86.Truncate})
			e.plain(&x86.PXORD, t2, t2, t2)
			e.a.VK(&x86.CMPPD, k7, t3, t2, x86.Arg{Imm: cmpNotEqual})
			e.a.VB(&x86.PORQ, sum, sum, double(1), x86.Arg{Mask: k7})
			e.single(t0, sum)
			if h == 0 {
				e.copyTo(out, t0)
			}
		}
		e.a.V(&x86.INSERTI64X4, t1, out, t0, x86.Arg{Imm: 1})
	}
}

// single makes float32s of s, rounded to odd, in the lower half of d: the nearest, and one towards zero where that is
// further away, of which an odd last place says that it is not exact.
func (e *emitter) single(d, s x86.Z) {
	e.a.V(&x86.CVTPD2PS, d, 0, s, x86.Arg{})
	e.a.V(&x86.CVTPS2PD, t2, 0, d, x86.Arg{})
	e.with(&x86.PANDQ, t3, s, double(1<<63-1))
	e.with(&x86.PANDQ, t2, t2, double(1<<63-1))
	e.a.VK(&x86.CMPPD, k7, t2, t3, x86.Arg{Imm: cmpGreater})
	e.a.VM(&x86.BROADCASTD, t1, 0, word(1), x86.Arg{})
	e.a.V(&x86.PSUBD, d, d, t1, x86.Arg{Mask: k7})
	e.a.VK(&x86.CMPPD, k7, t2, t3, x86.Arg{Imm: cmpNotEqual})
	e.a.V(&x86.PORD, d, d, t1, x86.Arg{Mask: k7})
}

func halfRows(rows map[string]rowOp) {
	for name, h := range halves {
		for _, both := range []bool{false, true} {
			key := "." + name
			if both {
				key += "x2"
			}
			add := func(op, form string, n int, compute func(e *emitter, args []x86.Z)) {
				rows[op+key] = rowOp{form: form, emit: onHalves(h, n, 0, both, compute)}
			}
			for op, ins := range map[string]*x86.Op{"add": &x86.ADDPS, "sub": &x86.SUBPS, "mul": &x86.MULPS} {
				add(op, "w=ww", 2, func(e *emitter, args []x86.Z) { e.plain(ins, t1, args[0], args[1]) })
			}
			for op, neg := range map[string][2]bool{"fma": {}, "fms": {false, true}, "fnma": {true, false}, "fnms": {true, true}} {
				rows[op+key] = rowOp{form: "w=www", emit: onHalves(h, 3, 3, both, fusedHalf(neg[0], neg[1]))}
			}
			for op, emit := range map[string]func(*emitter, vec){"min": extreme(&x86.PORD, cmpNotGreatEq, cmpLess), "max": extreme(&x86.PANDD, cmpNotLessEq, cmpGreater)} {
				add(op, "w=ww", 2, func(e *emitter, args []x86.Z) { emit(e, vec{d: t1, a: args[0], b: args[1]}) })
			}
			add("neg", "w=w", 1, func(e *emitter, args []x86.Z) { e.with(&x86.PXORD, t1, args[0], constant(offSign)) })
			add("abs", "w=w", 1, func(e *emitter, args []x86.Z) { e.with(&x86.PANDD, t1, args[0], constant(offAbs)) })
		}
		rows["cvt.rn."+name+".f32"] = rowOp{form: "w=f", emit: func(e *emitter, l vec) {
			h.encode(e, t1, l.a)
			e.a.V(&x86.MOVD, l.d, 0, t1, l.arg())
		}}
		rows["cvt.rn."+name+"x2.f32"] = rowOp{form: "w=ff", emit: func(e *emitter, l vec) {
			s := e.scratch()
			h.encode(e, s, l.a)
			e.a.V(&x86.PSLLD, s, 0, s, x86.Arg{Imm: 16})
			h.encode(e, t1, l.b)
			e.a.V(&x86.PORD, l.d, s, t1, l.arg())
		}}
	}
	for _, key := range []string{"cvt.f32.f16", "cvt.ftz.f32.f16"} { // none is subnormal as a float32
		rows[key] = rowOp{form: "f=w", float: true, emit: func(e *emitter, l vec) { fromF16(e, l.d, l.a) }}
	}
	rows["cvt.f32.bf16"] = rowOp{form: "w=w", emit: func(e *emitter, l vec) {
		e.a.V(&x86.PSLLD, l.d, 0, l.a, x86.Arg{Mask: l.k, Imm: 16})
	}}
}
