package random

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/tests/ptx/internal/fixture"
)

func TestKernelsAreValid(t *testing.T) {
	used := map[string]bool{}
	for seed := range uint64(300) {
		text := Kernel(seed)
		require.Equal(t, text, Kernel(seed), "seed %d", seed)
		_, err := fixture.Parse("random", []byte(text))
		require.NoError(t, err)
		_, err = ptx.Load("random.ptx", []byte(text))
		require.NoError(t, err, "seed %d", seed)
		for _, word := range []string{"brx.idx", "call (", "shfl.sync", "bar.sync", "redux.sync", "ld.local", "fma.rn.f64", "bra L"} {
			used[word] = used[word] || strings.Contains(text, word)
		}
	}
	for word, seen := range used {
		require.True(t, seen, "no kernel has %s", word)
	}
}
