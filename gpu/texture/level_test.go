package texture

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// levelsOf places a float texture with mipmaps, whose texels are 100 times the level and
// the slice.
func levelsOf(t *testing.T, d Descriptor) (*Descriptor, *picture) {
	t.Helper()
	d.Format, d.Channels = F32, 1
	d.Width, d.Height, d.Depth, d.Layers = max(d.Width, 1), max(d.Height, 1), max(d.Depth, 1), max(d.Layers, 1)
	size, err := d.Place()
	require.NoError(t, err)
	d.Base = pictureBase
	require.NoError(t, d.Check())
	m := &picture{t: t, bytes: make([]byte, size)}
	for k := range d.Levels {
		one := d.Level(k)
		require.NoError(t, one.Check())
		for s := range one.slices() {
			at := one.Base - pictureBase + s*one.Slice
			for n := at; n < at+one.Slice; n += 4 {
				binary.LittleEndian.PutUint32(m.bytes[n:], math.Float32bits(float32(100*k)+float32(s)))
			}
		}
	}
	return &d, m
}

func TestLevelOfDetail(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name           string
		linear         bool
		bias, min, max float32
		lod, want      float32
	}{
		{name: "first", max: 9, want: 0},
		{name: "nearest below", max: 9, lod: 1.49, want: 100},
		{name: "nearest above", max: 9, lod: 1.5, want: 200},
		{name: "between", linear: true, max: 9, lod: 1.25, want: 125},
		{name: "8 bits of fraction, cut off", linear: true, max: 9, lod: 1 + 1.6/256, want: 100 + 100.0/256},
		{name: "8 bits of the bias, cut off", linear: true, max: 9, lod: 1 + 1.6/256, bias: 1.6 / 256, want: 100 + 200.0/256},
		{name: "bias", max: 9, bias: 1, lod: 1, want: 200},
		{name: "beyond the last", linear: true, max: 9, lod: 50, want: 300},
		{name: "the end of the levels", linear: true, max: 1.5, lod: 3, want: 150},
		{name: "their beginning", linear: true, min: 0.5, max: 9, lod: -3, want: 50},
		{name: "NaN", max: 9, lod: nan, want: 0},
		{name: "infinity", max: 9, lod: inf, want: 300},
		{name: "minus infinity", max: 9, lod: -inf, want: 0},
		{name: "opposite infinities", max: 9, lod: -inf, bias: inf, want: 0},
		{name: "NaN for ends", min: nan, max: nan, lod: 2, want: 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, m := levelsOf(t, Descriptor{Shape: Shape2D, Width: 8, Height: 5, Levels: 4, LinearMip: c.linear, Bias: c.bias, MinLevel: c.min, MaxLevel: c.max})
			assert.Equal(t, c.want, math.Float32frombits(on(m).FetchLevel(d, Point{X: 0.3, Y: 0.3}, c.lod)[0]))
		})
	}
	d, m := levelsOf(t, Descriptor{Shape: Shape2D, Width: 8, Height: 5, Levels: 4, Bias: 1, MaxLevel: 9})
	assert.Zero(t, on(m).Fetch(d, Point{})[0], "the bias does not count without a level")
}

func TestGradients(t *testing.T) {
	for _, c := range []struct {
		name   string
		d      Descriptor
		p      Point
		dx, dy Vector
		want   float32
	}{
		{name: "a texel", d: Descriptor{Shape: Shape2D}, dx: Vector{X: 1.0 / 8}, dy: Vector{Y: 1.0 / 8}, want: 0},
		{name: "two texels", d: Descriptor{Shape: Shape2D}, dx: Vector{X: 2.0 / 8}, dy: Vector{Y: 1.0 / 8}, want: 100},
		{name: "the longer one", d: Descriptor{Shape: Shape2D}, dx: Vector{X: 1.0 / 8}, dy: Vector{X: 2.4 / 8, Y: 3.2 / 8}, want: 200},
		{name: "normalized", d: Descriptor{Shape: Shape1D, Normalized: true}, dx: Vector{X: 0.25}, want: 100},
		{name: "other axes", d: Descriptor{Shape: Shape1D, Normalized: true}, dx: Vector{X: 0.25, Y: 1, Z: 1}, want: 100},
		{name: "no step", d: Descriptor{Shape: Shape3D}, want: 0},
		{name: "NaN", d: Descriptor{Shape: Shape3D}, dx: Vector{X: float32(math.NaN())}, dy: Vector{Z: 4}, want: 300},
		{name: "about the length", d: Descriptor{Shape: Shape2D}, dx: Vector{X: 3.0 / 8, Y: 2.9 / 8}, want: 200},
		{name: "the sum of both", d: Descriptor{Shape: Shape2D}, dx: Vector{X: 2.5 / 8}, dy: Vector{X: 2.5 / 8}, want: 200},
		{name: "a step too small for the point", d: Descriptor{Shape: Shape3D}, p: Point{X: 1e9}, dx: Vector{X: 0.5}, want: 0},
		{name: "at infinity", d: Descriptor{Shape: Shape3D}, p: Point{X: float32(math.Inf(1))}, want: 300},
		{name: "onto the next face", d: Descriptor{Shape: ShapeCube}, p: Point{X: 2, Y: 1.5}, dx: Vector{Y: 3}, want: 200},
		{name: "infinity", d: Descriptor{Shape: Shape3D}, dx: Vector{X: float32(math.Inf(-1))}, want: 300},
		{name: "a cube", d: Descriptor{Shape: ShapeCube}, p: Point{X: 2}, dx: Vector{Y: 1}, want: 101 - 1},
		{name: "out of a cube", d: Descriptor{Shape: ShapeCube}, p: Point{X: 2}, dx: Vector{X: 1}, want: 0},
		{name: "a cube without direction", d: Descriptor{Shape: ShapeCube}, dx: Vector{X: 1}, want: 304},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.d.Width, c.d.Levels, c.d.MaxLevel = 8, 4, 9
			if c.d.Shape != Shape1D {
				c.d.Height = 8
			}
			if c.d.Shape == Shape3D {
				c.d.Depth = 8
			}
			d, m := levelsOf(t, c.d)
			assert.Equal(t, c.want, math.Float32frombits(on(m).FetchGradient(d, c.p, c.dx, c.dy)[0]))
		})
	}
}

// TestViews are parts of a texture's levels and layers.
func TestViews(t *testing.T) {
	d, m := levelsOf(t, Descriptor{Shape: Shape2D, Width: 20, Height: 6, Layers: 5, Layered: true, Levels: 4, MaxLevel: 9})
	whole := d.Bytes()
	d.From(1)
	require.NoError(t, d.Check())
	require.Equal(t, []uint32{10, 3, 3}, []uint32{d.Width, d.Height, d.Levels})
	require.Equal(t, whole, d.Base-pictureBase+d.Bytes())
	d.First, d.Layers = 3, 2
	require.NoError(t, d.Check())
	assert.InDelta(t, 204, math.Float32frombits(on(m).FetchLevel(d, Point{Layer: 1}, 1)[0]), 0)
	d.Layers = 3
	require.ErrorIs(t, d.Check(), ErrBad)
}

func TestSRGB(t *testing.T) {
	d := Descriptor{Shape: Shape1D, Format: U8, Channels: 4, Floats: true, SRGB: true, Width: 1, Height: 1, Depth: 1, Layers: 1}
	size, err := d.Place()
	require.NoError(t, err)
	d.Base = pictureBase
	m := &picture{t: t, bytes: append([]byte{255, 0, 188, 188}, make([]byte, size)...)}
	got := on(m).Fetch(&d, Point{})
	for n, want := range []float64{1, 0, 0x81p-8, 188.0 / 255} {
		assert.InDelta(t, want, math.Float32frombits(got[n]), 0.0001)
	}
	d.Floats = false
	require.ErrorIs(t, d.Check(), ErrBad)
}

func TestPack(t *testing.T) {
	for h := range 1 << 16 { // all halves come back, and what is between goes to the even one
		x := half(uint16(h))
		if x != x {
			continue
		}
		require.EqualValues(t, h, toHalf(x))
		if next := half(uint16(h + 1)); h&0x7fff < 0x7bff {
			middle := float32((float64(x) + float64(next)) / 2)
			require.EqualValues(t, h+h&1, toHalf(middle), "%g", middle)
			require.EqualValues(t, h+1, toHalf(math.Nextafter32(middle, next)), "%g", middle)
		}
	}
	require.EqualValues(t, 0x7c00, toHalf(65520))
	require.EqualValues(t, 0x7bff, toHalf(65519.996))
	require.EqualValues(t, 0x8000, toHalf(-1e-10))
}
