package gputest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
)

// noise returns n bytes that look random and are the same every time.
func noise(n uint64) []byte {
	b := make([]byte, n)
	r := rand.NewPCG(n, 1)
	for i := range b {
		b[i] = byte(r.Uint64())
	}
	return b
}

// both runs a test over buffers in VRAM and in system memory.
func both(c *client, n uint64, f func(dst, src buffer)) {
	kinds := []func(uint64) buffer{c.device, c.system}
	for _, d := range kinds {
		for _, s := range kinds {
			dst, src := d(n), s(n)
			f(dst, src)
			require.NoError(c, dst.Close())
			require.NoError(c, src.Close())
		}
	}
}

var copyTests = []test{
	{"sizes and offsets", func(r *rig) {
		const size = 5 << 20
		c := r.client()
		data := noise(size)
		both(c, size, func(dst, src buffer) {
			c.write(src.va, data)
			for i, n := range []uint64{0, 1, 3, 8, 4095, 4096, 4097, 1<<20 + 1, 3 << 20} {
				for j, o := range []struct{ dst, src uint64 }{{dst: 0, src: 0}, {dst: 1, src: 0}, {dst: 0, src: 5}, {dst: 4093, src: 7}, {dst: 1<<20 - 3, src: 1 << 21}} {
					if testing.Short() && i%5 != j {
						continue // each size with one of the offsets
					}
					c.do(&gpu.Fill{Dst: dst.va, Pattern: 0xee, Size: 1, Width: size, Height: 1})
					c.do(&gpu.Copy{Dst: dst.va + o.dst, Src: src.va + o.src, Width: n, Height: 1})
					want := bytes.Repeat([]byte{0xee}, size)
					copy(want[o.dst:], data[o.src:o.src+n])
					require.True(r, bytes.Equal(want, c.read(dst.va, size)), "%d bytes from %d to %d", n, o.src, o.dst)
				}
			}
		})
	}},
	{"rows", func(r *rig) {
		const size = 1 << 20
		c := r.client()
		data := noise(size)
		both(c, size, func(dst, src buffer) {
			c.write(src.va, data)
			for _, p := range []struct{ width, height, dp, sp, do, so uint64 }{
				{width: 1, height: 1, dp: 0, sp: 0, do: 0, so: 0},
				{width: 16, height: 10, dp: 16, sp: 16, do: 0, so: 0},
				{width: 13, height: 100, dp: 64, sp: 13, do: 5, so: 3},
				{width: 4096, height: 50, dp: 4096, sp: 8192, do: 1, so: 0},
				{width: 5000, height: 100, dp: 6001, sp: 5003, do: 17, so: 4095},
				{width: 1, height: 10000, dp: 3, sp: 5, do: 0, so: 0},
				{width: 100, height: 1, dp: 1, sp: 1, do: 0, so: 0}, // pitches do not count
				{width: 0, height: 10, dp: 0, sp: 0, do: 0, so: 0},
			} {
				c.do(&gpu.Fill{Dst: dst.va, Pattern: 0x11, Size: 1, Width: size, Height: 1})
				c.do(&gpu.Copy{Dst: dst.va + p.do, Src: src.va + p.so, Width: p.width, Height: p.height, DstPitch: p.dp, SrcPitch: p.sp})
				want := bytes.Repeat([]byte{0x11}, size)
				for row := range p.height {
					copy(want[p.do+row*p.dp:][:p.width], data[p.so+row*p.sp:])
				}
				require.True(r, bytes.Equal(want, c.read(dst.va, size)), "%+v", p)
			}
		})
	}},
	{"side by side in one image", func(r *rig) {
		c := r.client()
		b := c.device(1 << 16)
		data := noise(1 << 16)
		c.write(b.va, data)
		c.do(&gpu.Copy{Dst: b.va + 128, Src: b.va, Width: 128, Height: 256, DstPitch: 256, SrcPitch: 256})
		for row := range 256 {
			copy(data[row*256+128:][:128], data[row*256:])
		}
		require.Equal(r, data, c.read(b.va, 1<<16))
	}},
	{"across mappings", func(r *rig) {
		// Pages of two memories, in turns and backwards.
		c := r.client()
		page := r.props.VRAM.Page
		x, err := c.NewVRAM(4 * page)
		require.NoError(r, err)
		y, err := c.NewVRAM(4 * page)
		require.NoError(r, err)
		base := c.vram
		c.vram += 16 * page
		for i := range uint64(8) {
			m := []gpu.Memory{x, y}[i%2]
			require.NoError(r, c.Map(base+i*page, m, (3-i/2)*page, page, readWrite))
		}
		data := noise(8*page - 200)
		c.write(base+100, data)
		require.Equal(r, data, c.read(base+100, 8*page-200))
		alias := c.vram
		require.NoError(r, c.Map(alias, x, 0, 4*page, gpu.ProtRead))
		require.Equal(r, data[6*page-100:7*page-100], c.read(alias, page))
	}},
	{"refused", func(r *rig) {
		c := r.client()
		b := c.device(1 << 16)
		for _, bad := range []gpu.Command{
			(*gpu.Copy)(nil),
			nil,
			&gpu.Copy{Dst: b.va, Src: b.va + 4096, Width: 1, Height: 0},
			&gpu.Copy{Dst: b.va, Src: b.va + 4096, Width: 16, Height: 2, DstPitch: 15, SrcPitch: 16},
			&gpu.Copy{Dst: b.va, Src: b.va + 4096, Width: 16, Height: 2, DstPitch: 16, SrcPitch: 15},
			&gpu.Copy{Dst: b.va, Src: b.va + 4096, Width: -b.va, Height: 1},
			&gpu.Copy{Dst: b.va, Src: 1<<64 - 8, Width: 16, Height: 1},
			&gpu.Copy{Dst: b.va, Src: b.va, Width: 1, Height: 1 << 63, DstPitch: 1 << 40, SrcPitch: 1},
			&gpu.Copy{Dst: b.va, Src: b.va, Width: 1, Height: 3, DstPitch: 1, SrcPitch: 1 << 63},
		} {
			require.ErrorIs(r, c.try(bad).Err, gpu.ErrInvalid, "%+v", bad)
		}
		c.alive()
	}},
	{"faults", func(r *rig) {
		page := r.props.VRAM.Page
		for _, f := range []struct {
			cmd   gpu.Copy // relative to a buffer of a page with nothing around it
			write bool
			addr  uint64
		}{
			{cmd: gpu.Copy{Dst: 0, Src: page - 1, Width: 2, Height: 1}, write: false, addr: page},
			{cmd: gpu.Copy{Dst: page - 1, Src: 0, Width: 2, Height: 1}, write: true, addr: page},
			{cmd: gpu.Copy{Dst: 0, Src: 1<<64 - 1, Width: 2, Height: 1}, write: false, addr: 1<<64 - 1},
			{cmd: gpu.Copy{Dst: 0, Src: 8, Width: 1, Height: 1 << 20, DstPitch: 1, SrcPitch: page}, write: false, addr: page + 8},
		} {
			c := r.client()
			c.vram += 64 << 20
			b := c.device(page)
			cmd := f.cmd
			cmd.Dst += b.va
			cmd.Src += b.va
			lost := r.lost(c.try(&cmd).Err, gpu.LostAddress)
			require.Equal(r, f.write, lost.Write, "%+v", f)
			require.Equal(r, b.va+f.addr, lost.Addr, "%+v", f)
			require.Empty(r, lost.Kernel)
			require.NoError(r, c.Close())
		}
	}},
	{"counters", func(r *rig) {
		c := r.client()
		dst, src := c.device(1<<20), c.device(1<<20)
		before := r.dev.Stats()
		c.do(&gpu.Copy{Dst: dst.va, Src: src.va, Width: 1 << 20, Height: 1})
		after := r.dev.Stats()
		require.Equal(r, before.CopyBytes+1<<20, after.CopyBytes)
		require.Greater(r, after.CopyBusy, before.CopyBusy)
		require.Equal(r, before.ComputeBusy, after.ComputeBusy)
	}},
}

var fillTests = []test{
	{"patterns", func(r *rig) {
		const size = 3 << 20
		c := r.client()
		pattern := uint32(0x44332211)
		for _, b := range []buffer{c.device(size), c.system(size)} {
			for _, f := range []struct{ size, off, width, height, pitch uint64 }{
				{size: 1, off: 3, width: 1, height: 1, pitch: 0}, {size: 1, off: 4093, width: 2<<20 + 5, height: 1, pitch: 0}, {size: 2, off: 2, width: 8190, height: 1, pitch: 0}, {size: 4, off: 4, width: 1<<20 + 4, height: 1, pitch: 0},
				{size: 4, off: 4092, width: 8, height: 1, pitch: 0}, {size: 1, off: 0, width: 3, height: 100, pitch: 7}, {size: 2, off: 6, width: 100, height: 1000, pitch: 102}, {size: 4, off: 8, width: 4, height: 700, pitch: 4096}, {size: 4, off: 0, width: 0, height: 1, pitch: 0},
				{size: 4, off: 0, width: 4, height: 1, pitch: 3}, // the pitch of one row does not count
			} {
				c.do(&gpu.Fill{Dst: b.va, Size: 4, Width: size, Height: 1})
				c.do(&gpu.Fill{Dst: b.va + f.off, Pattern: pattern, Size: uint32(f.size), Width: f.width, Height: f.height, Pitch: f.pitch})
				want := make([]byte, size)
				unit := binary.LittleEndian.AppendUint32(nil, pattern)[:f.size]
				for row := range f.height {
					copy(want[f.off+row*f.pitch:], bytes.Repeat(unit, int(f.width/f.size)))
				}
				require.True(r, bytes.Equal(want, c.read(b.va, size)), "%+v", f)
			}
		}
	}},
	{"refused", func(r *rig) {
		c := r.client()
		b := c.device(1 << 16)
		for _, bad := range []*gpu.Fill{
			nil,
			{Dst: b.va, Size: 0, Width: 4, Height: 1},
			{Dst: b.va, Size: 3, Width: 3, Height: 1},
			{Dst: b.va, Size: 8, Width: 8, Height: 1},
			{Dst: b.va, Size: 4, Width: 6, Height: 1},
			{Dst: b.va + 2, Size: 4, Width: 4, Height: 1},
			{Dst: b.va, Size: 2, Width: 4, Height: 2, Pitch: 5},
			{Dst: b.va, Size: 1, Width: 4, Height: 2, Pitch: 3},
			{Dst: b.va, Size: 1, Width: 4, Height: 0},
			{Dst: b.va, Size: 1, Width: 1, Height: 1 << 40, Pitch: 1 << 40},
			{Dst: b.va, Size: 1, Width: -b.va, Height: 1},
		} {
			require.ErrorIs(r, c.try(bad).Err, gpu.ErrInvalid, "%+v", bad)
		}
		c.alive()
	}},
	{"fault", func(r *rig) {
		c := r.client()
		b := c.device(1 << 16)
		lost := r.lost(c.try(&gpu.Fill{Dst: b.va, Size: 4, Width: b.Size() + 4, Height: 1}).Err, gpu.LostAddress)
		require.True(r, lost.Write)
		require.Equal(r, b.va+b.Size(), lost.Addr)
	}},
}

var timestampTests = []test{
	{"order", func(r *rig) {
		c := r.client()
		b := c.system(4096)
		vram := c.device(8 << 20)
		work := &gpu.Fill{Dst: vram.va, Pattern: 1, Size: 4, Width: 8 << 20, Height: 1}
		c.do(&gpu.Timestamp{VA: b.va}, work, &gpu.Timestamp{VA: b.va + 8}, work, &gpu.Timestamp{VA: b.va + 4088})
		times := []uint64{
			binary.LittleEndian.Uint64(b.host),
			binary.LittleEndian.Uint64(b.host[8:]),
			binary.LittleEndian.Uint64(b.host[4088:]),
		}
		require.True(r, slices.IsSorted(times))
		require.Less(r, times[0], times[2])
	}},
	{"one clock for all contexts", func(r *rig) {
		var last uint64
		for range 3 {
			c := r.client()
			b := c.device(8)
			c.do(&gpu.Timestamp{VA: b.va})
			now := binary.LittleEndian.Uint64(c.read(b.va, 8))
			require.GreaterOrEqual(r, now, last)
			last = now
		}
	}},
	{"refused", func(r *rig) {
		c := r.client()
		b := c.device(4096)
		require.ErrorIs(r, c.try(&gpu.Timestamp{VA: b.va + 4}).Err, gpu.ErrInvalid)
		require.ErrorIs(r, c.try((*gpu.Timestamp)(nil)).Err, gpu.ErrInvalid)
		c.alive()
		r.lost(c.try(&gpu.Timestamp{VA: 8}).Err, gpu.LostAddress)
	}},
}
