package lane

import "pvdrm/gpu/softgpu/exec/ir"

// rowTile is the worker's memory for one row of a sparse product.
func rowTile(w *ir.Warp) *ir.Tile {
	if w.Worker.Row == nil {
		w.Worker.Row = new(ir.Tile)
	}
	return w.Worker.Row
}

// MatrixSparse is mma.sp: a has half of the elements of its rows, and metadata tells which. A
// row is multiplied as a product of its own, with those rows of b that it has elements for.
func MatrixSparse(w *ir.Warp, in *ir.Inst) {
	op, t := in.X.Matrix, tile(w)
	whole := *op
	whole.K *= 2
	integer := op.D == ir.ElementS32
	t.Special = false
	if integer {
		integersA(w.R32, op, t, op.K, op.Regs[ir.MatrixA][:])
		integersB(w.R32, op, t, whole.K, op.Regs[ir.MatrixB][:])
	} else {
		gatherA(w.R32, op, t, op.Regs[ir.MatrixA][:])
		gatherB(w.R32, &whole, t, op.Regs[ir.MatrixB][:])
		gatherC(w.R32, op, t, op.Regs[ir.MatrixC][:])
	}
	sparseRows(w, op, t, 0)
	var results [8][32]uint32
	if integer {
		addSums(w.R32, op, t, op.Regs[ir.MatrixC][:], results[:])
	} else {
		scatterD(op, t, results[:])
	}
	for r := range op.Count[ir.MatrixD] {
		CopyLanes(&w.R32[op.Regs[ir.MatrixD][r]], &results[r], w.Mask, ir.AllLanes)
	}
	w.Budget -= MatrixCost
}

// sparseRows multiplies a tile of which a is sparse: into t.Sum of integers, else t.C. Cut is as
// in a Tile.
func sparseRows(w *ir.Warp, op *ir.MatrixOp, t *ir.Tile, cut int32) {
	row, whole, one := rowTile(w), *op, *op
	whole.K, one.Rows = 2*op.K, 1
	row.Special, row.Cut = t.Special, cut
	meta := &w.R32[op.Sparse.Meta]
	for i := range op.Rows {
		row.A[0], row.AExp[0], row.C[0] = t.A[i], t.AExp[i], t.C[i]
		for k := range op.K {
			to, from := order(op, k), order(&whole, sparsePlace(&op.Sparse, meta, i, k))
			row.B[to], row.BExp[to] = t.B[from], t.BExp[from]
		}
		switch {
		case op.D == ir.ElementS32:
			addIntegers(row, 1, op.K)
			t.Sum[i] = row.Sum[0]
			continue
		case op.After:
			multiplyFirst(row, &one)
		default:
			decodeSums(row, 1, narrowSums(op))
			multiply(row, &one)
		}
		t.C[i] = row.C[0]
	}
	row.Cut = 0
}

// sparsePlace is the column of element k of those that a has of a row. Metadata has four bits
// for each chunk of the row: two numbers of elements, or of runs of them, or for two elements
// of tf32 two numbers of their halves.
func sparsePlace(s *ir.Sparsity, meta *[32]uint32, row, k int) int {
	each := s.Chunk / 2 // elements of a chunk
	chunk, n := k/each, k%each
	lane, shift := row&7<<2+s.First, 0
	if s.Rows {
		lane, shift = lane+row>>3+chunk>>3<<1, chunk&7*4
	} else {
		lane, shift = lane+chunk>>2, row>>3*16+chunk&3*4
	}
	bits := int(meta[lane] >> shift)
	if s.Chunk == 2 {
		return chunk*2 + bits>>1&1
	}
	return chunk*s.Chunk + bits>>(n/s.Run*2)&3*s.Run + n%s.Run
}
