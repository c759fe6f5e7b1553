package tests

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/preflight"
)

// preflightOf runs pvdrm check, and returns its exit code and output.
func preflightOf(t *testing.T, args ...string) (int, string) {
	t.Helper()
	return start(t, append([]string{"check"}, args...)...).wait(t)
}

func TestCheck(t *testing.T) {
	dir, err := clients()
	require.NoError(t, err)
	good, lacks := filepath.Join(dir.path, "vector_add"), filepath.Join(dir.path, "lacks")
	code, out := preflightOf(t, good, "testdata/cuda_h/streams-12.6")
	require.Zero(t, code, out)
	require.Equal(t, good+" (program or library): nothing is missing\ntestdata/cuda_h/streams-12.6 (program or library): nothing is missing\n", out)

	code, out = preflightOf(t, good, lacks)
	require.Equal(t, 1, code, out)
	require.Contains(t, out, lacks+" (program or library): 1 thing would not work\n  call          cuGreenCtxCreate: CUDA_ERROR_NOT_SUPPORTED (docs/cuda-driver-api.md)\n")
	require.Contains(t, out, "  hint: it may ask at run time for cudaDeviceUnregisterAsyncNotification, which are not supported\n")

	code, out = preflightOf(t, "--json", lacks)
	require.Equal(t, 1, code, out)
	var r preflight.Report
	require.NoError(t, json.Unmarshal([]byte(out), &r), out)
	require.Len(t, r.Missing, 1)
	require.Equal(t, []string{"cudaDeviceUnregisterAsyncNotification"}, r.Hints)

	code, out = preflightOf(t, lacks, "cli_test.go", good)
	require.Equal(t, 2, code, out)
	require.Contains(t, out, "pvdrm: cli_test.go: no ELF file, fatbin or PTX\n")
	require.Contains(t, out, good)
}

// What pvdrm check says of PTX is what the device says when a program loads it.
func TestCheckOfPTX(t *testing.T) {
	const ptx = ".version 8.6\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n%s\nret;\n}\n"
	for line, want := range map[string]int{"bar.sync 0;": 0, "tcgen05.wait::ld.sync.aligned;": 1, "nonsense %r1;": 1} {
		file := filepath.Join(t.TempDir(), "k.ptx")
		require.NoError(t, os.WriteFile(file, bytes.Replace([]byte(ptx), []byte("%s"), []byte(line), 1), 0o644))
		code, out := preflightOf(t, file)
		require.Equal(t, want, code, out)
		if want != 0 {
			require.Contains(t, out, "kernel k, line 6: ")
			require.Contains(t, out, line)
		}
	}
}

// A stand-in for NVIDIA's static runtime is found by the symbol table; its program calls functions
// that PVDRM has.
func TestCheckOfAStaticRuntime(t *testing.T) {
	dir, err := staticClients()
	require.NoError(t, err)
	for _, v := range runtimeVersions {
		code, out := preflightOf(t, filepath.Join(dir, "static"+v))
		require.Zero(t, code, out)
	}
	// It has no section for fatbins, which NVIDIA's has.
	stripped := filepath.Join(t.TempDir(), "stripped")
	out, err := exec.Command("objcopy", "--strip-all", "--add-section", ".nv_fatbin=/dev/null", filepath.Join(dir, "static12"), stripped).CombinedOutput()
	require.NoError(t, err, "%s", out)
	code, text := preflightOf(t, stripped)
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "  stripped ")
}
