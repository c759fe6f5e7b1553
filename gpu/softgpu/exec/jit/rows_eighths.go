//go:build amd64 && linux

package jit

import (
	"math"

	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// e4m3 and e5m2, two in the lower half of a register, and the classes of numbers.

// eighth is a format of 8 bits.
type eighth struct {
	name   string
	decode func(e *emitter, d, s x86.Z) // the lower 8 bits of s as float32

	fraction uint8  // bits
	unit     uint32 // added to a number, it has the last place of subnormal numbers as its own
	least    uint32 // the smallest normal number, as a float32
	bias     uint32 // what the field of the exponent of a float32 has more, in its place
	half     uint32 // less than half of the last place, in that of a float32
	most     uint32 // the largest number
}

var eighths = []eighth{
	{name: "e4m3", decode: fromE4M3, fraction: 3, unit: 0x46800000, least: 0x3c800000, bias: 120 << 23, half: 0x7ffff, most: 0x7e},
	{name: "e5m2", decode: fromE5M2, fraction: 2, unit: 0x43000000, least: 0x38800000, bias: 112 << 23, half: 0xfffff, most: 0x7b},
}

// fromE4M3 moves the bits to where a float32 has them, and corrects the exponent by a product.
func fromE4M3(e *emitter, d, s x86.Z) {
	e.with(&x86.PANDD, t2, s, word(0x7f))
	e.a.V(&x86.PSLLD, t3, 0, t2, x86.Arg{Imm: 20})
	e.with(&x86.MULPS, t3, t3, word(0x7b800000)) // 2 to the 120
	e.a.VKB(&x86.PCMPUD, k7, t2, word(0x7f), x86.Arg{Imm: intEqual})
	e.a.VM(&x86.BROADCASTD, t3, 0, constant(offNaN), x86.Arg{Mask: k7})
	e.with(&x86.PANDD, t2, s, word(0x80))
	e.a.V(&x86.PSLLD, t2, 0, t2, x86.Arg{Imm: 24})
	e.plain(&x86.PORD, d, t3, t2)
}

// fromE5M2 takes the bits for those of an f16.
func fromE5M2(e *emitter, d, s x86.Z) {
	e.a.V(&x86.PSLLD, d, 0, s, x86.Arg{Imm: 8})
	fromF16(e, d, d)
}

// encode has in d the number of s, rounded to nearest; what is too large is the largest number, and NaN is 0x7f.
func (f *eighth) encode(e *emitter, d, s x86.Z) {
	a, r := t2, t3
	shift := 23 - f.fraction
	e.with(&x86.PANDD, a, s, constant(offAbs))
	e.a.V(&x86.PSRLD, r, 0, a, x86.Arg{Imm: shift})
	e.with(&x86.PANDD, r, r, word(1))
	e.plain(&x86.PADDD, r, r, a)
	e.with(&x86.PADDD, r, r, word(f.half-f.bias))
	e.a.V(&x86.PSRLD, r, 0, r, x86.Arg{Imm: shift})
	e.with(&x86.ADDPS, t0, a, word(f.unit))
	e.with(&x86.PSUBD, t0, t0, word(f.unit))
	e.a.VKB(&x86.PCMPUD, k7, a, word(f.least), x86.Arg{Imm: intLess})
	e.a.V(&x86.MOVD, r, 0, t0, x86.Arg{Mask: k7})
	e.with(&x86.PMINUD, r, r, word(f.most))
	e.a.V(&x86.PSRLD, t0, 0, s, x86.Arg{Imm: 31})
	e.a.V(&x86.PSLLD, t0, 0, t0, x86.Arg{Imm: 7})
	e.plain(&x86.PORD, r, r, t0)
	e.a.VKB(&x86.PCMPUD, k7, a, word(0x7f800000), x86.Arg{Imm: intGreater})
	e.a.VM(&x86.BROADCASTD, r, 0, word(0x7f), x86.Arg{Mask: k7})
	e.copyTo(d, r)
}

// eighthRows are the conversions from and to these formats.
func eighthRows(rows map[string]rowOp) {
	f16 := formats[0]
	for _, f := range eighths {
		for relu, fix := range map[string]func(e *emitter, d x86.Z, sign uint32){
			"": func(*emitter, x86.Z, uint32) {},
			".relu": func(e *emitter, d x86.Z, sign uint32) {
				e.a.VKB(&x86.PCMPUD, k7, d, word(sign), x86.Arg{Imm: intLess})
				e.a.V(&x86.MOVD, d, 0, d, x86.Arg{Mask: k7, Zero: true})
			},
		} {
			rows["cvt.rn"+relu+".f16x2."+f.name+"x2"] = rowOp{form: "w=w", emit: computed(32, func(e *emitter, l vec) {
				s := e.scratches(2)
				e.a.V(&x86.PSRLD, s[1], 0, l.a, x86.Arg{Imm: 8})
				for i, z := range []x86.Z{l.a, s[1]} {
					f.decode(e, s[i], z)
					f16.encode(e, t1, s[i])
					fix(e, t1, 0x8000)
					e.copyTo(s[i], t1)
				}
				e.a.V(&x86.PSLLD, s[1], 0, s[1], x86.Arg{Imm: 16})
				e.plain(&x86.PORD, t0, s[0], s[1])
			})}
			pair := func(e *emitter, high, low x86.Z) {
				s := e.scratches(2)
				for i, z := range []x86.Z{low, high} {
					f.encode(e, s[i], z)
					fix(e, s[i], 0x80)
				}
				e.a.V(&x86.PSLLD, s[1], 0, s[1], x86.Arg{Imm: 8})
				e.plain(&x86.PORD, t0, s[0], s[1])
			}
			rows["cvt.rn"+relu+".satfinite."+f.name+"x2.f32"] = rowOp{form: "w=ff", emit: computed(32, func(e *emitter, l vec) { pair(e, l.a, l.b) })}
			rows["cvt.rn"+relu+".satfinite."+f.name+"x2.f16x2"] = rowOp{form: "w=w", emit: computed(32, func(e *emitter, l vec) {
				s := e.scratches(2)
				e.a.V(&x86.PSRLD, s[1], 0, l.a, x86.Arg{Imm: 16})
				f16.decode(e, s[0], l.a)
				f16.decode(e, s[1], s[1])
				pair(e, s[1], s[0])
			})}
		}
	}
}

// class has all ones in d where the magnitude of s, less from, is below size.
func class(wide bool, from, size uint64) func(e *emitter, d, s x86.Z) {
	return func(e *emitter, d, s x86.Z) {
		if wide {
			e.with(&x86.PANDQ, t2, s, double(1<<63-1))
			e.broadcast64(t3, from)
			e.plain(&x86.PSUBQ, t2, t2, t3)
			e.broadcast64(t3, size)
			e.a.VK(&x86.PCMPUQ, k7, t2, t3, x86.Arg{Imm: intLess})
			e.a.VM(&x86.BROADCASTQ, t2, 0, constant(offOnes), x86.Arg{})
			e.a.V(&x86.MOVQ, d, 0, t2, x86.Arg{Mask: k7, Zero: true})
			return
		}
		e.with(&x86.PANDD, t2, s, constant(offAbs))
		e.broadcast32(t3, uint32(from))
		e.plain(&x86.PSUBD, t2, t2, t3)
		e.broadcast32(t3, uint32(size))
		e.a.VK(&x86.PCMPUD, k7, t2, t3, x86.Arg{Imm: intLess})
		e.a.VM(&x86.BROADCASTD, t2, 0, constant(offOnes), x86.Arg{})
		e.a.V(&x86.MOVD, d, 0, t2, x86.Arg{Mask: k7, Zero: true})
	}
}

// classRows are testp.
func classRows(rows map[string]rowOp) {
	for _, t := range []struct {
		name, form    string
		wide          bool
		infinity, one uint64 // infinity, and the smallest normal number
		cmp           *x86.Op
	}{
		{name: "f32", form: "?=w", infinity: 0x7f800000, one: 1 << 23, cmp: &x86.PTESTMD},
		{name: "f64", form: "?=q", wide: true, infinity: 0x7ff << 52, one: 1 << 52, cmp: &x86.PTESTMQ},
	} {
		for name, r := range map[string][2]uint64{
			"finite": {0, t.infinity}, "infinite": {t.infinity, 1}, "number": {0, t.infinity + 1}, "notanumber": {t.infinity + 1, t.infinity},
			"subnormal": {1, t.one - 1},
		} {
			rows["testp."+name+"."+t.name] = rowOp{form: t.form, cmp: t.cmp, from: class(t.wide, r[0], r[1])}
		}
		finite, subnormal := class(t.wide, 0, t.infinity), class(t.wide, 1, t.one-1)
		rows["testp.normal."+t.name] = rowOp{form: t.form, cmp: t.cmp, from: func(e *emitter, d, s x86.Z) { // zero, too
			finite(e, d, s)
			r := e.scratch()
			subnormal(e, r, s)
			e.plain(&x86.PXORD, d, d, r)
		}}
	}
}

// chooseRows are slct by a float32, and fields and vectors of 64 bits.
func chooseRows(rows map[string]rowOp) {
	for ftz, flush := range map[string]bool{"": false, ".ftz": true} {
		rows["slct"+ftz+".32.f32"] = rowOp{form: "w=wwf", emit: computed(32, func(e *emitter, l vec) {
			c := l.c
			if flush {
				e.flush(t1, c)
				c = t1
			}
			e.copyTo(t0, l.b)
			e.a.VKB(&x86.CMPPS, k7, c, word(0), x86.Arg{Imm: cmpGreatEqual})
			e.a.V(&x86.MOVD, t0, 0, l.a, x86.Arg{Mask: k7})
		})}
		rows["slct"+ftz+".64.f32"] = rowOp{form: "q=qqf", widen: &x86.CVTPS2PD, emit: func(e *emitter, l vec) {
			limit, is := 0.0, uint8(cmpGreatEqual)
			if flush { // what is flushed is more than that
				limit, is = -minNormal, cmpGreater
			}
			e.copyTo(t0, l.b)
			e.broadcast64(t1, math.Float64bits(limit))
			e.a.VK(&x86.CMPPD, k7, l.c, t1, x86.Arg{Imm: is})
			e.a.V(&x86.MOVQ, t0, 0, l.a, x86.Arg{Mask: k7})
			e.a.V(&x86.MOVQ, l.d, 0, t0, l.arg())
		}}
	}
	rows["bfi.b64"] = rowOp{form: "q=qqww", emit: func(e *emitter, l vec) {
		s := e.scratches(2)
		e.a.VM(&x86.BROADCASTQ, s[0], 0, double(1), x86.Arg{})
		e.plain(&x86.PSLLVQ, s[1], s[0], l.e)
		e.plain(&x86.PSUBQ, s[1], s[1], s[0])
		e.plain(&x86.PSLLVQ, s[1], s[1], l.c) // the field
		e.plain(&x86.PSLLVQ, s[0], l.a, l.c)
		e.a.V(&x86.PTERNLOGQ, s[1], s[0], l.b, x86.Arg{Imm: choose})
		e.a.V(&x86.MOVQ, l.d, 0, s[1], l.arg())
	}}
	rows["pack4.b64"] = rowOp{form: "q=wwww", emit: func(e *emitter, l vec) {
		s := e.scratches(2)
		e.a.V(&x86.PSLLQ, s[0], 0, l.e, x86.Arg{Imm: 48})
		for i, z := range []x86.Z{l.a, l.b, l.c} {
			e.with(&x86.PANDQ, s[1], z, double(0xffff))
			e.a.V(&x86.PSLLQ, s[1], 0, s[1], x86.Arg{Imm: uint8(16 * i)})
			e.plain(&x86.PORQ, s[0], s[0], s[1])
		}
		e.a.V(&x86.MOVQ, l.d, 0, s[0], l.arg())
	}}
}
