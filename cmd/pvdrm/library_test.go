package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/frontend/cuda/rt"
	"pvdrm/guest-image/guestinit"
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

// An image gets every stub that was made, and the lack of all of them is an error.
func TestStubLibraries(t *testing.T) {
	dir := t.TempDir()
	_, err := stubLibraries(dir)
	require.ErrorContains(t, err, "--cuda-libs: there are no libraries for guests")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "cuda-libs"), 0o755))
	stub := filepath.Join(dir, "cuda-libs", "libcublas.so.13")
	require.NoError(t, os.WriteFile(stub, nil, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "libcuda.so.1"), nil, 0o644))
	stubs, err := stubLibraries(dir)
	require.NoError(t, err)
	require.Equal(t, []string{stub}, stubs)
	require.Equal(t, rt.StubsEnv, guestinit.StubsEnv, "the guest's init imports no runtime")
}

func TestGivesStubs(t *testing.T) {
	for flag, want := range map[string]bool{"": false, "none": false, "/usr/lib:/opt": true} {
		require.Equal(t, want, (&deviceFlags{cudaLibs: flag}).givesStubs(), flag)
	}
}
