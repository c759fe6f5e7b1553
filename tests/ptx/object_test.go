package ptx_test

import (
	"pvdrm/gpu/texture"
	"pvdrm/tests/ptx/internal/fixture"
)

// texelsAt is where the texels of an object begin, behind its descriptor.
const texelsAt = 4096

// formats are those of the channels of a texel.
var formats = map[fixture.Class][3]texture.Format{
	fixture.Unsigned: {texture.U8, texture.U16, texture.U32},
	fixture.Signed:   {texture.S8, texture.S16, texture.S32},
	fixture.Float:    {0, texture.F16, texture.F32},
}

var shapes = map[string]texture.Shape{
	"1d": texture.Shape1D, "2d": texture.Shape2D, "3d": texture.Shape3D, "a1d": texture.Shape1D, "a2d": texture.Shape2D,
	"cube": texture.ShapeCube, "acube": texture.ShapeCube, "buffer": texture.ShapeBuffer, "pitch": texture.Shape2D,
}

// describe is the descriptor of an object at base, and the size of all.
func describe(b *fixture.Buffer, base uint64) (d texture.Descriptor, bytes int, err error) {
	o := b.Object
	size := map[int]int{8: 0, 16: 1, 32: 2}[b.Columns[0].Type.Bits]
	d = texture.Descriptor{
		Surface: o.Surface, Shape: shapes[o.Kind.Name], Format: formats[b.Columns[0].Type.Class][size], Channels: uint8(len(b.Columns)),
		Layered: o.Kind.Layered, Normalized: o.Normalized, Floats: o.Floats, Linear: o.Linear, Border: o.Border, SRGB: o.SRGB, Seamless: o.Seamless,
		Width: uint32(o.Width), Height: uint32(o.Height), Depth: uint32(o.Depth), Layers: uint32(o.Layers),
		Levels: uint32(o.Levels), LinearMip: o.LinearMip, Bias: o.Bias, MinLevel: o.MinLevel, MaxLevel: o.MaxLevel,
	}
	for n, m := range o.Address {
		d.Address[n] = texture.Mode(m)
	}
	texels, err := d.Place()
	d.Base = base + texelsAt
	return d, texelsAt + int(texels), err
}

// addObject makes an object with its texels in a region of memory.
func (m memory) addObject(b *fixture.Buffer, base uint64) error {
	d, bytes, err := describe(b, base)
	if err != nil {
		return err
	}
	region := m.add(base, bytes)
	d.Encode((*[texture.Size]byte)(region))
	data := b.Initial()
	copyTexels(b, &d, base, func(packed, placed, n int) { copy(region[placed:placed+n], data[packed:packed+n]) })
	return nil
}

// contents are the texels of an object.
func (m memory) contents(b *fixture.Buffer, base uint64) ([]byte, error) {
	d, _, err := describe(b, base)
	data, region := make([]byte, b.Bytes()), m[base>>regionBits]
	copyTexels(b, &d, base, func(packed, placed, n int) { copy(data[packed:packed+n], region[placed:placed+n]) })
	return data, err
}

// copyTexels calls row for each row of an object: where it lies in a fixture's buffer, and in the
// region of the object.
func copyTexels(b *fixture.Buffer, d *texture.Descriptor, base uint64, row func(packed, placed, bytes int)) {
	at := 0
	for n := range max(b.Object.Levels, 1) {
		l := *d
		if d.Levels != 0 {
			l = d.Level(uint32(n))
		}
		width, height := b.Object.Extents(n)
		for picture := range b.Object.Pictures(n) {
			for y := range height {
				row(at, int(l.Base-base+uint64(picture)*l.Slice+uint64(y)*l.Pitch), width*b.Stride)
				at += width * b.Stride
			}
		}
	}
}
