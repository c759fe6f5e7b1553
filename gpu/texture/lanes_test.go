package texture

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSpans compares what is resolved for 32 coordinates with one after the other.
func TestSpans(t *testing.T) {
	special := []float32{0, -0.5, 0.5, 7, 6.999, 8, -2, -3, 1e30, -1e30, 1e-40, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 131072, 0.49999997}
	r := rand.New(rand.NewPCG(1, 2))
	for _, d := range []Descriptor{{Linear: true}, {}, {Linear: true, Normalized: true}, {Normalized: true}} {
		for _, m := range []Mode{Wrap, Clamp, Mirror} {
			d.Shape, d.Width, d.Height, d.Address = Shape2D, 7, 131072, [3]Mode{m, m}
			require.True(t, d.Flat())
			for range 500 {
				var x [32]uint32
				for i := range x {
					v := (r.Float32()*4 - 2) * []float32{1, 7, 256, 1e6}[r.IntN(4)]
					if r.IntN(8) == 0 {
						v = special[r.IntN(len(special))]
					}
					x[i] = math.Float32bits(v)
				}
				var s Spans
				for n, size := range []uint32{d.Width, d.Height} {
					d.Spans(n, &x, &s)
					for i := range x {
						want := axis{size: size, mode: m, normalized: d.Normalized}.around(float64(math.Float32frombits(x[i])), d.Linear)
						if want.weight == 0 && d.Linear {
							want.at[1] = want.at[0] // which takes no part
						}
						got := span{at: [2]int32{s.A[i]}}
						if d.Linear {
							got = span{at: [2]int32{s.A[i], s.B[i]}, weight: s.Weight[i]}
						}
						if got != want {
							t.Fatalf("%x of %d is %v, expected %v: %+v", x[i], size, got, want, d)
						}
					}
				}
			}
		}
	}
	require.False(t, (&Descriptor{Shape: Shape2D, Address: [3]Mode{Clamp, Border}}).Flat())
}

// TestLanes compares 32 fetches at once with one after the other.
func TestLanes(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	special := []uint32{0, 1 << 31, 1, 0x7f800000, 0xff800000, 0x7fc00001, 0x7f7fffff, 0x00800000, 0x00c00000, 0x7b000000, 0x1f800000, 0x3f800000}
	for f := U8; f < numFormats; f++ {
		for _, d := range []Descriptor{{}, {Linear: true}, {Linear: true, SRGB: true}, {Floats: true}} {
			d.Format, d.Floats = f, d.Floats || d.Linear && f.Normalizes()
			for _, d.Channels = range []uint8{1, 2, 4} {
				d.Shape, d.Width, d.Height, d.Depth, d.Layers, d.Normalized = Shape2D, 7, 5, 1, 1, r.IntN(2) == 0
				d.Address = [3]Mode{Mode(r.IntN(3)), Mode(r.IntN(3))}
				size, err := d.Place()
				if err != nil {
					continue // no such texture
				}
				m := &picture{t: t, bytes: make([]byte, size)}
				for at := 0; at < len(m.bytes); at += 4 {
					x := r.Uint32()
					switch r.IntN(6) {
					case 0:
						x = special[r.IntN(len(special))]
					case 1, 2:
						x = math.Float32bits(r.Float32() - 0.5)
					}
					binary.LittleEndian.PutUint32(m.bytes[at:], x)
				}
				d.Base = pictureBase
				for range 20 {
					checkLanes(t, r, &d, m)
				}
			}
		}
	}
}

// checkLanes fetches at 32 random points.
func checkLanes(t *testing.T, r *rand.Rand, d *Descriptor, m *picture) {
	var x, y [32]uint32
	var l Lanes
	middle := r.IntN(4) == 0
	for i := range x {
		u, v := r.Float32()*2-0.5, r.Float32()*2-0.5
		if !d.Normalized {
			u, v = u*float32(d.Width), v*float32(d.Height)
		}
		if r.IntN(4) == 0 {
			u = (float32(r.IntN(7)) + 0.5) / 7 * map[bool]float32{true: 1, false: 7}[d.Normalized] // the middle of a texel
		}
		if middle && !d.Normalized {
			u, v = float32(r.IntN(9))-0.5, float32(r.IntN(7))-0.5
		}
		x[i], y[i] = math.Float32bits(u), math.Float32bits(v)
	}
	d.Spans(0, &x, &l.X)
	d.Spans(1, &y, &l.Y)
	for i := range x {
		for k := range 4 {
			u, v := l.X.A[i], l.Y.A[i]
			if d.Linear && k&1 != 0 {
				u = l.X.B[i]
			}
			if d.Linear && k&2 != 0 {
				v = l.Y.B[i]
			}
			b := Batch{N: 1, Size: d.texelBytes(), Addr: [8]uint64{d.Base + d.Pitch*uint64(v) + d.texelBytes()*uint64(u)}}
			m.Texels(&b)
			l.Lo[k][i], l.Hi[k][i] = b.Data[0].Lo&(1<<(8*min(b.Size, 8))-1), b.Data[0].Hi
		}
	}
	d.Fill(&l)
	for i := range x {
		want := on(m).Fetch(d, Point{X: math.Float32frombits(x[i]), Y: math.Float32frombits(y[i])})
		for n := range int(d.Channels) {
			if l.Channel[n][i] != want[n] {
				t.Fatalf("channel %d at %g, %g is %x, expected %x: %+v", n, math.Float32frombits(x[i]), math.Float32frombits(y[i]), l.Channel[n][i], want[n], *d)
			}
		}
	}
}

// TestResolveLanes compares the addresses of 32 accesses of a surface with those of one after the other.
func TestResolveLanes(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 5000 {
		d := Descriptor{Surface: true, Shape: Shape1D + Shape(r.IntN(2)), Format: U8, Channels: 4, Width: 1 + r.Uint32N(5), Height: 1, Depth: 1, Layers: 1}
		if d.Shape == Shape2D {
			d.Height = 3
		}
		_, err := d.Place()
		require.NoError(t, err)
		d.Base = 1 << 20
		var x, y [32]uint32
		var at [32]uint64
		mask, size := r.Uint32()&r.Uint32(), uint64(4)<<r.IntN(2)
		for i := range x {
			x[i], y[i] = 4*r.Uint32N(d.Width), r.Uint32N(d.Height)
		}
		i := r.IntN(32)
		x[i] += []uint32{0, 0, 0, 1, 40, 1 << 31}[r.IntN(6)]
		y[i] += []uint32{0, 0, 0, 3, 1 << 31}[r.IntN(5)]
		all := true
		for i := range x {
			want, v := d.Resolve(Place{X: int32(x[i]), Y: int32(y[i])}, size, Trap)
			if mask>>i&1 != 0 {
				all = all && v == Access
				at[i] = want
			}
		}
		got := [32]uint64{}
		require.Equal(t, all, d.ResolveLanes(&x, &y, mask, size, &got), "%+v", d)
		if all {
			require.Equal(t, at, got)
		}
	}
}
