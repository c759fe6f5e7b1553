package simt

import "math"

// f16 and bf16 live in the low half of a 32-bit register, the upper half zero.

func f16to32(h uint32) float32 {
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

func bf16to32(h uint32) float32 { return math.Float32frombits(h << 16) }

// f16Round and bf16Round take a value that is exact or rounded to odd.
func f16Round(x float64, mode rounding) uint32  { return encode(x, 10, 5, mode) }
func bf16Round(x float64, mode rounding) uint32 { return encode(x, 7, 8, mode) }

// f16Narrow and bf16Narrow convert doubles.
func f16Narrow(x float64, mode rounding) uint32  { return narrow(x, 10, 5, mode) }
func bf16Narrow(x float64, mode rounding) uint32 { return narrow(x, 7, 8, mode) }

// f16from32 and bf16from32 round results of float32 arithmetic on two halves.
// Rounding twice is harmless there: 24 bits are enough for sums, products and
// quotients of 11.
func f16from32(x float32) uint32  { return f16Round(float64(x), rn) }
func bf16from32(x float32) uint32 { return bf16Round(float64(x), rn) }

func ftzF16(h uint32) uint32 {
	if h&0x7c00 == 0 {
		return h & 0x8000
	}
	return h
}

// halfFlags are the modifiers of a half precision fma.
type halfFlags uint8

const (
	halfSat halfFlags = 1 << iota
	halfRelu
	halfFTZ
	halfOOB
)

// outOfBounds reports whether h, an f16 or bf16, is the NaN of either sign that
// stands for an element outside a tensor: .oob makes products with it zero.
func outOfBounds(h uint32) bool { return h&0x7fff == 0x7ff7 }

func fmaHalf(a, b, c float64, flags halfFlags, round func(float64, rounding) uint32) uint32 {
	p := a * b
	s := p + c
	if s != 0 {
		s = toOdd(s, sumError(p, c, s))
	}
	h := round(s, rn)
	if flags&halfFTZ != 0 {
		h = ftzF16(h)
	}
	switch {
	case flags&halfSat != 0 && !(s > 0), flags&halfRelu != 0 && s <= 0:
		return 0
	case flags&halfSat != 0 && s > 1:
		return round(1, rn)
	}
	return h
}

func fmaF16(a, b, c uint32, flags halfFlags) uint32 {
	if flags&halfOOB != 0 && (outOfBounds(a) || outOfBounds(b)) {
		return 0
	}
	return fmaHalf(float64(f16to32(a)), float64(f16to32(b)), float64(f16to32(c)), flags, f16Round)
}

func fmaBF16(a, b, c uint32, flags halfFlags) uint32 {
	if flags&halfOOB != 0 && (outOfBounds(a) || outOfBounds(b)) {
		return 0
	}
	return fmaHalf(float64(bf16to32(a)), float64(bf16to32(b)), float64(bf16to32(c)), flags, bf16Round)
}

func intToF16(m magnitude, mode rounding) uint32  { return f16Round(oddInt(m), mode) }
func intToBF16(m magnitude, mode rounding) uint32 { return bf16Round(oddInt(m), mode) }

// canonF16 and canonBF16 replace any NaN by the canonical one.

func canonF16(h uint32) uint32 {
	if h&0x7fff > 0x7c00 {
		return 0x7fff
	}
	return h
}

func canonBF16(h uint32) uint32 {
	if h&0x7fff > 0x7f80 {
		return 0x7fff
	}
	return h
}

// f16Finite and bf16Finite replace an infinity by the largest number.

func f16Finite(h uint32) uint32 {
	if h&0x7fff == 0x7c00 {
		return h - 1
	}
	return h
}

func bf16Finite(h uint32) uint32 {
	if h&0x7fff == 0x7f80 {
		return h - 1
	}
	return h
}

// tf32Round rounds to 10 bits of mantissa, in the place of an f32.
func tf32Round(x float32, mode rounding) uint32 { return encode(float64(x), 10, 8, mode) << 13 }

// tf32Finite is .satfinite behind tf32Away: it takes one step towards zero from
// what has the highest exponent, NaNs too.
func tf32Finite(u uint32) uint32 {
	if u&0x7f800000 == 0x7f800000 {
		u -= 1 << 13
	}
	return u
}

// tf32Away rounds to 10 bits of mantissa, ties away from zero; what is not
// finite is cut.
func tf32Away(u uint32) uint32 {
	if u&0x7f800000 != 0x7f800000 {
		u += 1 << 12
	}
	return u &^ (1<<13 - 1)
}
