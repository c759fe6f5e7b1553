package division

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	got, err := parse("sobel:2048")
	require.NoError(t, err)
	require.Equal(t, task{"sobel", 2048}, got)
	for _, name := range []string{"", "sobel", "sobel:", "sobel:0", "sobel:-16", "sobel:17", "product:16400", "binomial:0", "binomial:100000000", "block:0", "block:2000000000", "sort:16"} {
		_, err := parse(name)
		require.ErrorIs(t, err, ErrTask, name)
	}
}

// A wrong result is found.
func TestVerify(t *testing.T) {
	for _, name := range []string{"product:16", "sobel:32", "binomial:100", "block:5"} {
		k, err := parse(name)
		require.NoError(t, err)
		size, _ := k.shape()
		require.Error(t, k.verify(make([]byte, 4*size), size), name)
	}
}
