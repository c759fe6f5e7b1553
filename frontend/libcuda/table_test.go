package libcuda

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	require.Greater(t, len(symbols), 400)
	for _, s := range symbols {
		require.Regexp(t, `^cu[A-Z][A-Za-z0-9]*(_v[0-9])?(_ptsz|_ptds)?$`, s.Name)
		require.LessOrEqual(t, s.entry.args, MaxArgs, s.Name)
		if s.perThread {
			require.Regexp(t, `_pt[sd][sz]$`, s.Name)
		}
		if s.entry.do == nil {
			require.Empty(t, s.entry.note, s.Name)
		}
	}
}

// What is generated from the table is in the tree as it would be made now.
func TestGeneratedFiles(t *testing.T) {
	c, err := os.ReadFile("../../cmd/libcuda/entry/entries.c")
	require.NoError(t, err)
	require.Equal(t, C(), string(c), "run go generate ./cmd/libcuda")
	doc, err := os.ReadFile("../../docs/libcuda.md")
	require.NoError(t, err)
	require.True(t, strings.HasSuffix(string(doc), "\n"+Markdown()), "run go generate ./cmd/libcuda")
}

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		name      string
		version   int
		perThread bool
		want      string
		how       int
	}{
		{"cuMemAlloc", 12000, false, "cuMemAlloc_v2", procFound},
		{"cuMemAlloc_v2", 12000, false, "cuMemAlloc_v2", procFound},
		{"cuMemAlloc", 2000, false, "", procNotSufficient},
		{"cuInit", 2000, false, "cuInit", procFound},
		{"cuGetProcAddress", 11040, false, "cuGetProcAddress", procFound},
		{"cuGetProcAddress", 12000, false, "cuGetProcAddress_v2", procFound},
		{"cuGetProcAddress", 11000, false, "", procNotSufficient},
		{"cuCtxCreate", 11000, false, "cuCtxCreate_v2", procFound},
		{"cuCtxCreate", 11040, false, "cuCtxCreate_v3", procFound},
		{"cuLaunchKernel", 12000, true, "cuLaunchKernel_ptsz", procFound},
		{"cuMemcpyHtoD", 12000, true, "cuMemcpyHtoD_v2_ptds", procFound},
		{"cuMemFree", 12000, true, "cuMemFree_v2", procFound},
		{"cuNoSuchThing", 12000, false, "", procNotFound},
		{"", 12000, false, "", procNotFound},
	} {
		i, how := resolve(c.name, c.version, c.perThread)
		require.Equal(t, c.how, how, "%+v", c)
		if c.want == "" {
			require.Negative(t, i)
			continue
		}
		require.Equal(t, c.want, symbols[i].Name, "%+v", c)
	}
}

// Each error message of a call says something.
func TestDescribe(t *testing.T) {
	for r := range resultOf(nil) + 1000 {
		if r.Known() {
			require.Regexp(t, regexp.MustCompile(`^CUDA_(SUCCESS|ERROR_[A-Z_0-9]+)$`), r.String())
			require.NotEmpty(t, describe(r), r)
		}
	}
}
