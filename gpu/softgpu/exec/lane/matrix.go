package lane

import (
	"math"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/scalar"
)

// MatrixCost is how many loop heads a product counts as.
const MatrixCost = 64

// tile is the worker's memory for products.
func tile(w *ir.Warp) *ir.Tile {
	if w.Worker.Tile == nil {
		w.Worker.Tile = new(ir.Tile)
	}
	return w.Worker.Tile
}

// MatrixFloat is mma and wmma.mma of floating point narrower than 64 bits. What the
// hardware computes is written in docs/ptx.md.
func MatrixFloat(w *ir.Warp, in *ir.Inst) {
	op, t := in.X.Matrix, tile(w)
	var results [8]([32]uint32)
	t.Special = false
	for n := range op.Number {
		if op.StepA != 0 || n == 0 {
			gatherA(w.R32, op, t, op.Regs[ir.MatrixA][n*op.StepA:])
		}
		if op.StepB != 0 || n == 0 {
			gatherB(w.R32, op, t, op.Regs[ir.MatrixB][n*op.StepB:])
		}
		gatherC(w.R32, op, t, op.Regs[ir.MatrixC][n*op.StepC:])
		if op.After {
			multiplyFirst(t, op)
		} else {
			decodeSums(t, op.Rows, narrowSums(op))
			multiply(t, op)
		}
		scatterD(op, t, results[n*op.StepD:])
	}
	for r := range op.Count[ir.MatrixD] {
		CopyLanes(&w.R32[op.Regs[ir.MatrixD][r]], &results[r], w.Mask, ir.AllLanes)
	}
	w.Budget -= MatrixCost
}

// narrowSums reports whether sums are rounded to 16 bits: those of an f16 result that begin
// with one.
func narrowSums(op *ir.MatrixOp) bool { return op.C == ir.ElementF16 && op.D == ir.ElementF16 }

// multiply adds the products of a tile to t.C, as many at once as the hardware does.
func multiply(t *ir.Tile, op *ir.MatrixOp) {
	narrow := narrowSums(op)
	for first := 0; first < op.K; first += op.Depth {
		last := min(first+op.Depth, op.K)
		if first > 0 {
			decodeSums(t, op.Rows, narrow)
		}
		addProducts(t, op.Rows, first, last)
		for i := range op.Rows {
			if !narrow && !t.Special && encodeSums(t, i) {
				continue
			}
			for j := range 8 {
				c := t.C[i][j]
				sum, unit := int64(t.Sum[i][j])+int64(t.Start[i][j]), t.Max[i][j]-sumFraction
				if narrow {
					t.C[i][j] = encodeF16(sum, unit)
				} else {
					t.C[i][j] = encodeF32(sum, unit)
				}
				if t.Special {
					specialSum(t, i, j, first, last, c, narrow)
				}
			}
		}
	}
}

// multiplyFirst is multiply for sums that begin with zero, to which c is added at the end.
func multiplyFirst(t *ir.Tile, op *ir.MatrixOp) {
	added, narrow := t.C, narrowSums(op)
	t.C = [16][8]uint32{}
	decodeSums(t, op.Rows, narrow)
	multiply(t, op)
	for i := range op.Rows {
		for j, c := range &added[i] {
			if sum := &t.C[i][j]; narrow {
				*sum = scalar.F16from32(scalar.F16to32(*sum) + scalar.F16to32(c)) // an exact sum, rounded once
			} else {
				*sum = canonF32(math.Float32frombits(*sum) + math.Float32frombits(c))
			}
		}
	}
}

// canonF32 is the bits of an f32, with the one NaN that the hardware gives.
func canonF32(x float32) uint32 {
	if x != x {
		return nanF32
	}
	return math.Float32bits(x)
}

// sumFraction is how many bits below the unit of the largest exponent a sum keeps.
const sumFraction = 25

// truncate shifts a significand right, towards zero.
func truncate(x int32, n uint32) int32 {
	s := x >> 31
	return (int32(uint32((x^s)-s)>>n) ^ s) - s
}

// addPortable sums products first to last of a tile into t.Sum, and what is left of t.C into
// t.Start, aligned to the largest exponent of all, which it leaves in t.Max. The 16 products
// of a block are less than 2 to the 31 together.
func addPortable(t *ir.Tile, rows, first, last int) {
	for i := range rows {
		a, exps := t.A[i][first:last], t.AExp[i][first:last]
		for j := range 8 {
			top := t.CExp[i][j]
			for k, e := range exps {
				top = max(top, e+t.BExp[first+k][j])
			}
			top += t.Cut
			sum := int32(0)
			for k, x := range a {
				sum += truncate(x*t.B[first+k][j], uint32(top-exps[k]-t.BExp[first+k][j]))
			}
			t.Start[i][j] = truncate(t.CSig[i][j], uint32(top-t.CExp[i][j]))
			t.Sum[i][j], t.Max[i][j] = sum, top
		}
	}
}

// addProducts is addPortable, or a faster one.
var addProducts = addPortable

// gatherHalvesA and gatherHalvesB are faster ways to gather elements of 16 bits, or nil.
var gatherHalvesA, gatherHalvesB func(file [][32]uint32, op *ir.MatrixOp, t *ir.Tile, regs []uint32)

// decodeF32 is decodePortable, or a faster one.
var decodeF32 = decodePortable

// encodeSums makes f32s of a row of sums at once, or reports false where that is not possible.
var encodeSums = func(*ir.Tile, int) bool { return false }

// Exponents of what has none.
const (
	zeroExp = -4096
	infExp  = 1 << 16
	nanExp  = 1 << 17
)

// halfValue decodes a number of 16 bits with so many bits of fraction, shifted left to have
// bits in all.
func halfValue(x uint32, fraction, bits int) (sig, exp int32) {
	width := 15 - fraction
	field, mantissa := int32(x>>fraction)&(1<<width-1), int32(x&(1<<fraction-1))
	bias := int32(1)<<(width-1) - 1
	switch {
	case field == 1<<width-1:
		sig, exp = 1<<fraction, infExp
		if mantissa != 0 {
			exp = nanExp
		}
	case field != 0:
		sig, exp = mantissa|1<<fraction, field-bias
	case mantissa != 0:
		sig, exp = mantissa, 1-bias
	default:
		return 0, zeroExp
	}
	sig <<= bits - fraction
	if x>>15 != 0 {
		sig = -sig
	}
	return sig, exp
}

// decode reads the elements of a word of a register, with the product's bits of fraction in
// a's. It returns how many there are.
func decode(op *ir.MatrixOp, e ir.Element, word uint32, left bool, sig, exp *[8]int32) int {
	shift := func(fraction int) int {
		if left { // a·b has 2·fraction bits, and gets sumFraction
			return sumFraction - fraction
		}
		return fraction
	}
	switch e {
	case ir.ElementF16:
		sig[0], exp[0] = halfValue(word&0xffff, 10, shift(10))
		sig[1], exp[1] = halfValue(word>>16, 10, shift(10))
		return 2
	case ir.ElementBF16:
		sig[0], exp[0] = halfValue(word&0xffff, 7, shift(7))
		sig[1], exp[1] = halfValue(word>>16, 7, shift(7))
		return 2
	case ir.ElementTF32:
		sig[0], exp[0] = tf32Value(word, shift(10))
		return 1
	}
	if op.Bytes {
		for n := range 4 {
			sig[n], exp[n] = byteValue(e, word>>(8*n)&0xff, shift(10))
		}
		return 4
	}
	to16 := scalar.E4m3to16
	if e == ir.ElementE5M2 {
		to16 = scalar.E5m2to16
	}
	for n := range 4 {
		sig[n], exp[n] = halfValue(to16(word>>(8*n)&0xff), 10, shift(10))
	}
	return 4
}

// byteValue is halfValue of an e4m3 or e5m2.
func byteValue(e ir.Element, x uint32, bits int) (sig, exp int32) {
	if e == ir.ElementE5M2 {
		return halfValue(x<<8, 10, bits)
	}
	const bias = 7
	field, mantissa := int32(x>>3)&15, int32(x&7)
	switch {
	case x&0x7f == 0x7f:
		sig, exp = 1, nanExp
	case field != 0:
		sig, exp = mantissa|1<<3, field-bias
	case mantissa != 0:
		sig, exp = mantissa, 1-bias
	default:
		return 0, zeroExp
	}
	sig <<= bits - 3
	if x>>7 != 0 {
		sig = -sig
	}
	return sig, exp
}

// tf32Value decodes the upper 19 bits of a word.
func tf32Value(word uint32, bits int) (sig, exp int32) {
	sig, exp = halfValueWide(word>>13, bits)
	return sig, exp
}

// halfValueWide decodes 19 bits: 8 of exponent and 10 of fraction.
func halfValueWide(x uint32, bits int) (sig, exp int32) {
	field, mantissa := int32(x>>10)&0xff, int32(x&0x3ff)
	switch {
	case field == 0xff:
		sig, exp = 1<<10, infExp
		if mantissa != 0 {
			exp = nanExp
		}
	case field != 0:
		sig, exp = mantissa|1<<10, field-127
	case mantissa != 0:
		sig, exp = mantissa, -126
	default:
		return 0, zeroExp
	}
	sig <<= bits - 10
	if x>>18 != 0 {
		sig = -sig
	}
	return sig, exp
}

// order is the place of product k among those that are added up: of 8-bit formats the lower
// pairs of all registers come first.
func order(op *ir.MatrixOp, k int) int {
	if op.A != ir.ElementE4M3 && op.A != ir.ElementE5M2 {
		return k
	}
	return k>>1&1*op.K/2 + k>>2<<1 + k&1
}

// gatherA decodes a of a tile from a file of registers.
func gatherA(file [][32]uint32, op *ir.MatrixOp, t *ir.Tile, regs []uint32) {
	if gatherHalvesA != nil && op.A <= ir.ElementBF16 {
		gatherHalvesA(file, op, t, regs)
		return
	}
	per := op.A.PerRegister()
	var sig, exp [8]int32
	half := op.Rows / 8
	for r := range op.K / (4 * per) * half {
		reg := &file[regs[r]]
		for lane, word := range reg {
			n := decode(op, op.A, word, true, &sig, &exp)
			row, col := lane>>2+8*(r%half), r/half*4*per+lane&3*per
			for e := range n {
				k := order(op, col+e)
				t.A[row][k], t.AExp[row][k] = sig[e], exp[e]
				t.Special = t.Special || exp[e] >= infExp
			}
		}
	}
}

// gatherB decodes b of a tile.
func gatherB(file [][32]uint32, op *ir.MatrixOp, t *ir.Tile, regs []uint32) {
	if gatherHalvesB != nil && op.B <= ir.ElementBF16 {
		gatherHalvesB(file, op, t, regs)
		return
	}
	per := op.B.PerRegister()
	var sig, exp [8]int32
	for r := range op.K / (4 * per) {
		reg := &file[regs[r]]
		for lane, word := range reg {
			n := decode(op, op.B, word, false, &sig, &exp)
			row, col := r*4*per+lane&3*per, lane>>2
			for e := range n {
				k := order(op, row+e)
				t.B[k][col], t.BExp[k][col] = sig[e], exp[e]
				t.Special = t.Special || exp[e] >= infExp
			}
		}
	}
}

// gatherC reads c of a tile: f16 where all sums are to be, else f32.
func gatherC(file [][32]uint32, op *ir.MatrixOp, t *ir.Tile, regs []uint32) {
	if op.C != ir.ElementF16 {
		for row := range op.Rows {
			even, odd := (*[4]uint32)(file[regs[row>>3<<1]][row&7<<2:]), (*[4]uint32)(file[regs[row>>3<<1|1]][row&7<<2:])
			t.C[row] = [8]uint32{even[0], odd[0], even[1], odd[1], even[2], odd[2], even[3], odd[3]}
		}
		return
	}
	narrow := narrowSums(op)
	for row := range op.Rows {
		for col := range 8 {
			x := file[regs[row>>3]][row&7<<2|col>>1] >> (16 * (col & 1)) & 0xffff
			if !narrow {
				x = widenF16(x)
			}
			t.C[row][col] = x
		}
	}
}

// widenF16 is an f16 as f32.
func widenF16(x uint32) uint32 { return math.Float32bits(scalar.F16to32(x)) }

// decodeSums finds the significands and exponents of the sums so far.
func decodeSums(t *ir.Tile, rows int, narrow bool) {
	if !narrow {
		decodeF32(t, rows)
		return
	}
	for i := range rows {
		for j, c := range &t.C[i] {
			sig, exp := f16Term(c)
			t.CSig[i][j], t.CExp[i][j] = sig, exp
			t.Special = t.Special || exp >= infExp
		}
	}
}

// decodePortable is decodeSums of f32.
func decodePortable(t *ir.Tile, rows int) {
	for i := range rows {
		for j, c := range &t.C[i] {
			sig, exp := f32Term(c)
			t.CSig[i][j], t.CExp[i][j] = sig, exp
			t.Special = t.Special || exp >= infExp
		}
	}
}

// scatterD writes the sums of a tile where the lanes have them.
func scatterD(op *ir.MatrixOp, t *ir.Tile, results [][32]uint32) {
	if op.D != ir.ElementF16 {
		for row := range op.Rows {
			c, even, odd := &t.C[row], (*[4]uint32)(results[row>>3<<1][row&7<<2:]), (*[4]uint32)(results[row>>3<<1|1][row&7<<2:])
			*even, *odd = [4]uint32{c[0], c[2], c[4], c[6]}, [4]uint32{c[1], c[3], c[5], c[7]}
		}
		return
	}
	narrow := narrowSums(op)
	for row := range op.Rows {
		for col := range 8 {
			x := t.C[row][col]
			if !narrow {
				x = scalar.F16from32(math.Float32frombits(x))
			}
			results[row>>3][row&7<<2|col>>1] |= x << (16 * (col & 1))
		}
	}
}

// f32Term is the significand of an f32 with sumFraction bits of fraction, and its exponent.
func f32Term(x uint32) (sig, exp int32) {
	field, mantissa := int32(x>>23)&0xff, int32(x&0x7fffff)
	switch {
	case field == 0xff && mantissa == 0:
		return 1, infExp
	case field == 0xff:
		return 1, nanExp
	case field != 0:
		sig, exp = mantissa|1<<23, field-127
	case mantissa == 0:
		return 0, zeroExp
	default:
		sig, exp = mantissa, -126
	}
	sig <<= sumFraction - 23
	if x>>31 != 0 {
		sig = -sig
	}
	return sig, exp
}

// f16Term is f32Term of an f16.
func f16Term(x uint32) (sig, exp int32) { return halfValue(x, 10, sumFraction) }
