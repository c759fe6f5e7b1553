package file

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gem/quota"
)

// What an object costs is charged before the device allocates it, and given back when the device
// cannot, when the object is closed, and when the file is.
func TestObjectsAreCharged(t *testing.T) {
	r := newRig(t, quota.Limits{quota.VRAM: 8192, quota.Granted: 8192, quota.Objects: 3, quota.Runs: 2})
	require.ErrorIs(t, r.NewVRAM(1, 12288), syscall.ENOMEM)
	require.Empty(t, r.dev.Calls(), "the device was not asked")
	mended := r.failing("NewVRAM")
	require.ErrorIs(t, r.NewVRAM(1, 8192), errDevice)
	mended()
	r.nothingBut()

	released := 0
	require.ErrorIs(t, r.NewSystem(1, pages(1, 3, &released)), syscall.ENOMEM)
	require.Empty(t, r.dev.Calls())
	mended = r.failing("NewSystem")
	require.ErrorIs(t, r.NewSystem(1, pages(1, 1, &released)), errDevice)
	mended()
	r.nothingBut()
	require.Zero(t, released, "the caller keeps pages of which no object was made")

	require.NoError(t, r.NewVRAM(1, 8192))
	require.NoError(t, r.NewSystem(2, pages(1, 2, &released)))
	require.EqualValues(t, 8192, r.guest.Used(quota.VRAM))
	require.EqualValues(t, 8192, r.guest.Used(quota.Granted))
	require.EqualValues(t, 2, r.guest.Used(quota.Runs))
	require.EqualValues(t, 2, r.guest.Used(quota.Objects))
	require.NoError(t, r.CloseObject(1))
	require.NoError(t, r.CloseObject(2))
	require.Equal(t, 1, released)
	r.nothingBut()

	require.NoError(t, r.NewVRAM(1, 4096))
	require.NoError(t, r.NewSystem(2, pages(1, 1, &released)))
	r.closed()
	require.Equal(t, 2, released)
}

func TestObjectHandles(t *testing.T) {
	r := newRig(t, quota.Limits{})
	require.ErrorIs(t, r.NewVRAM(0, 4096), syscall.EINVAL)
	require.NoError(t, r.NewVRAM(7, 4096))
	require.ErrorIs(t, r.NewVRAM(7, 4096), syscall.EEXIST)
	require.ErrorIs(t, r.ObjectVacant(7), syscall.EEXIST)
	require.NoError(t, r.NewVRAM(1<<32-1, 4096))
	require.ErrorIs(t, r.CloseObject(8), syscall.ENOENT)
	require.ErrorIs(t, r.UnmapObject(8), syscall.ENOENT)
	require.ErrorIs(t, r.UnmapObject(7), syscall.EINVAL, "VRAM")
	require.EqualValues(t, 8192, r.guest.Used(quota.VRAM))
	require.NoError(t, r.CloseObject(7))
	require.ErrorIs(t, r.CloseObject(7), syscall.ENOENT)
	r.closed()
}

// An object in a grant that is charged elsewhere costs no granted bytes; it refunds them before its
// pages are released, and after the device is done with them.
func TestPayer(t *testing.T) {
	r := newRig(t, quota.Limits{quota.Granted: 1, quota.Runs: 1})
	p := &payer{left: 4096}
	pay := func() Pages {
		own := pages(1, 1, new(int))
		own.Payer = p
		own.Release = func() { p.events = append(p.events, "release") }
		return own
	}
	require.NoError(t, r.NewSystem(1, pay()))
	require.ErrorIs(t, r.NewSystem(2, pay()), syscall.ENOMEM, "runs are the file's")
	require.NoError(t, r.CloseObject(1))
	require.Equal(t, []string{"pay", "refund", "release"}, p.events)
	p.left = 0
	require.ErrorIs(t, r.NewSystem(1, pay()), syscall.EDQUOT)
	r.nothingBut()
	p.left, p.events = 4096, nil
	require.NoError(t, r.NewSystem(1, pay()))
	r.closed()
	require.Equal(t, []string{"pay", "refund", "release"}, p.events)
}

// A grant that is taken back takes its objects with it, and no others.
func TestRevoke(t *testing.T) {
	r := newRig(t, quota.Limits{})
	released := map[uint32]*int{1: new(int), 2: new(int)}
	for handle, source := range map[uint32]uint32{1: 1, 2: 2, 3: 1} {
		require.NoError(t, r.NewSystem(handle, pages(source, 1, released[source])))
	}
	require.NoError(t, r.NewVRAM(4, 4096), "its source is none")
	closed, err := r.Revoke(1)
	require.NoError(t, err)
	require.ElementsMatch(t, []uint32{1, 3}, closed)
	require.Equal(t, 2, *released[1])
	require.Zero(t, *released[2])
	closed, err = r.Revoke(0)
	require.NoError(t, err)
	require.Empty(t, closed)
	require.ErrorIs(t, r.CloseObject(1), syscall.ENOENT)
	require.NoError(t, r.CloseObject(2))
	r.closed()
}

// Dropping the mappings of an object keeps its pages: the device gets a new memory object before it
// loses the old one.
func TestUnmapObject(t *testing.T) {
	r := newRig(t, quota.Limits{})
	released := 0
	require.NoError(t, r.NewSystem(1, pages(1, 2, &released)))
	r.dev.Calls()
	require.NoError(t, r.UnmapObject(1))
	require.Equal(t, []string{"NewSystem 8192", "Memory.Close 8192"}, r.dev.Calls())
	mended := r.failing("NewSystem")
	require.ErrorIs(t, r.UnmapObject(1), errDevice)
	mended()
	require.Empty(t, r.dev.Calls(), "it keeps the mappings")
	require.Zero(t, released)
	r.closed()
}

func TestBind(t *testing.T) {
	r := newRig(t, quota.Limits{})
	require.NoError(t, r.NewVRAM(1, 8192))
	r.dev.Calls()
	done, err := r.Bind([]drm.BindOp{
		{Op: drm.BindMap, Handle: 1, Addr: 0x10000, BOOffset: 4096, Range: 4096},
		{Op: drm.BindMap, Handle: 1, Addr: 0x20000, Range: 8192, Flags: drm.BindReadOnly},
		{Op: drm.BindUnmap, Addr: 0x10000, Range: 4096},
	})
	require.NoError(t, err)
	require.Equal(t, 3, done)
	require.Equal(t, []string{"Map 10000 4096+4096 of 8192, rights 3", "Map 20000 0+8192 of 8192, rights 1", "Unmap 10000 4096"}, r.dev.Calls())

	good := drm.BindOp{Op: drm.BindUnmap, Addr: 0x20000, Range: 4096}
	for name, c := range map[string]struct {
		op   drm.BindOp
		want error
	}{
		"operation":         {op: drm.BindOp{Op: 3}, want: syscall.EINVAL},
		"no operation":      {op: drm.BindOp{}, want: syscall.EINVAL},
		"flags of map":      {op: drm.BindOp{Op: drm.BindMap, Handle: 1, Flags: 2}, want: syscall.EINVAL},
		"object":            {op: drm.BindOp{Op: drm.BindMap, Handle: 2}, want: syscall.ENOENT},
		"flags of unmap":    {op: drm.BindOp{Op: drm.BindUnmap, Flags: drm.BindReadOnly}, want: syscall.EINVAL},
		"object of unmap":   {op: drm.BindOp{Op: drm.BindUnmap, Handle: 1}, want: syscall.EINVAL},
		"offset of unmap":   {op: drm.BindOp{Op: drm.BindUnmap, BOOffset: 4096}, want: syscall.EINVAL},
		"handle at the end": {op: drm.BindOp{Op: drm.BindMap, Handle: 1<<32 - 1}, want: syscall.ENOENT},
	} {
		done, err := r.Bind([]drm.BindOp{good, c.op, good})
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, 1, done, name)
		require.Equal(t, []string{"Unmap 20000 4096"}, r.dev.Calls(), "%s: it ends the list", name)
	}
	for _, call := range []string{"Map", "Unmap"} {
		mended := r.failing(call)
		op := drm.BindOp{Op: map[string]uint32{"Map": drm.BindMap, "Unmap": drm.BindUnmap}[call]}
		if call == "Map" {
			op.Handle = 1
		}
		_, err = r.Bind([]drm.BindOp{op})
		require.ErrorIs(t, err, errDevice)
		mended()
	}
	r.closed()
}

// The frontend's choice of handles is bounded by the table, whatever the quotas are.
func TestObjectTableIsBounded(t *testing.T) {
	r := newRig(t, quota.Limits{})
	for h := uint32(1); h <= drm.MaxObjects; h++ {
		require.NoError(t, r.NewVRAM(h, 4096))
	}
	require.ErrorIs(t, r.NewVRAM(drm.MaxObjects+1, 4096), syscall.ENOSPC)
	_, err := r.NextObject()
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, r.CloseObject(5))
	next, err := r.NextObject()
	require.NoError(t, err)
	require.EqualValues(t, 5, next)
	r.closed()
}
