package tests

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A machine has a directory of the host as its root: programs of the host run in it, on PVDRM's
// libcuda. What it writes there stays in it, what it writes to a shared directory does not, and
// one that it may only read takes nothing.
func TestRootOfTheHost(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "pvdrm-root-") // not below /tmp, which is the guest's own
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	for _, sub := range []string{"out", "in"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, sub), 0o755))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "in", "input"), []byte("from the host\n"), 0o644))
	built, err := clients()
	require.NoError(t, err)
	program, err := os.ReadFile(filepath.Join(built.path, "vector_add"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "vector_add"), program, 0o755))
	code, out := start(t, "up", "--root", "/", "--share", filepath.Join(dir, "out")+":rw", "--share", filepath.Join(dir, "in")+":/mnt/in put", "--",
		"sh", "-c", `set -e; cd "$0"; ./vector_add; echo there > guest; cat "/mnt/in put/input" guest > out/result
			if echo no > "/mnt/in put/new" 2>/dev/null; then echo a guest wrote to what it may only read; exit 3; fi
			echo all done`, dir).wait(t)
	require.Equal(t, 0, code, out)
	require.Contains(t, out, "PASS")
	require.Contains(t, out, "all done")
	result, err := os.ReadFile(filepath.Join(dir, "out", "result"))
	require.NoError(t, err)
	require.Equal(t, "from the host\nthere\n", string(result))
	require.NoFileExists(t, filepath.Join(dir, "guest"))
	require.NoFileExists(t, filepath.Join(dir, "in", "new"))
}
