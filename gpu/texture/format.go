package texture

import "math"

// Format is the type of a channel.
type Format uint8

// Formats.
const (
	U8 Format = 1 + iota
	U16
	U32
	S8
	S16
	S32
	F16
	F32
	numFormats
)

// formats are the properties of each format.
var formats = [numFormats]struct {
	size  uint8   // bytes
	sign  bool    // a signed integer
	float bool    // half or float
	scale float64 // what 1.0 is stored as, of normalized integers; 0: there are none
}{
	U8:  {size: 1, scale: math.MaxUint8},
	U16: {size: 2, scale: math.MaxUint16},
	U32: {size: 4},
	S8:  {size: 1, sign: true, scale: math.MaxInt8},
	S16: {size: 2, sign: true, scale: math.MaxInt16},
	S32: {size: 4, sign: true},
	F16: {size: 2, float: true},
	F32: {size: 4, float: true},
}

// Valid reports whether f is one of the formats.
func (f Format) Valid() bool { return f >= U8 && f < numFormats }

// Size returns the bytes of a channel. Precondition: f is valid.
func (f Format) Size() int { return int(formats[f].size) }

// Float reports whether a channel holds a floating-point number. Precondition: f is valid.
func (f Format) Float() bool { return formats[f].float }

// Signed reports whether a channel holds a signed integer. Precondition: f is valid.
func (f Format) Signed() bool { return formats[f].sign }

// Normalizes reports whether channels can be read as numbers from 0 to 1 or -1 to 1.
// Precondition: f is valid.
func (f Format) Normalizes() bool { return formats[f].scale != 0 }

// channel returns channel n, extended to 32 bits by zeros. Precondition: the texel has it.
func (f Format) channel(t *Raw, n int) uint32 {
	bits := 8 * f.Size()
	x := t.Lo
	if at := n * bits; at >= 64 {
		x = t.Hi >> (at - 64)
	} else {
		x >>= at
	}
	return uint32(x & (1<<bits - 1))
}

// integer extends a channel to 32 bits by its sign, if it has one.
func (f Format) integer(raw uint32) uint32 {
	if n := 32 - 8*f.Size(); f.Signed() {
		return uint32(int32(raw<<n) >> n)
	}
	return raw
}

// number is the value of a channel that is read as a floating-point number: half, float,
// or a normalized integer. The smallest signed integer is -1, as the one above it.
func (f Format) number(raw uint32) float32 {
	switch f {
	case F32:
		return math.Float32frombits(raw)
	case F16:
		return half(uint16(raw))
	}
	if f.Signed() {
		return float32(max(-1, float64(int32(f.integer(raw)))/formats[f].scale))
	}
	return float32(float64(raw) / formats[f].scale)
}

// half widens a half-precision number. It keeps the payload of a NaN.
func half(h uint16) float32 {
	sign, exp, frac := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0:
		x := float32(frac) / (1 << 24) // exact, subnormals too
		return math.Float32frombits(math.Float32bits(x) | sign)
	case 31:
		return math.Float32frombits(sign | 0xff<<23 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+127-15)<<23 | frac<<13)
}

// unormBytes are bytes as numbers.
var unormBytes = func() (list [256]float32) {
	for n := range list {
		list[n] = float32(float64(n) / math.MaxUint8)
	}
	return list
}()

// numbers reports whether a fetch gives floating-point numbers.
func (d *Descriptor) numbers() bool { return d.Format.Float() || d.Floats }

// number is the value of channel n of a texel. Precondition: it is a number.
func (d *Descriptor) number(t *Raw, n int) float32 {
	switch x := d.Format.channel(t, n); {
	case d.curved(n):
		return srgbNumbers[x]
	case d.Format == U8:
		return unormBytes[x]
	default:
		return d.Format.number(x)
	}
}

// channels are the four channels of a texel. Those that the texture does not have are 0.
func (d *Descriptor) channels(t *Raw) (c [4]uint32) {
	numbers := d.numbers()
	for n := range int(d.Channels) {
		if numbers {
			c[n] = math.Float32bits(d.number(t, n))
		} else {
			c[n] = d.Format.integer(d.Format.channel(t, n))
		}
	}
	return c
}

// border is what lies outside with address mode Border, as a texel would have it.
func (d *Descriptor) border() (c [4]uint32) {
	t := d.borderTexel()
	return d.channels(&t)
}

// borderTexel is a texel with the colour of the border, cut off to what its format has.
func (d *Descriptor) borderTexel() (t Raw) {
	bits := 8 * d.Format.Size()
	for n := range int(d.Channels) {
		x := uint64(d.cut(d.Border[n])) & (1<<bits - 1)
		if at := n * bits; at < 64 {
			t.Lo |= x << at
		} else {
			t.Hi |= x << (at - 64)
		}
	}
	return t
}

// cut converts a colour to a channel of a texel, towards zero. That of integers which are
// read as such is in the lowest of its bits.
func (d *Descriptor) cut(x float32) uint32 {
	scale, least := formats[d.Format].scale, 0.0
	switch {
	case d.Format == F16:
		return uint32(cutHalf(x))
	case !d.Floats:
		return math.Float32bits(x)
	case d.Format.Signed():
		least = -1
	}
	if x != x {
		return 0
	}
	return uint32(int32(min(max(float64(x), least), 1) * scale))
}

// cutHalf rounds a number towards zero to a half.
func cutHalf(x float32) uint16 {
	h := toHalf(x)
	if y := half(h); y == y && math.Abs(float64(y)) > math.Abs(float64(x)) {
		h--
	}
	return h
}

// Pack converts a channel that a kernel writes to the bits that memory holds: the nearest
// half of a number, and integers as near as the format has them. Precondition: f is valid.
func (f Format) Pack(x uint32) uint32 {
	switch f {
	case F16:
		return uint32(toHalf(math.Float32frombits(x)))
	case U8, U16:
		return min(x, 1<<(8*f.Size())-1)
	case S8, S16:
		end := int32(1) << (8*f.Size() - 1)
		return uint32(min(max(int32(x), -end), end-1))
	}
	return x
}

// toHalf rounds a number to the nearest half, and to the even one half way.
func toHalf(x float32) uint16 {
	b := math.Float32bits(x)
	sign, exp, frac := uint16(b>>16&0x8000), int(b>>23&255), b&0x7fffff
	if exp == 255 {
		if frac != 0 {
			return 0x7fff
		}
		return sign | 0x7c00
	}
	exp -= 127 - 15
	drop := 13
	switch {
	case exp >= 31:
		return sign | 0x7c00
	case exp < -10:
		return sign
	case exp <= 0: // subnormal: the leading one is written out
		frac |= 1 << 23
		drop, exp = 14-exp, 0
	}
	h := uint32(exp)<<10 | frac>>drop // a carry out of the fraction is the next exponent
	if exp == 0 {
		h = frac >> drop
	}
	rest, half := frac&(1<<drop-1), uint32(1)<<(drop-1)
	if rest > half || rest == half && h&1 != 0 {
		h++
	}
	return sign | uint16(h)
}
