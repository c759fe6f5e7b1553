package guestinit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStartProcessors starts those that are off and leaves the others alone.
func TestStartProcessors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	write("online", "0\n") // the list of processors, not one's switch
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cpu0"), 0o755))
	on, off := write("cpu1/online", "1\n"), write("cpu12/online", "0\n")
	require.NoError(t, startProcessors(dir))
	for path, want := range map[string]string{on: "1\n", off: "1", filepath.Join(dir, "online"): "0\n"} {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, want, string(b), path)
	}
	require.Error(t, startProcessors("["), "a pattern that is not one")
}

// Programs that look for files of NVIDIA's driver find the render node, and what is there stays.
func TestNameNVIDIA(t *testing.T) {
	dir := t.TempDir()
	node := filepath.Join(dir, "renderD128")
	require.NoError(t, os.WriteFile(node, []byte("node"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nvidia0"), []byte("there"), 0o600))
	require.NoError(t, nameNVIDIA(dir, node))
	for name, want := range map[string]string{"nvidiactl": "node", "nvidia0": "there"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, want, string(b), name)
	}
	require.ErrorContains(t, nameNVIDIA(filepath.Join(dir, "none"), node), "JAX may not find the GPU")
}
