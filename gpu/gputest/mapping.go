package gputest

import (
	"bytes"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// unmapped checks that va cannot be read any more. It costs the client its context.
func (c *client) unmapped(va uint64) {
	c.Helper()
	b := c.system(4096)
	c.lost(c.try(&gpu.Copy{Dst: b.va, Src: va, Width: 1, Height: 1}).Err, gpu.LostAddress)
}

var mapTests = []test{
	{"refused", func(r *rig) {
		c, other := r.client(), r.client()
		v, s := r.props.VRAM, r.props.System
		vram, err := c.NewVRAM(4 * v.Page)
		require.NoError(r, err)
		foreign, err := other.NewVRAM(4 * v.Page)
		require.NoError(r, err)
		sys, err := c.NewSystem([][]byte{r.pages(4 * s.Page)})
		require.NoError(r, err)
		top := v.Base + v.Size
		for _, bad := range []struct {
			name   string
			va     uint64
			m      gpu.Memory
			off, n uint64
			prot   gpu.Prot
		}{
			{name: "no bytes", va: v.Base, m: vram, n: 0, prot: readWrite},
			{name: "address misaligned", va: v.Base + 1, m: vram, n: v.Page, prot: readWrite},
			{name: "offset misaligned", va: v.Base, m: vram, off: 8, n: v.Page, prot: readWrite},
			{name: "size misaligned", va: v.Base, m: vram, n: v.Page - 1, prot: readWrite},
			{name: "below the window", va: v.Base - v.Page, m: vram, n: v.Page, prot: readWrite},
			{name: "into the window", va: v.Base - v.Page, m: vram, n: 2 * v.Page, prot: readWrite},
			{name: "null", va: 0, m: vram, n: v.Page, prot: readWrite},
			{name: "out of the window", va: top - v.Page, m: vram, n: 2 * v.Page, prot: readWrite},
			{name: "above the window", va: top, m: vram, n: v.Page, prot: readWrite},
			{name: "wraps", va: -v.Page, m: vram, n: 2 * v.Page, prot: readWrite},
			{name: "VRAM in the system window", va: s.Base, m: vram, n: v.Page, prot: readWrite},
			{name: "system in the VRAM window", va: v.Base, m: sys, n: max(s.Page, v.Page), prot: readWrite},
			{name: "more than there is", va: v.Base, m: vram, n: 5 * v.Page, prot: readWrite},
			{name: "beyond the end", va: v.Base, m: vram, off: 2 * v.Page, n: 3 * v.Page, prot: readWrite},
			{name: "offset at the end", va: v.Base, m: vram, off: 4 * v.Page, n: v.Page, prot: readWrite},
			{name: "offset wraps", va: v.Base, m: vram, off: -v.Page, n: 2 * v.Page, prot: readWrite},
			{name: "no rights", va: v.Base, m: vram, n: v.Page},
			{name: "write only", va: v.Base, m: vram, n: v.Page, prot: gpu.ProtWrite},
			{name: "unknown right", va: v.Base, m: vram, n: v.Page, prot: readWrite | 4},
			{name: "memory of another context", va: v.Base, m: foreign, n: v.Page, prot: readWrite},
			{name: "no memory", va: v.Base, n: v.Page, prot: readWrite},
		} {
			require.ErrorIs(r, c.Map(bad.va, bad.m, bad.off, bad.n, bad.prot), gpu.ErrInvalid, bad.name)
		}
		require.ErrorIs(r, c.Unmap(v.Base, 4*v.Page), gpu.ErrNotFound, "nothing was mapped by any of these")
		c.alive()
	}},
	{"ends of the window", func(r *rig) {
		c := r.client()
		v := r.props.VRAM
		m, err := c.NewVRAM(2 * v.Page)
		require.NoError(r, err)
		last := v.Base + v.Size - v.Page
		require.NoError(r, c.Map(v.Base, m, 0, v.Page, readWrite))
		require.NoError(r, c.Map(last, m, v.Page, v.Page, readWrite))
		c.write(v.Base, []byte{1})
		c.write(last+v.Page-1, []byte{2})
		require.Equal(r, []byte{1}, c.read(v.Base, 1))
		require.Equal(r, []byte{2}, c.read(last+v.Page-1, 1))
		require.NoError(r, c.Unmap(v.Base, v.Size), "the whole window at once")
		c.unmapped(last)
	}},
	{"overlap", func(r *rig) {
		c := r.client()
		page := r.props.VRAM.Page
		base := r.props.VRAM.Base + 16*page
		m, err := c.NewVRAM(8 * page)
		require.NoError(r, err)
		require.NoError(r, c.Map(base, m, 0, 4*page, readWrite))
		for _, o := range []struct{ va, n uint64 }{
			{base, 4 * page}, {base, page}, {base + 3*page, page}, {base + 3*page, 2 * page},
			{base - page, 2 * page}, {base - page, 8 * page}, {base + page, page},
		} {
			require.ErrorIs(r, c.Map(o.va, m, 0, o.n, readWrite), gpu.ErrExists)
		}
		require.NoError(r, c.Map(base-page, m, 4*page, page, readWrite), "right before")
		require.NoError(r, c.Map(base+4*page, m, 5*page, page, readWrite), "right behind")
		c.write(base-page, bytes.Repeat([]byte{7}, int(6*page)))
		require.Equal(r, bytes.Repeat([]byte{7}, int(6*page)), c.read(base-page, 6*page))
	}},
	{"twice at different addresses", func(r *rig) {
		c := r.client()
		b := c.device(1)
		alias := c.vram
		require.NoError(r, c.Map(alias, b.Memory, 0, r.props.VRAM.Page, readWrite))
		c.write(b.va+5, []byte("one"))
		require.Equal(r, []byte("one"), c.read(alias+5, 3))
		require.NoError(r, c.Unmap(b.va, r.props.VRAM.Page))
		require.Equal(r, []byte("one"), c.read(alias+5, 3))
		require.NoError(r, b.Close())
		c.unmapped(alias)
	}},
	{"offset", func(r *rig) {
		c := r.client()
		page := r.props.VRAM.Page
		b := c.device(4 * page)
		alias := c.vram
		require.NoError(r, c.Map(alias, b.Memory, 2*page, page, readWrite))
		c.write(alias, []byte{9})
		require.Equal(r, []byte{9}, c.read(b.va+2*page, 1))
	}},
	{"contexts have their own addresses", func(r *rig) {
		a, b := r.client(), r.client()
		x, y := a.device(1), b.device(1)
		require.Equal(r, x.va, y.va)
		a.write(x.va, []byte("a"))
		b.write(y.va, []byte("b"))
		require.Equal(r, []byte("a"), a.read(x.va, 1))
		require.Equal(r, []byte("b"), b.read(y.va, 1))
		require.NoError(r, a.Unmap(x.va, x.Size()))
		require.Equal(r, []byte("b"), b.read(y.va, 1))
	}},
	{"read only", func(r *rig) {
		for _, write := range []func(c *client, va uint64) gpu.Command{
			func(c *client, va uint64) gpu.Command { return &gpu.Fill{Dst: va, Size: 1, Width: 1, Height: 1} },
			func(c *client, va uint64) gpu.Command {
				return &gpu.Copy{Dst: va, Src: c.system(1).va, Width: 1, Height: 1}
			},
			func(c *client, va uint64) gpu.Command { return &gpu.Timestamp{VA: va} },
			func(c *client, va uint64) gpu.Command { return c.kernel("store", va, uint32(1)) },
		} {
			c := r.client()
			b := c.device(1)
			c.write(b.va, []byte{3})
			ro := c.vram
			require.NoError(r, c.Map(ro, b.Memory, 0, r.props.VRAM.Page, gpu.ProtRead))
			require.Equal(r, []byte{3}, c.read(ro, 1))
			lost := r.lost(c.try(write(c, ro)).Err, gpu.LostAddress)
			require.True(r, lost.Write || lost.Addr == 0, "a device that knows the address knows that it was a write")
			require.NoError(r, c.Close())
		}
	}},
	{"unmap refused", func(r *rig) {
		c := r.client()
		page := r.props.VRAM.Page
		b := c.device(4 * page)
		far := b.va + 64*page
		for _, bad := range []struct{ va, n uint64 }{
			{b.va, 0}, {b.va + 1, page}, {b.va, page + 1}, {b.va, page / 2}, {-page, 2 * page}, {0, page},
			{r.props.VRAM.Base + r.props.VRAM.Size - page, 2 * page},
		} {
			require.ErrorIs(r, c.Unmap(bad.va, bad.n), gpu.ErrInvalid, "0x%x, %d bytes", bad.va, bad.n)
		}
		require.ErrorIs(r, c.Unmap(far, page), gpu.ErrNotFound)
		c.read(b.va, 4*page)
		require.NoError(r, c.Unmap(b.va, 4*page))
		require.ErrorIs(r, c.Unmap(b.va, 4*page), gpu.ErrNotFound, "twice")
	}},
	{"unmap a part", func(r *rig) {
		// Large enough that a device with large pages uses them, and breaks one up.
		page := r.props.VRAM.Page
		size := max(8*page, 6<<20)
		hole := max(3*page, 2<<20+3*page)
		pattern := make([]byte, size)
		for i := range pattern {
			pattern[i] = byte(i/4096 + i)
		}
		for _, probe := range []uint64{hole, hole + page - 1} {
			c := r.client()
			c.vram = r.props.VRAM.Base + 4<<20 - r.props.VRAM.Base%(2<<20)
			b := c.device(size)
			c.write(b.va, pattern)
			require.NoError(r, c.Unmap(b.va+hole, page))
			require.Equal(r, pattern[:hole], c.read(b.va, hole))
			require.Equal(r, pattern[hole+page:], c.read(b.va+hole+page, size-hole-page))
			m, err := c.NewVRAM(page)
			require.NoError(r, err)
			require.NoError(r, c.Map(b.va+hole, m, 0, page, readWrite))
			require.Equal(r, make([]byte, page), c.read(b.va+hole, page))
			require.NoError(r, m.Close())
			c.unmapped(b.va + probe)
			require.NoError(r, c.Close())
		}
	}},
	{"unmap across mappings and holes", func(r *rig) {
		c := r.client()
		page := r.props.VRAM.Page
		x := c.device(2 * page)
		c.vram += 4 * page
		y := c.device(2 * page)
		c.write(x.va, []byte{1})
		c.write(y.va+page, []byte{2})
		require.NoError(r, c.Unmap(x.va+page, y.va-x.va))
		require.Equal(r, []byte{1}, c.read(x.va, 1))
		require.Equal(r, []byte{2}, c.read(y.va+page, 1))
		require.ErrorIs(r, c.Unmap(x.va+page, y.va-x.va), gpu.ErrNotFound)
		c.unmapped(y.va)
	}},
	{"unmap while a kernel runs", func(r *rig) {
		c, other := r.client(), r.client()
		b := c.device(4 << 20)
		done := c.running(c.ch, "hammer", b.va)
		require.NoError(r, c.Unmap(b.va, b.Size()))
		require.NoError(r, b.Close())
		// The frames may be anybody's now, and nothing of the kernel comes through.
		theirs := other.device(4 << 20)
		lost := r.lost((<-done).Err, gpu.LostAddress)
		require.Equal(r, "hammer", lost.Kernel)
		require.Equal(r, make([]byte, 4<<20), other.read(theirs.va, 4<<20))
		other.alive()
	}},
	{"map while a kernel runs", func(r *rig) {
		c := r.client()
		gate, out := c.system(4), c.system(4)
		done := c.running(c.ch, "await", gate.va, out.va)
		for range 50 {
			b := c.device(1 << 20)
			require.NoError(r, c.Unmap(b.va, b.Size()))
			require.NoError(r, b.Close())
		}
		second, err := c.NewChannel()
		require.NoError(r, err)
		require.NoError(r, (<-c.submit(second, &gpu.Fill{Dst: gate.va, Pattern: 5, Size: 4, Width: 4, Height: 1})).Err)
		require.NoError(r, (<-done).Err)
		require.Equal(r, byte(5), out.host[0])
	}},
}
