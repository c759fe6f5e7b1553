package clang

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	ptxexec "pvdrm/gpu/softgpu/exec"
	"pvdrm/internal/suite"
)

// Each program must come to the right result with the C kernels, on one thread
// and on several, also where its input is larger.
func TestPrograms(t *testing.T) {
	compiler, err := Find()
	if err != nil {
		compiler, err = exec.LookPath("gcc") // which the tests need anyway; the code is C
	}
	require.NoError(t, err)
	path, version, err := Compile(t.Context(), compiler, t.TempDir(), ptxexec.InUse())
	require.NoError(t, err)
	require.NotEmpty(t, version)
	for _, run := range []struct{ threads, scale int }{{1, 1}, {5, 2}} {
		lib, err := Open(path, run.threads)
		require.NoError(t, err)
		for _, name := range Programs {
			res, err := suite.RunRaw(name, lib.Device, suite.Options{Scale: run.scale})
			require.NoError(t, err)
			require.Empty(t, res.Error, name)
			require.True(t, res.Verified)
			t.Logf("%d threads, scale %d: %s %.3f ms", run.threads, run.scale, name, 1e3*res.Seconds.Launch)
		}
	}
}

// A user without a compiler, or with one that does not work, is told what to do.
func TestNoCompiler(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "clang")
	require.NoError(t, os.WriteFile(broken, []byte("#!/bin/sh\n[ \"$1\" = --version ] && echo clang 0 || { echo no stdio.h; exit 1; }\n"), 0o700))
	_, version, err := Compile(t.Context(), broken, t.TempDir(), ptxexec.Plain)
	require.ErrorContains(t, err, "no stdio.h")
	require.ErrorContains(t, err, "apt install libc6-dev")
	require.Empty(t, version)
	t.Setenv("PATH", t.TempDir())
	_, err = Find()
	require.ErrorContains(t, err, "apt install clang")
	_, err = Open("/nowhere/kernels.so", 1)
	require.ErrorContains(t, err, "/nowhere/kernels.so")
}

func TestDeviceBounds(t *testing.T) {
	d := &device{&Library{}, map[uint64][]byte{}}
	p, err := d.Alloc(100)
	require.NoError(t, err)
	require.NoError(t, d.Write(p+90, make([]byte, 10), false))
	for at, n := range map[uint64]int{p + 91: 10, p + 101: 0, p - 1: 1} {
		require.Error(t, d.Write(at, make([]byte, n), false))
		require.Error(t, d.Read(make([]byte, n), at, true))
	}
	require.NoError(t, d.Fill(p, 7, 25))
	got := make([]byte, 4)
	require.NoError(t, d.Read(got, p+96, false))
	require.Equal(t, []byte{7, 0, 0, 0}, got)
	require.Error(t, d.Fill(p, 1, 26))
	_, err = d.AllocHost(1 << 62)
	require.Error(t, err)
}
