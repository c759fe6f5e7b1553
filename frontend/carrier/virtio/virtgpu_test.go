package virtio

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"pvdrm/frontend/carrier"
	"pvdrm/hypercall"
)

// A real render node is tested in a virtual machine (tests). Here are the ways in which there is none.

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(open)
}

// Nodes of another kind are refused, and leave no descriptor.
func TestOpenWrongNodes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "renderD128")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	before := descriptors(t)
	for path, want := range map[string]error{
		filepath.Join(t.TempDir(), "none"): unix.ENOENT,
		"/dev/null":                        unix.ENOTTY,
		file:                               unix.ENOTTY,
		t.TempDir():                        unix.EISDIR,
	} {
		_, err := Open(path)
		require.ErrorIs(t, err, want, path)
		require.ErrorContains(t, err, path)
	}
	require.Equal(t, before, descriptors(t))
}

// A backend that is gone shows as failing ioctls. They count as doorbells, and make nothing.
func TestNodeThatFails(t *testing.T) {
	node, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	stop, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	require.NoError(t, err)
	c := &Carrier{fd: node, stop: stop, path: "/dev/null"}
	before := descriptors(t)
	calls := map[string]func() error{
		"alloc":  func() error { _, err := c.Alloc(4096); return err },
		"import": func() error { _, err := c.Import(node); return err },
		"attach": func() error { return c.Attach(nil, hypercall.Doorbell{Op: hypercall.DoorbellAttach}) },
		"kick":   c.Kick,
		"settle": c.Settle,
		"sleep":  func() error { return c.Sleep(-1) },
	}
	for name, call := range calls {
		require.ErrorIs(t, call(), unix.ENOTTY, name)
	}
	require.EqualValues(t, len(calls), c.Doorbells())
	_, err = c.Export(&carrier.Pages{Handle: 1})
	require.ErrorIs(t, err, unix.ENOTTY)
	require.Equal(t, before, descriptors(t))
	require.True(t, c.SleepExits())
	require.Equal(t, "virtgpu /dev/null", c.Name())
	require.NoError(t, c.Close())
	require.Equal(t, before-2, descriptors(t))
}

func TestSizesOfGrants(t *testing.T) {
	c := &Carrier{fd: -1}
	for _, size := range []uint64{0, 1, 4095, 4097, 1<<31 + 4096, 1 << 62} {
		_, err := c.Alloc(size)
		require.ErrorIs(t, err, unix.EINVAL, "%d", size)
	}
	require.Zero(t, c.Doorbells(), "nothing has left the guest")
}

func TestFindTellsWhatThereIs(t *testing.T) {
	path, err := Find()
	if err == nil { // this is a guest
		require.FileExists(t, path)
		return
	}
	require.ErrorIs(t, err, unix.ENODEV)
	require.ErrorContains(t, err, "render node")
}
