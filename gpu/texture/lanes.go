package texture

import "math"

// Spans is what one axis of 32 fetches touches: two neighbours and the weight of the second
// in 1/256, or the nearest texel in A alone. Of a filter, B is A where the weight is 0.
type Spans struct {
	A, B   [32]int32
	Weight [32]uint32
}

// Flat reports whether Spans resolves the coordinates of d: it has one or two dimensions,
// perhaps with layers, no mipmaps and no border. Precondition: Check accepts d.
func (d *Descriptor) Flat() bool {
	switch d.Shape {
	case Shape1D, Shape2D:
		return d.Levels == 0 && d.Address[0] != Border && d.Address[1] != Border
	}
	return false
}

// Spans resolves 32 coordinates, which are the bits of float32 numbers, on the first or
// second axis, just as Fetch does. Precondition: d is flat.
func (d *Descriptor) Spans(axisNumber int, x *[32]uint32, s *Spans) {
	a := axis{size: d.Width, mode: d.Address[axisNumber], normalized: d.Normalized}
	if axisNumber == 1 {
		a.size = d.Height
	}
	if a.normalized && a.mode != Clamp {
		aroundSpans(a, x, d.Linear, s)
	} else {
		clampSpans(a, x, d.Linear, s)
	}
}

// inside is a coordinate between 0 and 1, or 0 and the size, and 0 for NaN.
func inside(x uint32, end float64) float64 {
	u := float64(math.Float32frombits(x))
	switch {
	case u >= end:
		return end
	case u > 0:
		return u
	}
	return 0
}

// clampLanes resolves coordinates with mode Clamp.
func (a axis) clampLanes(x *[32]uint32, linear bool, s *Spans) {
	if linear {
		a.clampLinear(x, s)
	} else {
		a.clampNearest(x, s)
	}
}

// clampLinear is linear with mode Clamp for each coordinate, in one loop without calls.
func (a axis) clampLinear(x *[32]uint32, s *Spans) {
	end, unit, size, drop := float64(a.size), float64(one), int64(1), 0
	if a.normalized {
		drop = a.fixedBits()
		end, unit, size = 1, float64(uint64(1)<<drop), int64(a.size)<<fractionBits
	}
	last := int64(a.size) - 1
	for i := range x {
		u := inside(x[i], end) * unit
		fixed := int64(u + 0.5)
		if drop != 0 {
			fixed = (int64(u)*size + 1<<(drop-1)) >> drop
		}
		fixed = min(max(fixed-one/2, 0), last*one)
		at, weight := fixed>>fractionBits, uint32(fixed)&(one-1)
		s.A[i], s.B[i], s.Weight[i] = int32(at), int32(at)+int32((weight+one-1)>>fractionBits), weight
	}
}

// clampNearest is clampLinear without a filter.
func (a axis) clampNearest(x *[32]uint32, s *Spans) {
	end, unit, size, drop := float64(a.size), 1.0, int64(1), 0
	if a.normalized {
		drop = a.fixedBits()
		end, unit, size = 1, float64(uint64(1)<<drop), int64(a.size)
	}
	for i := range x {
		s.A[i] = int32(min(int64(inside(x[i], end)*unit)*size>>drop, int64(a.size)-1))
	}
}

// period is a coordinate modulo 2, which wrap and mirror both repeat after, in 1/unit; 0 for what
// place takes for 0. Numbers from even on are even.
func period(x uint32, unit float64) int64 {
	const even = 1 << 24
	v := float64(math.Float32frombits(x))
	if size := math.Abs(v); !(size >= smallest && size < even) {
		return 0
	}
	return floor(v*unit) & (2*int64(unit) - 1)
}

// fold is index for wrap and mirror, and indexes from -1 to 2n.
func (m Mode) fold(i, n int64) int32 {
	if i < 0 {
		i += 2 * n
	}
	if i >= 2*n {
		i -= 2 * n
	}
	if i >= n {
		if m == Wrap {
			return int32(i - n)
		}
		return int32(2*n - 1 - i)
	}
	return int32(i)
}

// aroundLanes resolves coordinates with modes Wrap and Mirror.
func (a axis) aroundLanes(x *[32]uint32, linear bool, s *Spans) {
	if linear {
		a.aroundLinear(x, s)
	} else {
		a.aroundNearest(x, s)
	}
}

// aroundLinear is linear with modes Wrap and Mirror for each coordinate.
func (a axis) aroundLinear(x *[32]uint32, s *Spans) {
	drop, n := a.fixedBits(), int64(a.size)
	unit := float64(uint64(1) << drop)
	for i := range x {
		fixed := (period(x[i], unit)*n<<fractionBits+1<<(drop-1))>>drop - one/2
		at, weight := fixed>>fractionBits, uint32(fixed)&(one-1)
		first := a.mode.fold(at, n)
		s.A[i], s.B[i], s.Weight[i] = first, first, weight
		if weight != 0 {
			s.B[i] = a.mode.fold(at+1, n)
		}
	}
}

// aroundNearest is aroundLinear without a filter.
func (a axis) aroundNearest(x *[32]uint32, s *Spans) {
	drop, n := a.fixedBits(), int64(a.size)
	unit := float64(uint64(1) << drop)
	for i := range x {
		s.A[i] = a.mode.fold(period(x[i], unit)*n>>drop, n)
	}
}

// Lanes are the texels of 32 fetches, and what becomes of them: one texel each, or the four that a
// filter takes, in the order that split gives.
type Lanes struct {
	X, Y    Spans
	Lo, Hi  [4][32]uint64 // as in Raw
	Channel [4][32]uint32 // results, of the channels that the texture has
	weight  [4][32]uint32 // of the texels
}

// Fill makes the results of 32 fetches of their texels, of the first of them alone where not Beside.
// Lanes that do not fetch have any texel.
// Precondition: d is flat.
func (d *Descriptor) Fill(l *Lanes) {
	if !d.Linear {
		d.FillNearest(l)
		return
	}
	if !l.Beside() {
		if d.Format == F32 {
			d.fillMiddle(l)
			return
		}
		l.spread()
	}
	if d.Format == F16 || d.SRGB {
		for i := range 32 {
			var t [4]Raw
			for k := range t {
				t[k] = l.texel(k, i)
			}
			for n, c := range d.Filter(&t, l.X.Weight[i], l.Y.Weight[i]) {
				l.Channel[n][i] = c
			}
		}
		return
	}
	splitLanes(l)
	for n := range int(d.Channels) {
		switch d.Format {
		case F32:
			blendFloats(l, n)
		case U8, U16:
			blendUnsigned(d, l, n)
		default:
			d.blendWholes(l, n, 0, 32)
		}
	}
}

// What is done for all lanes of a Lanes, and has vectors where the processor does.
var (
	clampSpans    = axis.clampLanes
	aroundSpans   = axis.aroundLanes
	splitLanes    = (*Lanes).split
	blendFloats   = func(l *Lanes, n int) { l.blendFloats(n, 0, 32) }
	blendUnsigned = func(d *Descriptor, l *Lanes, n int) { d.blendWholes(l, n, 0, 32) }
)

// texel is texel k of lane i.
func (l *Lanes) texel(k, i int) Raw { return Raw{Lo: l.Lo[k][i], Hi: l.Hi[k][i]} }

// words are where the 32 bits of channel n lie, and how far up.
func (l *Lanes) words(n int) (words *[4][32]uint64, shift int) {
	if n >= 2 {
		return &l.Hi, 32 * (n - 2)
	}
	return &l.Lo, 32 * n
}

// FillNearest makes the results of 32 fetches of one texel each, whatever the shape of d.
func (d *Descriptor) FillNearest(l *Lanes) {
	if d.Format.Size() == 4 { // as it is
		for n := range int(d.Channels) {
			words, shift := l.words(n)
			for i, x := range &words[0] {
				l.Channel[n][i] = uint32(x >> shift)
			}
		}
		return
	}
	for i := range 32 {
		t := l.texel(0, i)
		for n, c := range d.channels(&t) {
			l.Channel[n][i] = c
		}
	}
}

// Beside reports whether some fetch takes more than one texel.
func (l *Lanes) Beside() bool { return l.X.weighted() || l.Y.weighted() }

// weighted reports whether some fetch takes two texels.
func (s *Spans) weighted() bool {
	some := uint32(0)
	for _, w := range &s.Weight {
		some |= w
	}
	return some != 0
}

// spread gives the texels that take no part those that do.
func (l *Lanes) spread() {
	for k := range 3 {
		l.Lo[k+1], l.Hi[k+1] = l.Lo[0], l.Hi[0]
	}
}

// fillMiddle is Fill of float32 where each fetch is in the middle of a texel.
func (d *Descriptor) fillMiddle(l *Lanes) {
	d.FillNearest(l)
	for n := range int(d.Channels) {
		for i, x := range &l.Channel[n] {
			switch x >> 23 & 255 {
			case 0:
				l.Channel[n][i] = 0
			case 255:
				if oddness(x) == metNaN {
					l.Channel[n][i] = d.nan()
				}
			}
		}
	}
}

// split makes the weights of the texels.
func (l *Lanes) split() {
	for i := range 32 {
		for k, w := range split(one, l.X.Weight[i], l.Y.Weight[i]) {
			l.weight[k][i] = w
		}
	}
}

// blendWholes filters a channel of normalized integers, of some lanes.
func (d *Descriptor) blendWholes(l *Lanes, n, from, to int) {
	for i := from; i < to; i++ {
		sum := int64(0)
		for k := range 4 {
			t := l.texel(k, i)
			sum += d.Format.whole(d.Format.channel(&t, n)) * int64(l.weight[k][i])
		}
		l.Channel[n][i] = math.Float32bits(d.Format.sumNumber(sum))
	}
}

// blendFloats filters a channel of float32, of some lanes.
func (l *Lanes) blendFloats(n, from, to int) {
	words, shift := l.words(n)
	for i := from; i < to; i++ {
		var v, w [4]uint32
		for k := range v {
			v[k], w[k] = uint32(words[k][i]>>shift), l.weight[k][i]
		}
		l.Channel[n][i] = filterFloats(&v, &w)
	}
}

// Exponents of float32 within which filterFloats takes sums of float64, so that neither what it
// adds nor the result is subnormal or infinite.
const (
	leastExponent = 64
	mostExponent  = 250
)

// filterFloats is the sum that numberSum makes of four weighted numbers: those that are cut off are
// whole multiples of a unit, so that a float64 holds the sum.
func filterFloats(v, w *[4]uint32) uint32 {
	top, all := uint32(0), uint32(0)
	for i, b := range v {
		e := b >> 23 & 255
		all = max(all, e)
		if w[i] != 0 {
			top = max(top, e)
		}
	}
	switch {
	case all > mostExponent, top != 0 && top < leastExponent:
		return sumFloats(v, w)
	case top == 0:
		return 0
	}
	scale := math.Float64frombits(uint64(1023+127+realBits-1-top) << 52)
	sum := int64(0)
	for i, b := range v {
		sum += int64(int32(float64(math.Float32frombits(b))*scale)) * int64(w[i])
	}
	// Half away from zero, to 24 bits; a carry goes into the exponent.
	f := math.Float64bits(float64(sum)) + 1<<(dropped-1)
	unit := math.Float64frombits(uint64(1023+top-127-(realBits-1)-fractionBits) << 52)
	return math.Float32bits(float32(math.Float64frombits(f&^(1<<dropped-1)) * unit))
}

// dropped is how many bits a float64 has beyond those of a result.
const dropped = 53 - realResult

// sumFloats is filterFloats for all numbers.
func sumFloats(v, w *[4]uint32) uint32 {
	var exps [4]int32
	for i := range v {
		exps[i] = int32(v[i] >> 23 & 255)
	}
	r := numberSum{kept: realBits}
	r.add(v, w, 4, &exps)
	return r.result(realResult, -149)
}

// LayerAt returns the slice of a layer; beyond the last layer the last is meant.
func (d *Descriptor) LayerAt(layer uint32) uint32 { return d.layer(layer) }

// TexelBytes returns the size of a texel.
func (d *Descriptor) TexelBytes() uint64 { return d.texelBytes() }
