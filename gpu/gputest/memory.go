package gputest

import (
	"bytes"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

var propertyTests = []test{
	{"sane", func(r *rig) {
		p := r.props
		require.NotEmpty(r, p.Name)
		require.NotEmpty(r, p.Driver)
		require.GreaterOrEqual(r, p.ComputeMajor, 5)
		require.Equal(r, 32, p.WarpSize)
		for name, n := range map[string]int{
			"Multiprocs": p.Multiprocs, "MaxThreads": p.MaxThreads, "SharedPerBlock": p.SharedPerBlock,
			"RegsPerBlock": p.RegsPerBlock, "MaxThreadsSM": p.MaxThreadsSM, "MaxBlocksSM": p.MaxBlocksSM, "ConstBytes": p.ConstBytes,
			"ClockKHz": p.ClockKHz, "MemClockKHz": p.MemClockKHz, "MemBusBits": p.MemBusBits, "L2Bytes": p.L2Bytes,
			"MaxChannels": p.MaxChannels, "MaxParamBytes": p.MaxParamBytes,
		} {
			require.Positive(r, n, name)
		}
		for i := range 3 {
			require.Positive(r, p.MaxBlockDim[i])
			require.Positive(r, p.MaxGridDim[i])
		}
		require.Equal(r, p, r.dev.Properties())
	}},
	{"windows", func(r *rig) {
		v, s := r.props.VRAM, r.props.System
		for _, w := range []gpu.Window{v, s} {
			require.GreaterOrEqual(r, w.Page, uint64(4096))
			require.Zero(r, w.Page&(w.Page-1))
			require.Zero(r, w.Base%w.Page)
			require.Zero(r, w.Size%w.Page)
			require.NotZero(r, w.Base)
			require.LessOrEqual(r, w.Base, uint64(1)<<48)
			require.LessOrEqual(r, w.Size, uint64(1)<<48-w.Base)
		}
		require.GreaterOrEqual(r, v.Size, r.props.VRAMBytes)
		require.True(r, v.Base+v.Size <= s.Base || s.Base+s.Size <= v.Base, "the windows overlap")
	}},
}

var memoryTests = []test{
	{"sizes", func(r *rig) {
		c := r.client()
		page := r.props.VRAM.Page
		for _, size := range []uint64{0, 1, page - 1, page + 1} {
			_, err := c.NewVRAM(size)
			require.ErrorIs(r, err, gpu.ErrInvalid, "%d bytes", size)
		}
		for _, size := range []uint64{page, 3 * page} {
			m, err := c.NewVRAM(size)
			require.NoError(r, err)
			require.Equal(r, size, m.Size())
		}
	}},
	{"too much", func(r *rig) {
		c := r.client()
		for _, size := range []uint64{r.props.VRAMBytes + r.props.VRAM.Page, 1 << 62} {
			_, err := c.NewVRAM(size)
			require.ErrorIs(r, err, gpu.ErrNoMemory)
		}
		c.alive()
	}},
	{"exhaustion", func(r *rig) {
		c := r.client()
		before := r.dev.VRAMUsed()
		size := roundUp(r.props.VRAMBytes/16, r.props.VRAM)
		var all []gpu.Memory
		for {
			m, err := c.NewVRAM(size)
			if err != nil {
				require.ErrorIs(r, err, gpu.ErrNoMemory)
				break
			}
			all = append(all, m)
			require.LessOrEqual(r, len(all), 16)
		}
		require.GreaterOrEqual(r, len(all), 12, "most of VRAM can be used")
		require.GreaterOrEqual(r, r.dev.VRAMUsed(), before+uint64(len(all))*size)
		for _, m := range all {
			require.NoError(r, m.Close())
		}
		require.Equal(r, before, r.dev.VRAMUsed())
		require.Equal(r, before, r.dev.Stats().VRAMUsed)
		m, err := c.NewVRAM(size * uint64(len(all)))
		require.NoError(r, err, "all of it again, in one piece")
		require.NoError(r, m.Close())
		c.alive()
	}},
	{"zeroed", func(r *rig) {
		// What one context leaves behind in VRAM, no other sees.
		const size = 16 << 20
		for round := range 3 {
			a, b := r.client(), r.client()
			left := a.device(size)
			require.Equal(r, make([]byte, size), a.read(left.va, size), "round %d", round)
			a.do(&gpu.Fill{Dst: left.va, Pattern: 0xa5a5a5a5, Size: 4, Width: size, Height: 1})
			if round == 1 {
				require.NoError(r, left.Close())
			} else {
				require.NoError(r, a.Close())
			}
			got := b.device(size)
			require.Equal(r, make([]byte, size), b.read(got.va, size), "round %d", round)
			require.NoError(r, b.Close())
		}
	}},
	{"system runs", func(r *rig) {
		// Runs out of order on the host are the object in the order given.
		c := r.client()
		host := r.pages(6 * 4096)
		runs := [][]byte{host[5*4096:], host[:2*4096], host[3*4096 : 4*4096]}
		m, err := c.NewSystem(runs)
		require.NoError(r, err)
		require.Equal(r, uint64(4*4096), m.Size())
		va := c.sys
		c.sys += m.Size()
		require.NoError(r, c.Map(va, m, 0, m.Size(), readWrite))
		for i := range 4 {
			c.do(&gpu.Fill{Dst: va + uint64(i)*4096, Pattern: uint32(i + 1), Size: 1, Width: 4096, Height: 1})
		}
		for i, want := range []byte{2, 3, 0, 4, 0, 1} {
			require.Equal(r, bytes.Repeat([]byte{want}, 4096), host[i*4096:][:4096], "page %d", i)
		}
		for i := range host {
			host[i] = byte(i / 4096)
		}
		got := c.read(va, 4*4096)
		for i, want := range []byte{5, 0, 1, 3} {
			require.Equal(r, bytes.Repeat([]byte{want}, 4096), got[i*4096:][:4096], "page %d", i)
		}
	}},
	{"system refused", func(r *rig) {
		c := r.client()
		host := r.pages(4 * 4096)
		for name, runs := range map[string][][]byte{
			"none":       nil,
			"empty":      {host[:4096], host[:0]},
			"misaligned": {host[8 : 8+4096]},
			"part":       {host[:4096], host[:100]},
		} {
			_, err := c.NewSystem(runs)
			require.ErrorIs(r, err, gpu.ErrInvalid, name)
		}
	}},
	{"close", func(r *rig) {
		c := r.client()
		b := c.device(1)
		size := b.Size()
		require.NoError(r, b.Close())
		require.NoError(r, b.Close(), "twice")
		require.Equal(r, size, b.Size())
		require.ErrorIs(r, c.Map(c.vram, b.Memory, 0, size, readWrite), gpu.ErrClosed)
		require.ErrorIs(r, c.Unmap(b.va, size), gpu.ErrNotFound, "closing unmaps")
		m, err := c.NewVRAM(size)
		require.NoError(r, err)
		require.NoError(r, c.Map(b.va, m, 0, size, readWrite))
		require.Equal(r, make([]byte, size), c.read(b.va, size))
	}},
	{"system is left alone after close", func(r *rig) {
		c := r.client()
		b := c.system(1)
		done := c.running(c.ch, "hammer", b.va)
		require.NoError(r, b.Close())
		clear(b.host)
		require.Error(r, (<-done).Err)
		require.Equal(r, make([]byte, len(b.host)), b.host)
	}},
}
