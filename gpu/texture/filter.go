package texture

import (
	"math"
	"math/bits"
)

// split divides a weight among the four texels of a picture, in 1/one: left and right of the
// upper row, then of the lower. Halves are rounded up towards the right, and in a row away
// from the middle, so that what the parts amount to stays whole.
func split(whole, x, y uint32) (w [4]uint32) {
	right := (x*whole + one/2) >> fractionBits
	left := whole - right
	w[3] = (right*y + one/2) >> fractionBits
	w[1] = right - w[3]
	w[0] = (left*(one-y) + one/2) >> fractionBits
	w[2] = left - w[0]
	return w
}

// Bits of the fraction that a sum of floating-point numbers works with, counted from the
// largest of them: those of a number and four more. Colours of sRGB have no more.
const (
	guardBits = 4
	realBits  = 24 + guardBits
	halfBits  = 11 + guardBits
	srgbBits  = 8
)

// How many bits a result has.
const (
	realResult = 24
	halfResult = 11
)

// numberSum is a sum of weighted floating-point numbers.
type numberSum struct {
	sum  int64 // in 2^(top-expZero)
	top  int32 // the biased exponent of the largest number; 0: there is none
	odd  uint8 // what makes the sum no number
	kept uint8 // bits of a number
}

// What a sum met.
const (
	metNaN = 1 << iota
	metInf
	metMinusInf
)

// expZero is the bias of top: that of float32, its fraction, the guard and the weights.
const expZero = 127 + 23 + guardBits + fractionBits

// add adds the numbers of one picture, which are the bits of float32, by their weights. They
// are cut off below the last bit that the largest of them has; those of weight 0 count only
// where they are no numbers. exps are their
// exponents.
func (r *numberSum) add(v, w *[4]uint32, n int, exps *[4]int32) {
	top := int32(0)
	for i := range n {
		if e := exps[i]; e == 255 {
			r.odd |= oddness(v[i])
		} else if w[i] != 0 {
			top = max(top, e)
		}
	}
	if top == 0 {
		return
	}
	sum, cut := int64(0), uint32(1)<<(realBits-r.kept)-1
	for i := range n {
		e := v[i] >> 23 & 255
		if e == 0 || e == 255 { // subnormal numbers are zeros
			continue
		}
		x := int64((v[i]&(1<<23-1)|1<<23)<<guardBits>>min(uint32(top)-e, 31)&^cut) * int64(w[i])
		if v[i]>>31 != 0 {
			x = -x
		}
		sum += x
	}
	r.join(sum, top)
}

// join adds the sum of a picture: the one with the smaller numbers is rounded down to the
// unit of the other.
func (r *numberSum) join(sum int64, top int32) {
	if r.top == 0 {
		r.sum, r.top = sum, top
		return
	}
	if top > r.top {
		r.sum, r.top, sum, top = sum, top, r.sum, r.top
	}
	r.sum += sum >> min(uint32(r.top-top), 63)
}

// oddness is what a number with the largest exponent is.
func oddness(v uint32) uint8 {
	switch v << 1 {
	case 0xff << 24:
		if v>>31 != 0 {
			return metMinusInf
		}
		return metInf
	}
	return metNaN
}

// result is the sum as the bits of a float32, rounded half away from zero to so many bits.
// least is the exponent of the smallest step.
func (r *numberSum) result(kept, least int) uint32 {
	switch r.odd {
	case 0:
	case metInf:
		return 0xff << 23
	case metMinusInf:
		return 0x1ff << 23
	default:
		return resultNaN(kept)
	}
	sign, m := uint32(0), uint64(r.sum)
	if r.sum < 0 {
		sign, m = 1<<31, -m
	}
	unit := int(r.top) - expZero
	if drop := max(bits.Len64(m)-kept, least-unit); drop > 0 {
		m = (m + 1<<min(drop-1, 62)) >> min(drop, 63)
		unit += drop
	}
	x := float32(timesPower(m, unit))
	if b := math.Float32bits(x); b>>23 != 0 {
		return sign | b
	}
	return sign
}

// timesPower is m<<unit, for m below 1<<53.
func timesPower(m uint64, unit int) float64 {
	if unit < -1022 || unit > 1023 {
		return math.Ldexp(float64(m), unit)
	}
	return float64(m) * math.Float64frombits(uint64(1023+unit)<<52)
}

// resultNaN is the NaN of results with so many bits.
func resultNaN(kept int) uint32 { return math.MaxInt32 &^ (1<<(realResult-kept) - 1) }

// nan is what a filter gives for a NaN.
func (d *Descriptor) nan() uint32 {
	if d.Format == F16 {
		return resultNaN(halfResult)
	}
	return resultNaN(realResult)
}

// blend is a weighted sum of texels, a channel after the other: integers that are read as
// numbers have 16 bits.
type blend struct {
	fixed [4]int64
	reals [4]numberSum
}

// start makes a sum empty.
func (s *blend) start(d *Descriptor) {
	*s = blend{}
	kept := uint8(realBits)
	switch {
	case d.Format == F16:
		kept = halfBits
	case d.SRGB:
		kept = srgbBits
	}
	for n := range s.reals {
		s.reals[n].kept = kept
	}
}

// wholes reports whether the channels of a texture are added as integers.
func (d *Descriptor) wholes(n int) bool { return !d.Format.Float() && !d.curved(n) }

// curved reports whether a channel is stored as sRGB has it: red alone of two.
func (d *Descriptor) curved(n int) bool { return d.SRGB && n < 3 && (n == 0 || d.Channels != 2) }

// whole is a channel that is added as an integer: those of 16 bits, and signed ones of 8, as
// they are; bytes with their bits twice.
func (f Format) whole(raw uint32) int64 {
	if f == U8 {
		return int64(raw * 257)
	}
	return int64(int32(f.integer(raw)))
}

// stretch turns a sum of weighted signed bytes into 16 bits. It is about a division by 127.5, which
// the GPU makes of one by 128 and a correction in steps of 16 for each 4096.
func stretch(sum int64) int64 { return sum + (sum+64+sum>>12<<4)>>7 }

// sumNumber is a sum of weighted integers as a number.
func (f Format) sumNumber(sum int64) float32 {
	switch f {
	case S8:
		return float32(float64(max(stretch(sum), -math.MaxInt16)) / math.MaxInt16)
	case S16:
		return float32(float64(max((sum+one/2)>>fractionBits, -math.MaxInt16)) / math.MaxInt16)
	}
	return float32(float64((sum+one/2)>>fractionBits) / math.MaxUint16)
}

// group is the texels of one picture that take part in a sum.
type group struct {
	n      int
	texel  [4]*Raw
	weight [4]uint32
}

// add adds the texels of one picture.
func (s *blend) add(d *Descriptor, g *group) {
	for n := range int(d.Channels) {
		if d.wholes(n) {
			for i, t := range g.texel[:g.n] {
				s.fixed[n] += d.Format.whole(d.Format.channel(t, n)) * int64(g.weight[i])
			}
			continue
		}
		var v [4]uint32
		var exps [4]int32
		for i, t := range g.texel[:g.n] {
			v[i] = math.Float32bits(d.number(t, n))
			if exps[i] = int32(v[i] >> 23 & 255); d.SRGB {
				exps[i] = srgbExps[d.Format.channel(t, n)]
			}
		}
		s.reals[n].add(&v, &g.weight, g.n, &exps)
	}
}

// result is the four channels.
func (s *blend) result(d *Descriptor) (c [4]uint32) {
	kept, least := realResult, -149
	if d.Format == F16 || d.SRGB {
		kept, least = halfResult, -24
	}
	for n := range int(d.Channels) {
		if !d.wholes(n) {
			c[n] = s.reals[n].result(kept, least)
			continue
		}
		c[n] = math.Float32bits(d.Format.sumNumber(s.fixed[n]))
	}
	return c
}

// Filter returns the sum of the four texels of a picture by the weights of an axis each, in
// 1/256. They are in the order that split gives; texels of weight 0 on an axis are not looked at.
// Precondition: Check accepts d, which is filtered.
func (d *Descriptor) Filter(t *[4]Raw, x, y uint32) [4]uint32 {
	var s blend
	var g group
	w := split(one, x, y)
	for i := range t {
		if i&1 != 0 && x == 0 || i&2 != 0 && y == 0 {
			continue
		}
		g.texel[g.n], g.weight[g.n] = &t[i], w[i]
		g.n++
	}
	s.start(d)
	s.add(d, &g)
	return s.result(d)
}
