package clang

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/cmd/gdev/suite"
)

// Each program must come to the right result with the C kernels, on one thread
// and on several.
func TestPrograms(t *testing.T) {
	path, _, err := Compile(t.Context(), t.TempDir())
	require.NoError(t, err)
	for _, threads := range []int{1, runtime.NumCPU(), 5} {
		lib, err := Open(path, threads)
		require.NoError(t, err)
		for _, name := range Programs {
			res, err := suite.RunHost(name, lib)
			require.NoError(t, err)
			require.Empty(t, res.Error, name)
			require.True(t, res.Verified)
			t.Logf("%d threads: %s %.3f ms", threads, name, 1e3*res.Seconds.Launch)
		}
	}
}
