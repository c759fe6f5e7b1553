package guestinit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithAuditor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "auditor.so")
	require.Equal(t, []string{"A=b"}, withAuditor([]string{"A=b"}, path))
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	require.Equal(t, []string{"A=b", "LD_AUDIT=" + path}, withAuditor([]string{"A=b"}, path))

	// Where the image has stubs of NVIDIA's libraries, programs get them.
	require.NoError(t, os.Mkdir(filepath.Join(filepath.Dir(path), StubsDir), 0o755))
	require.Equal(t, []string{"A=b", "LD_AUDIT=" + path, StubsEnv + "=1"}, withAuditor([]string{"A=b"}, path))
}
