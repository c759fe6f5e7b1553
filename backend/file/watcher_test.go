package file

import (
	"context"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
)

// A file that only looks has no context on the device, tells what is in use, and counts as a file.
func TestWatcher(t *testing.T) {
	r := newRig(t, quota.Limits{quota.Contexts: 2})
	r.dev.VRAMBytes, r.dev.Occupied = 100<<20, 10<<20
	w, err := OpenWatcher(r.dev, r.guest, "watcher", r)
	require.NoError(t, err)
	_, err = OpenWatcher(r.dev, r.guest, "one too many", r)
	require.ErrorIs(t, err, syscall.EBUSY)
	require.ErrorIs(t, w.NewVRAM(1, 4096), syscall.EOPNOTSUPP)
	_, err = w.Bind([]drm.BindOp{{Op: drm.BindUnmap, Addr: 4096, Range: 4096}})
	require.ErrorIs(t, err, syscall.EOPNOTSUPP)
	_, err = w.Ask(drm.AskFree, 0, nil)
	require.ErrorIs(t, err, syscall.EOPNOTSUPP)
	require.EqualValues(t, 20<<20, w.Used())
	require.Zero(t, w.Held())
	_, _, known := w.Busy()
	require.False(t, known)
	require.Empty(t, r.dev.Calls(), "the device was asked for nothing")
	require.NoError(t, w.Close())
	w, err = OpenWatcher(r.dev, r.guest, "another", r)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, r.Close())
}

// What needs a context fails, and after Close in another way.
func TestNoContext(t *testing.T) {
	c := new(noContext)
	for _, want := range []error{syscall.EOPNOTSUPP, gpu.ErrClosed} {
		_, err := c.NewChannel()
		require.ErrorIs(t, err, want)
		_, err = c.NewSystem(nil)
		require.ErrorIs(t, err, want)
		_, err = c.LoadModule(context.Background(), "", nil, nil)
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, c.Map(0, nil, 0, 0, 0), want)
		require.NoError(t, c.Close())
	}
}
