//go:build amd64 && linux

package jit

import (
	"math"

	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// overHalf is a little more than a half: a number less that, rounded to a whole one, is never above the number, even
// where it is too large by 2 to the -17.
const overHalf = 0.5 + 0x1p-16

const two52 = 1 << 52

// quotient64 divides numbers of 64 bits in two steps. Each takes from the dividend what the quotient is in float64, which
// is at most 1 too small: of the upper 32 bits first, then of the rest. By zero all is ones.
func quotient64(signed, remainder bool) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		s := e.scratches(4)
		a, b, inverse, q := s[0], s[1], s[2], s[3]
		e.copyTo(a, l.a)
		e.copyTo(b, l.b)
		if signed {
			for _, z := range []x86.Z{a, b} {
				e.plain(&x86.PXORQ, t2, t2, t2)
				e.plain(&x86.PSUBQ, t2, t2, z)
				e.plain(&x86.PMINUQ, z, z, t2) // the magnitude
			}
		}
		e.a.V(&x86.CVTUQQ2PD, t2, 0, b, x86.Arg{})
		e.a.VM(&x86.BROADCASTQ, inverse, 0, f64(1), x86.Arg{})
		e.plain(&x86.DIVPD, inverse, inverse, t2)
		e.digit(t0, a, inverse, true)
		e.plain(&x86.PMULLQ, t1, t0, b)
		e.a.V(&x86.PSLLQ, t1, 0, t1, x86.Arg{Imm: 32})
		e.plain(&x86.PSUBQ, a, a, t1)
		e.a.V(&x86.PSLLQ, q, 0, t0, x86.Arg{Imm: 32})
		e.digit(t0, a, inverse, false)
		e.plain(&x86.PMULLQ, t1, t0, b)
		e.plain(&x86.PSUBQ, a, a, t1)
		e.plain(&x86.PADDQ, q, q, t0)
		e.a.VK(&x86.PCMPUQ, k7, a, b, x86.Arg{Imm: intGreatEq})
		e.a.VB(&x86.PADDQ, q, q, double(1), x86.Arg{Mask: k7})
		e.a.V(&x86.PSUBQ, a, a, b, x86.Arg{Mask: k7})
		result := q
		if remainder {
			result = a
		}
		if signed {
			e.plain(&x86.PXORQ, t2, t2, t2)
			e.plain(&x86.PSUBQ, t1, t2, result)
			signs := l.a
			if !remainder {
				e.plain(&x86.PXORQ, t0, l.a, l.b)
				signs = t0
			}
			e.a.VK(&x86.PCMPQ, k7, signs, t2, x86.Arg{Imm: intLess})
			e.a.V(&x86.MOVQ, result, 0, t1, x86.Arg{Mask: k7})
		}
		e.plain(&x86.PXORQ, t2, t2, t2)
		e.a.VK(&x86.PCMPUQ, k7, l.b, t2, x86.Arg{Imm: intEqual})
		e.a.VM(&x86.BROADCASTQ, result, 0, constant(offOnes), x86.Arg{Mask: k7})
		e.a.V(&x86.MOVQ, l.d, 0, result, l.arg())
	}
}

// digit has in d a whole number that is at most the quotient of a, or of its upper part, and at most 1 less.
func (e *emitter) digit(d, a, inverse x86.Z, upper bool) {
	e.a.V(&x86.CVTUQQ2PD, d, 0, a, x86.Arg{})
	e.plain(&x86.MULPD, d, d, inverse)
	if upper {
		e.with(&x86.MULPD, d, d, f64(0x1p-32))
	}
	e.with(&x86.SUBPD, d, d, f64(overHalf))
	e.plain(&x86.PXORQ, t2, t2, t2)
	e.plain(&x86.MAXPD, d, d, t2) // and 0 for NaN, by which nothing is wanted
	e.with(&x86.ADDPD, d, d, f64(two52))
	e.with(&x86.PXORQ, d, d, double(math.Float64bits(two52)))
}

// eachHalf makes a result of 32 bits for numbers of 64 bits of what compute makes, in t0, of their lower and upper words.
func eachHalf(compute func(e *emitter, low, high x86.Z)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		s := e.scratches(2)
		e.halves(s[0], l.a, l.high)
		e.a.V(&x86.PSRLQ, t0, 0, l.a, x86.Arg{Imm: 32})
		e.a.V(&x86.PSRLQ, t1, 0, l.high, x86.Arg{Imm: 32})
		e.halves(s[1], t0, t1)
		compute(e, s[0], s[1])
		e.a.V(&x86.MOVD, l.d, 0, t0, l.arg())
	}
}

// zerosInFront has in t0 how many bits of 64 are zero before the first one.
func zerosInFront(e *emitter, low, high x86.Z) {
	r := e.scratch()
	leadingZeros(e, vec{d: r, a: low})
	e.with(&x86.PADDD, r, r, constant(off32))
	leadingZeros(e, vec{d: low, a: high})
	e.plain(&x86.PXORD, t1, t1, t1)
	e.a.VK(&x86.PCMPUD, k7, high, t1, x86.Arg{Imm: intEqual})
	e.a.V(&x86.MOVD, low, 0, r, x86.Arg{Mask: k7})
	e.copyTo(t0, low)
}

// highestBit64 is bfind of 64 bits.
func highestBit64(signed, shift bool) func(*emitter, vec) {
	return eachHalf(func(e *emitter, low, high x86.Z) {
		if signed {
			e.a.V(&x86.PSRAD, t2, 0, high, x86.Arg{Imm: 31})
			e.plain(&x86.PXORD, low, low, t2)
			e.plain(&x86.PXORD, high, high, t2)
		}
		zerosInFront(e, low, high)
		if !shift {
			e.a.VM(&x86.BROADCASTD, t2, 0, word(63), x86.Arg{})
			e.plain(&x86.PSUBD, t0, t2, t0) // all ones for none
			return
		}
		e.a.VKB(&x86.PCMPUD, k7, t0, word(64), x86.Arg{Imm: intEqual})
		e.a.VM(&x86.BROADCASTD, t0, 0, constant(offOnes), x86.Arg{Mask: k7})
	})
}

// wideField is bfe.u64, whose position and length come extended.
func wideField(e *emitter, l vec) {
	s := e.scratch()
	e.a.VM(&x86.BROADCASTQ, s, 0, double(1), x86.Arg{})
	e.plain(&x86.PSLLVQ, t2, s, l.c)
	e.plain(&x86.PSUBQ, t2, t2, s)
	e.plain(&x86.PSRLVQ, s, l.a, l.b)
	e.a.V(&x86.PANDQ, l.d, s, t2, l.arg())
}

// signedWideField is bfe.s64.
func signedWideField(e *emitter, l vec) {
	s := e.scratches(2)
	e.with(&x86.PMINUQ, t2, l.b, double(63))
	e.plain(&x86.PSRAVQ, s[0], l.a, t2)
	e.with(&x86.PMINUQ, t2, l.c, double(64))
	e.a.VM(&x86.BROADCASTQ, s[1], 0, double(64), x86.Arg{})
	e.plain(&x86.PSUBQ, s[1], s[1], t2)
	e.plain(&x86.PSLLVQ, s[0], s[0], s[1])
	e.with(&x86.PMINUQ, t2, s[1], double(63))
	e.plain(&x86.PSRAVQ, s[0], s[0], t2)
	e.a.VKB(&x86.PCMPUQ, k7, s[1], double(64), x86.Arg{Imm: intNotEqual})
	e.a.V(&x86.MOVQ, s[0], 0, s[0], x86.Arg{Mask: k7, Zero: true})
	e.a.V(&x86.MOVQ, l.d, 0, s[0], l.arg())
}

// difference64 is sad of 64 bits.
func difference64(lower, upper *x86.Op) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.plain(upper, t2, l.a, l.b)
		s := e.scratch()
		e.plain(lower, s, l.a, l.b)
		e.plain(&x86.PSUBQ, t2, t2, s)
		e.a.V(&x86.PADDQ, l.d, t2, l.c, l.arg())
	}
}

// wideRows are operations on integers of 64 bits.
func wideRows(rows map[string]rowOp) {
	for t, signed := range map[string]bool{"u64": false, "s64": true} {
		rows["div."+t] = rowOp{form: "q=qq", emit: quotient64(signed, false)}
		rows["rem."+t] = rowOp{form: "q=qq", emit: quotient64(signed, true)}
		rows["bfind."+t] = rowOp{form: "w=q", emit: highestBit64(signed, false)}
		rows["bfind.shiftamt."+t] = rowOp{form: "w=q", emit: highestBit64(signed, true)}
	}
	rows["clz.b64"] = rowOp{form: "w=q", emit: eachHalf(zerosInFront)}
	rows["popc.b64"] = rowOp{form: "w=q", emit: eachHalf(func(e *emitter, low, high x86.Z) {
		countBits(e, vec{d: low, a: low})
		countBits(e, vec{d: high, a: high})
		e.plain(&x86.PADDD, t0, low, high)
	})}
	rows["bfe.u64"] = rowOp{form: "q=qww", emit: wideField}
	rows["bfe.s64"] = rowOp{form: "q=qww", emit: signedWideField}
	rows["sad.u64"] = rowOp{form: "q=qqq", emit: difference64(&x86.PMINUQ, &x86.PMAXUQ)}
	rows["sad.s64"] = rowOp{form: "q=qqq", emit: difference64(&x86.PMINSQ, &x86.PMAXSQ)}
	rows["cnot.b64"] = rowOp{form: "q=q", emit: func(e *emitter, l vec) {
		e.plain(&x86.PXORQ, t2, t2, t2)
		e.a.VK(&x86.PCMPUQ, k7, l.a, t2, x86.Arg{Imm: intEqual})
		e.a.VM(&x86.BROADCASTQ, t2, 0, double(1), x86.Arg{Mask: k7})
		e.a.V(&x86.MOVQ, l.d, 0, t2, l.arg())
	}}
	rows["slct.64.s32"] = rowOp{form: "q=qqw", signed: true, emit: func(e *emitter, l vec) {
		e.plain(&x86.PXORQ, t2, t2, t2)
		e.a.VK(&x86.PCMPQ, k7, l.c, t2, x86.Arg{Imm: intGreatEq})
		e.copyTo(t2, l.b)
		e.a.V(&x86.MOVQ, t2, 0, l.a, x86.Arg{Mask: k7})
		e.a.V(&x86.MOVQ, l.d, 0, t2, l.arg())
	}}
	for _, t := range []string{"u", "s"} {
		for _, k := range []struct {
			name   string
			bits   uint8
			signed bool
		}{{name: "u8", bits: 8}, {name: "s8", bits: 8, signed: true}, {name: "u16", bits: 16}, {name: "s16", bits: 16, signed: true}} {
			rows["cvt."+t+"64."+k.name] = rowOp{form: "q=w", emit: func(e *emitter, l vec) { // the lower bits, with their sign or not
				n := 64 - k.bits
				e.a.V(&x86.PSLLQ, t2, 0, l.a, x86.Arg{Imm: n})
				if !k.signed {
					e.a.V(&x86.PSRLQ, l.d, 0, t2, x86.Arg{Mask: l.k, Imm: n})
					return
				}
				s := e.scratch()
				e.a.VM(&x86.BROADCASTQ, s, 0, double(uint64(n)), x86.Arg{})
				e.a.V(&x86.PSRAVQ, l.d, t2, s, l.arg())
			}}
			rows["cvt."+k.name+"."+t+"64"] = rowOp{form: "w=q", emit: func(e *emitter, l vec) {
				s := e.scratch()
				e.halves(s, l.a, l.high)
				z := e.extended(s, s, k.bits, k.signed)
				e.a.VB(&x86.PANDD, l.d, z, word(0xffff), l.arg())
			}}
		}
	}
}
