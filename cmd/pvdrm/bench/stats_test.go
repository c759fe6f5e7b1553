package bench

import (
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
