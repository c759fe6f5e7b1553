package capi

import (
	"os"
	"regexp"
	"strconv"
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
	c, err := os.ReadFile("entry/entries.c")
	require.NoError(t, err)
	require.Equal(t, C(), string(c), "run go generate ./frontend/cuda/capi")
	exports, err := os.ReadFile("entry/exports.map")
	require.NoError(t, err)
	require.Equal(t, Exports(), string(exports), "run go generate ./frontend/cuda/capi")
	require.Contains(t, Exports(), " cuCtxGetDevice_v2; ", "of CUDA 13, with an argument more")
	require.NotContains(t, Exports(), " cuCtxCreate_v4; ")
	doc, err := os.ReadFile("../../../docs/cuda-driver-api.md")
	require.NoError(t, err)
	require.Equal(t, Page(), string(doc), "run go generate ./frontend/cuda/capi")
}

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		name      string
		version   int
		perThread bool
		want      string
		how       int
	}{
		{name: "cuMemAlloc", version: 12000, want: "cuMemAlloc_v2", how: procFound},
		{name: "cuMemAlloc_v2", version: 12000, how: procNotFound},
		{name: "cuMemAlloc", version: 2000, how: procNotSufficient}, // NVIDIA's has 32-bit pointers there
		{name: "cuDevicePrimaryCtxRelease", version: 7000, want: "cuDevicePrimaryCtxRelease", how: procFound},
		{name: "cuDevicePrimaryCtxRelease", version: 11000, want: "cuDevicePrimaryCtxRelease_v2", how: procFound},
		{name: "cuLinkCreate", version: 5050, want: "cuLinkCreate", how: procFound},
		{name: "cuStreamBeginCapture", version: 10000, want: "cuStreamBeginCapture", how: procFound},
		{name: "cuIpcOpenMemHandle", version: 4010, want: "cuIpcOpenMemHandle", how: procFound},
		{name: "cuCtxGetDevice", version: 12080, want: "cuCtxGetDevice", how: procFound},
		{name: "cuCtxGetDevice", version: 13000, want: "cuCtxGetDevice_v2", how: procFound},
		{name: "cuInit", version: 2000, want: "cuInit", how: procFound},
		{name: "cuGetProcAddress", version: 11040, want: "cuGetProcAddress", how: procFound},
		{name: "cuGetProcAddress", version: 12000, want: "cuGetProcAddress_v2", how: procFound},
		{name: "cuGetProcAddress", version: 11000, how: procNotSufficient},
		{name: "cuCtxCreate", version: 11000, want: "cuCtxCreate_v2", how: procFound},
		{name: "cuCtxCreate", version: 11040, want: "cuCtxCreate_v3", how: procFound},
		{name: "cuLaunchKernel", version: 12000, perThread: true, want: "cuLaunchKernel_ptsz", how: procFound},
		{name: "cuMemcpyHtoD", version: 12000, perThread: true, want: "cuMemcpyHtoD_v2_ptds", how: procFound},
		{name: "cuMemFree", version: 12000, perThread: true, want: "cuMemFree_v2", how: procFound},
		{name: "cuNoSuchThing", version: 12000, how: procNotFound},
		{version: 12000, how: procNotFound},
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

// No error message of a call is empty.
func TestDescribe(t *testing.T) {
	for r := range resultOf(nil) + 1000 {
		if r.Known() {
			require.Regexp(t, regexp.MustCompile(`^CUDA_(SUCCESS|ERROR_[A-Z_0-9]+)$`), r.String())
			require.NotEmpty(t, describe(r), r)
		}
	}
}

// What frameworks ask for is there, by the version that they ask with, and works at least partly.
func TestFrameworks(t *testing.T) {
	text, err := os.ReadFile("testdata/frameworks.txt")
	require.NoError(t, err)
	index := map[string]int{}
	for i, s := range symbols {
		index[s.Name] = i
	}
	n := 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, version, asked := strings.Cut(line, "@")
		i, there := index[name]
		if asked {
			number, err := strconv.Atoi(version)
			require.NoError(t, err)
			var how int
			i, how = resolve(name, number, false)
			there = how == procFound
		}
		require.True(t, there, line)
		require.NotNil(t, symbols[i].entry.do, line)
		n++
	}
	require.Greater(t, n, 100)
}
