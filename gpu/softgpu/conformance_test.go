package softgpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/gputest"
	"pvdrm/gpu/softgpu"
)

func TestConformance(t *testing.T) {
	gputest.Run(t, func(t *testing.T) gpu.Device {
		d, err := softgpu.New(softgpu.Config{VRAMBytes: 64 << 20, LaunchLimit: -1})
		require.NoError(t, err)
		return d
	})
}
