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

func TestKernelsInClustersAreValid(t *testing.T) {
	used := map[string]bool{}
	words := []string{"reqnctapercluster 2", "reqnctapercluster 4", "mapa.shared::cluster", "ld.shared::cluster", "st.shared::cluster", "red.relaxed.cluster", "atom.acq_rel.cluster",
		"cvta.shared::cluster", "barrier.cluster.arrive.relaxed.aligned", "barrier.cluster.wait.acquire", "%clusterid.x"}
	for seed := range 300 {
		text := InClusters([]byte{byte(seed), byte(seed >> 8)})
		_, err := ptx.Load("random.ptx", []byte(text))
		require.NoError(t, err, "seed %d\n%s", seed, text)
		for _, word := range words {
			used[word] = used[word] || strings.Contains(text, word)
		}
	}
	for _, word := range words {
		require.True(t, used[word], "no kernel has %s", word)
	}
}

func TestHostileKernelsAreValid(t *testing.T) {
	used := map[string]bool{}
	words := []string{"ld.global.v4.b32", "ld.v2", "st.shared", "ld.volatile", "atom.global.cas", "red.", "ld.const", "st.local", "0x100000000000000", "-", "ld.global.u8"}
	for seed := range uint64(300) {
		text := Hostile([]byte{byte(seed), byte(seed >> 8)}, []Page{{Base: 1 << 32, Size: 4096}}, seed%2 == 0)
		_, err := ptx.Load("random.ptx", []byte(text))
		require.NoError(t, err, "seed %d\n%s", seed, text)
		for _, word := range words {
			used[word] = used[word] || strings.Contains(text, word)
		}
	}
	for _, word := range words {
		require.True(t, used[word], "no kernel has %s", word)
	}
}
