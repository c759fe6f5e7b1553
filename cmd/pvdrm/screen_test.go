package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/vmm"
)

func TestScreenFlags(t *testing.T) {
	var cfg vmm.Config
	require.NoError(t, (&screenFlags{display: "vnc=:1", resolution: "1024x768"}).apply(&cfg))
	require.Equal(t, vmm.Config{Display: "vnc=:1", Width: 1024, Height: 768}, cfg)
	for _, wrong := range []screenFlags{
		{resolution: "1024"}, {resolution: "1024x768x2"}, {resolution: "1024x"}, {resolution: "0x0x"}, {resolution: "-1x5"},
		{resolution: "5000x5000"}, {display: "vnc"}, {display: "x"},
	} {
		require.ErrorAs(t, wrong.apply(&vmm.Config{}), new(usageError), "%+v", wrong)
	}
}
