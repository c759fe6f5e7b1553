package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOwnLibraries(t *testing.T) {
	dir := t.TempDir()
	paths, err := ownLibraries(dir)
	require.NoError(t, err)
	require.Len(t, paths, len(libraries))
	require.NoError(t, os.Mkdir(filepath.Join(dir, stubs), 0o755))
	for _, name := range []string{"libcublas.so.13", "notes.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, stubs, name), nil, 0o644))
	}
	paths, err = ownLibraries(dir)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, stubs, "libcublas.so.13"), paths[len(paths)-1])
	require.Len(t, paths, len(libraries)+1)
}
