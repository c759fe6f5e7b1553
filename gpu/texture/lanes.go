package texture

import "math"

// Spans is what one axis of 32 fetches touches: two neighbours and the weight of the second
// in 1/Whole, or the nearest texel in A alone.
type Spans struct {
	A, B   [32]int32
	Weight [32]uint32
}

// Whole is the weight of a texel that is alone on an axis.
const Whole = one

// Flat reports whether Spans resolves the coordinates of d: it has one or two dimensions,
// perhaps with layers, no mipmaps and no border. Precondition: Check accepts d.
func (d *Descriptor) Flat() bool {
	switch d.Shape {
	case Shape1D:
		return d.Levels == 0 && d.Address[0] != Border
	case Shape2D:
		return d.Levels == 0 && d.Address[0] != Border && d.Address[1] != Border
	}
	return false
}

// Spans resolves 32 coordinates, which are the bits of float32 numbers, on the first or
// second axis, just as Fetch does. Precondition: d is flat.
func (d *Descriptor) Spans(axisNumber int, x *[32]uint32, s *Spans) {
	a := axis{d.Width, d.Address[axisNumber], d.Normalized}
	if axisNumber == 1 {
		a.size = d.Height
	}
	switch {
	case a.normalized && a.mode != Clamp:
		a.each(x, d.Linear, s)
	case d.Linear:
		a.clampLinear(x, s)
	default:
		a.clampNearest(x, s)
	}
}

// each resolves one coordinate after the other.
func (a axis) each(x *[32]uint32, linear bool, s *Spans) {
	for i := range x {
		f := a.around(math.Float32frombits(x[i]), linear)
		s.A[i], s.B[i], s.Weight[i] = f.at[0], f.at[1], f.weight
	}
}

// scale is what place multiplies by.
func (a axis) scale() float64 {
	if a.normalized {
		return float64(a.size)
	}
	return 1
}

// clampLinear is each with mode Clamp: place and linear in one loop without calls.
func (a axis) clampLinear(x *[32]uint32, s *Spans) {
	scale, end, last := a.scale(), float64(a.size)+2, int64(a.size)-1
	for i := range x {
		u := float64(math.Float32frombits(x[i])) * scale
		switch {
		case u < -2:
			u = -2
		case u > end:
			u = end
		case u != u:
			u = 0
		}
		v := u*one + 0.5
		fixed := int64(v)
		if float64(fixed) > v {
			fixed--
		}
		fixed -= one / 2
		at := fixed >> fractionBits
		s.A[i] = int32(min(max(at, 0), last))
		s.B[i] = int32(min(max(at+1, 0), last))
		s.Weight[i] = uint32(fixed) & (one - 1)
	}
}

// clampNearest is clampLinear without a filter.
func (a axis) clampNearest(x *[32]uint32, s *Spans) {
	scale, last := a.scale(), float64(a.size)-1
	for i := range x {
		u := float64(math.Float32frombits(x[i])) * scale
		switch {
		case u >= last:
			u = last
		case u > 0:
		default: // NaN too
			u = 0
		}
		s.A[i] = int32(u)
	}
}

// Add adds the channels of a texel, which are numbers, to sums.
func (d *Descriptor) Add(t *Raw, weight float64, sum *[4]float64) { d.add(t, weight, sum) }

// Numbers divides sums of two dimensions by what the weights of all texels amount to, and
// returns the bits of the results.
func Numbers(sum *[4]float64) [4]uint32 { return bitsOf(sum, one*one) }

// Texel returns the four channels of a texel, as Fetch does.
func (d *Descriptor) Texel(t *Raw) [4]uint32 { return d.channels(t) }

// LayerAt returns the slice of a layer; beyond the last layer the last is meant.
func (d *Descriptor) LayerAt(layer uint32) uint32 { return d.layer(layer) }

// TexelBytes returns the size of a texel.
func (d *Descriptor) TexelBytes() uint64 { return d.texelBytes() }
