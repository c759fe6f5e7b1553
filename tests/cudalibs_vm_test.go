package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Programs in a machine whose root is the host's find PVDRM's libraries in place of NVIDIA's where --cuda-libs is
// given: by name, and by the path of a wheel's file. The software GPU calls none of them, so the status is
// cuBLAS's for what is not supported. Without, the program finds what the host has: here the wheel's file only.
func TestLibrariesOfNVIDIAInAMachine(t *testing.T) {
	dir, err := os.MkdirTemp("/var/tmp", "pvdrm-stubs-") // not below /tmp, which is the guest's own
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(dir)) }()
	_, err = libcudaDir()
	require.NoError(t, err)
	const name = "libcublas.so.13"
	compile := func(to string, more ...string) {
		out, err := exec.Command("gcc", append([]string{"-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-o", filepath.Join(dir, to)}, more...)...).CombinedOutput()
		require.NoError(t, err, "gcc (PVDRM_DEPS=test make deps): %s", out)
	}
	compile("stubs", "testdata/stubs.c", "-ldl")
	compile(name, "-shared", "-fPIC", "-DWHEEL", "testdata/stubs.c")
	run := func(flags ...string) string {
		args := append(append([]string{"up", "--root", "/"}, flags...), "--", filepath.Join(dir, "stubs"), name, filepath.Join(dir, name))
		code, out := start(t, args...).wait(t)
		require.Equal(t, 0, code, out)
		return out
	}
	const notSupported = "15" // CUBLAS_STATUS_NOT_SUPPORTED
	with := run("--cuda-libs", dir)
	require.Contains(t, with, "0: cublasCreate_v2 = "+notSupported+"\n")
	require.Contains(t, with, "1: cublasCreate_v2 = "+notSupported+"\n")
	without := run("--cuda-libs", "none")
	require.Contains(t, without, "0: no library\n")
	require.Contains(t, without, "1: cublasCreate_v2 = 77\n", "the wheel's is as it was")
}
