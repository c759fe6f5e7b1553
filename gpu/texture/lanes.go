package texture

import "math"

// Spans is what one axis of 32 fetches touches: two neighbours and the weight of the second
// in 1/256, or the nearest texel in A alone.
type Spans struct {
	A, B   [32]int32
	Weight [32]uint32
}

// Flat reports whether Spans resolves the coordinates of d: it has one or two dimensions,
// perhaps with layers, no mipmaps and no border. Precondition: Check accepts d.
func (d *Descriptor) Flat() bool {
	switch d.Shape {
	case Shape1D:
		return d.Levels == 0 && d.Address[0] != Border && d.Address[1] != Border
	case Shape2D:
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

// clampLinear is each with mode Clamp: place and linear in one loop without calls.
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
		at := fixed >> fractionBits
		s.A[i], s.B[i], s.Weight[i] = int32(at), int32(min(at+1, last)), uint32(fixed)&(one-1)
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

// Texel returns the four channels of a texel, as Fetch does.
func (d *Descriptor) Texel(t *Raw) [4]uint32 { return d.channels(t) }

// LayerAt returns the slice of a layer; beyond the last layer the last is meant.
func (d *Descriptor) LayerAt(layer uint32) uint32 { return d.layer(layer) }

// TexelBytes returns the size of a texel.
func (d *Descriptor) TexelBytes() uint64 { return d.texelBytes() }
