package lane

import (
	"math"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/scalar"
)

// MatrixQuads is mma.m8n8k4 of f16: four products of 8×8. Lanes 4q to 4q+3 and those 16
// above them have the matrices of product q (section 9.7.13, m8n8k4). An H100 has no tensor
// core for it and adds in f32, product by product, and c at the end (docs/ptx.md).
func MatrixQuads(w *ir.Warp, in *ir.Inst) {
	op := in.X.Matrix
	var results [8][32]uint32
	for q := range 4 {
		a, b := quadFactors(w, op, ir.MatrixA, q), quadFactors(w, op, ir.MatrixB, q)
		for row := range 8 {
			for col := range 8 {
				var sum float32
				for k := range 4 {
					sum += a[row][k] * b[col][k] // the product is exact
				}
				lane, r, high := quadPlace(op.C, q, row, col)
				c := w.R32[op.Regs[ir.MatrixC][r]][lane]
				if op.C == ir.ElementF16 {
					sum += scalar.F16to32(c >> high & 0xffff)
				} else {
					sum += math.Float32frombits(c)
				}
				lane, r, high = quadPlace(op.D, q, row, col)
				if op.D == ir.ElementF16 {
					results[r][lane] |= scalar.F16from32(sum) << high
				} else {
					results[r][lane] = canonF32(sum)
				}
			}
		}
	}
	for r := range op.Count[ir.MatrixD] {
		CopyLanes(&w.R32[op.Regs[ir.MatrixD][r]], &results[r], w.Mask, ir.AllLanes)
	}
	w.Budget -= MatrixCost
}

// quadFactors reads a or b of product q: the rows of a, the columns of b.
func quadFactors(w *ir.Warp, op *ir.MatrixOp, side, q int) (list [8][4]float32) {
	for outer := range list {
		for k := range 4 {
			// Across: a lane has the elements of one k, else those of one row of a or column of b.
			first, n := outer&3, k
			if op.Columns[side] {
				first, n = k, outer&3
			}
			word := w.R32[op.Regs[side][n>>1]][outer>>2<<4|q<<2|first]
			list[outer][k] = scalar.F16to32(word >> (16 * (n & 1)) & 0xffff)
		}
	}
	return list
}

// quadPlace is where an element of the sums of product q lies: in register r of a lane, from
// bit high on.
func quadPlace(e ir.Element, q, row, col int) (lane, r, high int) {
	lane = row>>2<<4 | q<<2
	if e == ir.ElementF16 {
		return lane | row&3, col >> 1, 16 * (col & 1)
	}
	return lane | row&1 | col&2, col&4 | row&2 | col&1, 0
}
