package file

import (
	"bytes"
	"context"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/drm"
	"pvdrm/gem/quota"
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu"
)

// sharing is a guest with two files on one device.
type sharing struct {
	testing.TB
	dev   gpu.Device
	guest *Guest
	a, b  *File
}

func newSharing(t *testing.T) *sharing {
	dev, err := softgpu.New(softgpu.Config{VRAMBytes: 16 << 20})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dev.Close()) })
	s := &sharing{TB: t, dev: dev, guest: &Guest{}}
	s.a, s.b = s.open(s.guest), s.open(s.guest)
	return s
}

func (s *sharing) open(g *Guest) *File {
	f, err := Open(s.dev, g, "a", &life{})
	require.NoError(s, err)
	return f
}

// left checks what the guest has and what the device's objects take.
func (s *sharing) left(vram, objects uint64) {
	s.Helper()
	require.Equal(s, vram, s.guest.Used(quota.VRAM), "bytes of VRAM")
	require.Equal(s, objects, s.guest.Used(quota.Objects), "objects")
}

// over checks that nothing is left after all files are closed.
func (s *sharing) over(files ...*File) {
	s.Helper()
	for _, f := range files {
		require.NoError(s, f.Close())
	}
	for r := range quota.Resources {
		require.Zero(s, s.guest.Used(r), r.String())
	}
	require.Empty(s, s.guest.shares.memory)
	require.Empty(s, s.guest.shares.events)
}

const page = 4096

// What files share is charged once, as long as one of them has it, whichever that is.
func TestSharedMemoryIsChargedOnce(t *testing.T) {
	for name, ends := range map[string]func(s *sharing){
		"the first closes it": func(s *sharing) {
			require.NoError(s, s.a.CloseObject(1))
			s.left(page, 2)
			require.NoError(s, s.b.CloseObject(7))
		},
		"the first file ends": func(s *sharing) {
			require.NoError(s, s.a.Close())
			s.left(page, 2)
			require.NoError(s, s.b.CloseObject(7))
		},
		"the other file ends": func(s *sharing) {
			require.NoError(s, s.b.Close())
			s.left(page, 2)
			require.NoError(s, s.a.CloseObject(1))
		},
		"both files end": func(s *sharing) {
			require.NoError(s, s.a.Close())
			require.NoError(s, s.b.Close())
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSharing(t)
			before := s.dev.VRAMUsed()
			require.NoError(t, s.a.NewVRAM(1, page))
			key, err := s.a.ShareObject(1)
			require.NoError(t, err)
			again, err := s.a.ShareObject(1)
			require.NoError(t, err)
			require.Equal(t, key, again)
			size, err := s.b.OpenObject(7, key)
			require.NoError(t, err)
			require.EqualValues(t, page, size)
			s.left(page, 3)
			require.Equal(t, before+page, s.dev.VRAMUsed())
			ends(s)
			s.left(0, 0)
			if name != "both files end" {
				require.LessOrEqual(t, s.dev.VRAMUsed(), before)
			}
			_, err = s.open(s.guest).OpenObject(8, key)
			require.ErrorIs(t, err, syscall.ENOENT)
		})
	}
}

// run runs a command on a channel of its own and waits for it.
func (s *sharing) run(f *File, c interface{ Append([]byte) []byte }) {
	s.Helper()
	ch, err := f.NewChannel(1)
	require.NoError(s, err)
	_, err = f.Exec(ch, 1, nil, c.Append(nil))
	require.NoError(s, err)
	for !ch.Reached(1) {
		runtime.Gosched()
	}
	require.Nil(s, ch.Failure())
	fr, err := f.FreeChannel(1)
	require.NoError(s, err)
	fr.Wait()
	require.NoError(s, f.EndFree(fr))
}

// Memory that one file filled is read by another after the first has ended.
func TestSharedMemoryOutlivesItsFile(t *testing.T) {
	s := newSharing(t)
	require.NoError(t, s.a.NewVRAM(1, page))
	key, err := s.a.ShareObject(1)
	require.NoError(t, err)
	props := s.dev.Properties()
	at, to := props.VRAM.Base, props.System.Base
	bind := func(f *File, handle uint32, addr uint64) {
		_, err := f.Bind([]drm.BindOp{{Op: drm.BindMap, Handle: handle, Addr: addr, Range: page}})
		require.NoError(t, err)
	}
	bind(s.a, 1, at)
	s.run(s.a, drm.FillCmd{Dst: at, Pattern: 0x55, Size: 1, Width: page, Height: 1})
	_, err = s.b.OpenObject(1, key)
	require.NoError(t, err)
	require.NoError(t, s.a.Close())
	_, err = s.b.Snapshot(context.Background(), nil)
	require.ErrorIs(t, err, syscall.EOPNOTSUPP)
	l := newLife(t) // for its page
	released := 0
	require.NoError(t, s.b.NewSystem(2, l.pages(&released)))
	bind(s.b, 1, at+page)
	bind(s.b, 2, to)
	s.run(s.b, drm.CopyCmd{Dst: to, Src: at + page, Width: page, Height: 1})
	require.Equal(t, bytes.Repeat([]byte{0x55}, page), l.mem)
	s.over(s.b)
	require.Equal(t, 1, released)
}

// A key that was not given out names nothing, and neither does one of another guest.
func TestForgedKeys(t *testing.T) {
	s := newSharing(t)
	require.NoError(t, s.a.NewVRAM(1, page))
	key, err := s.a.ShareObject(1)
	require.NoError(t, err)
	event, err := s.a.NewEvent(1)
	require.NoError(t, err)
	other := &Guest{}
	stranger := s.open(other)
	for i := range 8 * len(key) {
		forged := key
		forged[i/8] ^= 1 << (i % 8)
		_, err := s.b.OpenObject(1, forged)
		require.ErrorIs(t, err, syscall.ENOENT)
		require.ErrorIs(t, s.b.OpenEvent(1, forged), syscall.ENOENT)
	}
	for _, k := range []drm.Key{key, event, {}} {
		_, err := stranger.OpenObject(1, k)
		require.ErrorIs(t, err, syscall.ENOENT)
		require.ErrorIs(t, stranger.OpenEvent(1, k), syscall.ENOENT)
	}
	_, err = s.b.OpenObject(1, event)
	require.ErrorIs(t, err, syscall.ENOENT)
	require.ErrorIs(t, s.b.OpenEvent(1, key), syscall.ENOENT)
	require.Zero(t, other.Used(quota.Objects))
	require.NoError(t, stranger.Close())
	s.over(s.a, s.b)
}

// Opening is bounded by the guest's objects, and what is refused leaves nothing.
func TestOpeningIsBounded(t *testing.T) {
	s := newSharing(t)
	const most = 100
	var l quota.Limits
	l[quota.Objects] = most
	limited := &Guest{}
	limited.SetLimits(l)
	a, b := s.open(limited), s.open(limited)
	require.NoError(t, a.NewVRAM(1, page))
	key, err := a.ShareObject(1)
	require.NoError(t, err)
	_, err = b.OpenObject(0, key)
	require.ErrorIs(t, err, syscall.EINVAL)
	opened := 0
	for i := range uint32(10_000) {
		if _, err = b.OpenObject(i+1, key); err != nil {
			break
		}
		opened++
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.Equal(t, most-2, opened) // the object, and that it is shared
	_, err = b.NewEvent(1)
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = a.ShareObject(9)
	require.ErrorIs(t, err, syscall.ENOENT)
	require.NoError(t, a.Close())
	require.NoError(t, b.CloseObject(1))
	require.ErrorIs(t, b.CloseObject(1), syscall.ENOENT)
	require.NoError(t, b.Close())
	for r := range quota.Resources {
		require.Zero(t, limited.Used(r), r.String())
	}
	s.over(s.a, s.b)
}

// two are two files of a guest on a fake GPU, each with a channel.
func two(t *testing.T) (a, b *rig, of, on *Channel) {
	a = newRig(t, quota.Limits{})
	b = newRig(t, quota.Limits{})
	b.guest = a.guest
	require.NoError(t, b.Close())
	var err error
	b.File, err = Open(b.dev, a.guest, "other", b)
	require.NoError(t, err)
	return a, b, a.channel(1), b.channel(1)
}

func (r *rig) event(id uint32, key drm.Key) {
	r.Helper()
	require.NoError(r, r.OpenEvent(id, key))
}

// told returns how often the file was told of points of others, and forgets it.
func (r *rig) told() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.stirred
	r.stirred = 0
	return n
}

// Work of one file waits for what another recorded: for that which was recorded when it began to
// wait, and until that is done, however its file ends.
func TestEventsOrderFiles(t *testing.T) {
	a, b, of, on := two(t)
	key, err := a.NewEvent(3)
	require.NoError(t, err)
	b.event(5, key)
	_, err = b.WaitEvent(5, on, 1) // nothing was recorded
	require.NoError(t, err)
	require.Equal(t, 1, b.held())
	b.end(gpu.Result{})
	seqno := a.exec(of)
	require.NoError(t, a.RecordEvent(3, drm.Point{Channel: 1, Seqno: seqno}))
	done, err := b.EventReached(5)
	require.NoError(t, err)
	require.False(t, done)
	left, err := b.WaitEvent(5, on, 2)
	require.NoError(t, err)
	require.True(t, left)
	b.exec(on)
	require.Zero(t, b.held())
	later := a.exec(of)
	require.NoError(t, a.RecordEvent(3, drm.Point{Channel: 1, Seqno: later}))
	a.end(gpu.Result{})
	require.Equal(t, 1, b.told())
	moved, left := b.Advance()
	require.True(t, moved)
	require.False(t, left)
	require.Equal(t, 2, b.held())
	done, err = b.EventReached(5)
	require.NoError(t, err)
	require.False(t, done, "it stands for the later point")
	_, err = b.WaitEvent(5, on, 4)
	require.NoError(t, err)
	require.NoError(t, a.Close()) // and with it the point
	require.Equal(t, 1, b.told())
	b.Advance()
	require.Equal(t, 3, b.held())
	done, err = b.EventReached(5)
	require.NoError(t, err)
	require.True(t, done)
	b.closed()
}

// A file that ends while its batches wait for another leaves nothing at that one.
func TestWaitersLeaveNothing(t *testing.T) {
	a, b, of, on := two(t)
	key, err := a.NewEvent(1)
	require.NoError(t, err)
	require.NoError(t, a.RecordEvent(1, drm.Point{Channel: 1, Seqno: a.exec(of)}))
	b.event(1, key)
	for i := range uint64(100) {
		_, err := b.WaitEvent(1, on, i+1)
		require.NoError(t, err)
	}
	require.Len(t, of.watchers, 100)
	require.NoError(t, b.Close())
	require.Empty(t, of.watchers)
	require.Zero(t, b.told())
	a.end(gpu.Result{})
	a.closed()
}

// Wrong points, channels and numbers of events are refused.
func TestEventsRefused(t *testing.T) {
	a, b, of, on := two(t)
	key, err := a.NewEvent(1)
	require.NoError(t, err)
	_, err = a.NewEvent(1)
	require.ErrorIs(t, err, syscall.EEXIST)
	_, err = a.NewEvent(0)
	require.ErrorIs(t, err, syscall.EINVAL)
	b.event(1, key)
	require.ErrorIs(t, b.OpenEvent(1, key), syscall.EEXIST)
	require.ErrorIs(t, a.RecordEvent(2, drm.Point{Channel: 1}), syscall.ENOENT)
	require.ErrorIs(t, a.RecordEvent(1, drm.Point{Channel: 2}), syscall.ENOENT)
	require.ErrorIs(t, a.RecordEvent(1, drm.Point{Channel: 1, Seqno: 1}), syscall.EINVAL)
	_, err = b.WaitEvent(1, on, 2)
	require.ErrorIs(t, err, syscall.EINVAL)
	_, err = b.WaitEvent(2, on, 1)
	require.ErrorIs(t, err, syscall.ENOENT)
	_, err = b.EventReached(2)
	require.ErrorIs(t, err, syscall.ENOENT)
	require.NoError(t, b.CloseEvent(1))
	require.ErrorIs(t, b.CloseEvent(1), syscall.ENOENT)
	require.NoError(t, a.RecordEvent(1, drm.Point{Channel: 1, Seqno: a.exec(of)}))
	fr, err := a.FreeChannel(1)
	require.NoError(t, err)
	a.end(gpu.Result{})
	fr.Wait()
	require.NoError(t, a.EndFree(fr))
	require.Nil(t, a.guest.shares.events[key].last.ch, "an event keeps no channel that is gone")
	require.NoError(t, b.Close())
	a.closed()
}
