package texture

import (
	"math"
	"math/bits"
)

// Vector is how a point's coordinates change from one pixel to the next.
type Vector struct{ X, Y, Z float32 }

// FetchGradient is Fetch from the level of detail that fits a step of dx to the pixel
// beside, and of dy to that below. Precondition: as Fetch's.
func (u *Unit) FetchGradient(d *Descriptor, p Point, dx, dy Vector) [4]uint32 {
	if d.Levels == 0 {
		return u.Fetch(d, p)
	}
	a, insideA := d.step(&p, dx)
	b, insideB := d.step(&p, dy)
	longest := max(a.length(), b.length())
	if insideA && insideB {
		longest = max(longest, a.diagonal(&b, 1), a.diagonal(&b, -1))
	}
	return u.fetchDetail(d, p, longest.level()+fixedLevel(d.Bias))
}

// short is a number as the length of a step has it: n/1<<shortBits times a power of two.
type short struct {
	n int64
	e int
}

const shortBits = 10

// shorten cuts the size of a number off behind its bits.
func shorten(x float64) short {
	x = math.Abs(x)
	if x > math.MaxFloat32 {
		x = math.MaxFloat32
	}
	f, e := math.Frexp(x)
	return short{n: int64(f * (1 << shortBits)), e: e}
}

// scaled is the size of a number times an extent. What is added to the product was found
// with extents of 10 and 13; powers of two do not show it.
func scaled(x float64, extent uint32) float64 {
	if x != x {
		return x
	}
	s := shorten(x)
	if s.n == 0 {
		return 0
	}
	s.n = s.n*int64(extent) + 1<<(bits.Len32(extent)-1) - 1
	s.normalize()
	return math.Ldexp(float64(s.n), s.e-shortBits)
}

// reach is the length of a step as an integer with a power of two, ordered as the length.
type reach uint64

// reachBias is added to the exponent, which is in the upper bits of a reach.
const (
	reachBias = 1 << 12
	reachBits = 8
)

// reachOf is the length v times 2^(e-shortBits).
func reachOf(v int64, e int) reach {
	if v <= 0 {
		return 0
	}
	over := bits.Len64(uint64(v)) - shortBits
	if over > 0 {
		v >>= over
	} else {
		v <<= -over
	}
	fraction := uint64(v) >> (shortBits - 1 - reachBits) & (1<<reachBits - 1)
	return reach(uint64(e+over+reachBias)<<reachBits | fraction)
}

// level is the logarithm of a length, in 1/one.
func (r reach) level() int64 {
	if r == 0 {
		return -1 << 20
	}
	return (int64(r>>reachBits)-reachBias-1)*one + int64(logarithms[r&(1<<reachBits-1)])
}

// steps is a step in texels of the first level.
type steps [3]float64

// length is about the longest component, 11/32 of the next, and 1/4 of the shortest.
func (s *steps) length() reach {
	return shortLength(shorten(s[0]), shorten(s[1]), shorten(s[2]))
}

// shortLength is length for components that are cut off.
func shortLength(a, b, c short) reach {
	a, b, c = ordered(a, b, c)
	rest := int64(0)
	if b.n != 0 {
		rest = eleven(b.n) >> 3 << guard >> min(uint(2+a.e-b.e), 63)
	}
	if c.n != 0 {
		rest += c.n >> 1 << guard >> min(uint(1+a.e-c.e), 63)
	}
	return reachOf(a.n+rest>>guard, a.e)
}

// guard is how many further bits the shorter components have while they are added.
const guard = 20

// ordered are components from the longest to the shortest.
func ordered(a, b, c short) (first, second, third short) {
	if b.longer(a) {
		a, b = b, a
	}
	if c.longer(a) {
		a, c = c, a
	}
	if c.longer(b) {
		b, c = c, b
	}
	return a, b, c
}

// eleven is 11 n with half a step of eight, or 0.
func eleven(n int64) int64 {
	if n == 0 {
		return 0
	}
	return 11*n + 4
}

// longer orders components by their size.
func (s short) longer(t short) bool {
	if s.n == 0 || t.n == 0 {
		return s.n > t.n
	}
	return s.e > t.e || s.e == t.e && s.n > t.n
}

// diagonal is 11/16 of the length of a sum or a difference. Where it has two components, the
// second has 121/512 at once.
func (s *steps) diagonal(t *steps, sign float64) reach {
	var c [3]short
	for k := range c {
		c[k] = together(shorten(s[k]), shorten(t[k]), math.Signbit(s[k]) != math.Signbit(t[k]*sign))
	}
	first, second, third := ordered(c[0], c[1], c[2])
	if third.n != 0 {
		return shortLength(first.scale(), second.scale(), third.scale())
	}
	v := eleven(first.n)
	over := bits.Len64(uint64(v)) - shortBits
	if over <= 0 {
		return 0
	}
	unit := first.e - 4 + over
	rest := int64(0)
	if second.n != 0 {
		rest = (121*second.n + 32) << guard >> min(uint(5+over+first.e-second.e), 63)
	}
	return reachOf(v>>over+rest>>guard, unit)
}

// scale is 11/16 of a component.
func (s short) scale() short {
	s.n, s.e = eleven(s.n), s.e-4
	s.normalize()
	return s
}

// together is the sum or difference of two components, with one bit more than they have.
func together(x, y short, minus bool) short {
	if y.longer(x) {
		x, y = y, x
	}
	v := x.n << 1
	if y.n != 0 {
		small := y.n << 1 >> min(uint(x.e-y.e), 63)
		if minus {
			small = -small
		}
		v += small
	}
	r := short{n: v, e: x.e - 1}
	r.normalize()
	return r
}

// normalize cuts a number off behind its bits.
func (s *short) normalize() {
	if s.n == 0 {
		return
	}
	over := bits.Len64(uint64(s.n)) - shortBits
	s.cut(over)
	s.e += over
}

// cut shifts bits out, or zeros in.
func (s *short) cut(over int) {
	if over > 0 {
		s.n >>= over
	} else {
		s.n <<= -over
	}
}

// step is a step in texels of the first level, and whether it stays on the face of a cube. In
// three dimensions and on cubes it is what remains of it when it is added to the point: the
// GPU has no gradients of these, and takes differences of neighbours. One that is no number
// means the last level.
func (d *Descriptor) step(p *Point, v Vector) (w steps, inside bool) {
	size := [3]uint32{d.Width, d.Height, d.Depth}
	to := Point{X: p.X + v.X, Y: p.Y + v.Y, Z: p.Z + v.Z}
	inside = true
	switch d.Shape {
	case Shape3D:
		w = steps{apart(p.X, to.X), apart(p.Y, to.Y), apart(p.Z, to.Z)}
	case ShapeCube:
		w, inside = unfold(p, &to, d.Width)
	default:
		w = steps{number(v.X), number(v.Y), number(v.Z)}
	}
	for k := range w {
		switch {
		case k >= axesOf[d.Shape]:
			w[k] = 0
		case w[k] != w[k]:
			w[k] = math.MaxFloat32
		case d.Shape != ShapeCube: // the coordinates are normalized: there are levels
			w[k] = math.Copysign(scaled(w[k], size[k]), w[k])
		}
	}
	return w, inside
}

// apart is the difference of two coordinates, of which NaN counts as 0.
func apart(from, to float32) float64 { return float64(float32(number(to)) - float32(number(from))) }

// unfold is the step from a point to another on the face of the first, in texels, and whether
// it stays there. The face beside it is laid flat over the edge, to which both points have a
// distance; that behind is infinitely far.
func unfold(p, to *Point, size uint32) (w steps, inside bool) {
	a, b, c := direction(p.X, p.Y, p.Z)
	n := major(a, b, c)
	s, t, _ := onFace(n, bounded(a), bounded(b), bounded(c))
	a, b, c = direction(to.X, to.Y, to.Z)
	other := major(a, b, c)
	x, y, z := onFace(n, bounded(a), bounded(b), bounded(c))
	across := func(from, sign float64) float64 {
		return sign * (scaled((1-sign*from)/2, size) + scaled((1-z)/2, size))
	}
	along := func(from, to float64) float64 {
		return math.Copysign(scaled((to-from)/2, size), to-from)
	}
	a, b, c = offFace(other, 0, 0, 1) // out of the other face
	switch inS, inT, inOut := onFace(n, a, b, c); {
	case inOut > 0:
		return steps{along(s, x), along(t, y)}, true
	case inOut < 0:
		return steps{math.MaxFloat32}, false
	case inS != 0:
		return steps{across(s, inS), along(t, y)}, false
	default:
		return steps{along(s, x), across(t, inT)}, false
	}
}

// axesOf are the axes of a picture by shape.
var axesOf = [numShapes]int{Shape1D: 1, Shape2D: 2, Shape3D: 3, ShapeCube: 2}

// logarithms are those of 1 to 2 to the base of 2, in 1/one, by the first bits of a fraction:
// the GPU's own table.
var logarithms = [one]uint8{
	0, 2, 4, 5, 6, 8, 9, 11, 12, 13, 15, 16, 18, 19, 20, 22,
	23, 24, 26, 27, 28, 30, 31, 32, 34, 35, 36, 38, 39, 40, 42, 43,
	44, 45, 47, 48, 49, 50, 52, 53, 54, 55, 57, 58, 59, 60, 62, 63,
	64, 65, 66, 68, 69, 70, 71, 72, 74, 75, 76, 77, 78, 79, 81, 82,
	83, 84, 85, 86, 88, 89, 90, 91, 92, 93, 94, 95, 97, 98, 99, 100,
	101, 102, 103, 104, 105, 106, 107, 109, 110, 111, 112, 113, 114, 115, 116, 117,
	118, 119, 120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133,
	135, 136, 137, 137, 138, 139, 140, 141, 142, 143, 144, 145, 146, 147, 148, 149,
	150, 151, 152, 153, 154, 155, 156, 157, 158, 159, 160, 161, 162, 162, 163, 164,
	165, 166, 167, 168, 169, 170, 171, 172, 173, 173, 174, 175, 176, 177, 178, 179,
	180, 181, 181, 182, 183, 184, 185, 186, 187, 188, 188, 189, 190, 191, 192, 193,
	194, 195, 195, 196, 197, 198, 199, 200, 200, 201, 202, 203, 204, 205, 205, 206,
	207, 208, 209, 210, 210, 211, 212, 213, 214, 214, 215, 216, 217, 218, 218, 219,
	220, 221, 222, 222, 223, 224, 225, 226, 226, 227, 228, 229, 229, 230, 231, 232,
	233, 233, 234, 235, 236, 236, 237, 238, 239, 239, 240, 241, 242, 242, 243, 244,
	245, 245, 246, 247, 248, 248, 249, 250, 251, 251, 252, 253, 253, 254, 255, 255,
}
