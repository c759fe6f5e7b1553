package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
	"pvdrm/gpu/texture"
)

// fetchPlanned is fetch for lanes of a mask with the same texture by its plan. It reports false, and has
// done nothing, where there is no plan or the texels of the warp do not lie in one page.
func fetchPlanned(w *ir.Warp, op *ir.TexOp, d *texture.Descriptor, p *texture.Plan, mask uint32) bool {
	if p == nil {
		return false
	}
	p.Place(&w.R32[op.X], rowOr(w, op.Y, op.X), rowOr(w, op.Layer, op.X))
	page := w.Worker.TLB.Translate(d.Base, gpu.ProtRead)
	if page == nil || d.Base&page.Mask+p.Bytes-1 > page.Mask {
		low, high := p.Reach() // of this warp's texels alone
		page = w.Worker.TLB.Translate(d.Base+low, gpu.ProtRead)
		if page == nil || (d.Base+low)&page.Mask+(high-low)-1 > page.Mask {
			return false
		}
	}
	e := *page
	readPlanned(p, &e, d.Base, op)
	p.Parts()
	for n, r := range op.Regs {
		switch {
		case r == ir.NoReg:
		case n >= int(d.Channels):
			Fill(&w.R32[r], 0, mask, w.Live)
		case mask == w.Live:
			p.Result(n, &w.R32[r])
		default:
			p.Result(n, &w.Old32)
			CopyLanes(&w.R32[r], &w.Old32, mask, w.Live)
		}
	}
	return true
}

// rowOr is a register, or another where there is none.
func rowOr(w *ir.Warp, r, other uint32) *[32]uint32 {
	if r == ir.NoReg {
		r = other
	}
	return &w.R32[r]
}

// readPlanned reads the texels of all lanes, also of those that do not fetch: all lie in the page.
func readPlanned(p *texture.Plan, e *tlb.Translation, base uint64, op *ir.TexOp) {
	switch p.Texel {
	case 1:
		readWord[uint8](p, e, base, 0)
	case 2:
		readWord[uint16](p, e, base, 0)
	default:
		for n := range int(p.Texel / 4) {
			if !p.Wide() || op.Regs[n] != ir.NoReg {
				readWord[uint32](p, e, base+4*uint64(n), n)
			}
		}
	}
}

// readWord reads word n of the texels.
//
//go:norace
func readWord[T tlb.Word](p *texture.Plan, e *tlb.Translation, base uint64, n int) {
	left, right, upper, lower := &p.Column[0], &p.Column[1], &p.Row[0], &p.Row[1]
	if p.Single {
		to := &p.Words[0][n]
		for i := range to {
			to[i] = uint32(*tlb.At[T](e, base+uint64(left[i]+upper[i])))
		}
		return
	}
	a, b, c, d := &p.Words[0][n], &p.Words[1][n], &p.Words[2][n], &p.Words[3][n]
	for i := range a {
		first, second := base+uint64(upper[i]), base+uint64(lower[i])
		x, y := uint64(left[i]), uint64(right[i])
		a[i], b[i] = uint32(*tlb.At[T](e, first+x)), uint32(*tlb.At[T](e, first+y))
		c[i], d[i] = uint32(*tlb.At[T](e, second+x)), uint32(*tlb.At[T](e, second+y))
	}
}
