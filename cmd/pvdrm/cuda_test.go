package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A guest of an NVIDIA GPU has the less of --vram and its quota, in whole pages of the driver.
func TestVRAMOfCUDA(t *testing.T) {
	for _, test := range []struct {
		name       string
		vram, want uint64
		quotas     []string
	}{
		{name: "all of the GPU"},
		{name: "--vram alone", vram: 4 << 30, want: 4 << 30},
		{name: "another quota", vram: 4 << 30, want: 4 << 30, quotas: []string{"channels=16"}},
		{name: "a quota alone", want: 3 << 30, quotas: []string{"vram=3G"}},
		{name: "a larger quota", vram: 2 << 30, want: 2 << 30, quotas: []string{"vram=3G"}},
		{name: "a smaller quota", vram: 4 << 30, want: 3 << 30, quotas: []string{"vram=3G"}},
		{name: "half a page more", want: 4 << 20, quotas: []string{"vram=5M"}},
		{name: "less than a page", want: 2 << 20, quotas: []string{"vram=1K"}},
	} {
		got, err := cudaVRAM(&deviceFlags{quotas: test.quotas}, test.vram)
		require.NoError(t, err, test.name)
		require.Equal(t, test.want, got, test.name)
	}
	_, err := cudaVRAM(&deviceFlags{quotas: []string{"vram=lots"}}, 0)
	require.Error(t, err)
}
