package clang

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/cmd/gdev/suite"
)

// Each program must come to the right result with the C kernels, on one thread
// and on several, also where its input is larger.
func TestPrograms(t *testing.T) {
	path, _, err := Compile(t.Context(), t.TempDir())
	require.NoError(t, err)
	for _, run := range []struct{ threads, scale int }{{1, 1}, {runtime.NumCPU(), 2}, {5, 1}} {
		lib, err := Open(path, run.threads)
		require.NoError(t, err)
		for _, name := range Programs {
			res, err := suite.RunHost(name, lib, suite.Options{Scale: run.scale})
			require.NoError(t, err)
			require.Empty(t, res.Error, name)
			require.True(t, res.Verified)
			t.Logf("%d threads, scale %d: %s %.3f ms", run.threads, run.scale, name, 1e3*res.Seconds.Launch)
		}
	}
}
