package texture

import "math"

// Point is where a fetch looks. Which fields count depends on the shape: X always, Y from
// two dimensions on, Z of 3D textures and cubes. Layer counts if the texture is layered.
type Point struct {
	X, Y, Z float32
	Layer   uint32
	Offset  Offset
}

// Offset is added to coordinates in texels, in each dimension; on a cube it has to be 0.
type Offset [3]int32

// Texel is Point for whole numbers, which name a texel and are not filtered. Level counts
// if the texture has mipmaps.
type Texel struct {
	X, Y, Z int32
	Layer   uint32
	Level   int32
	Offset  Offset
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
		return u.fetchDetail(d, p, 0)
	}
	if d.Shape == ShapeBuffer {
		return [4]uint32{}
	}
	l := d.level(0)
	return u.picture(d, &l, &p)
}

// FetchLevel is Fetch from a level of detail. Precondition: as Fetch's.
func (u *Unit) FetchLevel(d *Descriptor, p Point, lod float32) [4]uint32 {
	if d.Levels == 0 {
		return u.Fetch(d, p)
	}
	return u.fetchDetail(d, p, fixedLevel(lod)+fixedLevel(d.Bias))
}

// fetchDetail fetches from a level of detail in 1/one, which is bounded first.
func (u *Unit) fetchDetail(d *Descriptor, p Point, lod int64) [4]uint32 {
	n, weight := d.detail(lod)
	l := d.level(n)
	if weight == 0 {
		return u.picture(d, &l, &p)
	}
	u.sum.start(d)
	u.weigh(d, &l, &p, one-weight)
	l = d.level(n + 1)
	u.weigh(d, &l, &p, weight)
	return u.sum.result(d)
}

// detail is which level a level of detail in 1/one means, and the weight of the next level.
// It is bounded by the texture's ends and by its levels.
func (d *Descriptor) detail(at int64) (n, weight uint32) {
	at = max(min(at, fixedLevel(d.MaxLevel)), fixedLevel(d.MinLevel))
	at = min(max(at, 0), int64(d.Levels-1)<<fractionBits)
	if !d.LinearMip {
		return uint32(at+one/2) >> fractionBits, 0
	}
	return uint32(at) >> fractionBits, uint32(at) & (one - 1)
}

// fixedLevel cuts a level of detail off behind the bits of a weight.
func fixedLevel(x float32) int64 {
	if x != x {
		return 0
	}
	const far = 1 << 10 // no texture has so many levels
	return int64(min(max(x, -far), far) * one)
}

// footprint is which texels take part in a fetch.
type footprint struct {
	x, y, z span
	slice   uint32 // to which the index in depth is added
	seam    seam   // of a cube whose filter looks beyond a face
}

// footprint resolves the coordinates of a fetch.
func (d *Descriptor) footprint(l *level, p *Point, linear bool, f *footprint) {
	f.slice = d.layer(p.Layer)
	switch d.Shape {
	case Shape3D:
		f.z = d.axis(2, l.depth).by(p.Offset[2]).around(float64(p.Z), linear)
		fallthrough
	case Shape2D:
		f.y = d.axis(1, l.height).by(p.Offset[1]).around(float64(p.Y), linear)
		fallthrough
	case Shape1D:
		f.x = d.axis(0, l.width).by(p.Offset[0]).around(float64(p.X), linear)
		if d.Shape == Shape1D && !d.Layered && d.Address[1] == Border {
			d.beside(p.Offset[0]>>4<<28>>28, linear, &f.y)
		}
	case ShapeCube: // faces have normalized coordinates
		n, s, t := face(p.X, p.Y, p.Z)
		if linear && d.Seamless {
			f.seam = seam{size: int32(l.width), face: n, slice: f.slice * faces}
			f.x, f.y = faceAxis(l.width, Clamp).free(s), faceAxis(l.height, Clamp).free(t)
			return
		}
		f.slice = f.slice*faces + n
		f.x, f.y = faceAxis(l.width, d.Address[0]).around(s, linear), faceAxis(l.height, d.Address[1]).around(t, linear)
	}
}

// beside resolves the second dimension of a row whose border lies above it: a filter looks half outside.
// An offset that has more than four bits has the next four for this dimension.
func (d *Descriptor) beside(offset int32, linear bool, y *span) {
	switch {
	case linear && offset == 0:
		*y = span{at: [2]int32{outside, 0}, weight: one / 2}
	case offset != 0:
		y.at = [2]int32{outside, outside}
	}
}

// corners is footprint for tld4, whose texels are those around the point also at the ends.
func (d *Descriptor) corners(l *level, p *Point, f *footprint) {
	if d.Shape == ShapeCube && d.Seamless {
		d.footprint(l, p, true, f)
		return
	}
	s, t, x, y := float64(p.X), float64(p.Y), d.axis(0, l.width).by(p.Offset[0]), d.axis(1, l.height).by(p.Offset[1])
	f.slice = d.layer(p.Layer)
	if d.Shape == ShapeCube {
		n := uint32(0)
		n, s, t = face(p.X, p.Y, p.Z)
		f.slice = f.slice*faces + n
		x, y = faceAxis(l.width, d.Address[0]), faceAxis(l.height, d.Address[1])
	}
	f.x, f.y = x.neighbours(s), y.neighbours(t)
}

// picture fetches from one level.
func (u *Unit) picture(d *Descriptor, l *level, p *Point) [4]uint32 {
	if d.Linear {
		u.sum.start(d)
		u.weigh(d, l, p, one)
		return u.sum.result(d)
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

// weigh adds the texels around a point to the sum, by the weight of the level.
func (u *Unit) weigh(d *Descriptor, l *level, p *Point, weight uint32) {
	var f footprint
	d.footprint(l, p, d.Linear, &f)
	b := &u.batch
	b.N, b.Size = 0, d.texelBytes()
	var groups [2]group
	depth := 1
	whole := [2]uint32{weight}
	if f.z.weight != 0 {
		depth = 2
		whole[0] = (weight*(one-f.z.weight) + one/2) >> fractionBits
		whole[1] = weight - whole[0]
	}
	for k := range depth {
		g, z := &groups[k], f.z.at[k]
		w := split(whole[k], f.x.weight, f.y.weight)
		missing := f.missing()
		if missing >= 0 {
			share(missing, &w)
		}
		for i := range w {
			if i == missing || missing < 0 && (i&1 != 0 && f.x.weight == 0 || i&2 != 0 && f.y.weight == 0) {
				continue // it takes no part
			}
			x, y, slice := f.texel(i)
			g.weight[g.n], g.texel[g.n] = w[i], &u.edge
			if x|y|z >= 0 {
				b.Addr[b.N], g.texel[g.n] = d.address(l, x, y, slice+uint32(z)), &b.Data[b.N]
				b.N++
			} else {
				u.edge = d.borderTexel()
			}
			g.n++
		}
	}
	if b.N != 0 {
		u.Memory.Texels(b)
	}
	for k := range depth {
		u.sum.add(d, &groups[k])
	}
}

// Load returns the four channels of a texel, without a filter. Outside of a texture without
// mipmaps they are all 0, and everywhere on an array of one dimension without layers, whose
// whole coordinates NVIDIA's GPUs take for those of plain memory. With mipmaps coordinates
// are brought inside, and a level that there is not is 0. Precondition: Check accepts d,
// which is no cube.
func (u *Unit) Load(d *Descriptor, p Texel) [4]uint32 {
	if d.Shape == Shape1D && !d.Layered {
		return [4]uint32{}
	}
	x, y, z, n := p.X+p.Offset.texels(0), int32(0), int32(0), uint32(0)
	switch d.Shape {
	case Shape2D:
		y = p.Y + p.Offset.texels(1)
	case Shape3D:
		y, z = p.Y+p.Offset.texels(1), p.Z+p.Offset.texels(2)
	}
	if d.Levels != 0 {
		if n = uint32(p.Level); n >= d.Levels {
			return [4]uint32{}
		}
	}
	l := d.level(n)
	if d.Levels != 0 {
		for k, at := range [...]*int32{&x, &y, &z} {
			*at = Clamp.index(int64(*at), int64([...]uint32{l.width, l.height, l.depth}[k]))
		}
	}
	if uint32(x) >= l.width || uint32(y) >= l.height || uint32(z) >= l.depth || d.Levels == 0 && d.Layered && p.Layer >= d.Layers {
		return [4]uint32{}
	}
	b := &u.batch
	b.N, b.Size, b.Addr[0] = 1, d.texelBytes(), d.address(&l, x, y, d.layer(p.Layer)+uint32(z))
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
	d.corners(&l, &p, &f)
	b := &u.batch
	b.N, b.Size = 0, d.texelBytes()
	var from [4]*Raw
	missing := f.missing()
	for i := range from {
		if i == missing {
			continue
		}
		x, y, slice := f.texel(i)
		if x|y < 0 {
			u.edge, from[i] = d.borderTexel(), &u.edge
			continue
		}
		b.Addr[b.N], from[i] = d.address(&l, x, y, slice), &b.Data[b.N]
		b.N++
	}
	if b.N != 0 {
		u.Memory.Texels(b)
	}
	for n, i := range [...]int{2, 3, 1, 0} {
		if i == missing {
			c[n] = u.between(d, &from, missing, channel)
		} else {
			c[n] = d.gathered(from[i], channel)
		}
	}
	return c
}

// gathered is a channel of a texel as tld4 has it: that of a filter which takes one texel.
func (d *Descriptor) gathered(t *Raw, channel int) uint32 {
	x := d.channels(t)[channel]
	switch {
	case channel >= int(d.Channels):
	case d.Floats && d.wholes(channel):
		return math.Float32bits(d.Format.sumNumber(d.Format.whole(d.Format.channel(t, channel)) * one))
	case !d.Format.Float():
	case x>>23&255 == 0: // a subnormal number
		return x & (1 << 31)
	case oddness(x) == metNaN && x>>23&255 == 255:
		return d.nan()
	}
	return x
}
