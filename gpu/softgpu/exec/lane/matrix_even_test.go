package lane

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/ir"
)

// transfers are matrices that wmma transfers, without those of less than a byte.
func transfers() (list []*ir.MatrixOp) {
	kind := func(rows, tall, wide, k int, swap bool, in, out ir.Element) {
		for fragment := range 4 {
			op := ir.MatrixOp{Rows: rows, K: k, Tall: tall, Wide: wide, Swap: swap, A: in, B: in, C: out, D: out, Fragment: fragment}
			switch fragment {
			case ir.MatrixA:
				op.Wide = k
			case ir.MatrixB:
				op.Tall = k
			}
			op.Count[fragment] = 8
			for _, op.Column = range []bool{false, true} {
				one := op
				list = append(list, &one)
			}
		}
	}
	for _, in := range []ir.Element{ir.ElementF16, ir.ElementBF16, ir.ElementS8} {
		for _, out := range []ir.Element{ir.ElementF16, ir.ElementF32} {
			kind(16, 16, 16, 16, false, in, out)
			kind(16, 32, 8, 16, false, in, out)
			kind(16, 32, 8, 16, true, in, out)
		}
	}
	kind(16, 16, 16, 8, false, ir.ElementTF32, ir.ElementF32)
	kind(8, 8, 8, 4, false, ir.ElementF64, ir.ElementF64)
	return list
}

// TestMatrixPlaces compares the places that transfers of whole matrices compute with those of
// single elements, and that none lies outside of the matrix: what is behind it is not checked.
func TestMatrixPlaces(t *testing.T) {
	for _, op := range transfers() {
		e := element(op)
		PlaceMatrix(op)
		along, across := op.Wide, op.Tall
		if op.Swap != op.Column {
			along, across = across, along
		}
		for r := range min(op.Count[op.Fragment], distinct(op, e)) {
			for lane := range uint64(32) {
				row, col, down := matrixPlace(op, e, r, int(lane))
				if op.Column {
					row, col = col, row
				}
				require.Equal(t, down != op.Column, op.Apart)
				g, n, p := lane/4, lane%4, op.Places[r]
				p.Along += g*op.Down.Along + n*op.Right.Along
				p.Across += g*op.Down.Across + n*op.Right.Across
				name := fmt.Sprintf("%+v, register %d, thread %d", *op, r, lane)
				require.Equal(t, ir.MatrixPlace{Along: uint64(col), Across: uint64(row)}, p, name)
				if op.Apart {
					p.Across += uint64(e.PerRegister()) - 1
				} else {
					p.Along += uint64(e.PerRegister()) - 1
				}
				require.Less(t, p.Along, uint64(along), name)
				require.Less(t, p.Across, uint64(across), name)
			}
		}
	}
}
