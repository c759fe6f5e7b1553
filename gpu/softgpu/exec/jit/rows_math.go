//go:build amd64 && linux

package jit

import (
	"math"

	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// The approximations of f32 are computed in float64, in the order of operations of Go's
// package math, so that they are what lane/scalar computes.

// scratches are vector registers for one operation.
func (e *emitter) scratches(n int) []x86.Z {
	z := make([]x86.Z, n)
	for i := range z {
		z[i] = e.scratch()
	}
	return z
}

// plain, with and masked are operations on all lanes: with a constant in the place of the
// second source, and into some lanes.
func (e *emitter) plain(op *x86.Op, d, a, b x86.Z)        { e.a.V(op, d, a, b, x86.Arg{}) }
func (e *emitter) with(op *x86.Op, d, a x86.Z, m x86.Mem) { e.a.VB(op, d, a, m, x86.Arg{}) }
func (e *emitter) copyTo(d, a x86.Z)                      { e.a.V(&x86.MOVD, d, 0, a, x86.Arg{}) }
func (e *emitter) series(d, x x86.Z, coefficients []float64) {
	e.a.VM(&x86.BROADCASTQ, d, 0, f64(coefficients[0]), x86.Arg{})
	for _, c := range coefficients[1:] {
		e.plain(&x86.MULPD, d, d, x)
		e.with(&x86.ADDPD, d, d, f64(c))
	}
}

// inDouble computes a function of f32 in float64: calc replaces x, using t2, t3 and s.
// Fix, if there is one, corrects the lanes of the rounded result, in t2.
func inDouble(scratch int, calc func(e *emitter, x x86.Z, s []x86.Z), fix func(e *emitter, a x86.Z)) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		s := e.scratches(scratch)
		e.a.V(&x86.EXTRACTI64X4, l.a, 0, t1, x86.Arg{Imm: 1})
		for _, t := range []struct{ d, s x86.Z }{{d: t0, s: l.a}, {d: t1, s: t1}} {
			e.a.V(&x86.CVTPS2PD, t.d, 0, t.s, x86.Arg{})
			calc(e, t.d, s)
			e.a.V(&x86.CVTPD2PS, t.d, 0, t.d, x86.Arg{})
		}
		if fix == nil {
			e.a.V(&x86.INSERTI64X4, l.d, t0, t1, x86.Arg{Imm: 1})
			return
		}
		e.a.V(&x86.INSERTI64X4, t2, t0, t1, x86.Arg{Imm: 1})
		fix(e, l.a)
		e.copyTo(l.d, t2)
	}
}

// exp2 is math.Exp2. Beyond ±1000 the result is not a finite float32 other than zero.
func exp2(e *emitter, x x86.Z, s []x86.Z) {
	k, hi, lo, r := t2, s[0], s[1], s[2]
	e.a.VM(&x86.BROADCASTQ, k, 0, f64(1000), x86.Arg{})
	e.plain(&x86.MINPD, x, k, x) // NaN stays
	e.a.VM(&x86.BROADCASTQ, k, 0, f64(-1000), x86.Arg{})
	e.plain(&x86.MAXPD, x, k, x)
	e.with(&x86.PANDQ, k, x, double(1<<63))
	e.with(&x86.PORQ, k, k, f64(0.5))
	e.plain(&x86.ADDPD, k, x, k)
	e.a.V(&x86.RNDSCALED, k, 0, k, x86.Arg{Imm: 11}) // towards zero
	e.plain(&x86.SUBPD, x, x, k)
	e.with(&x86.MULPD, hi, x, f64(ln2Hi))
	e.with(&x86.MULPD, lo, x, f64(-ln2Lo))
	e.plain(&x86.SUBPD, r, hi, lo)
	e.plain(&x86.MULPD, x, r, r)
	e.series(s[3], x, expSeries)
	e.plain(&x86.MULPD, s[3], x, s[3])
	e.plain(&x86.SUBPD, s[3], r, s[3]) // c
	e.plain(&x86.MULPD, r, r, s[3])
	e.a.VM(&x86.BROADCASTQ, x, 0, f64(2), x86.Arg{})
	e.plain(&x86.SUBPD, x, x, s[3])
	e.plain(&x86.DIVPD, r, r, x)
	e.plain(&x86.SUBPD, r, lo, r)
	e.plain(&x86.SUBPD, r, r, hi)
	e.a.VM(&x86.BROADCASTQ, x, 0, f64(1), x86.Arg{})
	e.plain(&x86.SUBPD, x, x, r)
	e.plain(&x86.SCALEFPD, x, x, k)
}

// log2 is math.Log2 of positive finite numbers, which float32 are normal as float64.
func log2(e *emitter, x x86.Z, s []x86.Z) {
	exp, f, k, q, q2, q4 := s[0], s[1], s[2], s[3], t2, t3
	e.a.V(&x86.GETEXPPD, exp, 0, x, x86.Arg{})
	e.a.V(&x86.GETMANT, f, 0, x, x86.Arg{Imm: 2}) // from a half to one
	e.a.VKB(&x86.CMPPD, k7, f, f64(math.Sqrt2/2), x86.Arg{Imm: cmpLessEqual})
	e.a.VM(&x86.BROADCASTQ, k, 0, f64(-1), x86.Arg{Mask: k7, Zero: true})
	e.a.V(&x86.ADDPD, f, f, f, x86.Arg{Mask: k7})
	e.with(&x86.SUBPD, f, f, f64(1))
	e.with(&x86.ADDPD, q, f, f64(2))
	e.plain(&x86.DIVPD, q, f, q)
	e.plain(&x86.MULPD, q2, q, q)
	e.plain(&x86.MULPD, q4, q2, q2)
	e.series(s[4], q4, logOdd)
	e.plain(&x86.MULPD, q2, q2, s[4])
	e.series(s[4], q4, logEven)
	e.plain(&x86.MULPD, q4, q4, s[4])
	e.plain(&x86.ADDPD, q2, q2, q4) // R
	e.with(&x86.MULPD, q4, f, f64(0.5))
	e.plain(&x86.MULPD, q4, q4, f) // hfsq
	e.plain(&x86.ADDPD, q2, q2, q4)
	e.plain(&x86.MULPD, q, q, q2)
	e.with(&x86.MULPD, q2, k, f64(ln2Lo))
	e.plain(&x86.ADDPD, q, q, q2)
	e.plain(&x86.SUBPD, q4, q4, q)
	e.plain(&x86.SUBPD, q4, q4, f)
	e.with(&x86.MULPD, k, k, f64(ln2Hi))
	e.plain(&x86.SUBPD, x, k, q4)
	e.with(&x86.MULPD, x, x, f64(1/math.Ln2))
	e.with(&x86.ADDPD, q, exp, f64(1))
	e.plain(&x86.ADDPD, x, x, q)
	e.plain(&x86.PXORD, q, q, q)
	e.a.VK(&x86.CMPPD, k7, f, q, x86.Arg{Imm: cmpEqual}) // a power of two
	e.a.V(&x86.MOVQ, x, 0, exp, x86.Arg{Mask: k7})
}

// fixLog2 gives zeros, negative numbers and infinity their results. NaNs have theirs.
func fixLog2(e *emitter, a x86.Z) {
	e.plain(&x86.PXORD, t3, t3, t3)
	e.a.VK(&x86.CMPPS, k7, a, t3, x86.Arg{Imm: cmpLess})
	e.a.VM(&x86.BROADCASTD, t2, 0, word(0x7fc00000), x86.Arg{Mask: k7})
	e.a.VK(&x86.CMPPS, k7, a, t3, x86.Arg{Imm: cmpEqual})
	e.a.VM(&x86.BROADCASTD, t2, 0, word(0xff800000), x86.Arg{Mask: k7})
	e.a.VKB(&x86.CMPPS, k7, a, word(0x7f800000), x86.Arg{Imm: cmpEqual})
	e.a.VM(&x86.BROADCASTD, t2, 0, word(0x7f800000), x86.Arg{Mask: k7})
}

// sine is math.Sin, or math.Cos, of numbers below 2^29; hasTurns tells which are.
func sine(cos bool) func(e *emitter, x x86.Z, s []x86.Z) {
	return func(e *emitter, x x86.Z, s []x86.Z) {
		sign, j, zz, a, b, y := s[0], s[1], s[2], s[3], t2, t3
		e.with(&x86.PANDQ, sign, x, double(1<<63))
		e.with(&x86.PANDQ, x, x, double(1<<63-1))
		e.with(&x86.MULPD, y, x, f64(4/math.Pi))
		e.a.V(&x86.RNDSCALED, y, 0, y, x86.Arg{Imm: 11})
		e.with(&x86.ADDPD, j, y, f64(1<<52)) // its lower bits are y
		e.a.VM(&x86.BROADCASTQ, a, 0, double(1), x86.Arg{})
		e.a.VK(&x86.PTESTMQ, k7, j, a, x86.Arg{})
		e.a.V(&x86.PADDQ, j, j, a, x86.Arg{Mask: k7})
		e.a.VB(&x86.ADDPD, y, y, f64(1), x86.Arg{Mask: k7})
		for _, p := range []float64{pi4A, pi4B, pi4C} {
			e.with(&x86.MULPD, a, y, f64(p))
			e.plain(&x86.SUBPD, x, x, a)
		}
		e.plain(&x86.MULPD, zz, x, x)
		e.series(a, zz, sines)
		e.plain(&x86.MULPD, b, x, zz)
		e.plain(&x86.MULPD, a, b, a)
		e.plain(&x86.ADDPD, x, x, a) // the sine
		e.series(a, zz, cosines)
		e.plain(&x86.MULPD, b, zz, zz)
		e.plain(&x86.MULPD, a, b, a)
		e.with(&x86.MULPD, b, zz, f64(0.5))
		e.a.VM(&x86.BROADCASTQ, y, 0, f64(1), x86.Arg{})
		e.plain(&x86.SUBPD, b, y, b)
		e.plain(&x86.ADDPD, a, b, a) // the cosine
		e.a.VM(&x86.BROADCASTQ, b, 0, double(2), x86.Arg{})
		e.a.VK(&x86.PTESTMQ, k7, j, b, x86.Arg{})
		// Bit 2 of j changes the sign; of a cosine, so does bit 1.
		e.a.V(&x86.PSLLQ, y, 0, j, x86.Arg{Imm: 61})
		if cos {
			e.a.V(&x86.MOVQ, a, 0, x, x86.Arg{Mask: k7})
			e.copyTo(x, a)
			e.a.V(&x86.PSLLQ, sign, 0, j, x86.Arg{Imm: 62})
		} else {
			e.a.V(&x86.MOVQ, x, 0, a, x86.Arg{Mask: k7})
		}
		e.plain(&x86.PXORQ, y, y, sign)
		e.with(&x86.PANDQ, y, y, double(1<<63))
		e.plain(&x86.PXORQ, x, x, y)
	}
}

// hasTurns leaves to the interpreter what is too large for sine, or not a number.
func hasTurns(e *emitter, l vec, out x86.Label) {
	e.with(&x86.PANDD, t0, l.a, constant(offAbs))
	e.a.VKB(&x86.CMPPS, k7, t0, word(0x4e000000), x86.Arg{Mask: l.k, Imm: cmpNotLess})
	e.a.KK(&x86.KORTESTD, k7, 0, k7)
	e.a.JumpIf(x86.NotEqual, out)
}

// mathRows are the approximations.
func mathRows(rows map[string]rowOp) {
	for key, emit := range map[string]func(*emitter, vec){
		"ex2.approx": inDouble(4, exp2, nil), "lg2.approx": inDouble(5, log2, fixLog2),
	} {
		rows[key+".f32"] = rowOp{form: "f=f", emit: emit, float: true}
		rows[key+".ftz.f32"] = rowOp{form: "f=f", emit: flushed(emit, 1), float: true}
	}
	for key, emit := range map[string]func(*emitter, vec){
		"sin.approx": inDouble(4, sine(false), nil), "cos.approx": inDouble(4, sine(true), nil),
	} {
		rows[key+".f32"] = rowOp{form: "f=f", emit: emit, float: true, check: hasTurns}
		rows[key+".ftz.f32"] = rowOp{form: "f=f", emit: flushed(emit, 1), float: true, check: hasTurns}
	}
}
