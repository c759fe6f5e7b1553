package nvidia_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
)

// sharing is a context with VRAM that another has, too, each at an address of its own.
type sharing struct {
	*fakeClient
	mine, theirs gpu.Memory
	share        gpu.Shared
	other        gpu.Context
}

const sharedPages = 3

func newSharing(t *testing.T, wrap wrapper) *sharing {
	s := &sharing{fakeClient: newFakeClientOn(t, nvidia.Config{}, guardedFake, wrap)}
	require.True(t, s.props.SharesMapped)
	var err error
	s.mine, err = s.ctx.NewVRAM(sharedPages * s.props.VRAM.Page)
	require.NoError(t, err)
	_, err = s.ctx.(gpu.Sharer).Share(s.mine)
	require.ErrorIs(t, err, gpu.ErrUnsupported, "what was never mapped is not cleared")
	s.mapAll(s.ctx, s.mine, s.props.VRAM.Base)
	s.share, err = s.ctx.(gpu.Sharer).Share(s.mine)
	require.NoError(t, err)
	s.other, err = s.dev.NewContext("other")
	require.NoError(t, err)
	s.theirs, err = s.other.(gpu.Sharer).Adopt(s.share)
	require.NoError(t, err)
	s.mapAll(s.other, s.theirs, s.props.VRAM.Base+16*s.props.VRAM.Page)
	return s
}

func (s *sharing) mapAll(c gpu.Context, m gpu.Memory, va uint64) {
	s.Helper()
	require.NoError(s, c.Map(va, m, 0, m.Size(), gpu.ProtRead|gpu.ProtWrite))
}

// word copies 8 bytes between a page of the host and VRAM of a context.
func (s *sharing) word(c gpu.Context, vram uint64, write bool, v uint64) uint64 {
	s.Helper()
	at := &fakeClient{T: s.T, dev: s.dev, props: s.props, ctx: c}
	mem, va := at.granted(4096)
	binary.LittleEndian.PutUint64(mem, v)
	ch, err := c.NewChannel()
	require.NoError(s, err)
	copies := &gpu.Copy{Dst: va, Src: vram, Width: 8, Height: 1}
	if write {
		copies.Dst, copies.Src = vram, va
	}
	done := make(chan gpu.Result, 1)
	require.NoError(s, ch.Submit([]gpu.Command{copies}, func(r gpu.Result) { done <- r }))
	require.NoError(s, (<-done).Err)
	require.NoError(s, ch.Close())
	require.NoError(s, c.Unmap(va, 4096))
	return binary.LittleEndian.Uint64(mem)
}

// Contexts see what the others write, and the VRAM lives and costs until the last has closed it.
func TestSharedVRAM(t *testing.T) { wrappedToo(t, testSharedVRAM) }

func testSharedVRAM(t *testing.T, wrap wrapper) {
	s := newSharing(t, wrap)
	page := s.props.VRAM.Page
	before := s.dev.VRAMUsed()
	for i := range uint64(sharedPages) {
		mine, theirs := s.props.VRAM.Base+i*page+64, s.props.VRAM.Base+(16+i)*page+64
		s.word(s.ctx, mine, true, 1000+i)
		require.Equal(t, 1000+i, s.word(s.other, theirs, false, 0))
		s.word(s.other, theirs, true, 2000+i)
		require.Equal(t, 2000+i, s.word(s.ctx, mine, false, 0))
	}
	again, err := s.ctx.(gpu.Sharer).Share(s.mine)
	require.NoError(t, err)
	again.Close()
	require.NoError(t, s.mine.Close())
	require.Equal(t, before, s.dev.VRAMUsed())
	require.EqualValues(t, 2001, s.word(s.other, s.props.VRAM.Base+17*page+64, false, 0))
	require.NoError(t, s.ctx.Close())
	third, err := s.dev.NewContext("third")
	require.NoError(t, err)
	theirs, err := third.(gpu.Sharer).Adopt(s.share)
	require.NoError(t, err)
	s.mapAll(third, theirs, s.props.VRAM.Base)
	require.EqualValues(t, 2002, s.word(third, s.props.VRAM.Base+2*page+64, false, 0))
	s.share.Close()
	s.share.Close()
	_, err = s.other.(gpu.Sharer).Adopt(s.share)
	require.ErrorIs(t, err, gpu.ErrClosed)
	require.NoError(t, s.theirs.Close())
	require.NoError(t, third.Close())
	require.Equal(t, before-sharedPages*page, s.dev.VRAMUsed())
	require.Zero(t, holders(t), "the keeper holds no page any more")
}

// What is not a context's own VRAM is not shared, nor adopted by another device.
func TestSharedVRAMRefused(t *testing.T) {
	s := newSharing(t, nil)
	_, err := s.other.(gpu.Sharer).Share(s.mine)
	require.ErrorIs(t, err, gpu.ErrInvalid)
	_, err = s.ctx.(gpu.Sharer).Share(nil)
	require.ErrorIs(t, err, gpu.ErrInvalid)
	elsewhere := newFakeClientOf(t, nvidia.Config{}, guardedFake)
	_, err = elsewhere.ctx.(gpu.Sharer).Adopt(s.share)
	require.ErrorIs(t, err, gpu.ErrInvalid)
	require.NoError(t, s.mine.Close())
	_, err = s.ctx.(gpu.Sharer).Share(s.mine)
	require.ErrorIs(t, err, gpu.ErrClosed)
	s.share.Close()
}
