package cudalibs

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const stubs = "../../frontend/cuda/libs"

// What is generated is what the table says.
func TestGenerated(t *testing.T) {
	for _, l := range All().Libraries {
		got, err := os.ReadFile(filepath.Join(stubs, strings.ToLower(l.Name)+".c"))
		require.NoError(t, err)
		require.True(t, string(got) == Stubs(l), "%s: run `go generate ./internal/cudalibs`", l.Name)
	}
	for name, want := range map[string]string{filepath.Join(stubs, "files.txt"): Files(), "../../docs/cuda-libraries.md": Page()} {
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, string(got) == want, "%s: run `go generate ./internal/cudalibs`", name)
	}
}

func gcc(t *testing.T, args ...string) {
	out, err := exec.Command("gcc", args...).CombinedOutput()
	require.NoError(t, err, "gcc (apt-get install gcc libc6-dev): %s", out)
}

// A C program's arguments arrive in the order of the parameters, and what the driver returns in the
// program.
func TestStubs(t *testing.T) {
	dir := t.TempDir()
	driver := filepath.Join(dir, "libcuda.so.1")
	gcc(t, "-O1", "-Wall", "-Werror", "-fPIC", "-shared", "-Wl,-soname,libcuda.so.1", "-o", driver, "testdata/driver.c")
	var libraries []string
	for _, name := range []string{"libcublas.so.13", "libcublasLt.so.13", "libcurand.so.10"} {
		libraries = append(libraries, buildStub(t, dir, name, driver))
	}
	program := filepath.Join(dir, "program")
	gcc(t, append([]string{"-O1", "-Wall", "-Werror", "-o", program, "testdata/program.c", driver}, libraries...)...)
	cmd := exec.Command(program)
	cmd.Env = append(os.Environ(), "LD_LIBRARY_PATH="+dir)
	out, err := cmd.Output()
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	words := func(name string, w ...string) string {
		for len(w) < 24 {
			w = append(w, "0")
		}
		return fmt.Sprintf("%d: %s", All().Named(name).Index, strings.Join(w, " "))
	}
	require.Equal(t, []string{
		words("cublasGemmStridedBatchedEx", strings.Fields("1 2 3 4 5 6 7 8 9 a fffffffffffffff5 c d e f 10 11 12 13 14 15 16 17")...),
		"23456789",
		words("curandGenerateBinomialMethod", "1", "2", "3", "4", "3fe0000000000000", "6"),
		words("curandGenerateNormal", "1", "2", "3", "3fc00000", "c0000000"),
		words("cublasLtGetVersion"),
		"123456789",
		words("curandGenerateNormal", "bad"),
		"999",
		"no text: the driver did not take the call",
		"0",
	}, lines)
}

// buildStub builds a library as scripts/libcuda.sh does.
func buildStub(t *testing.T, dir, name, driver string) string {
	for line := range strings.Lines(Files()) {
		f := strings.Fields(line)
		if len(f) != 4 || f[1] != name {
			continue
		}
		script := filepath.Join(dir, name+".map")
		require.NoError(t, os.WriteFile(script, []byte(fmt.Sprintf("%s { global: %s*; local: *; };", name, f[2])), 0o644))
		lib := filepath.Join(dir, name)
		gcc(t, "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-fvisibility=hidden", "-shared", "-D_GNU_SOURCE", "-o", lib,
			filepath.Join(stubs, f[0]), filepath.Join(stubs, "stub.c"), driver, "-ldl", "-Wl,-z,defs", "-Wl,-soname,"+name, "-Wl,--version-script="+script)
		checkVersions(t, lib, name, f[2])
		return lib
	}
	require.FailNow(t, "no such library", name)
	return ""
}

// checkVersions checks that all that a stub exports are functions of the library, with its name as version.
func checkVersions(t *testing.T, lib, name, prefix string) {
	file, err := elf.Open(lib)
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	symbols, err := file.DynamicSymbols()
	require.NoError(t, err)
	n := 0
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			require.True(t, strings.HasPrefix(s.Name, prefix), s.Name)
			require.Equal(t, name, s.Version, s.Name)
			n++
		}
	}
	require.Positive(t, n)
}
