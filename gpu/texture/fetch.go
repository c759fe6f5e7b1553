package texture

import "math"

// Point is where a fetch looks. Which fields count depends on the shape: X always, Y from
// two dimensions on, Z of 3D textures and cubes. Layer counts if the texture is layered.
type Point struct {
	X, Y, Z float32
	Layer   uint32
}

// Texel is Point for whole numbers, which name a texel and are not filtered. Level counts
// if the texture has mipmaps.
type Texel struct {
	X, Y, Z int32
	Layer   uint32
	Level   int32
}

// layer is the first slice of a layer; beyond the last layer the last is meant.
func (d *Descriptor) layer(n uint32) uint32 {
	if !d.Layered {
		return 0
	}
	return min(n, d.Layers-1)
}

// Fetch returns the four channels at a point, as the bits of float32 numbers, or of
// integers where the texture holds some that are not read as numbers. Channels that the
// texture does not have are 0, the fourth is 1. Of mipmaps the first level is meant, to
// which the texture adds its bias. Precondition: Check accepts d.
func (u *Unit) Fetch(d *Descriptor, p Point) [4]uint32 {
	if d.Levels != 0 {
		return u.FetchLevel(d, p, 0)
	}
	if d.Shape == ShapeBuffer {
		return u.Load(d, Texel{X: clampInt(p.X)})
	}
	l := d.level(0)
	return u.picture(d, &l, &p)
}

// FetchLevel is Fetch from a level of detail. Precondition: as Fetch's.
func (u *Unit) FetchLevel(d *Descriptor, p Point, lod float32) [4]uint32 {
	if d.Levels == 0 {
		return u.Fetch(d, p)
	}
	n, weight := d.detail(lod)
	l := d.level(n)
	if weight == 0 {
		return u.picture(d, &l, &p)
	}
	var sum [4]float64
	u.weigh(d, &l, &p, one-weight, &sum)
	l = d.level(n + 1)
	u.weigh(d, &l, &p, weight, &sum)
	return bitsOf(&sum, one*one*one*one)
}

// detail is which level a level of detail means, and the weight of the next level. The
// bias is added first, and the result bounded by the texture's ends and by its levels.
func (d *Descriptor) detail(lod float32) (n, weight uint32) {
	at := number(lod) + number(d.Bias)
	if at != at { // opposite infinities
		at = 0
	}
	if at > float64(d.MaxLevel) {
		at = float64(d.MaxLevel)
	}
	if at < float64(d.MinLevel) {
		at = float64(d.MinLevel)
	}
	at = min(max(at, 0), float64(d.Levels-1))
	if !d.LinearMip {
		return uint32(at + 0.5), 0
	}
	fixed := uint32(at*one + 0.5)
	return fixed >> fractionBits, fixed & (one - 1)
}

// clampInt is the floor of x as an integer. NaN is 0.
func clampInt(x float32) int32 {
	u := math.Floor(float64(x))
	if u != u {
		return 0
	}
	return int32(min(max(u, math.MinInt32), math.MaxInt32))
}

// footprint is which texels take part in a fetch.
type footprint struct {
	x, y, z span
	slice   uint32 // to which the index in depth is added
}

// footprint resolves the coordinates of a fetch.
func (d *Descriptor) footprint(l *level, p *Point, linear bool, f *footprint) {
	f.slice = d.layer(p.Layer)
	switch d.Shape {
	case Shape3D:
		f.z = axis{l.depth, d.Address[2], d.Normalized}.around(p.Z, linear)
		fallthrough
	case Shape2D:
		f.y = axis{l.height, d.Address[1], d.Normalized}.around(p.Y, linear)
		fallthrough
	case Shape1D:
		f.x = axis{l.width, d.Address[0], d.Normalized}.around(p.X, linear)
	case ShapeCube: // faces have normalized coordinates and end at their edges
		n, s, t := face(p.X, p.Y, p.Z)
		f.slice = f.slice*faces + n
		f.x, f.y = axis{l.width, Clamp, true}.around(s, linear), axis{l.height, Clamp, true}.around(t, linear)
	}
}

// picture fetches from one level.
func (u *Unit) picture(d *Descriptor, l *level, p *Point) [4]uint32 {
	if d.Linear {
		var sum [4]float64
		u.weigh(d, l, p, 1, &sum)
		return bitsOf(&sum, one*one*one)
	}
	var f footprint
	d.footprint(l, p, false, &f)
	if f.x.at[0]|f.y.at[0]|f.z.at[0] < 0 {
		return d.border()
	}
	b := &u.batch
	b.N, b.Size, b.Addr[0] = 1, d.texelBytes(), d.address(l, f.x.at[0], f.y.at[0], f.slice+uint32(f.z.at[0]))
	u.Memory.Texels(b)
	return d.channels(&b.Data[0])
}

// weigh adds the texels around a point to sums, in 1/(one*one*one) of a whole times the
// weight of the level.
func (u *Unit) weigh(d *Descriptor, l *level, p *Point, weight uint32, sum *[4]float64) {
	var f footprint
	d.footprint(l, p, d.Linear, &f)
	b := &u.batch
	b.N, b.Size = 0, d.texelBytes()
	var weights [8]float64
	far := [3]int{1, 1, 1} // the texels of weight 0 are left out
	for n, s := range [...]*span{&f.x, &f.y, &f.z} {
		if s.weight != 0 {
			far[n] = 2
		}
	}
	for k := range far[2] {
		z := f.z.at[k]
		for j := range far[1] {
			y := f.y.at[j]
			part := float64(f.z.share(k) * f.y.share(j) * weight)
			for i := range far[0] {
				x, share := f.x.at[i], part*float64(f.x.share(i))
				if x|y|z < 0 {
					for c, v := range d.Border {
						sum[c] += share * float64(v)
					}
					continue
				}
				b.Addr[b.N], weights[b.N] = d.address(l, x, y, f.slice+uint32(z)), share
				b.N++
			}
		}
	}
	if b.N == 0 {
		return
	}
	u.Memory.Texels(b)
	for n := range b.N {
		d.add(&b.Data[n], weights[n], sum)
	}
}

// share is the weight of one of the two texels of a span, in 1/one.
func (s *span) share(n int) uint32 {
	if n == 0 {
		return one - s.weight
	}
	return s.weight
}

// bitsOf divides sums by a power of two.
func bitsOf(sum *[4]float64, whole float64) (c [4]uint32) {
	for n := range c {
		c[n] = math.Float32bits(float32(sum[n] * (1 / whole)))
	}
	return c
}

// Load returns the four channels of a texel, without a filter. Outside of the texture they
// are all 0. Precondition: Check accepts d, which is no cube.
func (u *Unit) Load(d *Descriptor, p Texel) [4]uint32 {
	y, z := int32(0), int32(0)
	switch d.Shape {
	case Shape2D:
		y = p.Y
	case Shape3D:
		y, z = p.Y, p.Z
	}
	n := uint32(0)
	if d.Levels != 0 {
		if n = uint32(p.Level); n >= d.Levels {
			return [4]uint32{}
		}
	}
	l := d.level(n)
	if uint32(p.X) >= l.width || uint32(y) >= l.height || uint32(z) >= l.depth {
		return [4]uint32{}
	}
	b := &u.batch
	b.N, b.Size, b.Addr[0] = 1, d.texelBytes(), d.address(&l, p.X, y, d.layer(p.Layer)+uint32(z))
	u.Memory.Texels(b)
	return d.channels(&b.Data[0])
}

// address is where a texel lies, whose indexes are inside. The slice is a layer, a face or a
// place in depth.
func (d *Descriptor) address(l *level, x, y int32, slice uint32) uint64 {
	return l.base + uint64(slice)*l.slice + uint64(y)*l.pitch + uint64(x)*d.texelBytes()
}

// Gather returns one channel of the four texels that a linear filter would take on a face
// of a 2D texture or a cube, in the order of tld4: lower left, lower right, upper right,
// upper left, where y grows downwards. Of mipmaps it takes the first level. Precondition:
// Check accepts d, whose shape has two coordinates, and channel is at most 3.
func (u *Unit) Gather(d *Descriptor, p Point, channel int) (c [4]uint32) {
	l := d.level(0)
	var f footprint
	d.footprint(&l, &p, true, &f)
	b := &u.batch
	b.N, b.Size = 0, d.texelBytes()
	var to [4]int
	for n, at := range [...][2]int{{0, 1}, {1, 1}, {1, 0}, {0, 0}} {
		x, y := f.x.at[at[0]], f.y.at[at[1]]
		if x|y < 0 {
			c[n] = d.border()[channel]
			continue
		}
		b.Addr[b.N], to[b.N] = d.address(&l, x, y, f.slice), n
		b.N++
	}
	if b.N == 0 {
		return c
	}
	u.Memory.Texels(b)
	for n := range b.N {
		c[to[n]] = d.channels(&b.Data[n])[channel]
	}
	return c
}
