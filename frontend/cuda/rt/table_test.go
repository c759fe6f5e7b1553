package rt

import (
	"os"
	"slices"
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
