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
