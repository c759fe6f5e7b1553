package cuda_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/cudatest"
)

// Devices with overlapping windows share one space: no address is of two, and each device has
// addresses of its own window only.
func TestAddressesOfSeveralDevices(t *testing.T) {
	small, large, other := cudatest.NewGPU(t), cudatest.NewGPU(t), cudatest.NewGPU(t)
	const page = 2 << 20
	small.Params[drm.ParamVRAMSize] = 4 * page
	other.Params[drm.ParamVRAMBase] = 1 << 45
	d, err := cuda.Init(small.Opener, large.Opener, other.Opener)
	require.NoError(t, err)
	require.Equal(t, 3, d.DeviceCount())
	seen := map[cuda.DevicePtr]bool{}
	var contexts []*cuda.Context
	for i := range 3 {
		dev, err := d.Device(i)
		require.NoError(t, err)
		require.Equal(t, i, dev.Ordinal())
		c, err := dev.CreateContext()
		require.NoError(t, err)
		contexts = append(contexts, c)
	}
	for _, n := range []uint64{page, page, page, page, page} { // the fifth does not fit into the first one's window
		for i, c := range contexts {
			p, err := c.MemAlloc(n)
			if i == 0 && len(seen) >= 4 {
				require.ErrorIs(t, err, cuda.ErrOutOfMemory)
				continue
			}
			require.NoError(t, err)
			require.False(t, seen[p], "0x%x twice", uint64(p))
			seen[p] = true
			require.Equal(t, i == 2, p >= 1<<45)
			require.True(t, i != 0 || uint64(p)+n <= 1<<40+4*page)
		}
	}
	for _, c := range contexts {
		require.NoError(t, c.Destroy())
	}
}

func TestInitWithoutDevices(t *testing.T) {
	_, err := cuda.Init()
	require.ErrorIs(t, err, cuda.ErrNoDevice)

	// One that cannot be opened is the failure of all, and leaves no file open.
	good, bad := cudatest.NewGPU(t), cudatest.NewGPU(t)
	bad.Name = "other"
	_, err = cuda.Init(good.Opener, bad.Opener)
	require.ErrorIs(t, err, cuda.ErrDriverMismatch)
	bad.Name, bad.Params[drm.ParamVRAMPage] = good.Name, 3
	_, err = cuda.Init(good.Opener, bad.Opener)
	require.ErrorContains(t, err, "window of addresses that cannot be")
}

// Show closes the files of devices that are hidden.
func TestShow(t *testing.T) {
	first, second := cudatest.NewGPU(t), cudatest.NewGPU(t)
	second.Params[drm.ParamMultiprocs] = 7
	d, err := cuda.Init(first.Opener, second.Opener)
	require.NoError(t, err)
	require.Equal(t, 1, first.Open)
	require.NoError(t, d.Show([]int{1}))
	require.Zero(t, first.Open)
	dev, err := d.Device(0)
	require.NoError(t, err)
	n, err := dev.Attribute(cuda.AttributeMultiprocessorCount)
	require.NoError(t, err)
	require.Equal(t, []int{7, 0, 1}, []int{n, dev.Ordinal(), dev.Bus()})
	require.NoError(t, d.Close())
}
