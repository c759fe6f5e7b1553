// Package libstest makes a library that stands in for NVIDIA's in tests.
package libstest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/fake.c
var source []byte

// names are the files that the library stands in for.
var names = []string{"libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcufft.so.12", "libcurand.so.10"}

// Build compiles the library, and returns a directory that has it by its names. It needs a C compiler.
func Build(t testing.TB) string {
	dir := t.TempDir()
	file := filepath.Join(dir, "fake.c")
	require.NoError(t, os.WriteFile(file, source, 0o644))
	lib := filepath.Join(dir, "libfake.so")
	out, err := exec.Command("gcc", "-std=c11", "-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-fPIC", "-shared", "-o", lib, file).CombinedOutput()
	require.NoError(t, err, "gcc (apt-get install gcc libc6-dev): %s", out)
	for _, name := range names {
		require.NoError(t, os.Symlink("libfake.so", filepath.Join(dir, name)))
	}
	return dir
}
