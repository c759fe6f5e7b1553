package cuda_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/cuda"
	"pvdrm/gpu/gputest"
)

// TestConformance runs the suite of all devices on the first NVIDIA GPU. It has
// endless kernels that use pages which are taken away: the driver waits for them,
// so that they end by the limit.
func TestConformance(t *testing.T) {
	if _, err := cuda.Probe(); err != nil {
		t.Skipf("needs an NVIDIA GPU: %v", err)
	}
	gputest.Run(t, func(t *testing.T) gpu.Device {
		d, err := cuda.New(cuda.Config{VRAMBytes: 256 << 20, LaunchLimit: 3 * time.Second, Keeper: keeperCommand(realWorker)})
		require.NoError(t, err)
		return d
	})
}
