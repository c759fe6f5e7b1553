package scalar

import (
	"math"
	"math/big"
)

// Directed rounding of doubles is rare, so it is done the plain way: compute to
// nearest, compare with the exact result, and step to the neighbour if needed.

// exactPrec holds any product of two doubles plus a third exactly.
const exactPrec = 4400

func exact(x float64) *big.Float { return new(big.Float).SetPrec(exactPrec).SetFloat64(x) }

// direct64 corrects r, the nearest double to a result whose difference from r
// has the sign of cmp.
func direct64(r float64, cmp int, mode rounding) float64 {
	switch {
	case mode == Rz && (cmp < 0 && r > 0 || cmp > 0 && r < 0):
		return math.Nextafter(r, 0)
	case mode == Rm && cmp < 0:
		return math.Nextafter(r, math.Inf(-1))
	case mode == Rp && cmp > 0:
		return negativeZero(math.Nextafter(r, math.Inf(1)), r)
	}
	return r
}

// negativeZero keeps the sign of a negative number that became zero.
func negativeZero(x, was float64) float64 {
	if x == 0 && was < 0 {
		return math.Copysign(0, -1)
	}
	return x
}

// compareExact is the sign of want minus r, where want is finite.
func compareExact(want *big.Float, r float64) int {
	switch {
	case math.IsInf(r, 1):
		return -1
	case math.IsInf(r, -1):
		return 1
	}
	return want.Cmp(exact(r))
}

// defaultNaN is the NaN of an operation on numbers that has no result.
const defaultNaN = 0xfff8 << 48

// nan64 is the NaN that an operation gives: the first among xs, made quiet, or
// the default one.
func nan64(xs ...float64) float64 {
	for _, x := range xs {
		if x != x {
			return math.Float64frombits(math.Float64bits(x) | 1<<51)
		}
	}
	return math.Float64frombits(defaultNaN)
}

// Fix64 and FixFMA replace a NaN result r by the one that the hardware gives:
// of two operands it prefers the second, in a*b+c it looks at b, c, a.
func Fix64(r, a, b float64) float64 {
	if r != r {
		return nan64(b, a)
	}
	return r
}

func FixFMA(r, a, b, c float64) float64 {
	if r != r {
		return nan64(b, c, a)
	}
	return r
}

func Add64(a, b float64, mode rounding) float64 {
	if r := a + b; r != r {
		return nan64(b, a)
	}
	return Fma64(a, 1, b, mode)
}

func Sub64(a, b float64, mode rounding) float64 {
	if r := a - b; r != r {
		return nan64(b, a) // with the sign it had
	}
	return Fma64(a, 1, -b, mode)
}

func Mul64(a, b float64, mode rounding) float64 {
	r := Fix64(a*b, a, b)
	if !isFinite(a) || !isFinite(b) {
		return r
	}
	want := exact(0).Mul(exact(a), exact(b))
	if want.Sign() == 0 {
		return r
	}
	return direct64(r, compareExact(want, r), mode)
}

func Fma64(a, b, c float64, mode rounding) float64 {
	r := FixFMA(math.FMA(a, b, c), a, b, c)
	if !isFinite(a) || !isFinite(b) || !isFinite(c) {
		return r
	}
	p := exact(0).Mul(exact(a), exact(b))
	want := exact(0).Add(p, exact(c))
	if want.Sign() == 0 {
		return zeroSum(math.Copysign(0, a)*math.Copysign(1, b), c, r, mode)
	}
	return direct64(r, compareExact(want, r), mode)
}

// Rsqrt64 is 1/sqrt(a), with one step of Newton's method to get the last bit right.
func Rsqrt64(a float64) float64 {
	y := 1 / math.Sqrt(a)
	if !isFinite(y) || y == 0 {
		return y
	}
	h := a * y
	e := math.FMA(-h, y, 1) - math.FMA(a, y, -h)*y
	return math.FMA(y*0.5, e, y)
}

func Div64(a, b float64, mode rounding) float64 {
	r := a / b
	if !isFinite(a) || !isFinite(b) || a == 0 || b == 0 {
		return r
	}
	if math.IsInf(r, 0) {
		return direct64(r, compareExact(nil, r), mode)
	}
	// a/b - r has the sign of (a - r*b)/b.
	d := exact(0).Sub(exact(a), exact(0).Mul(exact(r), exact(b)))
	return direct64(r, d.Sign()*exact(b).Sign(), mode)
}

func Sqrt64(a float64, mode rounding) float64 {
	r := math.Sqrt(a)
	if !isFinite(r) || a == 0 {
		return r
	}
	d := exact(0).Sub(exact(a), exact(0).Mul(exact(r), exact(r)))
	return direct64(r, d.Sign(), mode)
}

// IntTo64 converts an integer to a double.
func IntTo64(m magnitude, mode rounding) float64 {
	r := float64(m.abs)
	cmp := new(big.Float).SetPrec(64).SetUint64(m.abs).Cmp(exact(r))
	if m.neg {
		r, cmp = -r, -cmp
	}
	return direct64(r, cmp, mode)
}
