package rt

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program gets PVDRM's libraries in place of a wheel's of the same name: where an RPATH leads to the wheel's,
// by name, by path, and under a name that a tool for wheels made. What PVDRM does not have, and libraries of
// other names, stay.
func TestLibrariesOfWheels(t *testing.T) {
	wheel, ours := filepath.Join(folder, "wheel"), filepath.Join(folder, "ours")
	require.NoError(t, os.MkdirAll(wheel, 0o755))
	require.NoError(t, os.MkdirAll(ours, 0o755))
	library := func(dir, name, soname string) string {
		return gcc(t, filepath.Join(dir, name), "-shared", "-fPIC", "-DLIBRARY=\""+dir+" "+name+"\"", "-Wl,-soname,"+soname, "testdata/wheel.c")
	}
	linked := library("wheel", "libcudart.so.13", "libcudart.so.13")
	for _, name := range []string{"libcudart.so.12", "libcublas.so.13", "libcudartfoo.so.13", "libother.so.1", "libcudart-9335f6a2.so.12", "libcudart-zzzzzzzz.so.12"} {
		library("wheel", name, name)
	}
	for _, name := range []string{"libcudart.so.13", "libcudart.so.12", "libother.so.1", "libcudartfoo.so.13"} {
		library("ours", name, name)
	}
	require.NoError(t, os.MkdirAll(filepath.Join(ours, "cuda-libs"), 0o755))
	library("ours/cuda-libs", "libcufft.so.12", "libcufft.so.12")
	library("wheel", "libcufft.so.12", "libcufft.so.12")
	auditor := gcc(t, filepath.Join("ours", StaticLibrary), "-fPIC", "-shared", "-pthread", "static/audit.c", "static/runtime.c", "static/nvrtc.c", "static/search.c", "-Wl,-z,defs")
	program := gcc(t, "wheel-program", "testdata/wheel.c", linked, "-ldl", "-Wl,--disable-new-dtags,-rpath,"+wheel)
	asked := []string{"libcudart.so.12", "libcudart.so.13", "libcublas.so.13", "libother.so.1", "libnccl.so.2", "libcufft.so.12"}
	for _, name := range []string{"libcudart.so.13", "libcudart.so.12", "libcublas.so.13", "libother.so.1", "libcudartfoo.so.13", "libcudart-9335f6a2.so.12", "libcudart-zzzzzzzz.so.12", "libcufft.so.12"} {
		asked = append(asked, filepath.Join(wheel, name))
	}
	run := func(env []string) string {
		cmd := exec.CommandContext(t.Context(), program, asked...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return strings.TrimSpace(string(out))
	}
	require.Equal(t, strings.Join([]string{
		"linked ours libcudart.so.13",
		"ours libcudart.so.12", "ours libcudart.so.13", "wheel libcublas.so.13", "wheel libother.so.1", "none", "ours/cuda-libs libcufft.so.12",
		"ours libcudart.so.13", "ours libcudart.so.12", "wheel libcublas.so.13", "wheel libother.so.1", "wheel libcudartfoo.so.13",
		"ours libcudart.so.12", "wheel libcudart-zzzzzzzz.so.12", "ours/cuda-libs libcufft.so.12",
	}, "\n"), run(WithStatic(append(os.Environ(), StubsEnv+"=1"), auditor)))
	without := run(WithStatic(append(os.Environ(), StubsEnv+"=0"), auditor))
	require.Contains(t, without, "linked ours libcudart.so.13")
	require.NotContains(t, without, "cuda-libs", "they were not asked for")
	require.Contains(t, run(os.Environ()), "linked wheel libcudart.so.13", "the RPATH leads there")
}
