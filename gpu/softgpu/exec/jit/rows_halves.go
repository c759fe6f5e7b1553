//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// f16 and bf16 with .ftz, .sat, .relu and .NaN, their comparisons, and conversions to them. The modifiers work on the
// bits of results: what is flushed, clamped or made zero is the same before and after it is rounded.

// ofHalf is a format whose bits have a sign and 15 more.
type ofHalf struct {
	half
	name     string
	infinity uint32
	one      uint32
	flushes  bool // .ftz is a modifier
}

var formats = []ofHalf{
	{half: halves["f16"], name: "f16", infinity: 0x7c00, one: 0x3c00, flushes: true},
	{half: halves["bf16"], name: "bf16", infinity: 0x7f80, one: 0x3f80},
}

// after is a format whose results fix changes in d, where they are 16 bits.
func (h half) after(fix func(e *emitter, d x86.Z)) half {
	encode := h.encode
	h.encode = func(e *emitter, d, s x86.Z) {
		encode(e, d, s)
		fix(e, d)
	}
	return h
}

// flushing is f16 whose subnormal numbers are zeros of their sign, as operands and as results.
func flushing(h half) half {
	decode := h.decode
	h.decode = func(e *emitter, d, s x86.Z) {
		decode(e, d, s)
		e.with(&x86.PANDD, t2, d, constant(offAbs))
		e.a.VKB(&x86.PCMPUD, k7, t2, word(0x38800000), x86.Arg{Imm: intLess}) // 2 to the -14
		e.a.VB(&x86.PANDD, d, d, constant(offSign), x86.Arg{Mask: k7})
	}
	return h.after(func(e *emitter, d x86.Z) {
		e.with(&x86.PANDD, t2, d, word(0x7c00))
		e.plain(&x86.PXORD, t3, t3, t3)
		e.a.VK(&x86.PCMPUD, k7, t2, t3, x86.Arg{Imm: intEqual})
		e.a.VB(&x86.PANDD, d, d, word(0x8000), x86.Arg{Mask: k7})
	})
}

// clamped makes results at least 0, and NaN 0, and at most 1.
func (h ofHalf) clamped(e *emitter, d x86.Z) {
	e.a.VKB(&x86.PCMPUD, k7, d, word(h.infinity), x86.Arg{Imm: intLessEqual})
	e.a.V(&x86.MOVD, d, 0, d, x86.Arg{Mask: k7, Zero: true})
	e.with(&x86.PMINUD, d, d, word(h.one))
}

// positive makes results at least 0; NaN is positive.
func positive(e *emitter, d x86.Z) {
	e.a.VKB(&x86.PCMPUD, k7, d, word(0x8000), x86.Arg{Imm: intLess})
	e.a.V(&x86.MOVD, d, 0, d, x86.Arg{Mask: k7, Zero: true})
}

// finite makes infinities the largest number.
func (h ofHalf) finite(e *emitter, d x86.Z) {
	e.with(&x86.PANDD, t2, d, word(0x7fff))
	e.a.VKB(&x86.PCMPUD, k7, t2, word(h.infinity), x86.Arg{Imm: intEqual})
	e.a.VB(&x86.PADDD, d, d, constant(offOnes), x86.Arg{Mask: k7})
}

// modified are the modifiers that results of arithmetic have, by their part of a key.
func (h ofHalf) modified(relu bool) map[string]half {
	all := map[string]half{".sat": h.after(h.clamped)}
	if relu {
		all[".relu"] = h.after(positive)
	}
	if h.flushes {
		f := flushing(h.half)
		all[".ftz"], all[".ftz.sat"] = f, f.after(h.clamped)
		if relu {
			all[".ftz.relu"] = f.after(positive)
		}
	}
	return all
}

// withNaN is min or max, of which NaN is the result if an operand is.
func withNaN(emit func(*emitter, vec)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		d := l.d
		l.d, l.k = e.scratch(), 0
		emit(e, l)
		e.a.VK(&x86.CMPPS, k7, l.a, l.b, x86.Arg{Imm: cmpUnordered})
		e.a.VM(&x86.BROADCASTD, l.d, 0, constant(offNaN), x86.Arg{Mask: k7})
		e.copyTo(d, l.d)
	}
}

// ofMagnitudes is emit of the magnitudes, with the product of the signs.
func ofMagnitudes(emit func(*emitter, vec)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		d, s := l.d, e.scratches(4)
		e.plain(&x86.PXORD, s[2], l.a, l.b)
		e.with(&x86.PANDD, s[2], s[2], constant(offSign))
		e.with(&x86.PANDD, s[0], l.a, constant(offAbs))
		e.with(&x86.PANDD, s[1], l.b, constant(offAbs))
		emit(e, vec{d: s[3], a: s[0], b: s[1]})
		e.plain(&x86.PORD, d, s[3], s[2])
	}
}

// extremes are the forms of min and max of float32 that few programs use, by their part of a key.
func extremes(emit func(*emitter, vec)) map[string]func(*emitter, vec) {
	return map[string]func(*emitter, vec){
		".NaN": withNaN(emit), ".xorsign.abs": ofMagnitudes(emit), ".NaN.xorsign.abs": ofMagnitudes(withNaN(emit)),
	}
}

var minAndMax = map[string]func(*emitter, vec){"min": extreme(&x86.PORD, cmpNotGreatEq, cmpLess), "max": extreme(&x86.PANDD, cmpNotLessEq, cmpGreater)}

// halvesRows are the operations of f16 and bf16 with modifiers.
func halvesRows(rows map[string]rowOp) {
	for _, h := range formats {
		for x2, both := range map[string]bool{"": false, "x2": true} {
			key := "." + h.name + x2
			for op, ins := range map[string]*x86.Op{"add": &x86.ADDPS, "sub": &x86.SUBPS, "mul": &x86.MULPS} {
				for mods, as := range h.modified(false) {
					rows[op+mods+key] = rowOp{form: "w=ww", emit: onHalves(as, 2, 0, both, func(e *emitter, args []x86.Z) { e.plain(ins, t1, args[0], args[1]) })}
				}
			}
			for op, neg := range map[string][2]bool{"fma": {}, "fms": {false, true}, "fnma": {true, false}, "fnms": {true, true}} {
				for mods, as := range h.modified(true) {
					rows[op+mods+key] = rowOp{form: "w=www", emit: onHalves(as, 3, 3, both, fusedHalf(neg[0], neg[1]))}
				}
			}
			h.extremeRows(rows, key, both)
			powers := inDouble(4, exp2, nil)
			power := func(e *emitter, args []x86.Z) {
				powers(e, vec{d: args[1], a: args[0]})
				e.copyTo(t1, args[1])
			}
			rows["ex2.approx"+key] = rowOp{form: "w=w", emit: onHalves(h.half, 1, 1, both, power)}
			if h.name == "bf16" { // whose subnormal numbers are those of float32
				rows["ex2.approx.ftz"+key] = rowOp{form: "w=w", emit: onHalves(h.half, 1, 1, both, func(e *emitter, args []x86.Z) {
					e.flush(args[0], args[0])
					power(e, args)
					e.flush(t1, t1)
				})}
			}
		}
		for name, p := range floatPredicates {
			rows[name+"."+h.name] = rowOp{form: "?=ww", cmp: &x86.CMPPS, pred: p, from: h.decode}
			if h.flushes {
				rows[name+".ftz."+h.name] = rowOp{form: "?=ww", cmp: &x86.CMPPS, pred: p, from: flushing(h.half).decode}
			}
		}
		h.conversionRows(rows)
	}
	for op, emit := range minAndMax {
		for mods, as := range extremes(emit) {
			rows[op+mods+".f32"] = rowOp{form: "f=ff", emit: as, float: true, signs: true}
			rows[op+".ftz"+mods+".f32"] = rowOp{form: "f=ff", emit: flushedOperands(as), float: true, signs: true}
		}
	}
}

// flushedOperands is an operation of two operands, which are flushed; so is then the result.
func flushedOperands(emit func(*emitter, vec)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.flushOperands(&l, 2)
		emit(e, l)
	}
}

func (h ofHalf) extremeRows(rows map[string]rowOp, key string, both bool) {
	for op, emit := range minAndMax {
		forms := extremes(emit)
		forms[""] = emit
		for mods, as := range forms {
			compute := func(e *emitter, args []x86.Z) {
				as(e, vec{d: args[2], a: args[0], b: args[1]})
				e.copyTo(t1, args[2])
			}
			if mods != "" {
				rows[op+mods+key] = rowOp{form: "w=ww", emit: onHalves(h.half, 2, 1, both, compute)}
			}
			if h.flushes {
				rows[op+".ftz"+mods+key] = rowOp{form: "w=ww", emit: onHalves(flushing(h.half), 2, 1, both, compute)}
			}
		}
	}
	if h.flushes {
		rows["neg.ftz"+key] = rowOp{form: "w=w", emit: onHalves(flushing(h.half), 1, 0, both, func(e *emitter, args []x86.Z) {
			e.with(&x86.PXORD, t1, args[0], constant(offSign))
		})}
		rows["abs.ftz"+key] = rowOp{form: "w=w", emit: onHalves(flushing(h.half), 1, 0, both, func(e *emitter, args []x86.Z) {
			e.with(&x86.PANDD, t1, args[0], constant(offAbs))
		})}
	}
}

// conversionRows are conversions to a format from float32, from integers that are exact as such, from the other
// format, and to whole numbers.
func (h ofHalf) conversionRows(rows map[string]rowOp) {
	to := func(as half) func(*emitter, vec) {
		return func(e *emitter, l vec) {
			as.encode(e, t1, l.a)
			e.a.V(&x86.MOVD, l.d, 0, t1, l.arg())
		}
	}
	for mods, as := range map[string]half{".ftz": h.half, ".sat": h.after(h.clamped), ".ftz.sat": h.after(h.clamped)} {
		rows["cvt.rn"+mods+"."+h.name+".f32"] = rowOp{form: "w=f", emit: to(as)}
	}
	for mods, as := range map[string]half{".relu": h.after(positive), ".satfinite": h.after(h.finite), ".relu.satfinite": h.after(positive).after(h.finite)} {
		rows["cvt.rn"+mods+"."+h.name+".f32"] = rowOp{form: "w=f", emit: to(as)}
		rows["cvt.rn"+mods+"."+h.name+"x2.f32"] = rowOp{form: "w=ff", emit: func(e *emitter, l vec) {
			s := e.scratch()
			as.encode(e, s, l.a)
			e.a.V(&x86.PSLLD, s, 0, s, x86.Arg{Imm: 16})
			as.encode(e, t1, l.b)
			e.a.V(&x86.PORD, l.d, s, t1, l.arg())
		}}
	}
	through := func(from func(e *emitter, d, s x86.Z), as half) func(*emitter, vec) {
		return func(e *emitter, l vec) {
			s := e.scratch()
			from(e, s, l.a)
			as.encode(e, t1, s)
			e.a.V(&x86.MOVD, l.d, 0, t1, l.arg())
		}
	}
	for sat, as := range map[string]half{"": h.half, ".sat": h.after(h.clamped)} {
		for t, k := range smallIntegers {
			rows["cvt.rn"+sat+"."+h.name+"."+t] = rowOp{form: "w=w", emit: through(func(e *emitter, d, s x86.Z) {
				e.extend(d, s, k.bits, k.signed)
				e.a.V(&x86.CVTDQ2PS, d, 0, d, x86.Arg{})
			}, as)}
		}
		rows["cvt"+sat+"."+h.name+"."+h.name] = rowOp{form: "w=w", emit: through(h.decode, as)}
		for mode, imm := range wholeModes {
			rows["cvt."+mode+sat+"."+h.name+"."+h.name] = rowOp{form: "w=w", emit: through(func(e *emitter, d, s x86.Z) {
				h.decode(e, d, s)
				e.a.V(&x86.RNDSCALE, d, 0, d, x86.Arg{Imm: imm})
			}, as)}
		}
	}
	for _, o := range formats {
		if o.name != h.name {
			rows["cvt.rn."+h.name+"."+o.name] = rowOp{form: "w=w", emit: through(o.decode, h.half)}
		}
	}
}

// smallIntegers are the integers of less than 32 bits, and wholeModes the modes of rounding to whole numbers.
var (
	smallIntegers = map[string]struct {
		bits   uint8
		signed bool
	}{"u8": {bits: 8}, "s8": {bits: 8, signed: true}, "u16": {bits: 16}, "s16": {bits: 16, signed: true}}
	wholeModes = map[string]uint8{"rni": 8, "rmi": 9, "rpi": 10, "rzi": 11}
)
