package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/arbiter"
	"pvdrm/gem/quota"
)

func TestParseAmounts(t *testing.T) {
	a, err := parseAmounts("capacity", []string{"channels=48", "contexts=7", "vram=8G"})
	require.NoError(t, err)
	require.Equal(t, arbiter.Amounts{Channels: 48, Contexts: 7, VRAM: 8 << 30}, a)
	for _, v := range []string{"", "channels", "channels=0", "channels=-1", "channels=99999999999", "modules=3", "vram=1000", "vram=0"} {
		_, err := parseAmounts("capacity", []string{v})
		require.ErrorAs(t, err, new(usageError), v)
		require.ErrorContains(t, err, "--capacity", v)
	}
	require.Equal(t, "channels 12 of 48, vram 1 of 8192 MiB",
		promisedText(arbiter.Amounts{Channels: 12, Contexts: 3, VRAM: 1 << 20}, arbiter.Amounts{Channels: 48, VRAM: 8 << 30}))
}

// What a guest needs are its quotas; memory is rounded up to MiB.
func TestNeeds(t *testing.T) {
	require.Equal(t, arbiter.Amounts{}, needs(quota.Limits{}))
	require.Equal(t, arbiter.Amounts{Channels: 4, VRAM: 2 << 20}, needs(quota.Limits{quota.Channels: 4, quota.VRAM: 1<<20 + 1}))
	limits := quota.Limits{quota.Channels: 4}
	require.Equal(t, limits, promised(limits, nil), "without an arbiter")
}
