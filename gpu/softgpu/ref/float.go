package ref

import (
	"math"

	"pvdrm/gpu/ptx"
)

// Every operation is computed exactly, or with a sticky bit, and rounded once
// (number.go). What PTX leaves open is done as an H200 does it: f32, f16 and
// bf16 have one NaN; f64 hands an operand's NaN on.

// float computes arithmetic on one floating-point type (9.7.3 and 9.7.4).
func (t *thread) float(i *ptx.Instr, ty ptx.Type, v [4]uint64) uint64 {
	f, m := formatOf(ty), &i.Mods
	if m.Has(ptx.Approx) || m.Has(ptx.Full) {
		return t.approximate(i, ty, v)
	}
	if m.Has(ptx.OOB) && (outOfBounds(v[0]) || outOfBounds(v[1])) {
		return 0
	}
	v = f.flushed(m, v)
	a, b, c := f.decode(v[0]), f.decode(v[1]), f.decode(v[2])
	var x number
	switch i.Op {
	case ptx.OpAdd:
		x = a.add(b, m.Round)
	case ptx.OpSub:
		x = a.add(b.negate(), m.Round)
	case ptx.OpMul:
		x = a.mul(b)
	case ptx.OpFma, ptx.OpMad:
		x = a.mul(b).add(c, m.Round)
	case ptx.OpDiv:
		x = a.div(b)
	case ptx.OpRcp:
		x = fromInt(1, false).div(a)
	case ptx.OpSqrt:
		x = a.sqrt()
	case ptx.OpAbs, ptx.OpNeg, ptx.OpMin, ptx.OpMax, ptx.OpCopysign:
		return f.pick(i.Op, m, v[0], v[1])
	default:
		t.unknown(i)
	}
	if ty == ptx.F64 && x.kind == notANumber {
		switch i.Op {
		case ptx.OpFma, ptx.OpMad:
			return quiet(v[1], v[2], v[0])
		case ptx.OpDiv:
			return quiet(v[0], v[1])
		}
		return quiet(v[1], v[0])
	}
	return f.round(x, m)
}

// outOfBounds reports whether x, an f16 or bf16, is the NaN of either sign that
// stands for an element outside a tensor.
func outOfBounds(x uint64) bool { return x&0x7fff == 0x7ff7 }

// flushed is the operands as .ftz has them.
func (f format) flushed(m *ptx.Mods, v [4]uint64) [4]uint64 {
	for n := range v {
		if m.Has(ptx.FTZ) {
			v[n] = f.flush(v[n])
		}
	}
	return v
}

// round encodes x as the modifiers ask for. Half precision flushes what has
// been rounded to a subnormal.
func (f format) round(x number, m *ptx.Mods) uint64 {
	var r uint64
	switch {
	case !m.Has(ptx.FTZ):
		r = f.encode(x, m.Round)
	case f == single:
		r = f.encodeFlushed(x, m.Round)
	default:
		r = f.flush(f.encode(x, m.Round))
	}
	if m.Has(ptx.Sat) {
		r = f.saturate(r)
	}
	if m.Has(ptx.Relu) {
		r = f.relu(r)
	}
	return r
}

// quiet is the first NaN of a double among xs, made quiet, or the default one
// of an operation on numbers that has no result.
func quiet(xs ...uint64) uint64 {
	for _, x := range xs {
		if double.isNaN(x) {
			return x | 1<<51
		}
	}
	return 0xfff8 << 48
}

// fused is a sum that takes in a product: one rounding for both.
func (t *thread) fused(i *ptx.Instr, s *sum) {
	ty := i.Mods.Type()
	v := [4]uint64{t.get(&s.mul.Args[1], ty), t.get(&s.mul.Args[2], ty), t.get(&i.Args[3-s.operand], ty)}
	if part := packed[ty]; part != ptx.TypeNone {
		t.set(&i.Args[0], onHalves(v, func(v [4]uint64) uint64 { return fusedSum(i, s, part, v) }), ty)
		return
	}
	t.set(&i.Args[0], fusedSum(i, s, ty, v), ty)
}

// fusedSum is ±v[0]·v[1]±v[2].
func fusedSum(i *ptx.Instr, s *sum, ty ptx.Type, v [4]uint64) uint64 {
	f := formatOf(ty)
	v = f.flushed(&i.Mods, v)
	product, other := f.decode(v[0]).mul(f.decode(v[1])), f.decode(v[2])
	if s.negated {
		product = product.negate()
	}
	if i.Op == ptx.OpSub && s.operand == 1 {
		other = other.negate()
	} else if i.Op == ptx.OpSub {
		product = product.negate()
	}
	x := product.add(other, ptx.RN)
	if ty == ptx.F64 && x.kind == notANumber {
		return quiet(v[1], v[2], v[0])
	}
	return f.round(x, &i.Mods)
}

// pick computes what only looks at signs and order.
func (f format) pick(op ptx.Op, m *ptx.Mods, a, b uint64) uint64 {
	var r uint64
	switch op {
	case ptx.OpCopysign:
		return b&^f.sign() | a&f.sign()
	case ptx.OpAbs:
		r = a &^ f.sign()
	case ptx.OpNeg:
		r = a ^ f.sign()
	default:
		x, y := a, b
		if m.Has(ptx.XorSign) { // and .abs
			x, y = a&^f.sign(), b&^f.sign()
		}
		r = f.smaller(x, y, op == ptx.OpMax, m.Has(ptx.NaN))
		if m.Has(ptx.XorSign) {
			r |= (a ^ b) & f.sign()
		}
	}
	if !f.isNaN(r) {
		return r
	}
	if f != double {
		return f.encode(number{kind: notANumber}, ptx.RN)
	}
	if op == ptx.OpAbs || op == ptx.OpNeg {
		return a | 1<<51 // and the sign that it had
	}
	return quiet(b, a)
}

// smaller is the lesser of two values, or the larger one; -0 is less than +0. A
// NaN beside a number counts only if nan.
func (f format) smaller(a, b uint64, larger, nan bool) uint64 {
	switch {
	case f.isNaN(a) && f.isNaN(b), nan && f.isNaN(a):
		return a
	case f.isNaN(a), nan && f.isNaN(b):
		return b
	case f.isNaN(b):
		return a
	}
	less := f.value(a) < f.value(b) || f.value(a) == f.value(b) && a&f.sign() > b&f.sign()
	if less == larger {
		return b
	}
	return a
}

// value is a value as float64, which holds all of every format.
func (f format) value(x uint64) float64 {
	if f == double {
		return math.Float64frombits(x)
	}
	return math.Float64frombits(double.encode(f.decode(x), ptx.RN))
}

// approximate computes instructions with .approx or .full, to nearest: PTX
// allows an error, and an H200 makes one of a few units in the last place.
func (t *thread) approximate(i *ptx.Instr, ty ptx.Type, v [4]uint64) uint64 {
	if ty == ptx.F64 {
		return approximateDouble(i.Op, &i.Mods, v[0])
	}
	f := formatOf(ty)
	v = f.flushed(&i.Mods, v)
	a, b := f.decode(v[0]), f.decode(v[1])
	x := f.value(v[0])
	var r number
	switch i.Op {
	case ptx.OpDiv:
		// Divisors beyond 2^126 give zero, but for .full.
		if size := v[1] &^ f.sign(); i.Mods.Has(ptx.Approx) && size > 0x7e800000 && size < f.infinity() {
			r = a.mul(number{neg: b.neg})
		} else {
			r = a.div(b)
		}
	case ptx.OpRcp:
		r = fromInt(1, false).div(a)
	case ptx.OpSqrt:
		r = a.sqrt()
	case ptx.OpRsqrt:
		r = fromFloat(1 / math.Sqrt(x))
	case ptx.OpSin:
		r = fromFloat(math.Sin(x))
	case ptx.OpCos:
		r = fromFloat(math.Cos(x))
	case ptx.OpLg2:
		r = fromFloat(math.Log2(x))
	case ptx.OpEx2:
		r = fromFloat(math.Exp2(x))
	case ptx.OpTanh:
		r = fromFloat(math.Tanh(x))
	default:
		t.unknown(i)
	}
	return f.round(r, &i.Mods)
}

func fromFloat(x float64) number { return double.decode(math.Float64bits(x)) }

// approximateDouble is rcp.approx.ftz.f64 and rsqrt.approx.f64. With .ftz only the
// upper halves of operand and result count.
func approximateDouble(op ptx.Op, m *ptx.Mods, a uint64) uint64 {
	upper := func(x uint64) uint64 {
		if m.Has(ptx.FTZ) {
			x = double.flush(x &^ (1<<32 - 1))
		}
		return x
	}
	a = upper(a)
	x := double.decode(a)
	if op == ptx.OpRsqrt {
		// The root has 63 bits and more, so that the quotient is right but for the
		// last of its 53 bits, in rare cases.
		x = x.sqrt()
	}
	r := fromInt(1, false).div(x)
	if r.kind == notANumber {
		return upper(quiet(a))
	}
	return upper(double.encode(r, ptx.RN))
}
