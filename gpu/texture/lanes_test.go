package texture

import (
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
						want := axis{size: size, mode: m, normalized: d.Normalized}.around(math.Float32frombits(x[i]), d.Linear)
						if got := (span{at: [2]int32{s.A[i], s.B[i]}, weight: s.Weight[i]}); got != want {
							t.Fatalf("%x of %d is %v, expected %v: %+v", x[i], size, got, want, d)
						}
					}
				}
			}
		}
	}
	require.False(t, (&Descriptor{Shape: Shape2D, Address: [3]Mode{Clamp, Border}}).Flat())
}
