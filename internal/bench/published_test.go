package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/suite"
)

func TestPublishedTables(t *testing.T) {
	for _, p := range []table{publishedRatios, publishedHypercalls} {
		require.Len(t, p.cells, 14)
		for b, row := range p.cells {
			require.Len(t, row, len(p.columns), b)
			_, err := suite.Find(b)
			require.NoError(t, err)
		}
	}
	// What the thesis says of its own figures.
	var pooling []float64
	worst := 0.0
	for b := range publishedRatios.cells {
		v, ok := publishedRatios.value(b, "PVDRM pooling")
		require.True(t, ok)
		pooling = append(pooling, v)
		worst = max(worst, v)
	}
	require.InDelta(t, 1.04, geomean(pooling), 0.005)
	require.Equal(t, 1.09, worst)
	v, ok := publishedHypercalls.value("pincpy", withoutMulticall)
	require.True(t, ok)
	require.Equal(t, 44937.0, v)

	for _, c := range []struct{ bench, column, cell string }{
		{bench: "lud", column: "FV optimised", cell: "21.?"},
		{bench: "nn", column: "PT", cell: "?"},
		{bench: "bfs", column: "PT"},
		{bench: "nn", column: "fast"},
	} {
		require.Equal(t, c.cell, publishedRatios.cell(c.bench, c.column))
		_, ok := publishedRatios.value(c.bench, c.column)
		require.False(t, ok, "%s %s cannot be drawn", c.bench, c.column)
	}
}
