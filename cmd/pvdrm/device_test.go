package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]uint64{"1": 1, "4096": 4096, "1K": 1 << 10, "512M": 512 << 20, "4G": 4 << 30, "65536G": 1 << 46} {
		got, err := parseBytes(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "0", "G", "-1", "1T", "1g", "1.5G", "65537G", "99999999999999999999", "1 G"} {
		_, err := parseBytes(in)
		require.Error(t, err, in)
	}
}

// The flags that one pvdrm passes to another mean the same there.
func TestDeviceFlagsPassOn(t *testing.T) {
	c := newBackend(&global{})
	require.NoError(t, c.ParseFlags((&deviceFlags{device: "softgpu", vram: "64M", sms: 3}).args()))
	for name, value := range map[string]string{"device": "softgpu", "vram": "64M", "sms": "3"} {
		require.Equal(t, value, c.Flags().Lookup(name).Value.String())
	}
}
