package tests

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu"
)

// gloopClient compiles a C program that runs a GLoop program.
func gloopClient(t *testing.T, source string) string {
	t.Helper()
	lib, err := libcudaDir()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "client")
	out, err := exec.Command("gcc", "-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-I../examples/cuda", "-I../frontend/gloop/c",
		"-o", file, source, "-L"+lib, "-lgloop", "-lcuda", "-lpthread").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return file
}

// The echo server's host program in C runs as a local guest, on both versions of the loop.
func TestGLoopFromC(t *testing.T) {
	client := gloopClient(t, "../examples/gloop/echo.c")
	for _, ptx := range []string{"echo.ptx", "echo.noshared.ptx"} {
		cmd := startHost(t, softgpu.Config{SMs: 1}).program(t, client)
		file, err := filepath.Abs("../examples/gloop/" + ptx)
		require.NoError(t, err)
		cmd.Args = append(cmd.Args, file)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "echo: PASS\n")
	}
}

// It runs in a virtual machine, whose image has the library.
func TestGLoopFromCMachine(t *testing.T) {
	code, out := start(t, "up", "--log", "error", "--image", "debian", "--copy", "../examples/gloop/echo.ptx", "--",
		gloopClient(t, "../examples/gloop/echo.c"), "echo.ptx").wait(t)
	require.Zero(t, code, out)
	require.Contains(t, out, "echo: PASS\n")
}

// A program of C runs longer than the limit of launches, and misuse of the library is
// an error, by hostile kernels too.
func TestGLoopFromCBeyondTheLimit(t *testing.T) {
	cmd := startHost(t, softgpu.Config{SMs: 1, LaunchLimit: 2 * time.Second}).program(t, gloopClient(t, "gloop/steps.c"))
	for _, name := range []string{"throttle.ptx", "tasks.ptx", "hostile.ptx"} {
		file, err := filepath.Abs("../frontend/gloop/host/testdata/" + name)
		require.NoError(t, err)
		cmd.Args = append(cmd.Args, file)
	}
	cmd.Args = append(cmd.Args, "800000")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "steps: PASS\n")
}

// The program that measures scheduling points suspends tasks after every k-th callback, on both
// versions of the loop.
func TestGLoopPoints(t *testing.T) {
	cmd := startHost(t, softgpu.Config{SMs: 2}).program(t, gloopClient(t, "gloop/points.c"))
	folder, err := filepath.Abs("../frontend/gloop/host/testdata")
	require.NoError(t, err)
	cmd.Args = append(cmd.Args, folder, "1000")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "points: PASS\n")
	require.Equal(t, 2, strings.Count(string(out), "the same bytes"))
}
