package nvidia_test

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/nvidia"
)

// A memory is few allocations until a part of it is mapped or unmapped. What is in it stays, wherever it is mapped.
func TestPartsOfVRAM(t *testing.T) {
	const pages = 11 // more than an allocation has
	for _, replays := range []bool{false, true} {
		c := newFakeClient(t, nvidia.Config{Replays: replays})
		w := c.props.VRAM
		host, va := c.granted(4096)
		m, err := c.ctx.NewVRAM(pages * w.Page)
		require.NoError(t, err)
		at := func(area, page int) uint64 { return w.Base + uint64(area*20+page)*w.Page }
		require.NoError(t, c.ctx.Map(at(0, 0), m, 0, m.Size(), gpu.ProtRead|gpu.ProtWrite))
		require.NoError(t, c.ctx.Map(at(1, 0), m, 0, m.Size(), gpu.ProtRead), "a second time")
		for i := range pages {
			require.NoError(t, c.do(&gpu.Fill{Dst: at(0, i) + 8, Pattern: uint32(i + 1), Size: 4, Width: 4, Height: 1}).Err)
		}
		has := func(area, page, want int) {
			t.Helper()
			require.NoError(t, c.do(&gpu.Copy{Dst: va, Src: at(area, page) + 8, Width: 4, Height: 1}).Err)
			require.EqualValues(t, want+1, binary.LittleEndian.Uint32(host))
		}
		require.NoError(t, c.ctx.Unmap(at(0, 5), 3*w.Page))
		for _, page := range []int{0, 4, 8, 10} {
			has(0, page, page)
		}
		for page := range pages {
			has(1, page, page)
		}
		require.NoError(t, c.ctx.Map(at(2, 5), m, 6*w.Page, 2*w.Page, gpu.ProtRead))
		has(2, 5, 6)
		has(2, 6, 7)
		require.NoError(t, c.ctx.Unmap(at(1, 0), m.Size()))
		require.NoError(t, c.ctx.Unmap(at(0, 0), m.Size()), "with a hole")
		has(2, 6, 7)
		require.NoError(t, m.Close())
		require.NoError(t, c.ctx.Err())
	}
}

// A part of a memory that was never mapped is cleared.
func TestPartOfNewVRAM(t *testing.T) {
	c := newFakeClient(t, nvidia.Config{})
	w := c.props.VRAM
	host, va := c.granted(4096)
	m, err := c.ctx.NewVRAM(10 * w.Page)
	require.NoError(t, err)
	require.NoError(t, c.ctx.Map(w.Base, m, 3*w.Page, 6*w.Page, gpu.ProtRead|gpu.ProtWrite))
	require.NoError(t, c.do(&gpu.Copy{Dst: va, Src: w.Base + 5*w.Page, Width: 8, Height: 1}).Err)
	require.Zero(t, binary.LittleEndian.Uint64(host))
}
