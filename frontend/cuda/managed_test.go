package cuda

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda/cudatest"
)

func TestManagedMemory(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	h, err := c.MemAllocManaged(5000)
	require.NoError(t, err)
	require.True(t, h.Managed())
	require.Len(t, h.Bytes(), 5000)
	require.False(t, mustHost(t, c, 100).Managed())

	other, err := c.MemAllocManaged(1)
	require.NoError(t, err)
	unified, err := c.MemAllocUnified(100_000)
	require.NoError(t, err)
	require.False(t, unified.Managed())
	require.NoError(t, unified.Free())

	// The device reads and writes the same bytes.
	require.NoError(t, c.MemsetD8(h.DevicePtr(), 7, 5000))
	require.NoError(t, c.Synchronize())
	require.EqualValues(t, 7, h.Bytes()[4999])
	require.NoError(t, h.Free())
	isResult(t, ErrInvalidValue, h.Free())
	isResult(t, ErrInvalidValue, c.MemFree(other.DevicePtr()))
	_, err = c.MemAllocManaged(0)
	isResult(t, ErrInvalidValue, err)
	_, err = c.MemAllocManaged(1 << 60)
	isResult(t, ErrOutOfMemory, err)
}

// Where something lies in the program already, other addresses are taken, and what
// was skipped is free for memory that need not be at the same place.
func TestManagedMemoryWhereThereIsRoom(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	base := c.memory.system.window.base
	g.Taken = func(addr, _ uint64) bool { return addr < base+(64<<20) }
	h, err := c.MemAllocManaged(1 << 20)
	require.NoError(t, err)
	require.GreaterOrEqual(t, uint64(h.DevicePtr()), base+(64<<20))
	pinned := mustHost(t, c, 1<<20)
	require.Less(t, uint64(pinned.DevicePtr()), base+(64<<20))

	g.Taken = func(uint64, uint64) bool { return true }
	_, err = c.MemAllocManaged(1 << 20)
	isResult(t, ErrOutOfMemory, err)
	require.NoError(t, h.Free())
	require.NoError(t, pinned.Free())
}

// A driver without GemMapAt has no managed memory.
func TestManagedMemoryIsNotSupported(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	var m memory
	require.NoError(t, m.setUp(c.dev, struct{ drm.File }{c.file}, c.memory.vram.window, c.memory.system.window))
	require.Nil(t, m.unified)
	c.memory.unified = m.unified
	_, err := c.MemAllocManaged(4096)
	isResult(t, ErrNotSupported, err)
}
