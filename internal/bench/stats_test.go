package bench

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{4, 1}, Spread{2.5, 1.3, 3.7}},
		{[]float64{11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, Spread{6, 2, 10}},
		{[]float64{1, 2, 3, 1000}, Spread{2.5, 1.3, 700.9}},
	} {
		got := spread(c.v)
		require.InDelta(t, c.want.Median, got.Median, 1e-9)
		require.InDelta(t, c.want.P10, got.P10, 1e-9)
		require.InDelta(t, c.want.P90, got.P90, 1e-9)
	}
}

// Half of the values lie on each side of the median, and all quantiles are
// between the smallest and the largest, in order.
func TestSpreadProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOfN(rapid.Float64Range(-1e9, 1e9), 1, 50).Draw(t, "values")
		got := spread(slices.Clone(v))
		below, above := 0, 0
		for _, x := range v {
			if x < got.Median {
				below++
			}
			if x > got.Median {
				above++
			}
		}
		require.LessOrEqual(t, below, len(v)/2)
		require.LessOrEqual(t, above, len(v)/2)
		require.LessOrEqual(t, slices.Min(v), got.P10)
		require.LessOrEqual(t, got.P10, got.Median)
		require.LessOrEqual(t, got.Median, got.P90)
		require.LessOrEqual(t, got.P90, slices.Max(v))
	})
}

func TestGeomean(t *testing.T) {
	require.Zero(t, geomean(nil))
	require.InDelta(t, 2, geomean([]float64{2}), 1e-12)
	require.InDelta(t, 4, geomean([]float64{2, 8}), 1e-12)
	require.InDelta(t, 1, geomean([]float64{0.5, 2}), 1e-12)
}

// The ranks are those of the tables of the sign test.
func TestMedianWithin(t *testing.T) {
	for n, rank := range map[int]int{1: 1, 5: 1, 6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 15: 4, 20: 6, 25: 8, 40: 14, 100: 40, 3000: 1446} {
		v := make([]float64, n)
		for i := range v {
			v[i] = float64(n - i) // 1 to n
		}
		low, high := medianWithin(v)
		require.Equal(t, float64(rank), low, "of %d", n)
		require.Equal(t, float64(n+1-rank), high, "of %d", n)
	}
	low, high := medianWithin(nil)
	require.Zero(t, low)
	require.Zero(t, high)
}

// Of 2,000 samples from a distribution with a long tail at least 95 % have an interval with
// its median, however few values they have.
func TestMedianWithinCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{6, 10, 25} {
		const trials = 2000
		covered := 0
		for range trials {
			v := make([]float64, n)
			for i := range v {
				v[i] = rng.ExpFloat64()
			}
			if low, high := medianWithin(v); low <= math.Ln2 && math.Ln2 <= high {
				covered++
			}
		}
		require.Greater(t, covered, trials*94/100, "of %d values", n)
	}
}
