package texture

import (
	"encoding/binary"
	"math"
	"testing"
)

// bounds fails the test for texels outside of a texture.
type bounds struct {
	t *testing.T
	d *Descriptor
	n int
}

func (b *bounds) Texels(list *Batch) {
	for n, addr := range list.Addr[:list.N] {
		b.check(addr, list.Size)
		b.n++
		list.Data[n] = Raw{Lo: addr * 0x9e3779b97f4a7c15, Hi: addr}
	}
}

func (b *bounds) check(addr, size uint64) {
	if addr%size != 0 || addr < b.d.Base || addr+size > b.d.Base+b.d.Bytes() || addr+size > addressEnd {
		b.t.Fatalf("%d bytes at 0x%x of %+v", size, addr, *b.d)
	}
}

// FuzzDescriptor fetches at any point from any descriptor that Decode accepts: all texels
// must lie inside, be aligned, and be at most eight.
func FuzzDescriptor(f *testing.F) {
	for _, d := range []Descriptor{
		{Shape: Shape2D, Format: F32, Channels: 4, Width: 5, Height: 7, Depth: 1, Layers: 1, Linear: true, Normalized: true},
		{Shape: Shape3D, Format: U8, Channels: 1, Width: 5, Height: 7, Depth: 9, Layers: 1, Floats: true, Linear: true, Address: [3]Mode{Border, Mirror, Clamp}},
		{Shape: ShapeCube, Format: F16, Channels: 2, Width: 8, Height: 8, Depth: 1, Layers: 2, Layered: true},
		{Shape: ShapeCube, Format: U8, Channels: 1, Width: 3, Height: 3, Depth: 1, Layers: 1, Floats: true, Linear: true, Seamless: true},
		{Shape: Shape2D, Format: U8, Channels: 4, Width: 40, Height: 9, Depth: 1, Layers: 3, Layered: true, Floats: true, SRGB: true,
			Linear: true, Levels: 6, LinearMip: true, Bias: 0.5, MaxLevel: 5},
		{Shape: Shape3D, Format: F32, Channels: 1, Width: 40, Height: 9, Depth: 70, Layers: 1, Levels: 7, MinLevel: 1, MaxLevel: 9},
		{Shape: ShapeBuffer, Format: S16, Channels: 1, Width: 1000, Height: 1, Depth: 1, Layers: 1},
		{Surface: true, Shape: Shape1D, Format: U8, Channels: 1, Width: 33, Height: 1, Depth: 1, Layers: 4, Layered: true},
	} {
		if _, err := d.Place(); err != nil {
			f.Fatal(err)
		}
		d.Base = 0x1000_0000
		var b [Size]byte
		d.Encode(&b)
		f.Add(b[:], uint64(0x3f8000003f000000), uint64(0x7fc00000ff800000), uint8(0))
		f.Add(b[:], uint64(0x7f800000bf000000), uint64(0x00000003_80000000), uint8(5))
	}
	f.Fuzz(func(t *testing.T, raw []byte, xy, zl uint64, how uint8) {
		var b, again [Size]byte
		if copy(b[:], raw) != Size {
			return
		}
		var d Descriptor
		if d.Decode(&b) != nil {
			return
		}
		if d.Encode(&again); again != b && !hasNaN(&d) {
			t.Fatalf("%x became %x", b, again)
		}
		m := &bounds{t: t, d: &d}
		x, y, z, layer := uint32(xy), uint32(xy>>32), uint32(zl), uint32(zl>>32)
		if d.Surface {
			size := uint64(1) << (how % 5)
			addr, v := d.Resolve(Place{X: int32(x), Y: int32(y), Z: int32(z), Layer: layer}, size, Bounds(how/5%3))
			if v == Access {
				m.check(addr, size)
			}
			return
		}
		p := Point{X: math.Float32frombits(x), Y: math.Float32frombits(y), Z: math.Float32frombits(z), Layer: layer}
		if d.Shape != ShapeCube {
			p.Offset = Offset{int32(x ^ uint32(how)), int32(y), int32(int8(how))}
		}
		on(m).Fetch(&d, p)
		if m.n > 8 && d.Levels == 0 || m.n > 16 {
			t.Fatalf("%d texels", m.n)
		}
		on(m).FetchLevel(&d, p, math.Float32frombits(z^y))
		on(m).FetchGradient(&d, p, Vector{X: p.Z, Y: p.X}, Vector{X: p.Y, Z: p.X})
		if d.Shape == Shape2D || d.Shape == ShapeCube {
			on(m).Gather(&d, p, int(how%4))
		}
		if d.Shape != ShapeCube {
			on(m).Load(&d, Texel{X: int32(x), Y: int32(y), Z: int32(z), Layer: layer, Level: int32(layer), Offset: p.Offset})
		}
	})
}

// hasNaN reports whether a number is NaN, whose bits a float32 need not keep.
func hasNaN(d *Descriptor) bool {
	var b [Size]byte
	d.Encode(&b)
	for at := atBorder; at < atFirst; at += 4 {
		if x := math.Float32frombits(binary.LittleEndian.Uint32(b[at:])); x != x {
			return true
		}
	}
	return false
}
