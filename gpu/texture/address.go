package texture

import (
	"math"
	"math/bits"
)

// Coordinates are counted in 1/one of a texel.
const (
	fractionBits = 8
	one          = 1 << fractionBits
	smallest     = 0x1p-126 // smaller numbers count as 0
)

// span is what one axis of a fetch touches: the nearest texel alone, or two neighbours
// with the weight of the second. An index of outside is the border.
type span struct {
	at     [2]int32
	weight uint32 // of at[1], in 1/one; 0: at[1] takes no part
}

const outside = -1

// index brings the index of a texel into [0, n), or makes it outside.
func (m Mode) index(i, n int64) int32 {
	if uint64(i) < uint64(n) {
		return int32(i)
	}
	switch m {
	case Wrap:
		i = (i%n + n) % n
	case Mirror:
		if i = (i%(2*n) + 2*n) % (2 * n); i >= n {
			i = 2*n - 1 - i
		}
	case Border:
		return outside
	default:
		i = min(max(i, 0), n-1)
	}
	return int32(i)
}

// floor is math.Floor for numbers that an int64 can hold.
func floor(u float64) int64 {
	i := int64(u)
	if float64(i) > u {
		i--
	}
	return i
}

// axis is how the coordinates of one dimension are resolved.
type axis struct {
	size       uint32 // texels
	mode       Mode
	normalized bool
	offset     float64 // texels
}

// by is an axis whose coordinates are so many texels further.
func (a axis) by(texels int32) axis {
	o := Offset{texels}
	a.offset = float64(o.texels(0))
	return a
}

// texels is the offset of a dimension: four bits with a sign.
func (o *Offset) texels(n int) int32 { return o[n] << 28 >> 28 }

// faceAxis is an axis of a face of a cube.
func faceAxis(size uint32, m Mode) axis { return axis{size: size, mode: m, normalized: true} }

// axis is how a dimension of a level is resolved. With mipmaps coordinates go from 0 to 1 whatever
// the descriptor asks for, but wrap and mirror are for those that do.
func (d *Descriptor) axis(n int, size uint32) axis {
	a := axis{size: size, mode: d.Address[n], normalized: d.Normalized || d.Levels != 0}
	if a.normalized && !d.Normalized && a.mode != Border {
		a.mode = Clamp
	}
	return a
}

// fixedBits is how many bits of fraction a normalized coordinate keeps: 21, and more where
// the texels of the axis need them.
func (a axis) fixedBits() int { return max(21, bits.Len32(a.size-1)+fractionBits) }

// place scales a coordinate to texels, in [-2, 2*size+2]. The mode is what remains to be
// done with its index.
func (a axis) place(u float64) (float64, Mode) {
	size, m := float64(a.size), a.mode
	if u != u || math.Abs(u) < smallest {
		u = 0
	}
	switch {
	case !a.normalized:
		if m != Border {
			m = Clamp // CUDA has wrap and mirror for normalized coordinates only
		}
	case math.IsInf(u, 0):
		if m == Wrap || m == Mirror {
			return a.offset, m
		}
	default:
		unit := float64(uint64(1) << a.fixedBits())
		u = math.Floor(u*unit) / unit
		if m == Wrap || m == Mirror { // the period is 1 for wrap and 2 for mirror
			return (u-2*math.Floor(u/2))*size + a.offset, m
		}
		u *= size
	}
	return min(max(u+a.offset, -2), size+2), m
}

// nearest is the texel at a coordinate.
func (a axis) nearest(x float64) int32 {
	u, m := a.place(x)
	return m.index(floor(u), int64(a.size))
}

// linear is the two texels around a coordinate.
func (a axis) linear(x float64) span {
	u, m := a.place(x)
	fixed, n := floor(u*one+0.5)-one/2, int64(a.size)
	if m == Clamp {
		fixed = min(max(fixed, 0), (n-1)*one)
	}
	i := fixed >> fractionBits
	return span{at: [2]int32{m.index(i, n), m.index(i+1, n)}, weight: uint32(fixed & (one - 1))}
}

// neighbours is linear for tld4: both texels are meant, also at the ends.
func (a axis) neighbours(x float64) span {
	u, m := a.place(x)
	i, n := (floor(u*one+0.5)-one/2)>>fractionBits, int64(a.size)
	return span{at: [2]int32{m.index(i, n), m.index(i+1, n)}}
}

// around is linear or nearest.
func (a axis) around(x float64, linear bool) span {
	if linear {
		return a.linear(x)
	}
	return span{at: [2]int32{a.nearest(x)}}
}

// major chooses the face of a cube that a direction points to. The faces are +x, -x, +y,
// -y, +z, -z; of equal components z goes before y, and y before x. NaN is smaller than all numbers.
func major(x, y, z float64) (face uint32) {
	size := func(c float64) float64 {
		if c != c {
			return -1
		}
		return math.Abs(c)
	}
	ax, ay, az := size(x), size(y), size(z)
	c := x
	switch {
	case az >= ax && az >= ay:
		face, c = 4, z
	case ay >= ax:
		face, c = 2, y
	}
	if c < 0 {
		face++
	}
	return face
}

// onFace turns a vector into one whose third component points out of a face, and whose
// others are the face's axes.
func onFace(face uint32, x, y, z float64) (s, t, out float64) {
	switch face {
	case 0:
		return -z, -y, x
	case 1:
		return z, -y, -x
	case 2:
		return x, z, y
	case 3:
		return x, -z, -y
	case 4:
		return x, -y, z
	}
	return -x, -y, -z
}

// number is x, and 0 for NaN.
func number(x float32) float64 {
	if x != x {
		return 0
	}
	return float64(x)
}

// direction is a vector as NVIDIA's compiler gives it to the GPU's unit: divided by its largest
// component, with an approximate reciprocal that is 0 for infinity and for numbers above 1/smallest.
func direction(x, y, z float32) (a, b, c float64) {
	r := reciprocal(largest(x, y, z))
	return float64(x * r), float64(y * r), float64(z * r)
}

// bounded is a coordinate from -1 to 1, and 0 for NaN.
func bounded(c float64) float64 {
	if c != c {
		return 0
	}
	return min(max(c, -1), 1)
}

// face turns a direction into a face of a cube and coordinates on it, from 0 to 1.
func face(x, y, z float32) (n uint32, s, t float64) {
	a, b, c := direction(x, y, z)
	n = major(a, b, c)
	sc, tc, _ := onFace(n, a, b, c)
	on := func(c float64) float64 {
		switch c = bounded(c); {
		case c <= -smallest && c+1 == 1:
			return math.Nextafter(0.5, 0)
		}
		return (c + 1) / 2
	}
	return n, on(sc), on(tc)
}

// largest is the size of the largest component that is a number; NaN if none is.
func largest(x, y, z float32) float32 {
	m := float32(math.NaN())
	for _, c := range [...]float32{x, y, z} {
		if c = float32(math.Abs(float64(c))); !(m >= c) && c == c {
			m = c
		}
	}
	return m
}

// reciprocal is 1/x.
func reciprocal(x float32) float32 {
	if x < smallest {
		return float32(math.Inf(1))
	}
	if r := 1 / x; !(r < smallest) {
		return r
	}
	return 0
}
