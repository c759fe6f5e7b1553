package lane

import (
	"encoding/binary"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// ownRows finds where the rows of the matrices of ldmatrix or stmatrix lie in the .shared of the block. It reports false
// where not all lanes run, or a row is not there whole and aligned: then lanes have to be looked at one by one.
func ownRows(w *ir.Warp, in *ir.Inst, count int) (offsets [32]uint64, ok bool) {
	size := uint64(len(w.Block.Shared))
	if w.Mask != ir.AllLanes || size < rowBytes {
		return offsets, false
	}
	from := w.Block.Own()
	if in.Space == ir.SpaceGeneric {
		from += tlb.SharedBase
	}
	outside := uint64(0)
	for i, addr := range w.R64[in.A][:8*count] {
		at := addr + in.Imm - from
		offsets[i] = at
		outside |= (size-rowBytes-at)&(1<<63) | at&(1<<63) | at&(rowBytes-1)
	}
	return offsets, outside == 0
}

// loadOwnRows is LoadMatrix of rows in the block's own .shared, for all lanes.
func loadOwnRows(w *ir.Warp, op *ir.MatrixOp, offsets *[32]uint64) {
	for q, reg := range op.Regs[ir.MatrixD][:op.Count[ir.MatrixD]] {
		d := &w.R32[reg]
		if op.Trans {
			var rows [8][2]uint64
			for i, at := range offsets[8*q : 8*q+8] {
				row := w.Block.Shared[at : at+rowBytes]
				rows[i] = [2]uint64{binary.LittleEndian.Uint64(row), binary.LittleEndian.Uint64(row[8:])}
			}
			for half := range 2 {
				for k := range 2 {
					cols := transpose4([4]uint64{rows[4*half][k], rows[4*half+1][k], rows[4*half+2][k], rows[4*half+3][k]})
					for c, x := range cols {
						d[16*k+4*c+2*half], d[16*k+4*c+2*half+1] = uint32(x), uint32(x>>32)
					}
				}
			}
			continue
		}
		for i, at := range offsets[8*q : 8*q+8] {
			row, lanes := w.Block.Shared[at:at+rowBytes], (*[4]uint32)(d[4*i:])
			for k := range lanes {
				lanes[k] = binary.LittleEndian.Uint32(row[4*k:])
			}
		}
	}
}

// storeOwnRows is StoreMatrix of rows in the block's own .shared, for all lanes.
func storeOwnRows(w *ir.Warp, op *ir.MatrixOp, offsets *[32]uint64) {
	for q, reg := range op.Regs[ir.MatrixD][:op.Count[ir.MatrixD]] {
		s := &w.R32[reg]
		var rows [8][2]uint64
		if op.Trans {
			for half := range 2 {
				for k := range 2 {
					var cols [4]uint64
					for c := range cols {
						cols[c] = uint64(s[16*k+4*c+2*half]) | uint64(s[16*k+4*c+2*half+1])<<32
					}
					for i, x := range transpose4(cols) {
						rows[4*half+i][k] = x
					}
				}
			}
		} else {
			for i := range rows {
				rows[i] = [2]uint64{uint64(s[4*i]) | uint64(s[4*i+1])<<32, uint64(s[4*i+2]) | uint64(s[4*i+3])<<32}
			}
		}
		for i, at := range offsets[8*q : 8*q+8] {
			row := w.Block.Shared[at : at+rowBytes]
			binary.LittleEndian.PutUint64(row, rows[i][0])
			binary.LittleEndian.PutUint64(row[8:], rows[i][1])
		}
	}
}

// transpose4 is the transpose of a matrix of 4×4 elements of 16 bits.
func transpose4(r [4]uint64) [4]uint64 {
	const even = 0x0000ffff0000ffff
	a, b := r[0]&even|r[1]&even<<16, r[0]>>16&even|r[1]&^even // columns 0 and 2, 1 and 3, of rows 0 and 1
	c, d := r[2]&even|r[3]&even<<16, r[2]>>16&even|r[3]&^even
	return [4]uint64{a&(1<<32-1) | c<<32, b&(1<<32-1) | d<<32, a>>32 | c>>32<<32, b>>32 | d>>32<<32}
}
