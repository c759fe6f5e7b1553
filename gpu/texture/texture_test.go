package texture

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// picture is memory from address 0x10000 on, which fails the test when it is left.
type picture struct {
	t     testing.TB
	bytes []byte
}

const pictureBase = 0x10000

func (p *picture) Texels(b *Batch) {
	for n, addr := range b.Addr[:b.N] {
		require.Zero(p.t, addr%b.Size)
		require.GreaterOrEqual(p.t, addr, uint64(pictureBase))
		require.LessOrEqual(p.t, addr+b.Size, pictureBase+uint64(len(p.bytes)))
		var word [16]byte
		copy(word[:], p.bytes[addr-pictureBase:][:b.Size])
		b.Data[n] = Raw{Lo: binary.LittleEndian.Uint64(word[:]), Hi: binary.LittleEndian.Uint64(word[8:])}
	}
}

// on is a unit that reads from a memory.
func on(m Memory) *Unit { return &Unit{Memory: m} }

// floats places a float texture whose texel (x, y, slice) is 100*slice + 10*y + x + 1.
func floats(t *testing.T, d Descriptor) (*Descriptor, *picture) {
	t.Helper()
	d.Format, d.Channels = F32, 1
	d.Width, d.Height, d.Depth, d.Layers = max(d.Width, 1), max(d.Height, 1), max(d.Depth, 1), max(d.Layers, 1)
	size, err := d.Place()
	require.NoError(t, err)
	d.Base = pictureBase
	require.NoError(t, d.Check())
	m := &picture{t: t, bytes: make([]byte, size)}
	for s := range d.slices() {
		for y := range uint64(d.Height) {
			for x := range uint64(d.Width) {
				v := float32(100*s + 10*y + x + 1)
				binary.LittleEndian.PutUint32(m.bytes[s*d.Slice+y*d.Pitch+4*x:], math.Float32bits(v))
			}
		}
	}
	return &d, m
}

func TestPoint(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name       string
		mode       Mode
		normalized bool
		x, want    float32
	}{
		{name: "inside", mode: Clamp, x: 2.99, want: 3},
		{name: "clamp below", mode: Clamp, x: -7, want: 1},
		{name: "clamp above", mode: Clamp, x: 4, want: 4},
		{name: "clamp infinity", mode: Clamp, x: inf, want: 4},
		{name: "clamp minus infinity", mode: Clamp, x: -inf, want: 1},
		{name: "clamp NaN", mode: Clamp, x: nan, want: 1},
		{name: "border below", mode: Border, x: -0.001, want: 77},
		{name: "border above", mode: Border, x: 4, want: 77},
		{name: "border huge", mode: Border, x: 3e38, want: 77},
		{name: "wrap of texels is clamp", mode: Wrap, x: 5, want: 4},
		{name: "mirror of texels is clamp", mode: Mirror, x: -1, want: 1},
		{name: "wrap", mode: Wrap, normalized: true, x: 1.25, want: 2},
		{name: "wrap below", mode: Wrap, normalized: true, x: -0.25, want: 4},
		{name: "wrap just below", mode: Wrap, normalized: true, x: -1e-30, want: 4},
		{name: "wrap by a subnormal number", mode: Wrap, normalized: true, x: -1e-40, want: 1},
		{name: "cut off behind 21 bits", mode: Clamp, normalized: true, x: 0.5 - 0x1p-24, want: 2},
		{name: "wrap far", mode: Wrap, normalized: true, x: 1 << 22, want: 1},
		{name: "wrap infinity", mode: Wrap, normalized: true, x: inf, want: 1},
		{name: "wrap NaN", mode: Wrap, normalized: true, x: nan, want: 1},
		{name: "mirror", mode: Mirror, normalized: true, x: 1.25, want: 3},
		{name: "mirror below", mode: Mirror, normalized: true, x: -0.25, want: 1},
		{name: "mirror twice", mode: Mirror, normalized: true, x: 2.25, want: 2},
		{name: "mirror minus infinity", mode: Mirror, normalized: true, x: -inf, want: 1},
		{name: "clamp normalized", mode: Clamp, normalized: true, x: 1, want: 4},
		{name: "border normalized", mode: Border, normalized: true, x: 1, want: 77},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, m := floats(t, Descriptor{Shape: Shape1D, Width: 4, Normalized: c.normalized, Address: [3]Mode{c.mode}, Border: [4]float32{77}})
			assert.Equal(t, c.want, math.Float32frombits(on(m).Fetch(d, Point{X: c.x})[0]))
		})
	}
}

func TestLinear(t *testing.T) {
	for _, c := range []struct {
		name       string
		mode       Mode
		normalized bool
		x, want    float32
	}{
		{name: "centre", mode: Clamp, x: 1.5, want: 2},
		{name: "between", mode: Clamp, x: 2, want: 2.5},
		{name: "8 bits of fraction", mode: Clamp, x: 1.5 + 1.0/256, want: 2 + 1.0/256},
		{name: "rounded down", mode: Clamp, x: 1.5 + 0.49/256, want: 2},
		{name: "rounded up", mode: Clamp, x: 1.5 + 0.51/256, want: 2 + 1.0/256},
		{name: "rounded up to the next texel", mode: Clamp, x: 2.5 - 0.25/256, want: 3},
		{name: "clamp below", mode: Clamp, x: 0.25, want: 1},
		{name: "clamp above", mode: Clamp, x: 99, want: 4},
		{name: "border", mode: Border, x: 0, want: 0.5*1 + 0.5*77},
		{name: "border beyond", mode: Border, x: -0.5, want: 77},
		{name: "wrap", mode: Wrap, normalized: true, x: 0, want: 0.5*1 + 0.5*4},
		{name: "wrap above", mode: Wrap, normalized: true, x: 1, want: 0.5*1 + 0.5*4},
		{name: "mirror", mode: Mirror, normalized: true, x: 1, want: 4},
		{name: "mirror inside", mode: Mirror, normalized: true, x: 1.125, want: 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, m := floats(t, Descriptor{Shape: Shape1D, Width: 4, Linear: true, Normalized: c.normalized, Address: [3]Mode{c.mode}, Border: [4]float32{77}})
			assert.InDelta(t, c.want, math.Float32frombits(on(m).Fetch(d, Point{X: c.x})[0]), 0)
		})
	}
}

func TestShapes(t *testing.T) {
	clamp := [3]Mode{Clamp, Clamp, Clamp}
	for _, c := range []struct {
		name string
		d    Descriptor
		at   Point
		want float32
	}{
		{name: "2D", d: Descriptor{Shape: Shape2D, Width: 4, Height: 3}, at: Point{X: 2.5, Y: 1.5}, want: 13},
		{name: "2D filtered", d: Descriptor{Shape: Shape2D, Width: 4, Height: 3, Linear: true}, at: Point{X: 2, Y: 2}, want: 17.5},
		{name: "3D", d: Descriptor{Shape: Shape3D, Width: 4, Height: 3, Depth: 2}, at: Point{X: 1, Y: 2, Z: 1}, want: 122},
		{name: "3D filtered", d: Descriptor{Shape: Shape3D, Width: 4, Height: 3, Depth: 2, Linear: true}, at: Point{X: 2, Y: 2, Z: 1}, want: 67.5},
		{name: "layered 1D", d: Descriptor{Shape: Shape1D, Width: 4, Layers: 3, Layered: true}, at: Point{X: 1, Layer: 2}, want: 202},
		{name: "layered 2D", d: Descriptor{Shape: Shape2D, Width: 4, Height: 3, Layers: 3, Layered: true}, at: Point{X: 1, Y: 1, Layer: 1}, want: 112},
		{name: "beyond the last layer", d: Descriptor{Shape: Shape2D, Width: 4, Height: 3, Layers: 3, Layered: true}, at: Point{X: 1, Y: 1, Layer: 9}, want: 212},
		{name: "cube +x", d: Descriptor{Shape: ShapeCube, Width: 2, Height: 2}, at: Point{X: 2, Y: 1, Z: 1}, want: 1},
		{name: "cube -x", d: Descriptor{Shape: ShapeCube, Width: 2, Height: 2}, at: Point{X: -2, Y: 1, Z: 1}, want: 102},
		{name: "cube +y", d: Descriptor{Shape: ShapeCube, Width: 2, Height: 2}, at: Point{X: 1, Y: 2, Z: 1}, want: 212},
		{name: "cube -y", d: Descriptor{Shape: ShapeCube, Width: 2, Height: 2}, at: Point{X: 1, Y: -2, Z: 1}, want: 302},
		{name: "cube +z", d: Descriptor{Shape: ShapeCube, Width: 2, Height: 2}, at: Point{X: 1, Y: 1, Z: 2}, want: 402},
		{name: "cube -z", d: Descriptor{Shape: ShapeCube, Width: 2, Height: 2}, at: Point{X: 1, Y: 1, Z: -2}, want: 501},
		{name: "cube without direction", d: Descriptor{Shape: ShapeCube, Width: 2, Height: 2}, want: 412},
		{name: "layered cube", d: Descriptor{Shape: ShapeCube, Width: 2, Height: 2, Layers: 2, Layered: true}, at: Point{X: 1, Y: 1, Z: 2, Layer: 1}, want: 1002},
		{name: "buffer", d: Descriptor{Shape: ShapeBuffer, Width: 4}, at: Point{X: 3.9}, want: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.d.Shape != ShapeBuffer {
				c.d.Address = clamp
			}
			d, m := floats(t, c.d)
			got := on(m).Fetch(d, c.at)
			assert.InDelta(t, c.want, math.Float32frombits(got[0]), 0)
			if c.want != 0 {
				assert.Equal(t, [3]uint32{}, [3]uint32(got[1:]), "channels that are not there")
			}
		})
	}
}

func TestGather(t *testing.T) {
	d, m := floats(t, Descriptor{Shape: Shape2D, Width: 4, Height: 3, Address: [3]Mode{Clamp, Clamp}})
	got := on(m).Gather(d, Point{X: 2, Y: 1}, 0)
	for n, want := range []float32{12, 13, 3, 2} {
		assert.InDelta(t, want, math.Float32frombits(got[n]), 0)
	}
}

// TestWhole fetches by whole numbers, where kinds of textures differ.
func TestWhole(t *testing.T) {
	for _, c := range []struct {
		name string
		d    Descriptor
		at   Texel
		want float32
	}{
		{name: "memory", d: Descriptor{Shape: ShapeBuffer, Width: 4}, at: Texel{X: 3}, want: 4},
		{name: "beyond memory", d: Descriptor{Shape: ShapeBuffer, Width: 4}, at: Texel{X: 4}},
		{name: "1D array", d: Descriptor{Shape: Shape1D, Width: 4}, at: Texel{X: 1}},
		{name: "layered 1D", d: Descriptor{Shape: Shape1D, Width: 4, Layers: 2, Layered: true}, at: Texel{X: 1, Layer: 1}, want: 102},
		{name: "beyond the layers", d: Descriptor{Shape: Shape1D, Width: 4, Layers: 2, Layered: true}, at: Texel{X: 1, Layer: 2}},
		{name: "2D", d: Descriptor{Shape: Shape2D, Width: 4, Height: 3}, at: Texel{X: 1, Y: 2}, want: 22},
		{name: "outside", d: Descriptor{Shape: Shape2D, Width: 4, Height: 3, Address: [3]Mode{Clamp, Clamp}}, at: Texel{X: 1, Y: 3}},
		{name: "outside with levels", d: Descriptor{Shape: Shape2D, Width: 4, Height: 3, Levels: 1, Address: [3]Mode{Clamp, Clamp}}, at: Texel{X: 1, Y: 3}, want: 22},
		{name: "no such level", d: Descriptor{Shape: Shape2D, Width: 4, Height: 3, Levels: 1}, at: Texel{Level: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, m := floats(t, c.d)
			assert.InDelta(t, c.want, math.Float32frombits(on(m).Load(d, c.at)[0]), 0)
		})
	}
}

// TestBorderIsATexel fetches colours of the border, as the format has them.
func TestBorderIsATexel(t *testing.T) {
	border := [4]float32{-0.5, 1.5, 0.3, 1e9}
	for _, c := range []struct {
		name     string
		format   Format
		channels uint8
		floats   bool
		want     [4]float32
	}{
		{name: "floats", format: F32, channels: 4, want: border},
		{name: "channels that are not there", format: F32, channels: 2, want: [4]float32{-0.5, 1.5}},
		{name: "halves are cut off", format: F16, channels: 4, want: [4]float32{-0.5, 1.5, 0x1.33p-2, 65504}},
		{name: "bytes", format: U8, channels: 4, floats: true, want: [4]float32{0, 1, 76.0 / 255, 1}},
		{name: "signed bytes", format: S8, channels: 4, floats: true, want: [4]float32{-63.0 / 127, 1, 38.0 / 127, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Descriptor{Shape: Shape1D, Format: c.format, Channels: c.channels, Floats: c.floats, Width: 1, Height: 1, Depth: 1, Layers: 1,
				Address: [3]Mode{Border}, Border: border}
			_, err := d.Place()
			require.NoError(t, err)
			for n, x := range on(nil).Fetch(&d, Point{X: -1}) {
				assert.InDelta(t, c.want[n], math.Float32frombits(x), 0, "channel %d", n)
			}
		})
	}
}

func TestWeightOfNothing(t *testing.T) {
	d, m := floats(t, Descriptor{Shape: Shape1D, Width: 2, Linear: true, Address: [3]Mode{Clamp}})
	binary.LittleEndian.PutUint32(m.bytes[4:], 0x7fc00000)
	assert.InDelta(t, 1, math.Float32frombits(on(m).Fetch(d, Point{X: 0.5})[0]), 0)
	assert.True(t, math.IsNaN(float64(math.Float32frombits(on(m).Fetch(d, Point{X: 0.6})[0]))))
}

func TestFormats(t *testing.T) {
	bits := math.Float32bits
	for _, c := range []struct {
		name   string
		format Format
		floats bool
		stored []byte
		want   [4]uint32
	}{
		{name: "bytes", format: U8, stored: []byte{1, 0xff, 3, 4}, want: [4]uint32{1, 0xff, 3, 4}},
		{name: "signed bytes", format: S8, stored: []byte{1, 0xff, 0x80, 4}, want: [4]uint32{1, 0xffffffff, 0xffffff80, 4}},
		{name: "normalized bytes", format: U8, floats: true, stored: []byte{0, 255, 51}, want: [4]uint32{0, bits(1), bits(0.2), 0}},
		{name: "normalized signed bytes", format: S8, floats: true, stored: []byte{0x81, 0x80, 127, 0}, want: [4]uint32{bits(-1), bits(-1), bits(1), 0}},
		{name: "shorts", format: U16, stored: []byte{1, 2, 0xff, 0xff}, want: [4]uint32{0x201, 0xffff, 0, 0}},
		{name: "signed shorts", format: S16, stored: []byte{1, 2, 0xfe, 0xff}, want: [4]uint32{0x201, 0xfffffffe, 0, 0}},
		{name: "normalized shorts", format: U16, floats: true, stored: []byte{0xff, 0xff}, want: [4]uint32{bits(1), 0, 0, 0}},
		{name: "normalized signed shorts", format: S16, floats: true, stored: []byte{0, 0x80, 0xff, 0x7f}, want: [4]uint32{bits(-1), bits(1), 0, 0}},
		{name: "words", format: U32, stored: []byte{0, 0, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0, 9}, want: [4]uint32{0, 0x01020304, 0, 9}},
		{name: "signed words", format: S32, stored: []byte{0xff, 0xff, 0xff, 0xff}, want: [4]uint32{0xffffffff, 0, 0, 0}},
		{name: "halves", format: F16, stored: []byte{0, 0x3c, 0, 0xc0, 1, 0, 0, 0x7c}, want: [4]uint32{bits(1), bits(-2), bits(1.0 / (1 << 24)), 0x7f800000}},
		{name: "floats", format: F32, stored: []byte{1, 0, 0, 0, 0, 0, 0x80, 0x3f}, want: [4]uint32{1, bits(1), 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := Descriptor{Shape: Shape1D, Format: c.format, Channels: 4, Floats: c.floats, Width: 1, Height: 1, Depth: 1, Layers: 1}
			size, err := d.Place()
			require.NoError(t, err)
			d.Base = pictureBase
			m := &picture{t: t, bytes: make([]byte, size)}
			copy(m.bytes, c.stored)
			assert.Equal(t, c.want, on(m).Fetch(&d, Point{}))
		})
	}
}

func TestSurface(t *testing.T) {
	d := Descriptor{Surface: true, Shape: Shape2D, Format: U8, Channels: 4, Width: 5, Height: 3, Depth: 1, Layers: 2, Layered: true}
	_, err := d.Place()
	require.NoError(t, err)
	d.Base = pictureBase
	require.NoError(t, d.Check())
	for _, c := range []struct {
		name    string
		at      Place
		size    uint64
		bounds  Bounds
		verdict Verdict
		offset  uint64
	}{
		{name: "inside", at: Place{X: 16, Y: 2, Layer: 1}, size: 4, offset: 192 + 128 + 16},
		{name: "wide", at: Place{X: 8, Y: 1}, size: 8, offset: 64 + 8},
		{name: "beyond the row", at: Place{X: 20}, size: 4, verdict: OutOfRange},
		{name: "partly beyond the row", at: Place{X: 16}, size: 8, verdict: OutOfRange},
		{name: "above", at: Place{Y: -1}, size: 4, verdict: OutOfRange},
		{name: "below", at: Place{Y: 3}, size: 4, verdict: OutOfRange},
		{name: "layer", at: Place{Layer: 2}, size: 4, verdict: OutOfRange},
		{name: "zero", at: Place{X: -4}, size: 4, bounds: Zero, verdict: Skip},
		{name: "edge", at: Place{X: 1000, Y: 1000, Layer: 1000}, size: 4, bounds: Edge, offset: 192 + 128 + 16},
		{name: "edge below", at: Place{X: -1000, Y: math.MinInt32}, size: 4, bounds: Edge},
		{name: "edge of a wide access", at: Place{X: 16}, size: 8, bounds: Edge, offset: 8},
		{name: "no room for an access", at: Place{X: 0}, size: 32, bounds: Edge, verdict: Skip},
		{name: "misaligned", at: Place{X: 2}, size: 4, bounds: Zero, verdict: Misaligned},
	} {
		t.Run(c.name, func(t *testing.T) {
			addr, v := d.Resolve(c.at, c.size, c.bounds)
			assert.Equal(t, c.verdict, v)
			if v == Access {
				assert.Equal(t, c.offset, addr-pictureBase)
			}
		})
	}
}

func TestEncoding(t *testing.T) {
	d := Descriptor{
		Shape: Shape3D, Format: S16, Channels: 2, Normalized: true, Floats: true, Linear: true, Address: [3]Mode{Wrap, Mirror, Border},
		Border: [4]float32{1, 2, 3, 4}, Width: 5, Height: 6, Depth: 7, Layers: 1,
	}
	_, err := d.Place()
	require.NoError(t, err)
	d.Base = 0x12345600
	var b [Size]byte
	d.Encode(&b)
	var back Descriptor
	require.NoError(t, back.Decode(&b))
	assert.Equal(t, d, back)
	for n := range b { // every byte counts, or must be zero
		broken := b
		broken[n] ^= 0x80
		var other Descriptor
		if other.Decode(&broken) == nil {
			assert.NotEqual(t, d, other, "byte %d", n)
		}
	}
}

func TestBadDescriptors(t *testing.T) {
	good := Descriptor{Shape: Shape2D, Format: F32, Channels: 1, Width: 8, Height: 8, Depth: 1, Layers: 1, Pitch: 32, Slice: 256, Base: 4096}
	require.NoError(t, good.Check())
	for name, spoil := range map[string]func(*Descriptor){
		"no shape":           func(d *Descriptor) { d.Shape = 0 },
		"shape":              func(d *Descriptor) { d.Shape = numShapes },
		"format":             func(d *Descriptor) { d.Format = numFormats },
		"channels":           func(d *Descriptor) { d.Channels = 3 },
		"mode":               func(d *Descriptor) { d.Address[2] = numModes },
		"integers filtered":  func(d *Descriptor) { d.Format, d.Linear = S32, true },
		"words normalized":   func(d *Descriptor) { d.Format, d.Floats = U32, true },
		"empty":              func(d *Descriptor) { d.Width = 0 },
		"deep":               func(d *Descriptor) { d.Depth = 2 },
		"layers":             func(d *Descriptor) { d.Layers = 2 },
		"too wide":           func(d *Descriptor) { d.Width = MaxWidth + 1 },
		"too high":           func(d *Descriptor) { d.Height = MaxHeight + 1 },
		"pitch":              func(d *Descriptor) { d.Pitch = 28 },
		"pitch not aligned":  func(d *Descriptor) { d.Pitch = 34 },
		"base not aligned":   func(d *Descriptor) { d.Base = 4098 },
		"base":               func(d *Descriptor) { d.Base = addressEnd - 252 },
		"huge pitch":         func(d *Descriptor) { d.Pitch = addressEnd - 4 },
		"overlapping layers": func(d *Descriptor) { d.Layered, d.Layers, d.Slice = true, 2, 252 },
		"huge slice":         func(d *Descriptor) { d.Layered, d.Layers, d.Slice = true, 2, addressEnd-4 },
		"layers in depth":    func(d *Descriptor) { d.Shape, d.Layered = Shape3D, true },
		"a cube's sides":     func(d *Descriptor) { d.Shape, d.Height = ShapeCube, 4 },
		"sampled surface":    func(d *Descriptor) { d.Surface, d.Normalized = true, true },
		"surface's pitch":    func(d *Descriptor) { d.Surface, d.Pitch = true, 36 },
	} {
		d := good
		spoil(&d)
		require.ErrorIs(t, d.Check(), ErrBad, name)
		var b [Size]byte
		d.Encode(&b)
		require.ErrorIs(t, new(Descriptor).Decode(&b), ErrBad, name)
	}
}
