package cuda

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/frontend/cuda/cudatest"
)

// A task is one command stream, which begins with TASK.
func TestTask(t *testing.T) {
	g := cudatest.NewGPU(t)
	g.KernelAdd()
	c := newContext(t, g)
	f := mustFunction(t, c, "add")
	h, p := mustHost(t, c, 4096), mustAlloc(t, c, 4096)
	h.Bytes()[0] = 3
	s := mustStream(t, c)
	before := g.Calls["Exec"]
	require.NoError(t, s.Task(func() error {
		return errors.Join(c.MemcpyHtoDAsync(p, h, 0, 4, s), f.Launch(one(s), p, uint32(1), uint32(4)), c.MemcpyDtoHAsync(h, 8, p, 4, s))
	}))
	require.Equal(t, before+1, g.Calls["Exec"])
	require.NoError(t, s.Synchronize())
	require.Equal(t, byte(7), h.Bytes()[8])

	// A second one, and nothing of one that is given up.
	failed := errors.New("no")
	require.ErrorIs(t, s.Task(func() error { return errors.Join(f.Launch(one(s), p, uint32(1), uint32(1)), failed) }), failed)
	require.Equal(t, before+1, g.Calls["Exec"])
	require.NoError(t, s.Task(func() error { return c.MemcpyDtoHAsync(h, 16, p, 4, s) }))
	require.NoError(t, s.Synchronize())
	require.Equal(t, byte(7), h.Bytes()[16])
}

func TestTaskErrors(t *testing.T) {
	g := cudatest.NewGPU(t)
	c := newContext(t, g)
	p := mustAlloc(t, c, 4096)
	s := c.DefaultStream()
	require.ErrorIs(t, s.Task(func() error { return c.MemcpyDtoH(make([]byte, 8), p) }), ErrNotPermitted, "it waits")
	require.ErrorIs(t, s.Task(func() error { return s.Task(func() error { return nil }) }), ErrInvalidHandle)
	require.ErrorIs(t, s.Task(func() error {
		for range drm.MaxExecBytes / 32 {
			if err := c.MemsetD32Async(p, 0, 1, s); err != nil {
				return err
			}
		}
		return nil
	}), ErrInvalidValue)
	require.NoError(t, s.Task(func() error { return nil }))
	require.NoError(t, c.Synchronize())
	require.ErrorIs(t, s.Task(func() error { return c.Destroy() }), ErrContextIsDestroyed)
}
