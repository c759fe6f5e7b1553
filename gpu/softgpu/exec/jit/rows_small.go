//go:build amd64 && linux

package jit

import (
	"fmt"

	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Integers of 16 and 24 bits, products and fields that few programs use.

// computed is an operation whose result, of 32 bits or the lower 16 of them, compute has in t0.
func computed(bits uint8, compute func(e *emitter, l vec)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		compute(e, l)
		if bits == 16 {
			e.a.VB(&x86.PANDD, l.d, t0, word(0xffff), l.arg())
			return
		}
		e.a.V(&x86.MOVD, l.d, 0, t0, l.arg())
	}
}

// product16 has in t0 the product of numbers of so many bits, moved right.
func product16(bits uint8, signed bool, shift uint8) func(e *emitter, l vec) {
	return func(e *emitter, l vec) {
		if bits == 16 && !signed { // the rest of the register is zero
			e.plain(&x86.PMULLD, t0, l.a, l.b)
		} else {
			e.extend(t0, l.a, bits, signed)
			e.extend(t1, l.b, bits, signed)
			e.plain(&x86.PMULLD, t0, t0, t1)
		}
		switch {
		case shift == 0:
		case signed:
			e.a.V(&x86.PSRAD, t0, 0, t0, x86.Arg{Imm: shift})
		default:
			e.a.V(&x86.PSRLD, t0, 0, t0, x86.Arg{Imm: shift})
		}
	}
}

// extend has in d the lower bits of z as a number.
func (e *emitter) extend(d, z x86.Z, bits uint8, signed bool) {
	e.a.V(&x86.PSLLD, d, 0, z, x86.Arg{Imm: 32 - bits})
	if signed {
		e.a.V(&x86.PSRAD, d, 0, d, x86.Arg{Imm: 32 - bits})
	} else {
		e.a.V(&x86.PSRLD, d, 0, d, x86.Arg{Imm: 32 - bits})
	}
}

// added16 adds c to what compute has in t0.
func added16(compute func(e *emitter, l vec)) func(e *emitter, l vec) {
	return func(e *emitter, l vec) {
		compute(e, l)
		e.plain(&x86.PADDD, t0, t0, l.c)
	}
}

// upper24 has in t0 bits 16 to 47 of the product of numbers of 24 bits.
func upper24(signed bool) func(e *emitter, l vec) {
	return func(e *emitter, l vec) {
		op := &x86.PMULUDQ
		if signed {
			op = &x86.PMULDQ
		}
		a, b := e.scratch(), e.scratch()
		e.extend(a, l.a, 24, signed)
		e.extend(b, l.b, 24, signed)
		e.plain(op, t0, a, b)
		e.a.V(&x86.PSRLQ, t0, 0, t0, x86.Arg{Imm: 16})
		e.a.V(&x86.PSRLQ, a, 0, a, x86.Arg{Imm: 32})
		e.a.V(&x86.PSRLQ, b, 0, b, x86.Arg{Imm: 32})
		e.plain(op, t1, a, b)
		e.a.V(&x86.PSLLQ, t1, 0, t1, x86.Arg{Imm: 16})
		e.with(&x86.PANDQ, t0, t0, double(0xffffffff))
		e.with(&x86.PANDQ, t1, t1, double(0xffffffff<<32))
		e.plain(&x86.PORD, t0, t0, t1)
	}
}

// clampedSum has in t0 a+b or, with its sign turned, a-b, in the range of 32 bits.
func clampedSum(e *emitter, a, b x86.Z, op *x86.Op) {
	r := e.scratch()
	e.plain(op, r, a, b)
	e.plain(&x86.PXORD, t1, r, a)
	if op == &x86.PADDD {
		e.plain(&x86.PXORD, t2, r, b)
	} else {
		e.plain(&x86.PXORD, t2, a, b)
	}
	e.plain(&x86.PANDD, t1, t1, t2) // its sign: both were of one sign, and the result is not
	e.plain(&x86.PXORD, t2, t2, t2)
	e.a.VK(&x86.PCMPD, k7, t1, t2, x86.Arg{Imm: intLess})
	e.a.V(&x86.PSRAD, t0, 0, a, x86.Arg{Imm: 31})
	e.with(&x86.PXORD, t0, t0, constant(offAbs))
	e.a.V(&x86.MOVD, r, 0, t0, x86.Arg{Mask: k7})
	e.copyTo(t0, r)
}

// ofHalves has in t0 what op makes of both halves, with their signs or not, and not below 0 with relu.
func ofHalves(op *x86.Op, signed, relu bool) func(e *emitter, l vec) {
	return func(e *emitter, l vec) {
		low := e.scratch()
		e.extend(t0, l.a, 16, signed)
		e.extend(t1, l.b, 16, signed)
		e.plain(op, low, t0, t1)
		right := &x86.PSRLD
		if signed {
			right = &x86.PSRAD
		}
		e.a.V(right, t0, 0, l.a, x86.Arg{Imm: 16})
		e.a.V(right, t1, 0, l.b, x86.Arg{Imm: 16})
		e.plain(op, t0, t0, t1)
		if relu {
			e.plain(&x86.PXORD, t1, t1, t1)
			e.plain(&x86.PMAXSD, low, low, t1)
			e.plain(&x86.PMAXSD, t0, t0, t1)
		}
		e.with(&x86.PANDD, low, low, word(0xffff))
		e.a.V(&x86.PSLLD, t0, 0, t0, x86.Arg{Imm: 16})
		e.plain(&x86.PORD, t0, t0, low)
	}
}

// quotient16 divides numbers of 16 bits as those of 32.
func quotient16(signed, remainder bool) func(e *emitter, l vec) {
	whole := quotient(signed, remainder)
	return func(e *emitter, l vec) {
		s := e.scratches(2)
		if signed {
			e.extend(s[0], l.a, 16, true)
			e.extend(s[1], l.b, 16, true)
			l.a, l.b = s[0], s[1]
		}
		r := e.scratch()
		whole(e, vec{d: r, a: l.a, b: l.b})
		e.copyTo(t0, r)
	}
}

// dotOfTwo has in t0 c and the products of the halves of a and two bytes of b, added up.
func dotOfTwo(high, signA, signB bool) func(e *emitter, l vec) {
	return func(e *emitter, l vec) {
		sum := e.scratch()
		e.copyTo(sum, l.c)
		for i := range uint8(2) {
			e.field(t0, l.a, 16*i, 16, signA)
			at := 8 * i
			if high {
				at += 16
			}
			e.field(t1, l.b, at, 8, signB)
			e.plain(&x86.PMULLD, t0, t0, t1)
			e.plain(&x86.PADDD, sum, sum, t0)
		}
		e.copyTo(t0, sum)
	}
}

// field has in d bits of z, from one on, as a number.
func (e *emitter) field(d, z x86.Z, from, bits uint8, signed bool) {
	e.a.V(&x86.PSLLD, d, 0, z, x86.Arg{Imm: 32 - bits - from})
	if signed {
		e.a.V(&x86.PSRAD, d, 0, d, x86.Arg{Imm: 32 - bits})
	} else {
		e.a.V(&x86.PSRLD, d, 0, d, x86.Arg{Imm: 32 - bits})
	}
}

// joined has in t0 parts of operands, so many bits of each, one above the other.
func joined(bits uint8, n int) func(e *emitter, l vec) {
	return func(e *emitter, l vec) {
		for i, z := range []x86.Z{l.a, l.b, l.c, l.e}[:n] {
			d := t1
			if i == 0 {
				d = t0
			}
			e.field(d, z, 0, bits, false)
			if i > 0 {
				e.a.V(&x86.PSLLD, t1, 0, t1, x86.Arg{Imm: bits * uint8(i)})
				e.plain(&x86.PORD, t0, t0, t1)
			}
		}
	}
}

// sizedField has in t0 the lower b bits of a, with their sign or not.
func sizedField(signed, wrap bool) func(e *emitter, l vec) {
	return func(e *emitter, l vec) {
		n := l.b
		if wrap {
			e.with(&x86.PANDD, t1, l.b, constant(off31))
			n = t1
		}
		if !signed {
			e.a.VM(&x86.BROADCASTD, t0, 0, constant(offOne), x86.Arg{})
			e.plain(&x86.PSLLVD, t2, t0, n)
			e.plain(&x86.PSUBD, t2, t2, t0)
			e.plain(&x86.PANDD, t0, l.a, t2)
			return
		}
		e.with(&x86.PMINUD, t1, n, constant(off32))
		e.a.VM(&x86.BROADCASTD, t2, 0, constant(off32), x86.Arg{})
		e.plain(&x86.PSUBD, t1, t2, t1)
		e.plain(&x86.PSLLVD, t0, l.a, t1)
		e.plain(&x86.PSRAVD, t0, t0, t1)
		e.a.VKB(&x86.PCMPUD, k7, t1, constant(off32), x86.Arg{Imm: intNotEqual})
		e.a.V(&x86.MOVD, t0, 0, t0, x86.Arg{Mask: k7, Zero: true})
	}
}

// maskOfBits has in t0 b ones from bit a on.
func maskOfBits(wrap bool) func(e *emitter, l vec) {
	return func(e *emitter, l vec) {
		a, b := l.a, l.b
		if wrap {
			e.with(&x86.PANDD, t1, a, constant(off31))
			e.with(&x86.PANDD, t2, b, constant(off31))
			a, b = t1, t2
		}
		e.a.VM(&x86.BROADCASTD, t3, 0, constant(offOne), x86.Arg{})
		e.plain(&x86.PSLLVD, t0, t3, b)
		e.plain(&x86.PSUBD, t0, t0, t3)
		e.plain(&x86.PSLLVD, t0, t0, a)
	}
}

func smallRows(rows map[string]rowOp) {
	add := func(key, form string, bits uint8, compute func(e *emitter, l vec)) {
		rows[key] = rowOp{form: form, emit: computed(bits, compute)}
	}
	for t, signed := range map[string]bool{"u16": false, "s16": true} {
		add("mul.hi."+t, "w=ww", 16, product16(16, signed, 16))
		add("mad.hi."+t, "w=www", 16, added16(product16(16, signed, 16)))
		add("mad.wide."+t, "w=www", 32, added16(product16(16, signed, 0)))
		add("div."+t, "w=ww", 16, quotient16(signed, false))
		add("rem."+t, "w=ww", 16, quotient16(signed, true))
		add("sad."+t, "w=www", 16, func(e *emitter, l vec) {
			a, b, upper, lower := l.a, l.b, &x86.PMAXUD, &x86.PMINUD
			if signed {
				e.extend(t0, a, 16, true)
				e.extend(t1, b, 16, true)
				a, b, upper, lower = t0, t1, &x86.PMAXSD, &x86.PMINSD
			}
			e.plain(upper, t2, a, b)
			e.plain(lower, t0, a, b)
			e.plain(&x86.PSUBD, t0, t2, t0)
			e.plain(&x86.PADDD, t0, t0, l.c)
		})
		for op, ins := range map[string]*x86.Op{"min": &x86.PMINSD, "max": &x86.PMAXSD} {
			add(op+"."+t+"x2", "w=ww", 32, ofHalves(ins, signed, false))
			if signed {
				add(op+".relu.s16x2", "w=ww", 32, ofHalves(ins, true, true))
			}
		}
	}
	add("mad.lo.u16", "w=www", 16, added16(product16(16, false, 0)))
	add("add.u16x2", "w=ww", 32, ofHalves(&x86.PADDD, false, false))
	add("abs.s16", "w=w", 16, func(e *emitter, l vec) {
		e.extend(t0, l.a, 16, true)
		e.a.V(&x86.PABSD, t0, 0, t0, x86.Arg{})
	})
	add("shr.s16", "w=ww", 16, func(e *emitter, l vec) {
		e.extend(t0, l.a, 16, true)
		e.plain(&x86.PSRAVD, t0, t0, l.b)
	})
	for t, signed := range map[string]bool{"u32": false, "s32": true} {
		add("mul24.lo."+t, "w=ww", 32, product16(24, signed, 0))
		add("mad24.lo."+t, "w=www", 32, added16(product16(24, signed, 0)))
		add("mul24.hi."+t, "w=ww", 32, upper24(signed))
		add("mad24.hi."+t, "w=www", 32, added16(upper24(signed)))
	}
	add("add.sat.s32", "w=ww", 32, func(e *emitter, l vec) { clampedSum(e, l.a, l.b, &x86.PADDD) })
	add("sub.sat.s32", "w=ww", 32, func(e *emitter, l vec) { clampedSum(e, l.a, l.b, &x86.PSUBD) })
	add("mad24.hi.sat.s32", "w=www", 32, func(e *emitter, l vec) {
		upper24(true)(e, l)
		s := e.scratch()
		e.copyTo(s, t0)
		clampedSum(e, s, l.c, &x86.PADDD)
	})
	add("mad.hi.sat.s32", "w=www", 32, func(e *emitter, l vec) {
		s := e.scratch()
		upperProduct(&x86.PMULDQ, false)(e, vec{d: s, a: l.a, b: l.b})
		clampedSum(e, s, l.c, &x86.PADDD)
	})
	for op, ins := range map[string]*x86.Op{"min": &x86.PMINSD, "max": &x86.PMAXSD} {
		add(op+".relu.s32", "w=ww", 32, func(e *emitter, l vec) {
			e.plain(ins, t0, l.a, l.b)
			e.plain(&x86.PXORD, t1, t1, t1)
			e.plain(&x86.PMAXSD, t0, t0, t1)
		})
	}
	fieldRows(add)
	for _, key := range []string{"cnot.b16", "cnot.b32"} {
		add(key, "w=w", 32, func(e *emitter, l vec) {
			e.plain(&x86.PXORD, t0, t0, t0)
			e.a.VK(&x86.PCMPUD, k7, l.a, t0, x86.Arg{Imm: intEqual})
			e.a.VM(&x86.BROADCASTD, t0, 0, constant(offOne), x86.Arg{Mask: k7})
		})
	}
	for name, p := range map[string]uint8{"lt": intLess, "le": intLessEqual, "gt": intGreater, "ge": intGreatEq} {
		rows[name+".s16"] = rowOp{form: "?=ww", cmp: &x86.PCMPD, pred: p, from: func(e *emitter, d, s x86.Z) { e.extend(d, s, 16, true) }}
	}
}

// fieldRows are operations on fields of bits.
func fieldRows(add func(key, form string, bits uint8, compute func(e *emitter, l vec))) {
	for a, signA := range map[string]bool{"u32": false, "s32": true} {
		for b, signB := range map[string]bool{"u32": false, "s32": true} {
			for k, high := range map[string]bool{"lo": false, "hi": true} {
				add(fmt.Sprintf("dp2a.%s.%s.%s", k, a, b), "w=www", 32, dotOfTwo(high, signA, signB))
			}
		}
	}
	for mode, wrap := range map[string]bool{"clamp": false, "wrap": true} {
		add("szext."+mode+".u32", "w=ww", 32, sizedField(false, wrap))
		add("szext."+mode+".s32", "w=ww", 32, sizedField(true, wrap))
		add("bmsk."+mode+".b32", "w=ww", 32, maskOfBits(wrap))
	}
	add("pack.b16", "w=ww", 32, joined(8, 2))
	add("pack4.b32", "w=wwww", 32, joined(8, 4))
	for name, picks := range map[string][4]uint32{
		"f4e": {0x3210, 0x4321, 0x5432, 0x6543}, "b4e": {0x5670, 0x6701, 0x7012, 0x0123}, "rc8": {0x0000, 0x1111, 0x2222, 0x3333},
		"ecl": {0x3210, 0x3211, 0x3222, 0x3333}, "ecr": {0x0000, 0x1110, 0x2210, 0x3210}, "rc16": {0x1010, 0x3232, 0x1010, 0x3232},
	} {
		add("prmt."+name+".b32", "w=www", 32, func(e *emitter, l vec) {
			sel, r := e.scratch(), e.scratch()
			e.with(&x86.PANDD, t0, l.c, word(3))
			for i, pick := range picks {
				e.broadcast32(t1, pick)
				if i == 0 {
					e.copyTo(sel, t1)
					continue
				}
				e.broadcast32(t2, uint32(i))
				e.a.VK(&x86.PCMPUD, k7, t0, t2, x86.Arg{Imm: intEqual})
				e.a.V(&x86.MOVD, sel, 0, t1, x86.Arg{Mask: k7})
			}
			pickBytes(e, vec{d: r, a: l.a, b: l.b, c: sel})
			e.copyTo(t0, r)
		})
	}
}
