package lane

import (
	"math"
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/scalar"
)

// integers reads the elements of a word of a register: words themselves of bits.
func integers(e ir.Element, word uint32, to *[8]int32) int {
	switch e {
	case ir.ElementS8, ir.ElementU8:
		for n := range 4 {
			to[n] = int32(word >> (8 * n) & 0xff)
			if e == ir.ElementS8 {
				to[n] = int32(int8(to[n]))
			}
		}
		return 4
	case ir.ElementS4, ir.ElementU4:
		for n := range 8 {
			to[n] = int32(word >> (4 * n) & 0xf)
			if e == ir.ElementS4 {
				to[n] = to[n] << 28 >> 28
			}
		}
		return 8
	}
	to[0] = int32(word)
	return 1
}

// MatrixInteger is mma and wmma.mma of integers and of bits.
func MatrixInteger(w *ir.Warp, in *ir.Inst) {
	op, t := in.X.Matrix, tile(w)
	var results [8][32]uint32
	depth := integerDepth(op.A, op.K)
	for n := range op.Number {
		integersA(w.R32, op, t, depth, op.Regs[ir.MatrixA][n*op.StepA:])
		integersB(w.R32, op, t, depth, op.Regs[ir.MatrixB][n*op.StepB:])
		switch {
		case op.A != ir.ElementB1:
			addIntegers(t, op.Rows, depth)
		default:
			countBits(t, op.Rows, depth, op.And)
		}
		addSums(w.R32, op, t, op.Regs[ir.MatrixC][n*op.StepC:], results[n*op.StepD:])
	}
	for r := range op.Count[ir.MatrixD] {
		CopyLanes(&w.R32[op.Regs[ir.MatrixD][r]], &results[r], w.Mask, ir.AllLanes)
	}
	w.Budget -= MatrixCost
}

// addSums adds c to the sums of a tile of integers.
func addSums(file [][32]uint32, op *ir.MatrixOp, t *ir.Tile, c []uint32, results [][32]uint32) {
	for row := range op.Rows {
		for col := range 8 {
			lane, r := row&7<<2|col>>1, row>>3<<1|col&1
			sum := int64(t.Sum[row][col]) + int64(int32(file[c[r]][lane]))
			if op.Saturate {
				sum = min(max(sum, math.MinInt32), math.MaxInt32)
			}
			results[r][lane] = uint32(sum)
		}
	}
}

// wordsPer is how many integers of an element's type a register holds, words themselves of bits.
func wordsPer(e ir.Element) int {
	if e == ir.ElementB1 {
		return 1
	}
	return e.PerRegister()
}

// integersA reads a of a tile.
func integersA(file [][32]uint32, op *ir.MatrixOp, t *ir.Tile, depth int, a []uint32) {
	var list [8]int32
	half, per := op.Rows/8, wordsPer(op.A)
	for r := range depth / (4 * per) * half {
		for lane, word := range &file[a[r]] {
			row, col := lane>>2+8*(r%half), r/half*4*per+lane&3*per
			for e := range integers(op.A, word, &list) {
				t.A[row][col+e] = list[e]
			}
		}
	}
}

// integersB reads b of a tile.
func integersB(file [][32]uint32, op *ir.MatrixOp, t *ir.Tile, depth int, b []uint32) {
	var list [8]int32
	per := wordsPer(op.B)
	for r := range depth / (4 * per) {
		for lane, word := range &file[b[r]] {
			row, col := r*4*per+lane&3*per, lane>>2
			for e := range integers(op.B, word, &list) {
				t.B[row+e][col] = list[e]
			}
		}
	}
}

// integersPortable multiplies a tile of integers of 8 bits and less into t.Sum.
func integersPortable(t *ir.Tile, rows, depth int) {
	for i := range rows {
		var sums [8]int32
		for k, x := range t.A[i][:depth] {
			b := &t.B[k]
			for j := range sums {
				sums[j] += x * b[j]
			}
		}
		t.Sum[i] = sums
	}
}

// addIntegers is integersPortable, or a faster one.
var addIntegers = integersPortable

// countBits counts the bits that a row and a column have in common, or that differ.
func countBits(t *ir.Tile, rows, depth int, and bool) {
	for i := range rows {
		for j := range 8 {
			n := 0
			for k, x := range t.A[i][:depth] {
				y := t.B[k][j]
				if and {
					y &= x
				} else {
					y ^= x
				}
				n += bits.OnesCount32(uint32(y))
			}
			t.Sum[i][j] = int32(n)
		}
	}
}

// MatrixDouble is mma and wmma.mma of f64: products are added in the order of k, each with
// one rounding.
func MatrixDouble(w *ir.Warp, in *ir.Inst) {
	op, t := in.X.Matrix, tile(w)
	regs := &op.Regs
	half := op.Rows / 8
	for r := range op.Count[ir.MatrixA] {
		for lane, x := range &w.R64[regs[ir.MatrixA][r]] {
			t.A64[lane>>2+8*(r%half)][r/half*4+lane&3] = math.Float64frombits(x)
		}
	}
	for r := range op.Count[ir.MatrixB] {
		for lane, x := range &w.R64[regs[ir.MatrixB][r]] {
			t.B64[r*4+lane&3][lane>>2] = math.Float64frombits(x)
		}
	}
	for row := range op.Rows {
		for col := range 8 {
			sum := math.Float64frombits(w.R64[regs[ir.MatrixC][row>>3<<1|col&1]][row&7<<2|col>>1])
			for k, x := range t.A64[row][:op.K] {
				y := t.B64[k][col]
				sum = scalar.FixFMA(math.FMA(x, y, sum), x, y, sum)
			}
			t.C64[row][col] = sum
		}
	}
	for row := range op.Rows {
		for col := range 8 {
			if lane := row&7<<2 | col>>1; w.Mask>>lane&1 != 0 {
				w.R64[regs[ir.MatrixD][row>>3<<1|col&1]][lane] = math.Float64bits(t.C64[row][col])
			}
		}
	}
	w.Budget -= MatrixCost
}
