package tests

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// lacked is what the end of clients/lacks.c says where it fails.
var lacked = []string{
	"pvdrm:   cuGreenCtxCreate: CUDA_ERROR_NOT_SUPPORTED: PVDRM has no cuGreenCtxCreate\n",
	"pvdrm:   cuModuleLoadData: CUDA_ERROR_INVALID_PTX: image:7:1: error: ",
	"pvdrm:   cudaDeviceUnregisterAsyncNotification: cudaErrorNotSupported: PVDRM has no such function\n",
}

func TestRunSaysWhatAFailedProgramLacked(t *testing.T) {
	dir, err := clients()
	require.NoError(t, err)
	for arg, want := range map[string]int{"0": 0, "3": 3, "abort": 128 + 6} {
		code, out := start(t, "run", "--log", "error", "--", filepath.Join(dir.path, "lacks"), arg).wait(t)
		require.Equal(t, want, code, out)
		if want == 0 {
			// Only the module that was refused is told of.
			closing, ok := strings.CutPrefix(out, "lacks: PASS\npvdrm: PVDRM refused modules of the program.")
			require.True(t, ok, out)
			require.Equal(t, 1, strings.Count(closing, "\npvdrm:   "), out)
			require.Contains(t, closing, "\npvdrm:   cuModuleLoadData: CUDA_ERROR_INVALID_PTX: ")
			continue
		}
		_, closing, _ := strings.Cut(out, "pvdrm: the program failed")
		require.Len(t, strings.Split(strings.TrimSpace(closing), "\n"), len(lacked)+2, out)
		for _, text := range lacked {
			require.Equal(t, 1, strings.Count(closing, text), "%s in %s", text, out)
		}
		require.Contains(t, closing, `docs/cuda-programs.md: "What to know about the driver API", "The runtime API (cudart)"`)
	}
}

// A program chooses the text that it sends, but not how much of it is shown, or where.
func TestClosingLinesOfAHostileProgram(t *testing.T) {
	script := `exec 2>/dev/null; perl -MSocket -e 'socket(S, AF_UNIX, SOCK_DGRAM, 0);
		for (1..300) { send(S, "n$_ \e[2J\nFAKE: line" . "x" x 5000, 0, pack_sockaddr_un($ENV{PVDRM_MISSING})) or warn }'; exit 4`
	code, out := start(t, "run", "--", "sh", "-c", script).wait(t)
	require.Equal(t, 4, code, out)
	require.Contains(t, out, "pvdrm:   n1 ?[2J?FAKE: line")
	require.NotContains(t, out, "\x1b")
	require.NotContains(t, out, "\nFAKE")
	require.Less(t, len(out), 4096)
	require.Less(t, strings.Count(out, "\n"), 12)
}
