package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
	"pvdrm/gpu/texture"
)

// fetchFlat is fetch for lanes of a mask with the same texture, which is flat: an axis
// after the other for all lanes, and texels without a call for each. The results are
// those of texture.Unit.
func fetchFlat(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor, mask uint32) {
	var x, y texture.Spans
	d.Spans(0, &w.R32[op.X], &x)
	if d.Shape == texture.Shape2D {
		d.Spans(1, &w.R32[op.Y], &y)
	}
	f := flat{w: w, size: d.TexelBytes()}
	for m := mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		w.Lane = i
		base := d.Base
		if d.Layered {
			base += d.Slice * uint64(d.LayerAt(w.R32[op.Layer][i]))
		}
		row := base + d.Pitch*uint64(y.A[i])
		at := row + f.size*uint64(x.A[i])
		var c [4]uint32
		switch {
		case !d.Linear:
			f.read(at)
			c = d.Texel(&f.raw)
		default:
			below := base + d.Pitch*uint64(y.B[i])
			wx, wy := x.Weight[i], y.Weight[i]
			beside := f.size * uint64(x.B[i])
			corners := [4]uint64{at, row + beside, below + f.size*uint64(x.A[i]), below + beside}
			if d.Format == texture.F32 && d.Channels == 1 {
				c = [4]uint32{f.blend(&corners, wx, wy)}
			} else {
				c = f.filter(d, &corners, wx, wy)
			}
		}
		for n, r := range op.Regs {
			if r != ir.NoReg {
				w.R32[r][i] = c[n]
			}
		}
	}
}

// flat reads the texels of fetchFlat.
type flat struct {
	w    *ir.Warp
	size uint64
	page tlb.Translation // of the texel before
	raw  texture.Raw
}

// turn translates an address outside of the page.
func (f *flat) turn(addr uint64) {
	e := f.w.Worker.TLB.Translate(addr, gpu.ProtRead)
	if e == nil {
		f.w.FailAddress(f.w.Lane, gpu.LostAddress, addr, false, "texel")
	}
	f.page = *e
}

// holds reports whether an address lies in the page.
func (f *flat) holds(addr uint64) bool { return addr&^f.page.Mask == f.page.Base && f.page.Page != nil }

// read reads a texel.
//
//go:norace
func (f *flat) read(addr uint64) {
	if !f.holds(addr) {
		f.turn(addr)
	}
	switch f.size {
	case 4:
		f.raw.Lo = uint64(*tlb.At[uint32](&f.page, addr))
	case 1:
		f.raw.Lo = uint64(*tlb.At[uint8](&f.page, addr))
	case 2:
		f.raw.Lo = uint64(*tlb.At[uint16](&f.page, addr))
	case 8:
		f.raw.Lo = *tlb.At[uint64](&f.page, addr)
	default:
		f.raw.Lo, f.raw.Hi = *tlb.At[uint64](&f.page, addr), *tlb.At[uint64](&f.page, addr+8)
	}
}

// blend is filter for one channel of float32.
//
//go:norace
func (f *flat) blend(corners *[4]uint64, wx, wy uint32) uint32 {
	var v [4]uint32
	for n, at := range corners {
		if n&1 != 0 && wx == 0 || n&2 != 0 && wy == 0 {
			continue
		}
		if !f.holds(at) {
			f.turn(at)
		}
		v[n] = *tlb.At[uint32](&f.page, at)
	}
	return texture.FilterFloats(&v, wx, wy)
}

// filter is the weighted sum of four texels.
func (f *flat) filter(d *texture.Descriptor, corners *[4]uint64, wx, wy uint32) [4]uint32 {
	var t [4]texture.Raw
	for n, at := range corners {
		if n&1 != 0 && wx == 0 || n&2 != 0 && wy == 0 {
			continue
		}
		f.read(at)
		t[n] = f.raw
	}
	return d.Filter(&t, wx, wy)
}
