//go:build goexperiment.simd && amd64

package lane

import (
	"simd/archsimd"

	"pvdrm/gpu/softgpu/exec/ir"
)

// addVector is addPortable for processors with AVX2: 8 columns at once.
func addVector(t *ir.Tile, rows, first, last int) {
	for i := range rows {
		a, exps := t.A[i][first:last], t.AExp[i][first:last]
		b, others := t.B[first:last], t.BExp[first:last]
		exps, b, others = exps[:len(a)], b[:len(a)], others[:len(a)]
		start := archsimd.LoadInt32x8(&t.CExp[i])
		top := start
		for k := range a {
			top = top.Max(archsimd.BroadcastInt32x8(exps[k]).Add(archsimd.LoadInt32x8(&others[k])))
		}
		top = top.Add(archsimd.BroadcastInt32x8(t.Cut))
		c := archsimd.LoadInt32x8(&t.CSig[i])
		c.Abs().AsUint32x8().ShiftRight(top.Sub(start).AsUint32x8()).AsInt32x8().CopySign(c).Store(&t.Start[i])
		var sum archsimd.Int32x8
		for k, x := range a {
			p := archsimd.BroadcastInt32x8(x).Mul(archsimd.LoadInt32x8(&b[k]))
			n := top.Sub(archsimd.BroadcastInt32x8(exps[k])).Sub(archsimd.LoadInt32x8(&others[k]))
			sum = sum.Add(p.Abs().AsUint32x8().ShiftRight(n.AsUint32x8()).AsInt32x8().CopySign(p))
		}
		sum.Store(&t.Sum[i])
		top.Store(&t.Max[i])
	}
	archsimd.ClearAVXUpperBits()
}

// integersVector is integersPortable for processors with AVX2.
func integersVector(t *ir.Tile, rows, depth int) {
	for i := range rows {
		a, b := t.A[i][:depth], t.B[:depth]
		b = b[:len(a)]
		var sum archsimd.Int32x8
		for k, x := range a {
			sum = sum.Add(archsimd.BroadcastInt32x8(x).Mul(archsimd.LoadInt32x8(&b[k])))
		}
		sum.Store(&t.Sum[i])
	}
	archsimd.ClearAVXUpperBits()
}

// halvesVector decodes 8 numbers of 16 bits as halfValue does, and reports whether some are
// infinite or NaN.
func halvesVector(from *[4]uint32, fraction, shift int, sig, exp *[8]int32) bool {
	x := archsimd.LoadUint32x4(from).AsUint16x8().ExtendToUint32().AsInt32x8()
	all := archsimd.BroadcastInt32x8
	width := 15 - fraction
	field := x.ShiftRight(all(int32(fraction))).And(all(1<<width - 1))
	mantissa := x.And(all(1<<fraction - 1))
	var zero archsimd.Int32x8
	normal := field.Greater(zero)
	m := mantissa.Or(all(1 << fraction).Masked(normal)).ShiftLeft(all(int32(shift)))
	e := field.Max(all(1)).Sub(all(1<<(width-1) - 1))
	e = all(zeroExp).Merge(e, m.Equal(zero))
	special := field.Equal(all(1<<width - 1))
	if special.ToBits() != 0 {
		inf := all(infExp).Merge(all(nanExp), mantissa.Equal(zero))
		e = inf.Merge(e, special)
	}
	sign := x.ShiftAllLeft(16).ShiftAllRight(31).Or(all(1)) // -1 or 1
	m.CopySign(sign).Store(sig)
	e.Store(exp)
	return special.ToBits() != 0
}

// halvesA is gatherA for elements of 16 bits.
func halvesA(file [][32]uint32, op *ir.MatrixOp, t *ir.Tile, regs []uint32) {
	fraction := 10
	if op.A == ir.ElementBF16 {
		fraction = 7
	}
	half := op.Rows / 8
	for r := range op.K / 8 * half {
		reg, col := &file[regs[r]], r/half*8
		for g := range 8 {
			row := g + 8*(r%half)
			if halvesVector((*[4]uint32)(reg[4*g:]), fraction, sumFraction-2*fraction, (*[8]int32)(t.A[row][col:]), (*[8]int32)(t.AExp[row][col:])) {
				t.Special = true
			}
		}
	}
	archsimd.ClearAVXUpperBits()
}

// halvesB is gatherB for elements of 16 bits.
func halvesB(file [][32]uint32, op *ir.MatrixOp, t *ir.Tile, regs []uint32) {
	fraction := 10
	if op.B == ir.ElementBF16 {
		fraction = 7
	}
	var sig, exp [8]int32
	for r := range op.K / 8 {
		reg, first := &file[regs[r]], r*8
		rows, exps := (*[8][8]int32)(t.B[first:]), (*[8][8]int32)(t.BExp[first:])
		for g := range 8 {
			if halvesVector((*[4]uint32)(reg[4*g:]), fraction, 0, &sig, &exp) {
				t.Special = true
			}
			for k := range 8 {
				rows[k][g], exps[k][g] = sig[k], exp[k]
			}
		}
	}
	archsimd.ClearAVXUpperBits()
}
