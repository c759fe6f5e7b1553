package texture

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// planCoordinates are bits of coordinates that a fetch may get wrong.
var planCoordinates = []uint32{
	0, 1 << 31, 1, 1<<31 | 1, 0x7fffff, 0x807fffff, 0x800000, 0x80800000, // zeros, subnormal numbers and those beside
	0x7f800000, 0xff800000, 0x7fc00000, 0xffffffff, 0x7f800001, 0x7f7fffff, 0xff7fffff, // infinities, NaN, the largest
	0x3f800000, 0xbf800000, 0x3f7fffff, 0x3f800001, 0xbf7fffff, 0x3f000000, 0xbf000000, 0x3effffff, 0x40000000, 0xc0000000,
	0x4b7fffff, 0x4b800000, 0xcb800000, 0xcb7fffff, 0x4b800001, 0x4f000000, 0xcf000000, 0x48000000, 0xb3800000, 0x33800000,
}

// planCoordinate is a coordinate on an axis of so many texels.
func planCoordinate(r *rand.Rand, size uint32, normalized bool) uint32 {
	if r.IntN(10) == 0 {
		return planCoordinates[r.IntN(len(planCoordinates))]
	}
	u := (r.Float64()*5 - 2) * float64(size)
	switch r.IntN(4) {
	case 0:
		u = math.Floor(u*2) / 2 // an edge or the middle of a texel
	case 1:
		u = (math.Floor(u*256) + 0.5) / 256 // half way between two weights
	case 2:
		u = math.Mod(math.Abs(u), float64(size))
	}
	if normalized {
		u /= float64(size)
	}
	return math.Float32bits(float32(u)) + uint32(r.IntN(3)) - 1
}

// planTexels are random texels, many of them close to each other and some no ordinary numbers.
func planTexels(r *rand.Rand, b []byte) {
	special := []uint32{0, 1 << 31, 1, 0x7f800000, 0xff800000, 0x7fc00001, 0x7f7fffff, 0x00800000, 0x00c00000, 0x7d000000, 0x1f800000, 0x20000000, 0x7d7fffff, 0x3f800000}
	odd := r.IntN(3) == 0
	for at := 0; at+4 <= len(b); at += 4 {
		x := math.Float32bits((r.Float32() - 0.5) * float32(math.Ldexp(1, r.IntN(12))))
		switch {
		case odd && r.IntN(3) == 0:
			x = special[r.IntN(len(special))]
		case r.IntN(8) == 0:
			x = r.Uint32()
		}
		binary.LittleEndian.PutUint32(b[at:], x)
	}
}

// planned is a random texture of a format, and what its texels are.
func planned(t *testing.T, r *rand.Rand, f Format) (*Descriptor, *picture) {
	d := &Descriptor{
		Shape: Shape1D + Shape(r.IntN(2)), Layered: r.IntN(4) == 0, Format: f, Channels: []uint8{1, 2, 4}[r.IntN(3)],
		Normalized: r.IntN(2) == 0, Floats: f.Normalizes() && r.IntN(2) == 0, Address: [3]Mode{Mode(r.IntN(4)), Mode(r.IntN(4))},
		Border: [4]float32{0.3, float32(math.Inf(1)), -7, r.Float32()},
		Width:  []uint32{1, 2, 5, 7, 16, 33, 1000, 20000}[r.IntN(8)], Height: 1, Depth: 1, Layers: 1,
	}
	d.Linear = (f.Float() || d.Floats) && r.IntN(3) != 0
	d.SRGB = f == U8 && d.Floats && r.IntN(8) == 0
	if d.Shape == Shape2D {
		d.Height = []uint32{1, 2, 3, 8, 13}[r.IntN(5)]
	}
	switch {
	case d.Layered:
		d.Layers = 3
	case d.Height == 1 && r.IntN(4) == 0:
		d.Width = 100000 // its wrapped coordinates have more bits than a float32
	}
	size, err := d.Place()
	require.NoError(t, err)
	d.Base = pictureBase
	m := &picture{t: t, bytes: make([]byte, size)}
	planTexels(r, m.bytes)
	return d, m
}

// TestPlan compares fetches of 32 lanes by a plan with one after the other.
func TestPlan(t *testing.T) {
	if !planVectors {
		t.Skip("no vectors")
	}
	r := rand.New(rand.NewPCG(7, 8))
	var p Plan
	made := 0
	for range 1000 {
		d, m := planned(t, r, U8+Format(r.IntN(int(numFormats-U8))))
		if !p.Make(d) {
			continue
		}
		made++
		for range 3 {
			checkPlan(t, r, &p, d, m)
		}
	}
	require.Greater(t, made, 500)
}

// checkPlan fetches at 32 random points.
func checkPlan(t *testing.T, r *rand.Rand, p *Plan, d *Descriptor, m *picture) {
	var x, y, layer [32]uint32
	still := r.IntN(6) == 0
	for i := range x {
		x[i], y[i] = planCoordinate(r, d.Width, d.Normalized), planCoordinate(r, d.Height, d.Normalized)
		layer[i] = []uint32{0, 1, 2, 3, 1 << 31, math.MaxUint32}[r.IntN(6)]
		if still && !d.Normalized {
			x[i], y[i] = math.Float32bits(float32(r.IntN(9))-0.5), math.Float32bits(float32(r.IntN(9))-0.5)
		}
	}
	p.Place(&x, &y, &layer)
	for k := range 4 {
		if p.Single && k != 0 {
			break
		}
		for i := range x {
			at := p.Column[k&1][i] + p.Row[k>>1][i]
			if uint64(at)+p.Texel > p.Bytes {
				t.Fatalf("%x, %x is at %d of %d: %+v", x[i], y[i], at, p.Bytes, *d)
			}
			b := Batch{N: 1, Size: p.Texel, Addr: [8]uint64{d.Base + uint64(at)}}
			m.Texels(&b)
			raw := b.Data[0]
			if p.Texel < 8 {
				raw.Lo &= 1<<(8*p.Texel) - 1
			}
			p.Words[k][0][i], p.Words[k][1][i] = uint32(raw.Lo), uint32(raw.Lo>>32)
			p.Words[k][2][i], p.Words[k][3][i] = uint32(raw.Hi), uint32(raw.Hi>>32)
		}
	}
	p.Parts()
	for n := range int(d.Channels) {
		var got [32]uint32
		p.Result(n, &got)
		for i := range x {
			want := on(m).Fetch(d, Point{X: math.Float32frombits(x[i]), Y: math.Float32frombits(y[i]), Layer: layer[i]})
			if got[i] != want[n] {
				t.Fatalf("channel %d at %x (%g), %x (%g) is %x, expected %x: %+v", n, x[i], math.Float32frombits(x[i]), y[i], math.Float32frombits(y[i]), got[i], want[n], *d)
			}
		}
	}
}

// TestQuotient divides all whole numbers of 8 and 16 bits by the largest.
func TestQuotient(t *testing.T) {
	for _, bits := range []int{8, 16} {
		rest, power := quotient(bits)
		for x := range 1 << bits {
			want := float32(float64(x) / float64(int(1)<<bits-1))
			got := float32(math.FMA(float64(float32(x)), float64(rest), float64(float32(x)*power))) // one rounding: of 40 bits none is lost before
			require.Equal(t, want, got, "%d of %d bits", x, bits)
		}
	}
}
