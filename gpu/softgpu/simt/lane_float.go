package simt

import "math"

// rounding is a rounding mode; rni to rpi round to an integral value.
type rounding uint8

const (
	rn rounding = iota // nearest, ties to even
	rz                 // towards zero
	rm                 // down
	rp                 // up
	rni
	rzi
	rmi
	rpi
)

// nan32 is the NaN that all f32 arithmetic gives.
const nan32 = 0x7fffffff

// canon32 replaces any NaN by nan32.
func canon32(x float32) float32 {
	if x != x {
		return math.Float32frombits(nan32)
	}
	return x
}

// ftz flushes a subnormal to zero of the same sign.
func ftz(x float32) float32 {
	if u := math.Float32bits(x); u&0x7f800000 == 0 {
		return math.Float32frombits(u & (1 << 31))
	}
	return x
}

func ftzBits(u uint32) uint32 {
	if u&0x7f800000 == 0 {
		return u & (1 << 31)
	}
	return u
}

// sat01 clamps to [0, 1]; NaN and -0 become 0.
func sat01(x float32) float32 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

func satDouble(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

func relu(x float32) float32 {
	if x <= 0 {
		return 0
	}
	return x
}

// neg64 and abs64 work on the bits of a double; a NaN becomes quiet and keeps
// its sign.

func neg64(u uint64) uint64 {
	if u&(1<<63-1) > 0x7ff<<52 {
		return u | 1<<51
	}
	return u ^ 1<<63
}

func abs64(u uint64) uint64 {
	if u&(1<<63-1) > 0x7ff<<52 {
		return u | 1<<51
	}
	return u &^ (1 << 63)
}

func abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// xorSign gives r the product of the signs of a and b.
func xorSign(r, a, b float32) float32 {
	s := (math.Float32bits(a) ^ math.Float32bits(b)) & (1 << 31)
	return math.Float32frombits(math.Float32bits(r) | s)
}

// min32 and max32 ignore a NaN beside a number; -0 is less than +0.
func min32(a, b float32) float32 {
	if a != a {
		return b
	}
	if b != b {
		return a
	}
	return min(a, b)
}

func max32(a, b float32) float32 {
	if a != a {
		return b
	}
	if b != b {
		return a
	}
	return max(a, b)
}

func min64(a, b float64) float64 {
	switch {
	case a != a && b != b:
		return nan64(b, a)
	case a != a:
		return b
	case b != b:
		return a
	}
	return min(a, b)
}

func max64(a, b float64) float64 {
	switch {
	case a != a && b != b:
		return nan64(b, a)
	case a != a:
		return b
	case b != b:
		return a
	}
	return max(a, b)
}

// hardToRound reports whether rounding s, a sum rounded to float64, to float32
// may give another result than rounding the exact sum, or gives NaN. The
// product of two float32 is exact in float64; rounding its sum with a third
// twice goes wrong only where the first result lies just between two float32,
// or becomes subnormal.
func hardToRound(s float64) bool {
	u := math.Float64bits(s)
	return u&(1<<29-1) == 1<<28 || u<<1-minNormal32 >= infinity64-minNormal32
}

// The float64 bits, shifted left to drop the sign, of the smallest normal
// float32 and of infinity.
const (
	minNormal32 = (1023 - 126) << 53
	infinity64  = 0x7ff << 53
)

// fmaRound32 is a*b+c, rounded once in any mode.
func fmaRound32(a, b, c float32, mode rounding) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	if s == 0 {
		return float32(zeroSum(p, float64(c), s, mode))
	}
	return round32(toOdd(s, sumError(p, float64(c), s)), mode)
}

// Results that .ftz flushes are those that are below the smallest normal number
// after rounding to 24 bits with any exponent; some of them would be that number
// if rounded as subnormals.

// minNormal is the smallest normal float32.
const minNormal = 0x1p-126

// flushTiny rounds x, exact or rounded to odd, to float32 and flushes what is tiny.
func flushTiny(x float64, mode rounding) float32 {
	if math.Abs(x) < 2*minNormal && math.Abs(float64(round32(x*0x1p64, mode))) < minNormal*0x1p64 {
		return float32(math.Copysign(0, x))
	}
	return round32(x, mode)
}

// mulFTZ is a*b for flushed operands.
func mulFTZ(a, b float32) float32 {
	if r := a * b; math.Float32bits(r)&^(1<<31) > 0x00800000 {
		return r
	}
	return flushTiny(float64(a)*float64(b), rn)
}

// divFTZ is a/b for flushed operands.
func divFTZ(a, b float32) float32 {
	if r := a / b; math.Float32bits(r)&^(1<<31) > 0x00800000 {
		return r
	}
	return flushTiny(quotient(a, b), rn)
}

// fmaFTZ is fmaRound32 for flushed operands.
func fmaFTZ(a, b, c float32, mode rounding) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	if s == 0 {
		return float32(zeroSum(p, float64(c), s, mode))
	}
	return flushTiny(toOdd(s, sumError(p, float64(c), s)), mode)
}

func add32(a, b float32, mode rounding) float32 { return fmaRound32(a, 1, b, mode) }

func mul32(a, b float32, mode rounding) float32 { return round32(float64(a)*float64(b), mode) }

func div32(a, b float32, mode rounding) float32 { return round32(quotient(a, b), mode) }

// quotient is a/b, rounded to odd.
func quotient(a, b float32) float64 {
	x, y := float64(a), float64(b)
	q := x / y
	if isFinite(q) && q != 0 && isFinite(y) {
		r := math.FMA(-q, y, x)
		if y < 0 {
			r = -r
		}
		q = toOdd(q, r)
	}
	return q
}

func sqrt32(a float32, mode rounding) float32 {
	x := float64(a)
	q := math.Sqrt(x)
	if isFinite(q) && q != 0 {
		q = toOdd(q, math.FMA(-q, q, x))
	}
	return round32(q, mode)
}

func isFinite(x float64) bool { return x-x == 0 }

// zeroSum gives the sum s of a and b, which is zero, its sign: rounding down, a
// zero that is not (+0)+(+0) is negative.
func zeroSum(a, b, s float64, mode rounding) float64 {
	if mode == rm && (math.Signbit(a) || math.Signbit(b)) {
		return math.Copysign(0, -1)
	}
	return s
}

// sumError is the exact error of s = a+b: a+b = s+error (Knuth's two-sum).
func sumError(a, b, s float64) float64 {
	t := s - a
	return (a - (s - t)) + (b - t)
}

// toOdd turns x, rounded to nearest with the given error (its sign counts),
// into x rounded to odd, which can be rounded again to a shorter format in any
// mode as if the exact value were.
func toOdd(x, err float64) float64 {
	u := math.Float64bits(x)
	if err == 0 || err != err || u&1 != 0 || !isFinite(x) {
		return x
	}
	if err > 0 == (x > 0) {
		return math.Float64frombits(u + 1)
	}
	return math.Float64frombits(u - 1)
}

// narrow is encode for conversions from double, which keep the upper part of a
// NaN.
func narrow(x float64, mantissa, exponent int, mode rounding) uint32 {
	if x != x {
		u := math.Float64bits(x)
		return uint32(u>>63)<<(mantissa+exponent) | uint32((u|1<<51)&(1<<52-1)>>(52-mantissa)) | (1<<exponent-1)<<mantissa
	}
	return encode(x, mantissa, exponent, mode)
}

// narrowFTZ is narrow32 with .ftz.
func narrowFTZ(x float64, mode rounding) float32 {
	if x != x {
		return narrow32(x, mode)
	}
	return flushTiny(x, mode)
}

// narrow32 converts a double to float32.
func narrow32(x float64, mode rounding) float32 { return math.Float32frombits(narrow(x, 23, 8, mode)) }

// round32 rounds x, exact or rounded to odd, to float32.
func round32(x float64, mode rounding) float32 {
	return math.Float32frombits(encode(x, 23, 8, mode))
}

// encode rounds x, exact or rounded to odd, to a format of the given widths of
// mantissa and exponent. NaN becomes the format's canonical one.
func encode(x float64, mantissa, exponent int, mode rounding) uint32 {
	u := math.Float64bits(x)
	sign := uint32(u>>63) << (mantissa + exponent)
	inf := uint32(1<<exponent-1) << mantissa
	exp, m := int(u>>52&0x7ff), u&(1<<52-1)
	switch {
	case x != x:
		return 1<<(mantissa+exponent) - 1
	case exp == 0x7ff:
		return sign | inf
	case u<<1 == 0:
		return sign
	case exp != 0:
		m |= 1 << 52
	default:
		exp = 1
	}
	e, emin := exp-1023, 2-1<<(exponent-1)
	shift := 52 - mantissa
	if e < emin {
		shift = min(shift+emin-e, 60)
	}
	q, rem, half := uint32(m>>shift), m&(1<<shift-1), uint64(1)<<(shift-1)
	up := false
	switch mode {
	case rn:
		up = rem > half || rem == half && q&1 != 0
	case rm:
		up = rem != 0 && sign != 0
	case rp:
		up = rem != 0 && sign == 0
	}
	q += bit(up)
	if e > emin {
		// Beyond the largest exponent the sum below could overflow.
		q += uint32(min(e-emin, 1<<exponent)) << mantissa
	}
	if q >= inf {
		q = inf
		if mode == rz || mode == rm && sign == 0 || mode == rp && sign != 0 {
			q = inf - 1
		}
	}
	return sign | q
}

// intTo32 converts an integer to float32.
func intTo32(m magnitude, mode rounding) float32 { return round32(oddInt(m), mode) }

// oddInt converts an integer to float64, rounded to odd.
func oddInt(m magnitude) float64 {
	x := m.abs
	if x>>53 != 0 { // keep 54 bits and a sticky one
		x = x&^(1<<11-1) | uint64(bit(x&(1<<11-1) != 0))<<11
	}
	f := float64(x) // exact, but for the sticky bit just set when all 64 bits are used
	if m.neg {
		f = -f
	}
	return f
}

// roundInt rounds to an integral value.
func roundInt(x float64, mode rounding) float64 {
	switch mode {
	case rni:
		return math.RoundToEven(x)
	case rzi:
		return math.Trunc(x)
	case rmi:
		return math.Floor(x)
	}
	return math.Ceil(x)
}

// floatToInt converts to an integer of n bits, clamping what does not fit. NaN
// gives 0, or the top bit where a double or a 64-bit integer is involved.
func floatToInt(x float64, mode rounding, n uint, signed, double bool) uint64 {
	if x != x {
		if double || n == 64 {
			return 1 << (n - 1)
		}
		return 0
	}
	x = roundInt(x, mode)
	if signed {
		lim := math.Ldexp(1, int(n-1))
		switch {
		case x >= lim:
			return 1<<(n-1) - 1
		case x < -lim:
			return -uint64(1 << (n - 1))
		}
		return uint64(int64(x))
	}
	lim := math.Ldexp(1, int(n))
	switch {
	case x >= lim:
		return 1<<n - 1
	case x <= 0:
		return 0
	}
	return uint64(x)
}

// truncS32 is floatToInt for the conversion that programs use most.
func truncS32(x float64, double bool) uint32 {
	if x > -1<<31-1 && x < 1<<31 {
		return uint32(int32(x))
	}
	return uint32(floatToInt(x, rzi, 32, true, double))
}

// The approximations are computed in float64 and rounded once, so they lie
// within the error that the ISA allows.

// divApprox is 0 for divisors of 2^126 and above, as the ISA says.
func divApprox(a, b float32) float32 {
	if u := math.Float32bits(b) &^ (1 << 31); u > 0x7e800000 && u < 0x7f800000 {
		return a * 0
	}
	return a / b
}

func sinApprox(x float32) float32 { return float32(math.Sin(float64(x))) }
func cosApprox(x float32) float32 { return float32(math.Cos(float64(x))) }
func lg2Approx(x float32) float32 { return float32(math.Log2(float64(x))) }
func ex2Approx(x float32) float32 { return float32(math.Exp2(float64(x))) }

// rcpApprox64 and rsqrtApprox64 look at and give the upper 32 bits only.

func rcpApprox64(x float64) float64 { return upperHalf(1 / upperHalf(x)) }

func rsqrtApprox64(x float64) float64 { return upperHalf(1 / math.Sqrt(upperHalf(x))) }

func upperHalf(x float64) float64 {
	return flush64(math.Float64frombits(math.Float64bits(x) &^ (1<<32 - 1)))
}

func flush64(x float64) float64 {
	if u := math.Float64bits(x); u&(0x7ff<<52) == 0 {
		return math.Float64frombits(u & (1 << 63))
	}
	return x
}
