package scalar

import "math"

// f16 and bf16 live in the low half of a 32-bit register, the upper half zero.

func F16to32(h uint32) float32 {
	sign, exp, m := h>>15<<31, h>>10&0x1f, h&0x3ff
	switch exp {
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | m<<13)
	case 0:
		x := float32(m) * (1.0 / (1 << 24))
		return math.Float32frombits(sign | math.Float32bits(x))
	}
	return math.Float32frombits(sign | (exp+112)<<23 | m<<13)
}

func Bf16to32(h uint32) float32 { return math.Float32frombits(h << 16) }

// F16Round and Bf16Round take a value that is exact or rounded to odd.
func F16Round(x float64, mode rounding) uint32 { return Encode(x, 10, 5, mode) }

func Bf16Round(x float64, mode rounding) uint32 { return Encode(x, 7, 8, mode) }

// F16Narrow and Bf16Narrow convert doubles.
func F16Narrow(x float64, mode rounding) uint32 { return narrow(x, 10, 5, mode) }

func Bf16Narrow(x float64, mode rounding) uint32 { return narrow(x, 7, 8, mode) }

// F16from32 and Bf16from32 round results of float32 arithmetic on two halves.
// Rounding twice is harmless there: 24 bits are enough for sums, products and
// quotients of 11.
func F16from32(x float32) uint32 { return F16Round(float64(x), Rn) }

func Bf16from32(x float32) uint32 { return Bf16Round(float64(x), Rn) }

func FtzF16(h uint32) uint32 {
	if h&0x7c00 == 0 {
		return h & 0x8000
	}
	return h
}

// halfFlags are the modifiers of a half precision fma.
type halfFlags uint8

const (
	HalfSat halfFlags = 1 << iota
	HalfRelu
	HalfFTZ
	HalfOOB
)

// outOfBounds reports whether h, an f16 or bf16, is the NaN of either sign that
// stands for an element outside a tensor: .oob makes products with it zero.
func outOfBounds(h uint32) bool { return h&0x7fff == 0x7ff7 }

func fmaHalf(a, b, c float64, flags halfFlags, round func(float64, rounding) uint32) uint32 {
	p := a * b
	s := p + c
	if s != 0 {
		s = ToOdd(s, SumError(p, c, s))
	}
	h := round(s, Rn)
	if flags&HalfFTZ != 0 {
		h = FtzF16(h)
	}
	switch {
	case flags&HalfSat != 0 && !(s > 0), flags&HalfRelu != 0 && s <= 0:
		return 0
	case flags&HalfSat != 0 && s > 1:
		return round(1, Rn)
	}
	return h
}

func FmaF16(a, b, c uint32, flags halfFlags) uint32 {
	if flags&HalfOOB != 0 && (outOfBounds(a) || outOfBounds(b)) {
		return 0
	}
	return fmaHalf(float64(F16to32(a)), float64(F16to32(b)), float64(F16to32(c)), flags, F16Round)
}

func FmaBF16(a, b, c uint32, flags halfFlags) uint32 {
	if flags&HalfOOB != 0 && (outOfBounds(a) || outOfBounds(b)) {
		return 0
	}
	return fmaHalf(float64(Bf16to32(a)), float64(Bf16to32(b)), float64(Bf16to32(c)), flags, Bf16Round)
}

func IntToF16(m magnitude, mode rounding) uint32 { return F16Round(OddInt(m), mode) }

func IntToBF16(m magnitude, mode rounding) uint32 { return Bf16Round(OddInt(m), mode) }

// CanonF16 and CanonBF16 replace any NaN by the canonical one.

func CanonF16(h uint32) uint32 {
	if h&0x7fff > 0x7c00 {
		return 0x7fff
	}
	return h
}

func CanonBF16(h uint32) uint32 {
	if h&0x7fff > 0x7f80 {
		return 0x7fff
	}
	return h
}

// F16Finite and Bf16Finite replace an infinity by the largest number.

func F16Finite(h uint32) uint32 {
	if h&0x7fff == 0x7c00 {
		return h - 1
	}
	return h
}

func Bf16Finite(h uint32) uint32 {
	if h&0x7fff == 0x7f80 {
		return h - 1
	}
	return h
}

// Tf32Round rounds to 10 bits of mantissa, in the place of an f32.
func Tf32Round(x float32, mode rounding) uint32 { return Encode(float64(x), 10, 8, mode) << 13 }

// Tf32Finite is .satfinite behind Tf32Away: it takes one step towards zero from
// what has the highest exponent, NaNs too.
func Tf32Finite(u uint32) uint32 {
	if u&0x7f800000 == 0x7f800000 {
		u -= 1 << 13
	}
	return u
}

// Tf32Away rounds to 10 bits of mantissa, ties away from zero; what is not
// finite is cut.
func Tf32Away(u uint32) uint32 {
	if u&0x7f800000 != 0x7f800000 {
		u += 1 << 12
	}
	return u &^ (1<<13 - 1)
}
