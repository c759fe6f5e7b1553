package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
	"pvdrm/gpu/texture"
)

// fetchFlat is fetch for lanes of a mask with the same texture, which is flat: a step after
// the other for all lanes. Both have the results of texture.Unit.
func fetchFlat(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor, mask uint32) {
	f := flat{w: w, mask: mask}
	l := w.Worker.Tex.Lanes()
	d.Spans(0, &w.R32[op.X], &l.X)
	if d.Shape == texture.Shape2D {
		d.Spans(1, &w.R32[op.Y], &l.Y)
	} else {
		l.Y = texture.Spans{}
	}
	for i := range f.base {
		f.base[i] = d.Base
	}
	if d.Layered {
		for i, n := range &w.R32[op.Layer] {
			f.base[i] += d.Slice * uint64(d.LayerAt(n))
		}
	}
	f.read(d, l, 0, &l.X.A, &l.Y.A)
	if d.Linear && l.Beside() {
		f.read(d, l, 1, &l.X.B, &l.Y.A)
		f.read(d, l, 2, &l.X.A, &l.Y.B)
		f.read(d, l, 3, &l.X.B, &l.Y.B)
	}
	d.Fill(l)
	f.give(op, d, l)
}

// fetchWhole is fetch for lanes of a mask that name texels of the same buffer by their numbers. Beyond
// its end texels are 0.
func fetchWhole(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor, mask uint32) {
	f := flat{w: w, mask: mask}
	l := w.Worker.Tex.Lanes()
	var at [32]uint64
	size := d.TexelBytes()
	l.Lo[0], l.Hi[0] = [32]uint64{}, [32]uint64{}
	for i, x := range &w.R32[op.X] {
		at[i] = d.Base + size*uint64(x)
		if x >= d.Width {
			f.mask &^= 1 << i
		}
	}
	f.readAt(&at, size, l, 0)
	d.FillNearest(l)
	f.mask = mask
	f.give(op, d, l)
}

// give writes the results to registers.
func (f *flat) give(op *ir.TexOp, d *texture.Descriptor, l *texture.Lanes) {
	for n, r := range op.Regs {
		switch {
		case r == ir.NoReg:
		case n < int(d.Channels):
			CopyLanes(&f.w.R32[r], &l.Channel[n], f.mask, f.w.Live)
		default:
			Fill(&f.w.R32[r], 0, f.mask, f.w.Live)
		}
	}
}

// flat reads the texels of fetchFlat.
type flat struct {
	w    *ir.Warp
	mask uint32
	base [32]uint64      // of the picture of each lane
	page tlb.Translation // of the texel before
}

// read reads texel k of all lanes of the mask.
func (f *flat) read(d *texture.Descriptor, l *texture.Lanes, k int, x, y *[32]int32) {
	var at [32]uint64
	size := d.TexelBytes()
	for i := range at {
		at[i] = f.base[i] + d.Pitch*uint64(y[i]) + size*uint64(x[i])
	}
	f.readAt(&at, size, l, k)
}

// readAt reads texel k of all lanes of the mask at some addresses.
func (f *flat) readAt(at *[32]uint64, size uint64, l *texture.Lanes, k int) {
	switch size {
	case 1:
		readTexels[uint8](f, at, &l.Lo[k])
	case 2:
		readTexels[uint16](f, at, &l.Lo[k])
	case 4:
		readTexels[uint32](f, at, &l.Lo[k])
	case 8:
		readTexels[uint64](f, at, &l.Lo[k])
	default:
		readTexels[uint64](f, at, &l.Lo[k])
		for i := range at {
			at[i] += 8
		}
		readTexels[uint64](f, at, &l.Hi[k])
	}
}

// turn translates an address of lane i that lies outside of the page.
func (f *flat) turn(i int, addr uint64, need gpu.Prot) {
	e := f.w.Worker.TLB.Translate(addr, need)
	if e == nil {
		f.w.FailAddress(i, gpu.LostAddress, addr, need == gpu.ProtWrite, "texel")
	}
	f.page = *e
}

// holds reports whether an address lies in the page.
func (f *flat) holds(addr uint64) bool { return addr&^f.page.Mask == f.page.Base && f.page.Page != nil }

// readTexels reads what lies at the addresses of the lanes.
//
//go:norace
func readTexels[T tlb.Word](f *flat, at *[32]uint64, to *[32]uint64) {
	for m := f.mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		if !f.holds(at[i]) {
			f.turn(i, at[i], gpu.ProtRead)
		}
		to[i] = uint64(*tlb.At[T](&f.page, at[i]))
	}
}

// surfaceWords loads or stores a word or two of each lane. It reports false, and has done nothing, where
// some lane needs more than an address.
func surfaceWords(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor, mask uint32) bool {
	var at [32]uint64
	y := &w.R32[op.X] // any: a row has none
	if op.Y != ir.NoReg {
		y = &w.R32[op.Y]
	}
	if !d.ResolveLanes(&w.R32[op.X], y, mask, op.Size, &at) {
		return false
	}
	f, r := flat{w: w, mask: mask}, op.Regs[0]
	switch {
	case op.Kind == ir.TexStore && op.Size == 8:
		writeWords(&f, &at, &w.R64[r])
	case op.Kind == ir.TexStore:
		writeWords(&f, &at, &w.R32[r])
	case op.Size == 8:
		readWords(&f, &at, &w.R64[r])
	default:
		readWords(&f, &at, &w.R32[r])
	}
	return true
}

// readWords reads what lies at the addresses of the lanes.
//
//go:norace
func readWords[T uint32 | uint64](f *flat, at *[32]uint64, to *[32]T) {
	for m := f.mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		if !f.holds(at[i]) {
			f.turn(i, at[i], gpu.ProtRead)
		}
		to[i] = *tlb.At[T](&f.page, at[i])
	}
}

// writeWords writes them; of lanes that write the same place the highest wins.
//
//go:norace
func writeWords[T uint32 | uint64](f *flat, at *[32]uint64, from *[32]T) {
	for m := f.mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		if !f.holds(at[i]) {
			f.turn(i, at[i], gpu.ProtWrite)
		}
		*tlb.At[T](&f.page, at[i]) = from[i]
	}
}
