package gem

import (
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
)

// pages stand for granted memory.
type pages struct{}

// add enters an object with pages of its own.
func add(t *testing.T, all *Objects[pages], size uint64) (uint32, *Object[pages]) {
	t.Helper()
	o := &Object[pages]{Domain: drm.DomainSystem, Size: size, Pages: &pages{}}
	h, err := all.Add(o)
	require.NoError(t, err)
	return h, o
}

// retire closes an object and keeps it if it may.
func retire(t *testing.T, all *Objects[pages], h uint32, now time.Time) (kept bool) {
	t.Helper()
	o, keep, err := all.Retire(h, true)
	require.NoError(t, err)
	if keep {
		all.Keep(o, now)
	}
	return keep
}

// A closed object is not to be found, and the smallest that fits comes back under its handle.
func TestPoolReuses(t *testing.T) {
	all := NewObjects[pages]()
	now := time.Now()
	large, _ := add(t, all, 1<<20)
	small, o := add(t, all, 900<<10)
	for _, h := range []uint32{large, small} {
		require.True(t, retire(t, all, h, now))
		_, err := all.Get(h)
		require.ErrorIs(t, err, syscall.ENOENT)
		_, _, err = all.Retire(h, true)
		require.ErrorIs(t, err, syscall.ENOENT, "it is closed already")
	}
	_, _, ok := all.Reuse(4096)
	require.False(t, ok, "a large one is not wasted on a small one")
	_, _, ok = all.Reuse(1<<20 + 1)
	require.False(t, ok)
	h, again, ok := all.Reuse(800 << 10)
	require.True(t, ok)
	require.Equal(t, small, h)
	require.Same(t, o, again)
	_, err := all.Get(small)
	require.NoError(t, err)
	h, _, ok = all.Reuse(800 << 10)
	require.True(t, ok)
	require.Equal(t, large, h)
	require.Equal(t, PoolCounters{Made: 2, Reused: 2}, all.Pool())
}

// An object that is retired but not kept yet cannot be had: its mappings are still there.
func TestPoolWaitsForKeep(t *testing.T) {
	all := NewObjects[pages]()
	h, _ := add(t, all, 4096)
	o, keep, err := all.Retire(h, true)
	require.NoError(t, err)
	require.True(t, keep)
	_, _, ok := all.Reuse(4096)
	require.False(t, ok)
	require.Empty(t, all.Drop(time.Now()))
	all.Keep(o, time.Now())
	_, _, ok = all.Reuse(4096)
	require.True(t, ok)
}

func TestPoolLeavesOut(t *testing.T) {
	all := NewObjects[pages]()
	require.False(t, all.Place(&Object[pages]{Size: 1}), "there is no slab")
	slab := &pages{}
	require.NoError(t, all.UseSlab(slab, 1<<20, 8192))
	inSlab := &Object[pages]{Size: 8192}
	require.True(t, all.Place(inSlab))
	require.Same(t, slab, inSlab.Pages)
	require.EqualValues(t, 1<<20, inSlab.Offset)
	require.False(t, all.Place(&Object[pages]{Size: 1}), "it is full")
	placed, err := all.Add(inSlab)
	require.NoError(t, err)
	vram, err := all.Add(&Object[pages]{Domain: drm.DomainVRAM, Size: 4096})
	require.NoError(t, err)
	shared, _ := add(t, all, 4096)
	imported, o := add(t, all, 4096)
	o.Imported()
	huge, _ := add(t, all, PoolBytes+1)

	_, err = all.Share(shared)
	require.NoError(t, err)
	for _, h := range []uint32{placed, vram} {
		_, err := all.Share(h)
		require.ErrorIs(t, err, syscall.EOPNOTSUPP)
	}
	for _, h := range []uint32{placed, vram, shared, imported, huge} {
		require.False(t, retire(t, all, h, time.Now()), "%d", h)
		require.NoError(t, all.Take(h))
	}
	off, _ := add(t, all, 4096)
	_, keep, err := all.Retire(off, false)
	require.NoError(t, err)
	require.False(t, keep, "the pool is off")
	require.NoError(t, all.Unplace(inSlab))
	require.True(t, all.Place(&Object[pages]{Size: 1}))
	require.Equal(t, PoolCounters{Slab: 2}, all.Pool())
}

// What is kept is bounded in size and time.
func TestPoolBounds(t *testing.T) {
	all := NewObjects[pages]()
	start := time.Now()
	var kept int
	for i := range 6 {
		h, _ := add(t, all, PoolBytes/4)
		if retire(t, all, h, start.Add(time.Duration(i)*time.Second)) {
			kept++
		}
	}
	require.Equal(t, 4, kept)
	require.EqualValues(t, PoolBytes, all.Pool().Kept)
	old := all.Drop(start.Add(time.Second))
	require.Len(t, old, 2)
	require.EqualValues(t, PoolBytes/2, all.Pool().Kept)
	for h, o := range old {
		_, err := all.Get(h)
		require.ErrorIs(t, err, syscall.ENOENT, "it is closed until it is gone")
		require.NotNil(t, o.Pages)
		require.NoError(t, all.Take(h))
	}
	require.Len(t, all.Drop(start.Add(time.Hour)), 2)
	require.Zero(t, all.Pool().Kept)
	n := 0
	for range all.All {
		n++
	}
	require.Equal(t, 4, n, "two that were never kept, and two that were dropped and not taken")
}
