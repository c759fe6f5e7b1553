package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/missing"
)

func TestMissingSections(t *testing.T) {
	page, err := os.ReadFile("../../" + missingPage)
	require.NoError(t, err)
	for _, s := range missingSections {
		require.Contains(t, string(page), "\n## "+s.section+"\n")
	}
	for text, want := range map[string]string{
		"cuGraphConditionalHandleCreate: CUDA_ERROR_NOT_SUPPORTED: PVDRM has no such thing":    "Graphs and stream capture",
		"cuGraphAddNode: CUDA_ERROR_NOT_SUPPORTED: nodes of type 8":                            "Graphs and stream capture",
		"cuModuleLoadData: CUDA_ERROR_INVALID_PTX: image:7:1: error: 'cuda' is no instruction": "What to know about the driver API",
		"cudaDeviceGetP2PAttribute: cudaErrorNotSupported: PVDRM has no such function":         "The runtime API (cudart)",
		"cuGetExportTable: CUDA_ERROR_NOT_FOUND: private table 0100":                           "The runtime API (cudart)",
		"cuMemExportToShareableHandle: CUDA_ERROR_NOT_SUPPORTED: PVDRM has no such thing":      "What to know about the driver API",
		"something that a program made up":                                                     "What to know about the driver API",
	} {
		require.Equal(t, want, missingSection(text), text)
	}
}

func TestClosingLines(t *testing.T) {
	require.Empty(t, closingLines(missing.Report{}, true))
	var r missing.Report
	for i := range 9 {
		r.Add(fmt.Sprintf("cu%d\n\x1b[31m\u202e %s", i, strings.Repeat("y", 500)))
	}
	lines := closingLines(r, true)
	require.Len(t, lines, missing.MaxKept+3)
	require.Equal(t, "  … and 4 more; the last:", lines[missing.MaxKept])
	require.True(t, strings.HasPrefix(lines[missing.MaxKept+1], "  cu8??[31m? yyy"), lines)
	for _, l := range lines {
		require.NotContains(t, l, "\n")
		require.LessOrEqual(t, len(l), missing.MaxText+len("  "))
	}
	// A machine that sends more than a Report holds.
	require.Len(t, closingLines(missing.Report{Lines: make([]string, 4000), More: 1}, true), missing.MaxKept+3)
}

// A program that did not look at errors is told which of its kernels cannot have run.
func TestClosingLinesOfSuccess(t *testing.T) {
	refused := "cuLibraryLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU: the PTX in the image is for compute capability 12.0"
	r := missing.Report{Lines: []string{"cuGraphAddNode: CUDA_ERROR_NOT_SUPPORTED: nodes of type 8", refused}, More: 3}
	require.Equal(t, "  "+refused, closingLines(r, false)[1])
	require.Len(t, closingLines(r, false), 3)
	require.Contains(t, closingLines(r, false)[0], "have no code for this GPU")
	both := missing.Report{Lines: []string{refused, "cuModuleLoadData: CUDA_ERROR_INVALID_PTX: no such instruction"}}
	require.Contains(t, closingLines(both, false)[0], "PVDRM refused modules of the program. Their kernels did not run")
	require.Contains(t, closingLines(r, true)[0], "the program failed")
	require.Empty(t, closingLines(missing.Report{Lines: r.Lines[:1]}, false))
	require.Empty(t, closingLines(missing.Report{}, false))
}
