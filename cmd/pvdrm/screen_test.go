package main

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/vmm"
)

func TestScreenFlags(t *testing.T) {
	var cfg vmm.Config
	require.NoError(t, (&screenFlags{display: "sdl", resolution: "1024x768"}).apply(t.Context(), &cfg))
	require.Equal(t, vmm.Config{Display: "sdl", Width: 1024, Height: 768, Input: true}, cfg)

	f := screenFlags{display: "vnc=unix:" + filepath.Join(t.TempDir(), "socket")}
	cfg = vmm.Config{}
	require.NoError(t, f.apply(t.Context(), &cfg))
	require.Equal(t, vmm.Config{}, cfg, "QEMU has nothing to do with it")
	require.NoError(t, f.viewers.Close())
	f = screenFlags{display: "vnc=unix:" + filepath.Join(t.TempDir(), "socket") + ",input=on"}
	require.NoError(t, f.apply(t.Context(), &cfg))
	require.Equal(t, vmm.Config{Input: true}, cfg)
	require.NoError(t, f.viewers.Close())
	cfg = vmm.Config{}
	require.NoError(t, (&screenFlags{}).apply(t.Context(), &cfg))
	require.Equal(t, vmm.Config{}, cfg)

	for _, wrong := range []screenFlags{
		{resolution: "1024"}, {resolution: "1024x768x2"}, {resolution: "1024x"}, {resolution: "0x0x"}, {resolution: "-1x5"},
		{resolution: "5000x5000"}, {display: "vnc"}, {display: "vnc="}, {display: "vnc=:x"}, {display: "vnc=:60000"}, {display: "vnc=:1,input=yes"}, {display: "x"},
	} {
		require.ErrorAs(t, wrong.apply(t.Context(), &vmm.Config{}), new(usageError), "%+v", wrong)
	}
}

func TestVNCAddress(t *testing.T) {
	for place, want := range map[string]string{
		":1": "tcp 127.0.0.1:5901 false", "[::]:0": "tcp [::]:5900 false", "host:100": "tcp host:6000 false", "unix:/a:b,c": "unix /a:b,c false",
		":1,input=on": "tcp 127.0.0.1:5901 true", "unix:/a,b,input=on": "unix /a,b true",
	} {
		network, address, input, err := vncAddress(place)
		require.NoError(t, err)
		require.Equal(t, want, fmt.Sprint(network, " ", address, " ", input))
	}
}
