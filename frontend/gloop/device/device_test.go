package device_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/gloop/device"
)

// All committed PTX of GLoop's tests belongs to its sources.
func TestPTXBelongsToSources(t *testing.T) {
	sources, err := filepath.Glob("../host/testdata/*.cu")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, file := range sources {
		source, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, kind := range []string{".ptx", ".noshared.ptx"} {
			ptx, err := os.ReadFile(strings.TrimSuffix(file, ".cu") + kind)
			require.NoError(t, err)
			require.NoError(t, device.Check(ptx, source), file)
			require.ErrorContains(t, device.Check(ptx, source, []byte("\n")), "make gloop", file)
			require.ErrorContains(t, device.Check(ptx[1:], source), "did not make", file)
		}
	}
}
