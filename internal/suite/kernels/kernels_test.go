package kernels

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A source needs no other file, and has what its headers declare before it is used.
func TestSource(t *testing.T) {
	files, err := fs.Glob(sources, "*.cl")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := Source(strings.TrimSuffix(file, ".cl"))
		require.NoError(t, err)
		require.NotContains(t, text, "#include", file)
		require.Less(t, strings.Index(text, "#define GX"), strings.Index(text, "__kernel"), file)
	}
	_, err = Source("none")
	require.ErrorContains(t, err, `"none"`)
}
