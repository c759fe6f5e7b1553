//go:build amd64 && linux

package jit

import (
	"fmt"

	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// choose is the table of "a ? b : c" for each bit.
const choose = 0xca

// upperProduct is the upper half of a product of 32 bits, to which mad adds c.
func upperProduct(op *x86.Op, mad bool) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		s := e.scratch()
		e.plain(op, t2, l.a, l.b)
		e.a.V(&x86.PSRLQ, t2, 0, t2, x86.Arg{Imm: 32})
		e.a.V(&x86.PSRLQ, t0, 0, l.a, x86.Arg{Imm: 32})
		e.a.V(&x86.PSRLQ, s, 0, l.b, x86.Arg{Imm: 32})
		e.plain(op, t0, t0, s)
		e.with(&x86.PANDQ, t0, t0, double(0xffffffff<<32))
		if mad {
			e.plain(&x86.PORD, t0, t0, t2)
			e.a.V(&x86.PADDD, l.d, t0, l.c, l.arg())
			return
		}
		e.a.V(&x86.PORD, l.d, t0, t2, l.arg())
	}
}

// quotient divides numbers of 32 bits as float64, which is exact: a quotient that is not
// whole is further from the next whole number than it is rounded. By zero it is all ones.
func quotient(signed, remainder bool) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		wide, back := &x86.CVTUDQ2PD, &x86.CVTTPD2UDQ
		if signed {
			wide, back = &x86.CVTDQ2PD, &x86.CVTTPD2DQ
		}
		s := e.scratch()
		for h, t := range []x86.Z{t0, t1} {
			e.a.V(&x86.EXTRACTI64X4, l.a, 0, t, x86.Arg{Imm: uint8(h)})
			e.a.V(wide, t, 0, t, x86.Arg{})
			e.a.V(&x86.EXTRACTI64X4, l.b, 0, s, x86.Arg{Imm: uint8(h)})
			e.a.V(wide, s, 0, s, x86.Arg{})
			e.plain(&x86.DIVPD, t, t, s)
			e.a.V(back, t, 0, t, x86.Arg{})
		}
		e.a.V(&x86.INSERTI64X4, t0, t0, t1, x86.Arg{Imm: 1})
		if remainder {
			e.plain(&x86.PMULLD, t0, t0, l.b)
			e.plain(&x86.PSUBD, t0, l.a, t0)
		}
		if signed || remainder {
			e.plain(&x86.PXORD, t1, t1, t1)
			e.a.VK(&x86.PCMPUD, k7, l.b, t1, x86.Arg{Imm: intEqual})
			e.a.VM(&x86.BROADCASTD, t0, 0, constant(offOnes), x86.Arg{Mask: k7})
		}
		e.a.V(&x86.MOVD, l.d, 0, t0, l.arg())
	}
}

// signedField is bfe.s32.
func signedField(e *emitter, l vec) {
	e.with(&x86.PANDD, t0, l.b, constant(offByte))
	e.plain(&x86.PSRAVD, t0, l.a, t0)
	e.with(&x86.PANDD, t1, l.c, constant(offByte))
	e.with(&x86.PMINUD, t1, t1, constant(off32))
	e.a.VM(&x86.BROADCASTD, t2, 0, constant(off32), x86.Arg{})
	e.plain(&x86.PSUBD, t1, t2, t1)
	e.plain(&x86.PSLLVD, t0, t0, t1)
	e.a.V(&x86.PSRAVD, l.d, t0, t1, l.arg())
}

// insertField is bfi.b32.
func insertField(e *emitter, l vec) {
	s := e.scratch()
	e.with(&x86.PANDD, t0, l.c, constant(offByte))
	e.with(&x86.PANDD, t1, l.e, constant(offByte))
	e.a.VM(&x86.BROADCASTD, t2, 0, constant(offOne), x86.Arg{})
	e.plain(&x86.PSLLVD, t1, t2, t1)
	e.plain(&x86.PSUBD, t1, t1, t2)
	e.plain(&x86.PSLLVD, t1, t1, t0) // the field
	e.plain(&x86.PSLLVD, s, l.a, t0)
	e.a.V(&x86.PTERNLOGD, t1, s, l.b, x86.Arg{Imm: choose})
	e.a.V(&x86.MOVD, l.d, 0, t1, l.arg())
}

// countBits is popc, by sums of ever longer fields.
func countBits(e *emitter, l vec) {
	e.a.V(&x86.PSRLD, t2, 0, l.a, x86.Arg{Imm: 1})
	e.with(&x86.PANDD, t2, t2, word(0x55555555))
	e.plain(&x86.PSUBD, t2, l.a, t2)
	e.a.V(&x86.PSRLD, t0, 0, t2, x86.Arg{Imm: 2})
	e.with(&x86.PANDD, t0, t0, word(0x33333333))
	e.with(&x86.PANDD, t2, t2, word(0x33333333))
	e.plain(&x86.PADDD, t2, t2, t0)
	e.a.V(&x86.PSRLD, t0, 0, t2, x86.Arg{Imm: 4})
	e.plain(&x86.PADDD, t2, t2, t0)
	e.with(&x86.PANDD, t2, t2, word(0x0f0f0f0f))
	e.with(&x86.PMULLD, t2, t2, word(0x01010101))
	e.a.V(&x86.PSRLD, l.d, 0, t2, x86.Arg{Mask: l.k, Imm: 24})
}

// leadingZeros is clz: the exponent of a number as float64, of which zero has none.
func leadingZeros(e *emitter, l vec) {
	for h, t := range []x86.Z{t0, t1} {
		e.a.V(&x86.EXTRACTI64X4, l.a, 0, t, x86.Arg{Imm: uint8(h)})
		e.a.V(&x86.CVTUDQ2PD, t, 0, t, x86.Arg{})
		e.a.V(&x86.PSRLQ, t, 0, t, x86.Arg{Imm: 52})
		e.a.V(&x86.PMOVQD, t, 0, t, x86.Arg{})
	}
	e.a.V(&x86.INSERTI64X4, t0, t0, t1, x86.Arg{Imm: 1})
	e.a.VM(&x86.BROADCASTD, t1, 0, word(1023+31), x86.Arg{})
	e.plain(&x86.PSUBD, t0, t1, t0)
	e.a.VB(&x86.PMINUD, l.d, t0, constant(off32), l.arg())
}

// pickBytes is prmt: a selector in each byte, the bytes of both operands by a shuffle each.
func pickBytes(e *emitter, l vec) {
	s := e.scratches(2)
	sel, r := s[0], s[1]
	e.with(&x86.PANDD, sel, l.c, word(0xf))
	for i, nibble := range []uint32{0xf0, 0xf00, 0xf000} {
		e.with(&x86.PANDD, t2, l.c, word(nibble))
		e.a.V(&x86.PSLLD, t2, 0, t2, x86.Arg{Imm: uint8(4 * (i + 1))})
		e.plain(&x86.PORD, sel, sel, t2)
	}
	e.with(&x86.PANDD, t0, sel, word(0x03030303))
	e.a.VM(&x86.PADDD, t0, t0, constant(offBytes), x86.Arg{})
	e.with(&x86.PANDD, t1, sel, word(0x04040404))
	e.a.V(&x86.PSLLD, t1, 0, t1, x86.Arg{Imm: 5}) // the top bit makes a byte zero
	e.plain(&x86.PORD, t2, t0, t1)
	e.plain(&x86.PSHUFB, r, l.a, t2)
	e.with(&x86.PXORD, t1, t1, word(0x80808080))
	e.plain(&x86.PORD, t2, t0, t1)
	e.plain(&x86.PSHUFB, t2, l.b, t2)
	e.plain(&x86.PORD, r, r, t2)
	for _, b := range []struct {
		d, s  x86.Z
		shift uint8
	}{{d: t0, s: sel, shift: 3}, {d: t1, s: r, shift: 7}} { // which are signs, and the signs
		e.a.V(&x86.PSRLD, b.d, 0, b.s, x86.Arg{Imm: b.shift})
		e.with(&x86.PANDD, b.d, b.d, word(0x01010101))
		e.a.V(&x86.PSLLD, t2, 0, b.d, x86.Arg{Imm: 8})
		e.plain(&x86.PSUBD, b.d, t2, b.d)
	}
	e.a.V(&x86.PTERNLOGD, t0, t1, r, x86.Arg{Imm: choose})
	e.a.V(&x86.MOVD, l.d, 0, t0, l.arg())
}

// extended is z as a number of some bits, in t2 where that is not z.
func (e *emitter) extended(z, t x86.Z, bits uint8, signed bool) x86.Z {
	switch {
	case bits == 32:
		return z
	case !signed && bits == 16:
		e.with(&x86.PANDD, t, z, word(0xffff))
	case !signed:
		e.with(&x86.PANDD, t, z, word(0xff))
	default:
		e.a.V(&x86.PSLLD, t, 0, z, x86.Arg{Imm: 32 - bits})
		e.a.V(&x86.PSRAD, t, 0, t, x86.Arg{Imm: 32 - bits})
	}
	return t
}

// small is an operation whose result has 16 bits.
func small(op *x86.Op) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.plain(op, t2, l.a, l.b)
		e.a.VB(&x86.PANDD, l.d, t2, word(0xffff), l.arg())
	}
}

// resized is a conversion between integers; a register of 16 bits holds 8 extended to 16.
func resized(d, s uint8, toSigned, fromSigned bool) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		z := e.extended(l.a, t2, s, fromSigned)
		if d == 8 {
			z = e.extended(z, t2, 8, toSigned)
		}
		if d == 32 {
			e.a.V(&x86.MOVD, l.d, 0, z, l.arg())
			return
		}
		e.a.VB(&x86.PANDD, l.d, z, word(0xffff), l.arg())
	}
}

// toInteger converts a float32, rounded, to 32 bits; what does not fit is clamped, and NaN is 0.
func toInteger(op *x86.Op, mode x86.Round, signed bool) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.a.V(op, t0, 0, l.a, x86.Arg{Round: mode})
		if signed {
			e.a.VKB(&x86.CMPPS, k7, l.a, constant(offTwo31), x86.Arg{Imm: cmpGreatEqual})
			e.a.VB(&x86.PXORD, t0, t0, constant(offOnes), x86.Arg{Mask: k7})
			e.a.VK(&x86.CMPPS, k7, l.a, l.a, x86.Arg{Imm: cmpOrdered})
		} else {
			e.plain(&x86.PXORD, t1, t1, t1)
			e.a.VK(&x86.CMPPS, k7, l.a, t1, x86.Arg{Imm: cmpGreater})
		}
		e.a.V(&x86.MOVD, t0, 0, t0, x86.Arg{Mask: k7, Zero: true})
		e.a.V(&x86.MOVD, l.d, 0, t0, l.arg())
	}
}

func intRows(rows map[string]rowOp) {
	for t, op := range map[string]*x86.Op{"u32": &x86.PMULUDQ, "s32": &x86.PMULDQ} {
		signed := t == "s32"
		rows["mul.hi."+t] = rowOp{form: "w=ww", emit: upperProduct(op, false)}
		rows["mad.hi."+t] = rowOp{form: "w=www", emit: upperProduct(op, true)}
		rows["div."+t] = rowOp{form: "w=ww", emit: quotient(signed, false)}
		rows["rem."+t] = rowOp{form: "w=ww", emit: quotient(signed, true)}
		lower, upper := &x86.PMINUD, &x86.PMAXUD
		if signed {
			lower, upper = &x86.PMINSD, &x86.PMAXSD
		}
		rows["sad."+t] = rowOp{form: "w=www", emit: func(e *emitter, l vec) {
			e.plain(upper, t2, l.a, l.b)
			e.plain(lower, t0, l.a, l.b)
			e.plain(&x86.PSUBD, t2, t2, t0)
			e.a.V(&x86.PADDD, l.d, t2, l.c, l.arg())
		}}
	}
	rows["bfe.s32"] = rowOp{form: "w=www", emit: signedField}
	rows["bfi.b32"] = rowOp{form: "w=wwww", emit: insertField}
	rows["popc.b32"] = rowOp{form: "w=w", emit: countBits}
	rows["clz.b32"] = rowOp{form: "w=w", emit: leadingZeros}
	rows["prmt.b32"] = rowOp{form: "w=www", emit: pickBytes}
	for key, op := range map[string]*x86.Op{"add": &x86.PADDD, "sub": &x86.PSUBD, "mul.lo": &x86.PMULLD, "and": &x86.PANDD, "or": &x86.PORD, "xor": &x86.PXORD} {
		rows[key+".u16"] = rowOp{form: "w=ww", emit: small(op)}
	}
	rows["min.u16"] = rowOp{form: "w=ww", emit: small(&x86.PMINUD)}
	rows["max.u16"] = rowOp{form: "w=ww", emit: small(&x86.PMAXUD)}
	for name, p := range map[string]uint8{"eq": intEqual, "ne": intNotEqual, "lt": intLess, "le": intLessEqual, "gt": intGreater, "ge": intGreatEq} {
		rows[name+".u16"] = rowOp{form: "?=ww", cmp: &x86.PCMPUD, pred: p}
	}
	rows["shl.b16"] = rowOp{form: "w=ww", emit: small(&x86.PSLLVD)}
	rows["shr.u16"] = rowOp{form: "w=ww", emit: small(&x86.PSRLVD)}
	rows["mul.wide.u16"] = rowOp{form: "w=ww", emit: two(&x86.PMULLD)}
	rows["mul.wide.s16"] = rowOp{form: "w=ww", emit: func(e *emitter, l vec) {
		e.extended(l.a, t2, 16, true)
		e.extended(l.b, t0, 16, true)
		e.a.V(&x86.PMULLD, l.d, t2, t0, l.arg())
	}}
	for _, d := range []uint8{8, 16, 32} {
		for _, s := range []uint8{8, 16, 32} {
			for _, k := range []struct {
				name string
				d, s bool
			}{{name: "cvt.u%d.u%d"}, {name: "cvt.s%d.u%d", d: true}, {name: "cvt.u%d.s%d", s: true}, {name: "cvt.s%d.s%d", d: true, s: true}} {
				if d != 32 || s != 32 {
					rows[fmt.Sprintf(k.name, d, s)] = rowOp{form: "w=w", emit: resized(d, s, k.d, k.s)}
				}
			}
			if d == 32 && s != 32 {
				for t, signed := range map[string]bool{"u": false, "s": true} {
					rows[fmt.Sprintf("cvt.rn.f32.%s%d", t, s)] = rowOp{form: "f=w", float: true, emit: func(e *emitter, l vec) {
						z := e.extended(l.a, t2, s, signed)
						e.a.V(&x86.CVTDQ2PS, l.d, 0, z, l.arg())
					}}
				}
			}
		}
	}
	for mode, round := range map[string]x86.Round{"rni": x86.Nearest, "rmi": x86.Down, "rpi": x86.Up} {
		for t, op := range map[string]*x86.Op{"s32": &x86.CVTPS2DQ, "u32": &x86.CVTPS2UDQ} {
			rows["cvt."+mode+"."+t+".f32"] = rowOp{form: "w=f", emit: toInteger(op, round, t == "s32")}
		}
	}
	rows["cvt.rzi.ftz.s32.f32"] = rowOp{form: "w=f", emit: truncSigned} // what is flushed is 0 anyway
	rows["cvt.rzi.ftz.u32.f32"] = rowOp{form: "w=f", emit: truncUnsigned}
	rows["cvt.rni.ftz.s32.f32"] = rowOp{form: "w=f", emit: toInteger(&x86.CVTPS2DQ, x86.Nearest, true)}
}
