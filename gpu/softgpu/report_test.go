package softgpu

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec"
)

// A device reports what its kernels did when it is closed.
func TestReport(t *testing.T) {
	var reports [][]exec.Tallied
	result, stats := modelled(t, Config{SMs: 2, Report: func(rows []exec.Tallied) { reports = append(reports, rows) }}, 10, 4, 64)
	require.NoError(t, result.Err)
	require.Equal(t, uint64(1), stats.Launches)
	require.Len(t, reports, 1)
	require.Len(t, reports[0], 1)
	row := reports[0][0]
	require.Equal(t, "count", row.Kernel)
	require.Equal(t, uint64(1), row.Launches)
	require.GreaterOrEqual(t, row.All(), uint64(8), "each of 8 warps interprets its end at least")
}
