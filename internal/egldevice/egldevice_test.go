package egldevice_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/internal/egldevice"
)

func TestParse(t *testing.T) {
	for name, want := range map[string]egldevice.Device{
		"cuda": {Kind: egldevice.CUDA}, "cuda:3": {Kind: egldevice.CUDA, Number: 3}, "egl:0": {Kind: egldevice.EGL},
		"egl:255": {Kind: egldevice.EGL, Number: 255},
	} {
		d, ok, err := egldevice.Parse(name)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, want, d)
	}
	for _, name := range []string{"egl", "egl:", "cuda:", "cuda:-1", "cuda:256", "egl:1x", "egl:0:1"} {
		_, _, err := egldevice.Parse(name)
		require.ErrorContains(t, err, "names no device", name)
	}
	for _, name := range []string{"", "/dev/dri/renderD128", "cud", "eglx:0"} {
		_, ok, err := egldevice.Parse(name)
		require.NoError(t, err)
		require.False(t, ok, name)
	}
}

// Mesa's EGL lists the processors as a device.
func TestDisplay(t *testing.T) {
	display, _, err := egldevice.Device{Kind: egldevice.EGL}.Display()
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("`make deps PVDRM_DEPS=test` installs Mesa's EGL:", err)
	}
	require.NoError(t, err)
	require.NotZero(t, display)
	for _, missing := range []egldevice.Device{{Kind: egldevice.EGL, Number: 200}, {Kind: egldevice.CUDA, Number: 200}} {
		_, _, err = missing.Display()
		require.ErrorContains(t, err, "EGL lists no "+missing.String()+", but ")
	}
}
