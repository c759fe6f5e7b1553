package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Images get libgloop.so where it was made, and all that programs of CUDA look for in any case.
func TestImageLibraries(t *testing.T) {
	dir := t.TempDir()
	without, err := imageLibraries(dir)
	require.NoError(t, err)
	require.Len(t, without, len(libraries))
	require.Contains(t, without, filepath.Join(dir, libcuda))
	file := filepath.Join(dir, "libgloop.so")
	require.NoError(t, os.WriteFile(file, nil, 0o644))
	with, err := imageLibraries(dir)
	require.NoError(t, err)
	require.Equal(t, append(without, file), with)
}
