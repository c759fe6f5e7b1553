package frameworks

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each group that a program lists is a function of it.
func TestGroups(t *testing.T) {
	for _, framework := range append(slices.Clone(Names), Programs) {
		names, err := Groups(framework)
		require.NoError(t, err)
		require.Greater(t, len(names), 4, framework)
		text, err := scripts.ReadFile(Program(framework))
		require.NoError(t, err)
		for _, name := range names {
			require.Contains(t, string(text), "\ndef "+name+"(", framework)
		}
		require.Equal(t, strings.Count(string(text), "\n@group\n") > 0, framework == "torch")
	}
	_, err := Groups("theano")
	require.ErrorContains(t, err, "theano")
}

func TestChoose(t *testing.T) {
	chosen, err := Choose([]string{"jax", "cupy"}, []string{"matmul", "raw", "training"})
	require.NoError(t, err)
	require.Equal(t, map[string][]string{"jax": {"matmul", "training"}, "cupy": {"matmul", "raw"}}, chosen)
	chosen, err = Choose([]string{"jax"}, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"elementwise", "matmul", "sorting", "random", "training"}, chosen["jax"])
	_, err = Choose([]string{"jax", "cupy"}, []string{"matmul", "conv"})
	require.ErrorContains(t, err, `there is no group "conv": jax has elementwise, matmul`)
	require.ErrorContains(t, err, "; cupy has elementwise, sorting, raw")
	_, err = Choose([]string{"jax", "cupy"}, []string{"raw"})
	require.ErrorContains(t, err, "jax has none of the groups raw")
}
