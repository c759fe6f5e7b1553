package texture

import "math"

// Vector is how a point's coordinates change from one pixel to the next.
type Vector struct{ X, Y, Z float32 }

// FetchGradient is Fetch from the level of detail that fits a step of dx to the pixel
// beside, and of dy to that below: the logarithm of the longer step in texels.
// Precondition: as Fetch's.
func (u *Unit) FetchGradient(d *Descriptor, p Point, dx, dy Vector) [4]uint32 {
	if d.Levels == 0 {
		return u.Fetch(d, p)
	}
	longer := max(d.step(&p, dx), d.step(&p, dy))
	return u.FetchLevel(d, p, float32(math.Log2(longer)/2))
}

// step is the square of a step's length, in texels of the first level. It is no NaN.
func (d *Descriptor) step(p *Point, v Vector) float64 {
	size := [3]float64{float64(d.Width), float64(d.Height), float64(d.Depth)}
	w := [3]float64{number(v.X), number(v.Y), number(v.Z)}
	switch {
	case d.Shape == ShapeCube:
		x, y, z := number(p.X), number(p.Y), number(p.Z)
		n := major(x, y, z)
		s, t, out := onFace(n, x, y, z)
		ds, dt, dout := onFace(n, w[0], w[1], w[2])
		half := size[0] / 2 / (out * out) // a face goes from -1 to 1
		w = [3]float64{(ds*out - s*dout) * half, (dt*out - t*dout) * half, 0}
	case d.Normalized:
		for k := range w {
			w[k] *= size[k]
		}
	}
	axes := axesOf[d.Shape]
	sum := 0.0
	for k := range axes {
		sum += w[k] * w[k]
	}
	if sum != sum {
		return 0
	}
	return sum
}

// axesOf are the axes of a picture by shape.
var axesOf = [numShapes]int{Shape1D: 1, Shape2D: 2, Shape3D: 3, ShapeCube: 2}
