package rt

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	names := Names()
	require.Greater(t, len(names), 400)
	require.Equal(t, len(names), len(slices.Compact(slices.Clone(names))), "a name is there twice")
	for _, n := range names {
		require.Regexp(t, `^(cuda|__cuda)[A-Z][A-Za-z0-9]*(_v[0-9])?(_ptsz|_ptds)?$`, n)
	}
	for _, f := range families {
		for _, e := range f.entries {
			if e.missing {
				require.Empty(t, e.note, e.name)
			}
		}
	}
}

// What is generated from the table is in the tree as it would be made now.
func TestGeneratedFiles(t *testing.T) {
	c, err := os.ReadFile("c/unsupported.c")
	require.NoError(t, err)
	require.Equal(t, C(), string(c), "run go generate ./frontend/cuda/rt")
	names, err := os.ReadFile("static/names.def")
	require.NoError(t, err)
	require.Equal(t, Definitions(), string(names), "run go generate ./frontend/cuda/rt")
	doc, err := os.ReadFile("../../../docs/cuda-runtime-api.md")
	require.NoError(t, err)
	require.Equal(t, Page(), string(doc), "run go generate ./frontend/cuda/rt")
}

// The libraries have what PyTorch's need, by the version that they ask for, and more than an error behind it.
func TestWheels(t *testing.T) {
	text, err := os.ReadFile("testdata/wheels.txt")
	require.NoError(t, err)
	names, lacking := Names(), Missing()
	n := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		words := strings.Fields(line)
		require.Len(t, words, 2, line)
		_, there := slices.BinarySearch(names, words[0])
		require.True(t, there, "%s is no entry point", words[0])
		require.NotContains(t, lacking, words[0])
		major := strings.TrimPrefix(words[1], "libcudart.so.")
		exports, err := os.ReadFile("c/exports" + major + ".map")
		require.NoError(t, err)
		require.Regexp(t, `(?m)^`+regexp.QuoteMeta(words[1])+` \{`, string(exports))
		n++
	}
	require.Greater(t, n, 80)
}
