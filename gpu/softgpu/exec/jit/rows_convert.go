//go:build amd64 && linux

package jit

import (
	"fmt"

	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Conversions between integers with saturation, between numbers and integers of other sizes than 32 bits, and to tf32.

// integer is a type of integers.
type integer struct {
	name   string
	bits   uint8
	signed bool
}

var integers = []integer{
	{name: "u8", bits: 8}, {name: "s8", bits: 8, signed: true}, {name: "u16", bits: 16}, {name: "s16", bits: 16, signed: true},
	{name: "u32", bits: 32}, {name: "s32", bits: 32, signed: true}, {name: "u64", bits: 64}, {name: "s64", bits: 64, signed: true},
}

// most and least are the ends of the range of a type, as its bits in a register.
func (t integer) most() uint64 {
	if t.signed {
		return 1<<(t.bits-1) - 1
	}
	return 1<<t.bits - 1
}

func (t integer) least() uint64 { return ^t.most() }

func (t integer) letter() string {
	if t.bits == 64 {
		return "q"
	}
	return "w"
}

// broadcast64 gives all lanes a constant.
func (e *emitter) broadcast64(d x86.Z, x uint64) {
	e.a.Imm64(x86.RAX, x)
	e.a.FromGP(&x86.FROMGPQ, d, x86.RAX, x86.Arg{})
}

// clamp brings a number in z, of a type from, into the range of t. It takes t2.
func (e *emitter) clamp(z x86.Z, from, t integer) {
	least, most, mostU, set := &x86.PMAXSD, &x86.PMINSD, &x86.PMINUD, func(x uint64) { e.broadcast32(t2, uint32(x)) }
	if from.bits == 64 {
		least, most, mostU, set = &x86.PMAXSQ, &x86.PMINSQ, &x86.PMINUQ, func(x uint64) { e.broadcast64(t2, x) }
	}
	switch {
	case !from.signed:
		if t.bits < from.bits || t.bits == from.bits && t.signed {
			set(t.most())
			e.plain(mostU, z, z, t2)
		}
		return
	case t.signed && t.bits < from.bits:
		set(t.least())
		e.plain(least, z, z, t2)
	case !t.signed:
		e.plain(&x86.PXORQ, t2, t2, t2)
		e.plain(least, z, z, t2)
	}
	if t.bits < from.bits {
		set(t.most())
		e.plain(most, z, z, t2)
	}
}

// asRegister writes a number of a type, in t0, as a register of 32 bits has it.
func (e *emitter) asRegister(l vec, t integer) {
	if t.bits < 32 {
		e.a.VB(&x86.PANDD, l.d, t0, word(0xffff), l.arg())
		return
	}
	e.a.V(&x86.MOVD, l.d, 0, t0, l.arg())
}

// saturating is cvt.sat from a type to another.
func saturating(d, s integer) func(*emitter, vec) {
	switch {
	case d.bits == 64 && s.bits == 64:
		return func(e *emitter, l vec) {
			e.copyTo(t0, l.a)
			e.clamp(t0, s, d)
			e.a.V(&x86.MOVQ, l.d, 0, t0, l.arg())
		}
	case d.bits == 64: // the operand comes extended by zeros
		return func(e *emitter, l vec) {
			r := e.scratch()
			n := 64 - s.bits
			e.a.V(&x86.PSLLQ, t2, 0, l.a, x86.Arg{Imm: n})
			if !s.signed {
				e.a.V(&x86.PSRLQ, l.d, 0, t2, x86.Arg{Mask: l.k, Imm: n})
				return
			}
			e.broadcast64(r, uint64(n))
			e.plain(&x86.PSRAVQ, r, t2, r)
			e.clamp(r, integer{bits: 64, signed: true}, d)
			e.a.V(&x86.MOVQ, l.d, 0, r, l.arg())
		}
	case s.bits == 64:
		return func(e *emitter, l vec) {
			r := e.scratches(2)
			for i, z := range []x86.Z{l.a, l.high} {
				e.copyTo(r[i], z)
				e.clamp(r[i], s, d)
			}
			e.halves(t0, r[0], r[1])
			e.asRegister(l, d)
		}
	}
	return func(e *emitter, l vec) {
		e.extend(t0, l.a, s.bits, s.signed)
		e.clamp(t0, integer{bits: 32, signed: s.signed}, d)
		e.asRegister(l, d)
	}
}

// fromSingle converts float32s, which decode makes of operands, to integers of at most 32 bits.
func fromSingle(decode func(e *emitter, d, s x86.Z), t integer, mode x86.Round) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		s, r := e.scratch(), e.scratch()
		decode(e, s, l.a)
		if t.bits == 32 && !t.signed {
			toInteger(&x86.CVTPS2UDQ, mode, false)(e, vec{d: r, a: s})
		} else {
			toInteger(&x86.CVTPS2DQ, mode, true)(e, vec{d: r, a: s})
			if t.bits < 32 {
				e.clamp(r, integer{bits: 32, signed: true}, t)
			}
		}
		e.copyTo(t0, r)
		e.asRegister(l, t)
	}
}

// fromDouble converts float64s, rounded to whole numbers, to integers of at most 32 bits.
func fromDouble(t integer, whole uint8) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		s := e.scratch()
		for _, t := range []struct {
			d, s x86.Z
			t    integer
		}{{d: t0, s: l.a, t: t}, {d: t1, s: l.high, t: t}} {
			e.a.V(&x86.RNDSCALED, s, 0, t.s, x86.Arg{Imm: whole})
			if t.t.bits == 32 && !t.t.signed {
				e.a.V(&x86.CVTTPD2UDQ, t.d, 0, s, x86.Arg{})
				clampUnsigned(e, t.d, s)
				continue
			}
			e.a.V(&x86.CVTTPD2DQ, t.d, 0, s, x86.Arg{})
			clampSigned(e, t.d, s)
			if t.t.bits == 32 {
				continue
			}
			e.clamp(t.d, integer{bits: 32, signed: true}, t.t)
			if !t.t.signed { // NaN is the highest bit
				e.broadcast32(t2, uint32(1)<<(t.t.bits-1))
				e.a.VK(&x86.CMPPD, k7, s, s, x86.Arg{Imm: cmpUnordered})
				e.a.V(&x86.MOVD, t.d, 0, t2, x86.Arg{Mask: k7})
			}
		}
		e.a.V(&x86.INSERTI64X4, t0, t0, t1, x86.Arg{Imm: 1})
		e.asRegister(l, t)
	}
}

// toWide converts float64s, rounded to whole numbers, to integers of 64 bits. NaN is the highest bit. Those below the
// smallest normal float32 are zeros with flush.
func toWide(signed, flush bool, whole uint8) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		s := e.scratches(3)
		x, r, high := s[0], s[1], s[2]
		e.copyTo(x, l.a)
		if flush {
			e.with(&x86.PANDQ, t2, x, double(1<<63-1))
			e.a.VKB(&x86.CMPPD, k7, t2, f64(minNormal), x86.Arg{Imm: cmpNotLess}) // or NaN
			e.a.V(&x86.MOVQ, x, 0, x, x86.Arg{Mask: k7, Zero: true})
		}
		e.a.V(&x86.RNDSCALED, x, 0, x, x86.Arg{Imm: whole})
		if signed {
			toInt64(e, vec{d: l.d, k: l.k, a: x})
			return
		}
		e.plain(&x86.PXORQ, t2, t2, t2)
		e.a.VK(&x86.CMPPD, k7, x, t2, x86.Arg{Imm: cmpLess})
		e.a.V(&x86.MOVQ, x, 0, t2, x86.Arg{Mask: k7})
		e.with(&x86.SUBPD, high, x, f64(1<<63))
		e.a.V(&x86.CVTTPD2QQ, r, 0, x, x86.Arg{})
		e.a.V(&x86.CVTTPD2QQ, high, 0, high, x86.Arg{})
		e.with(&x86.PXORQ, high, high, double(1<<63))
		e.a.VKB(&x86.CMPPD, k7, x, f64(1<<63), x86.Arg{Imm: cmpGreatEqual})
		e.a.V(&x86.MOVQ, r, 0, high, x86.Arg{Mask: k7})
		e.a.VKB(&x86.CMPPD, k7, x, f64(1<<64), x86.Arg{Imm: cmpGreatEqual})
		e.a.VM(&x86.BROADCASTQ, r, 0, constant(offOnes), x86.Arg{Mask: k7})
		e.a.V(&x86.MOVQ, l.d, 0, r, l.arg())
	}
}

// clampedDouble clamps what emit makes to 0 and 1; NaN becomes 0.
func clampedDouble(emit func(*emitter, vec)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		d, k := l.d, l.k
		l.d, l.k = e.scratch(), 0
		emit(e, l)
		e.plain(&x86.PXORQ, t2, t2, t2)
		e.plain(&x86.MAXPD, l.d, l.d, t2)
		e.a.VB(&x86.MINPD, d, l.d, f64(1), x86.Arg{Mask: k})
	}
}

// smallToDouble is a float64 of an integer of less than 32 bits.
func smallToDouble(t integer) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.extend(t2, l.a, t.bits, t.signed)
		e.a.V(&x86.PMOVQD, t2, 0, t2, x86.Arg{})
		e.a.V(&x86.CVTDQ2PD, t2, 0, t2, x86.Arg{})
		e.a.V(&x86.MOVQ, l.d, 0, t2, l.arg())
	}
}

// integerRows are the conversions from and to integers.
func integerRows(rows map[string]rowOp) {
	rounds := map[string]x86.Round{"rni": x86.Nearest, "rmi": x86.Down, "rpi": x86.Up, "rzi": x86.Truncate}
	sources := map[string]struct {
		form   string
		decode func(e *emitter, d, s x86.Z)
	}{".f32": {form: "w=f", decode: (*emitter).copyTo}, ".ftz.f32": {form: "w=f", decode: (*emitter).flush},
		".f16": {form: "w=w", decode: fromF16}, ".bf16": {form: "w=w", decode: fromBF16}}
	for _, d := range integers {
		for _, s := range integers {
			rows["cvt.sat."+d.name+"."+s.name] = rowOp{form: d.letter() + "=" + s.letter(), emit: saturating(d, s)}
		}
		for mode, whole := range wholeModes {
			for name, from := range sources {
				key := "cvt." + mode + "." + d.name + name
				if name == ".ftz.f32" {
					key = "cvt." + mode + ".ftz." + d.name + ".f32"
				}
				if _, known := rows[key]; !known && d.bits < 64 {
					rows[key] = rowOp{form: from.form, emit: fromSingle(from.decode, d, rounds[mode])}
				}
			}
			if d.bits == 64 {
				for ftz, flush := range map[string]bool{"": false, ".ftz": true} {
					rows["cvt."+mode+ftz+"."+d.name+".f32"] = rowOp{form: "q=f", emit: toWide(d.signed, flush, whole), widen: &x86.CVTPS2PD}
				}
				rows["cvt."+mode+"."+d.name+".f64"] = rowOp{form: "q=g", emit: toWide(d.signed, false, whole)}
			} else if mode != "rzi" || d.bits < 32 {
				rows["cvt."+mode+"."+d.name+".f64"] = rowOp{form: "w=g", emit: fromDouble(d, whole)}
			}
		}
	}
	for _, s := range integers[:4] {
		for _, mode := range []string{"rn", "rz", "rm", "rp"} {
			rows["cvt."+mode+".f64."+s.name] = rowOp{form: "g=w", emit: smallToDouble(s)}
			rows["cvt."+mode+".sat.f64."+s.name] = rowOp{form: "g=w", emit: clampedDouble(smallToDouble(s))}
			single := rows["cvt.rn.f32."+s.name]
			rows["cvt."+mode+".f32."+s.name] = single
			rows["cvt."+mode+".sat.f32."+s.name] = rowOp{form: "f=w", emit: saturated(single.emit), float: true}
		}
	}
	for t, wide := range map[string]*x86.Op{"u32": &x86.CVTUDQ2PD, "s32": &x86.CVTDQ2PD} {
		for _, mode := range []string{"rn", "rz", "rm", "rp"} { // exact
			rows["cvt."+mode+".f64."+t] = rowOp{form: "g=w", emit: one(&x86.MOVQ), widen: wide}
			rows["cvt."+mode+".sat.f64."+t] = rowOp{form: "g=w", emit: clampedDouble(one(&x86.MOVQ)), widen: wide}
		}
	}
	for _, m := range roundings[1:] {
		rows[fmt.Sprintf("cvt%s.f32.s32", m.key)] = rowOp{form: "f=w", emit: rounded(&x86.CVTDQ2PS, m.mode, true)}
	}
	for _, t := range []string{"u32", "s32", "u64", "s64"} { // those that are at least 1 are 1, whatever they are rounded to
		for _, mode := range []string{"rn", "rz", "rm", "rp"} {
			r := rows["cvt.rn.f32."+t]
			rows["cvt."+mode+".sat.f32."+t] = rowOp{form: r.form, emit: saturated(r.emit), float: true}
			r = rows["cvt.rn.f64."+t]
			rows["cvt."+mode+".sat.f64."+t] = rowOp{form: r.form, emit: clampedDouble(r.emit), widen: r.widen}
		}
	}
}
