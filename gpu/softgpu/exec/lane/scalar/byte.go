package scalar

import "math"

// 8-bit floating point lives in pairs in the low half of a 32-bit register.
// e5m2 is the upper half of an f16. e4m3 has no infinities: all bits but the
// sign set are its only NaN, and 448 its largest number.

// E4m3Round rounds to e4m3; what is too large becomes the largest number.
func E4m3Round(x float32) uint32 {
	if x != x {
		return 0x7f
	}
	// With five bits of exponent and its bias, x/256 has the same fields.
	size := Encode(math.Abs(float64(x))/256, 3, 5, Rn)
	return math.Float32bits(x)>>31<<7 | min(size, 0x7e)
}

// E5m2Round rounds to e5m2; what is too large becomes the largest number.
func E5m2Round(x float32) uint32 {
	b := Encode(float64(x), 2, 5, Rn)
	if b&0x7f == 0x7c {
		return b - 1
	}
	return b
}

// E4m3to16 and E5m2to16 are the f16 of the same value; NaN becomes canonical.

func E4m3to16(b uint32) uint32 {
	sign, size := b>>7<<15, b&0x7f
	switch {
	case size == 0x7f:
		return 0x7fff
	case size < 8: // subnormal: multiples of 2^-9
		return sign | F16Round(float64(size)/512, Rn)
	}
	return sign | size<<7 + 8<<10 // the biases differ by 8
}

func E5m2to16(b uint32) uint32 { return CanonF16(b << 8) }

// F16Relu makes negative numbers zero; NaN is canonical here and positive.
func F16Relu(h uint32) uint32 {
	if h&0x8000 != 0 {
		return 0
	}
	return h
}

// Floating point of 4 and 6 bits has neither infinities nor NaN: NaN becomes the largest number.

// SmallRound rounds to a format with so many bits of fraction and of exponent; what is too
// large becomes the largest number.
func SmallRound(x float32, fraction, exponent int) uint32 {
	most := uint32(1)<<(fraction+exponent) - 1
	if x != x {
		return most
	}
	sign, size := math.Float32bits(x)>>31<<(fraction+exponent), math.Abs(float64(x))
	least := 2 - 1<<(exponent-1)
	switch {
	case size == 0:
		return sign
	case size > float64(uint64(1)<<(1<<exponent)):
		return sign | most
	}
	_, e := math.Frexp(size)
	e = max(e-1, least)
	steps := math.RoundToEven(math.Ldexp(size, fraction-e))
	return sign | min(uint32(e-least)<<fraction+uint32(steps), most)
}

// SmallTo16 is the f16 of the same value.
func SmallTo16(b uint32, fraction, exponent int) uint32 {
	sign, size := b>>(fraction+exponent)&1<<15, b&(1<<(fraction+exponent)-1)
	field, steps := int(size>>fraction), size&(1<<fraction-1)
	if field > 0 {
		field, steps = field-1, steps|1<<fraction
	}
	return sign | F16Round(math.Ldexp(float64(steps), field+2-1<<(exponent-1)-fraction), Rn)
}
