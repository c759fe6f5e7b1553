package libcudart

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
	c, err := os.ReadFile("../../cmd/libcudart/unsupported.c")
	require.NoError(t, err)
	require.Equal(t, C(), string(c), "run go generate ./frontend/libcudart")
	doc, err := os.ReadFile("../../docs/libcuda.md")
	require.NoError(t, err)
	want, err := InsertTable(string(doc))
	require.NoError(t, err)
	require.Equal(t, want, string(doc), "run go generate ./frontend/libcudart")
	_, err = InsertTable("no such lines")
	require.Error(t, err)
}
