package cuda_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda"
	"pvdrm/frontend/cuda/cudatest"
)

// threeDevices makes a context on each of three devices, the last of which has addresses of its own.
func threeDevices(t *testing.T) (gpus [3]*cudatest.GPU, contexts [3]*cuda.Context) {
	t.Helper()
	var open []cuda.Opener
	for i := range gpus {
		gpus[i] = cudatest.NewGPU(t)
		gpus[i].KernelAdd()
		open = append(open, gpus[i].Opener)
	}
	gpus[2].Params[drm.ParamSystemBase] = 1 << 45
	d, err := cuda.Init(open...)
	require.NoError(t, err)
	for i := range contexts {
		contexts[i] = newOn(t, d, i)
	}
	return gpus, contexts
}

func newOn(t *testing.T, d *cuda.Driver, i int) *cuda.Context {
	t.Helper()
	dev, err := d.Device(i)
	require.NoError(t, err)
	c, err := dev.CreateContext()
	require.NoError(t, err)
	return c
}

// adds has a kernel of a context add to memory.
func adds(t *testing.T, c *cuda.Context, h *cuda.HostMem, v uint32) {
	t.Helper()
	m, err := c.LoadModule("add.ptx", []byte("kernel add"))
	require.NoError(t, err)
	f, err := m.Function("add")
	require.NoError(t, err)
	last := uint64(len(h.Bytes())) - 4
	before, err := h.Word(last)
	require.NoError(t, err)
	cfg := cuda.LaunchConfig{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}
	require.NoError(t, f.Launch(cfg, h.DevicePtr()+cuda.DevicePtr(last), uint32(1), v))
	require.NoError(t, c.Synchronize())
	after, err := h.Word(last)
	require.NoError(t, err)
	require.Equal(t, before+v, after)
}

func TestPinnedMemoryOfSeveralDevices(t *testing.T) {
	_, contexts := threeDevices(t)
	a, b, far := contexts[0], contexts[1], contexts[2]
	small, err := a.MemAllocUnified(100)
	require.NoError(t, err)
	large, err := b.MemAllocManaged(1 << 20)
	require.NoError(t, err)
	adds(t, a, small, 1)
	adds(t, b, small, 2)
	adds(t, a, large, 3)
	adds(t, b, large, 4)
	require.True(t, small.ReachedBy(a) && small.ReachedBy(b) && large.ReachedBy(a))
	require.False(t, small.ReachedBy(far))

	// A context that comes later has it, too, and one that goes takes its own with it.
	later := newOn(t, a.Device().Driver(), 1)
	adds(t, later, small, 5)
	adds(t, later, large, 6)
	require.NoError(t, b.Destroy())
	adds(t, later, small, 7)
	require.NoError(t, small.Free())
	for _, c := range []*cuda.Context{a, far, later} {
		require.NoError(t, c.Destroy())
	}
}

// Memory that another device cannot have is not made at all, unless that device's context is lost.
func TestPinnedMemoryThatAnotherDeviceRefuses(t *testing.T) {
	gpus, contexts := threeDevices(t)
	for _, call := range []string{"PrimeImport", "VMBind"} {
		gpus[1].FailNext(1, call, syscall.ENOMEM)
		_, err := contexts[0].MemAllocUnified(1 << 20)
		require.ErrorIs(t, err, cuda.ErrOutOfMemory, call)
		require.ErrorContains(t, err, "for the device 1, too")
	}
	h, err := contexts[0].MemAllocUnified(1 << 20)
	require.NoError(t, err)
	gpus[1].FailNext(1, "PrimeImport", syscall.ENOMEM)
	dev := contexts[1].Device()
	_, err = dev.CreateContext()
	require.ErrorIs(t, err, cuda.ErrOutOfMemory)
	adds(t, contexts[1], h, 1)

	gpus[1].FailNext(1, "PrimeImport", syscall.ENODEV) // its backend is gone
	other, err := contexts[0].MemAllocUnified(1 << 20)
	require.NoError(t, err)
	require.False(t, other.ReachedBy(contexts[1]))
	require.ErrorIs(t, contexts[1].Synchronize(), cuda.ErrDeviceUnavailable)
	adds(t, contexts[0], other, 2)
	require.NoError(t, other.Free())
	for _, c := range contexts {
		require.NoError(t, c.Destroy())
	}
}
