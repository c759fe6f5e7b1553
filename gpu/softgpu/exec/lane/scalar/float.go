package scalar

import "math"

// rounding is a rounding mode; rni to rpi round to an integral value.
type rounding uint8

const (
	Rn rounding = iota // nearest, ties to even
	Rz                 // towards zero
	Rm                 // down
	Rp                 // up
	Rni
	Rzi
	Rmi
	Rpi
)

// NaN32 is the NaN that all f32 arithmetic gives.
const NaN32 = 0x7fffffff

// Canon32 replaces any NaN by NaN32.
func Canon32(x float32) float32 {
	if x != x {
		return math.Float32frombits(NaN32)
	}
	return x
}

// Ftz flushes a subnormal to zero of the same sign.
func Ftz(x float32) float32 {
	if u := math.Float32bits(x); u&0x7f800000 == 0 {
		return math.Float32frombits(u & (1 << 31))
	}
	return x
}

func FtzBits(u uint32) uint32 {
	if u&0x7f800000 == 0 {
		return u & (1 << 31)
	}
	return u
}

// Sat01 clamps to [0, 1]; NaN and -0 become 0.
func Sat01(x float32) float32 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

func SatDouble(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return min(x, 1)
}

func Relu(x float32) float32 {
	if x <= 0 {
		return 0
	}
	return x
}

// Neg64 and Abs64 work on the bits of a double; a NaN becomes quiet and keeps
// its sign.

func Neg64(u uint64) uint64 {
	if u&(1<<63-1) > 0x7ff<<52 {
		return u | 1<<51
	}
	return u ^ 1<<63
}

func Abs64(u uint64) uint64 {
	if u&(1<<63-1) > 0x7ff<<52 {
		return u | 1<<51
	}
	return u &^ (1 << 63)
}

func Abs32(x float32) float32 { return math.Float32frombits(math.Float32bits(x) &^ (1 << 31)) }

// XorSign gives r the product of the signs of a and b.
func XorSign(r, a, b float32) float32 {
	s := (math.Float32bits(a) ^ math.Float32bits(b)) & (1 << 31)
	return math.Float32frombits(math.Float32bits(r) | s)
}

// Min32 and Max32 ignore a NaN beside a number; -0 is less than +0.
func Min32(a, b float32) float32 {
	if a != a {
		return b
	}
	if b != b {
		return a
	}
	return min(a, b)
}

func Max32(a, b float32) float32 {
	if a != a {
		return b
	}
	if b != b {
		return a
	}
	return max(a, b)
}

func Min64(a, b float64) float64 {
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

func Max64(a, b float64) float64 {
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

// HardToRound reports whether rounding s, a sum rounded to float64, to float32
// may give another result than rounding the exact sum, or gives NaN. The
// product of two float32 is exact in float64; rounding its sum with a third
// twice goes wrong only where the first result lies just between two float32,
// or becomes subnormal.
func HardToRound(s float64) bool {
	u := math.Float64bits(s)
	return u&(1<<29-1) == 1<<28 || u<<1-minNormal32 >= infinity64-minNormal32
}

// The float64 bits, shifted left to drop the sign, of the smallest normal
// float32 and of infinity.
const (
	minNormal32 = (1023 - 126) << 53
	infinity64  = 0x7ff << 53
)

// FmaRound32 is a*b+c, rounded once in any mode.
func FmaRound32(a, b, c float32, mode rounding) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	if s == 0 {
		return float32(zeroSum(p, float64(c), s, mode))
	}
	return round32(ToOdd(s, SumError(p, float64(c), s)), mode)
}

// Results that .ftz flushes are those that are below the smallest normal number
// after rounding to 24 bits with any exponent; some of them would be that number
// if rounded as subnormals.

// minNormal is the smallest normal float32.
const minNormal = 0x1p-126

// FlushTiny rounds x, exact or rounded to odd, to float32 and flushes what is tiny.
func FlushTiny(x float64, mode rounding) float32 {
	if math.Abs(x) < 2*minNormal && math.Abs(float64(round32(x*0x1p64, mode))) < minNormal*0x1p64 {
		return float32(math.Copysign(0, x))
	}
	return round32(x, mode)
}

// MulFTZ is a*b for flushed operands.
func MulFTZ(a, b float32) float32 {
	if r := a * b; math.Float32bits(r)&^(1<<31) > 0x00800000 {
		return r
	}
	return FlushTiny(float64(a)*float64(b), Rn)
}

// DivFTZ is a/b for flushed operands.
func DivFTZ(a, b float32) float32 {
	if r := a / b; math.Float32bits(r)&^(1<<31) > 0x00800000 {
		return r
	}
	return FlushTiny(Quotient(a, b), Rn)
}

// FmaFTZ is FmaRound32 for flushed operands.
func FmaFTZ(a, b, c float32, mode rounding) float32 {
	p := float64(a) * float64(b)
	s := p + float64(c)
	if s == 0 {
		return float32(zeroSum(p, float64(c), s, mode))
	}
	return FlushTiny(ToOdd(s, SumError(p, float64(c), s)), mode)
}

func Add32(a, b float32, mode rounding) float32 { return FmaRound32(a, 1, b, mode) }

func Mul32(a, b float32, mode rounding) float32 { return round32(float64(a)*float64(b), mode) }

func Div32(a, b float32, mode rounding) float32 { return round32(Quotient(a, b), mode) }

// Quotient is a/b, rounded to odd.
func Quotient(a, b float32) float64 {
	x, y := float64(a), float64(b)
	q := x / y
	if isFinite(q) && q != 0 && isFinite(y) {
		r := math.FMA(-q, y, x)
		if y < 0 {
			r = -r
		}
		q = ToOdd(q, r)
	}
	return q
}

func Sqrt32(a float32, mode rounding) float32 {
	x := float64(a)
	q := math.Sqrt(x)
	if isFinite(q) && q != 0 {
		q = ToOdd(q, math.FMA(-q, q, x))
	}
	return round32(q, mode)
}

func isFinite(x float64) bool { return x-x == 0 }

// zeroSum gives the sum s of a and b, which is zero, its sign: rounding down, a
// zero that is not (+0)+(+0) is negative.
func zeroSum(a, b, s float64, mode rounding) float64 {
	if mode == Rm && (math.Signbit(a) || math.Signbit(b)) {
		return math.Copysign(0, -1)
	}
	return s
}

// SumError is the exact error of s = a+b: a+b = s+error (Knuth's two-sum).
func SumError(a, b, s float64) float64 {
	t := s - a
	return (a - (s - t)) + (b - t)
}

// ToOdd turns x, rounded to nearest with the given error (its sign counts),
// into x rounded to odd, which can be rounded again to a shorter format in any
// mode as if the exact value were.
func ToOdd(x, err float64) float64 {
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
	return Encode(x, mantissa, exponent, mode)
}

// NarrowFTZ is Narrow32 with .ftz.
func NarrowFTZ(x float64, mode rounding) float32 {
	if x != x {
		return Narrow32(x, mode)
	}
	return FlushTiny(x, mode)
}

// Narrow32 converts a double to float32.
func Narrow32(x float64, mode rounding) float32 { return math.Float32frombits(narrow(x, 23, 8, mode)) }

// round32 rounds x, exact or rounded to odd, to float32.
func round32(x float64, mode rounding) float32 {
	return math.Float32frombits(Encode(x, 23, 8, mode))
}

// Encode rounds x, exact or rounded to odd, to a format of the given widths of
// mantissa and exponent. NaN becomes the format's canonical one.
func Encode(x float64, mantissa, exponent int, mode rounding) uint32 {
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
	case Rn:
		up = rem > half || rem == half && q&1 != 0
	case Rm:
		up = rem != 0 && sign != 0
	case Rp:
		up = rem != 0 && sign == 0
	}
	q += Bit(up)
	if e > emin {
		// Beyond the largest exponent the sum below could overflow.
		q += uint32(min(e-emin, 1<<exponent)) << mantissa
	}
	if q >= inf {
		q = inf
		if mode == Rz || mode == Rm && sign == 0 || mode == Rp && sign != 0 {
			q = inf - 1
		}
	}
	return sign | q
}

// IntTo32 converts an integer to float32.
func IntTo32(m magnitude, mode rounding) float32 { return round32(OddInt(m), mode) }

// OddInt converts an integer to float64, rounded to odd.
func OddInt(m magnitude) float64 {
	x := m.abs
	if x>>53 != 0 { // keep 54 bits and a sticky one
		x = x&^(1<<11-1) | uint64(Bit(x&(1<<11-1) != 0))<<11
	}
	f := float64(x) // exact, but for the sticky bit just set when all 64 bits are used
	if m.neg {
		f = -f
	}
	return f
}

// RoundInt rounds to an integral value.
func RoundInt(x float64, mode rounding) float64 {
	switch mode {
	case Rni:
		return math.RoundToEven(x)
	case Rzi:
		return math.Trunc(x)
	case Rmi:
		return math.Floor(x)
	}
	return math.Ceil(x)
}

// FloatToInt converts to an integer of n bits, clamping what does not fit. NaN
// gives 0, or the top bit where a double or a 64-bit integer is involved.
func FloatToInt(x float64, mode rounding, n uint, signed, double bool) uint64 {
	if x != x {
		if double || n == 64 {
			return 1 << (n - 1)
		}
		return 0
	}
	x = RoundInt(x, mode)
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

// TruncS32 is FloatToInt for the conversion that programs use most.
func TruncS32(x float64, double bool) uint32 {
	if x > -1<<31-1 && x < 1<<31 {
		return uint32(int32(x))
	}
	return uint32(FloatToInt(x, Rzi, 32, true, double))
}

// The approximations are computed in float64 and rounded once, so they lie
// within the error that the ISA allows.

// DivApprox is 0 for divisors of 2^126 and above, as the ISA says.
func DivApprox(a, b float32) float32 {
	if u := math.Float32bits(b) &^ (1 << 31); u > 0x7e800000 && u < 0x7f800000 {
		return a * 0
	}
	return a / b
}

func SinApprox(x float32) float32 { return float32(math.Sin(float64(x))) }

func CosApprox(x float32) float32 { return float32(math.Cos(float64(x))) }

func Lg2Approx(x float32) float32 { return float32(math.Log2(float64(x))) }

func Ex2Approx(x float32) float32 { return float32(math.Exp2(float64(x))) }

// RcpApprox64 and RsqrtApprox64 look at and give the upper 32 bits only.

func RcpApprox64(x float64) float64 { return upperHalf(1 / upperHalf(x)) }

func RsqrtApprox64(x float64) float64 { return upperHalf(1 / math.Sqrt(upperHalf(x))) }

func upperHalf(x float64) float64 {
	return flush64(math.Float64frombits(math.Float64bits(x) &^ (1<<32 - 1)))
}

func flush64(x float64) float64 {
	if u := math.Float64bits(x); u&(0x7ff<<52) == 0 {
		return math.Float64frombits(u & (1 << 63))
	}
	return x
}
