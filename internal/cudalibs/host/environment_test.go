package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Libraries of the python3 that a shell finds are found without an active environment; an active one comes first.
func TestEnvironments(t *testing.T) {
	active, env := t.TempDir(), t.TempDir()
	for _, dir := range []string{active, env} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "lib/python3.12/site-packages/nvidia/cu13/lib"), 0o755))
	}
	bin := filepath.Join(env, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(bin, "python3"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("VIRTUAL_ENV", "")
	t.Setenv("CONDA_PREFIX", "")
	t.Setenv("PATH", bin)
	wheels := filepath.Join(env, "lib/python3.12/site-packages/nvidia/cu13/lib")
	require.NotContains(t, Directories(""), wheels, "that is no environment")
	require.NoError(t, os.WriteFile(filepath.Join(env, "pyvenv.cfg"), nil, 0o644))
	require.Contains(t, Directories(""), wheels)
	require.NotContains(t, Directories(active), wheels, "a list was given")
	t.Setenv("VIRTUAL_ENV", active)
	all := Directories("")
	require.Equal(t, active, all[0])
	require.Contains(t, all, wheels)
}
