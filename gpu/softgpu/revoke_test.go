package softgpu_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/gputest"
	"pvdrm/gpu/softgpu"
)

// TestRevokedWithSaves runs the group of the suite where the device saves what launches change; one
// whose bound is too small for a memory of the suite saves nothing of it.
func TestRevokedWithSaves(t *testing.T) {
	for _, bytes := range []int64{16 << 20, 4096} {
		gputest.Run(t, func(t *testing.T) gpu.Device {
			d, err := softgpu.New(softgpu.Config{VRAMBytes: 64 << 20, LaunchLimit: -1, SaveBytes: bytes})
			require.NoError(t, err)
			return d
		}, "revoke", "preempt", "launch")
	}
}
