package gpu_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// Each time is below the bound of its bucket and not below that of the one before.
func TestHistogram(t *testing.T) {
	var h gpu.Histogram
	times := []time.Duration{-1, 0, 999, time.Microsecond, 2*time.Microsecond - 1, 2 * time.Microsecond, time.Millisecond, 3 * time.Second, time.Hour}
	for _, d := range times {
		h.Add(d)
		i := h.Bucket(d)
		require.Positive(t, h[i])
		if i < len(h)-1 {
			require.Less(t, d, h.Bound(i))
		}
		if i > 0 {
			require.GreaterOrEqual(t, d, h.Bound(i-1))
		}
	}
	require.Equal(t, uint64(len(times)), h.Count())
}
