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
	if m.Has(ptx.FTZ) && ty != ptx.F64 {
		for n := range v {
			v[n] = f.flush(v[n])
		}
	}
	if m.Has(ptx.Approx) || m.Has(ptx.Full) {
		return f.finish(approximate(i.Op, m, ty, v[0], v[1]), i)
	}
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
		x = f.decode(f.one()).div(a)
	case ptx.OpSqrt:
		x = a.sqrt()
	case ptx.OpAbs, ptx.OpNeg, ptx.OpMin, ptx.OpMax, ptx.OpCopysign:
		return f.sign1(i.Op, m, v[0], v[1])
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
	return f.finish(f.round(x, m), i)
}

// round encodes x as the modifiers ask for. Half precision flushes what has
// been rounded to a subnormal.
func (f format) round(x number, m *ptx.Mods) uint64 {
	switch {
	case !m.Has(ptx.FTZ):
		return f.encode(x, m.Round)
	case f == single:
		return f.encodeFlushed(x, m.Round)
	}
	return f.flush(f.encode(x, m.Round))
}

// finish applies .sat and .relu.
func (f format) finish(x uint64, i *ptx.Instr) uint64 {
	if i.Mods.Has(ptx.FTZ) && f != double {
		x = f.flush(x)
	}
	if i.Mods.Has(ptx.Sat) {
		x = f.saturate(x)
	}
	if i.Mods.Has(ptx.Relu) {
		x = f.relu(x)
	}
	return x
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
	var v [4]uint64
	v[0], v[1], v[2] = t.get(&s.mul.Args[1], ty), t.get(&s.mul.Args[2], ty), t.get(&i.Args[3-s.operand], ty)
	if part := map[ptx.Type]ptx.Type{ptx.F16x2: ptx.F16, ptx.BF16x2: ptx.BF16}[ty]; part != ptx.TypeNone {
		lo, hi := v, v
		for n := range v {
			lo[n], hi[n] = v[n]&0xffff, v[n]>>16
		}
		t.set(&i.Args[0], t.fusedSum(i, s, part, lo)|t.fusedSum(i, s, part, hi)<<16, ty)
		return
	}
	t.set(&i.Args[0], t.fusedSum(i, s, ty, v), ty)
}

func (t *thread) fusedSum(i *ptx.Instr, s *sum, ty ptx.Type, v [4]uint64) uint64 {
	f := formatOf(ty)
	if i.Mods.Has(ptx.FTZ) && ty != ptx.F64 {
		for n := range v {
			v[n] = f.flush(v[n])
		}
	}
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
	return f.finish(f.round(x, &i.Mods), i)
}

// sign1 computes what only looks at signs and order.
func (f format) sign1(op ptx.Op, m *ptx.Mods, a, b uint64) uint64 {
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

// fromFloat rounds a float64 to the format.
func (f format) fromFloat(x float64) uint64 {
	return f.encode(double.decode(math.Float64bits(x)), ptx.RN)
}

// approximate computes instructions with .approx or .full, to nearest: PTX
// allows an error, and an H200 makes one of a few units in the last place.
func approximate(op ptx.Op, m *ptx.Mods, ty ptx.Type, a, b uint64) uint64 {
	f := formatOf(ty)
	if ty == ptx.F64 {
		return approximateDouble(op, m, a)
	}
	x := f.value(a)
	switch op {
	case ptx.OpDiv:
		// Divisors beyond 2^126 give zero, but for .full.
		if size := b &^ f.sign(); m.Has(ptx.Approx) && size > 0x7e800000 && size < f.infinity() {
			return f.encode(f.decode(a).mul(number{neg: b&f.sign() != 0}), ptx.RN)
		}
		return f.encode(f.decode(a).div(f.decode(b)), ptx.RN)
	case ptx.OpRcp:
		return f.encode(f.decode(f.one()).div(f.decode(a)), ptx.RN)
	case ptx.OpSqrt:
		return f.encode(f.decode(a).sqrt(), ptx.RN)
	case ptx.OpRsqrt:
		return f.fromFloat(1 / math.Sqrt(x))
	case ptx.OpSin:
		return f.fromFloat(math.Sin(x))
	case ptx.OpCos:
		return f.fromFloat(math.Cos(x))
	case ptx.OpLg2:
		return f.fromFloat(math.Log2(x))
	case ptx.OpEx2:
		return f.fromFloat(math.Exp2(x))
	case ptx.OpTanh:
		return f.fromFloat(math.Tanh(x))
	}
	return 0
}

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
	var r number
	switch {
	case op == ptx.OpRcp:
		r = double.decode(double.one()).div(x)
	default:
		if r = x.sqrt(); r.kind == finite {
			// The root is rounded to 63 bits here, so the quotient is right but for
			// the last of the 53 bits in rare cases.
			r = number{kind: finite, m: wide{0, 1}}.div(r)
		} else {
			r = double.decode(double.one()).div(r)
		}
	}
	if r.kind == notANumber {
		return upper(quiet(a))
	}
	return upper(double.encode(r, ptx.RN))
}
