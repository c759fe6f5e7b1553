//go:build goexperiment.simd && amd64

package lane

import (
	"simd/archsimd"

	"pvdrm/gpu/softgpu/exec/ir"
)

// decodeVector is decodePortable for processors with AVX2: 8 columns at once.
func decodeVector(t *ir.Tile, rows int) {
	all := archsimd.BroadcastInt32x8
	var zero archsimd.Int32x8
	for i := range rows {
		x := archsimd.LoadUint32x8(&t.C[i]).AsInt32x8()
		field, mantissa := x.ShiftAllRight(23).And(all(0xff)), x.And(all(1<<23-1))
		m := mantissa.Or(all(1 << 23).Masked(field.Greater(zero)))
		e := all(zeroExp).Merge(field.Max(all(1)).Sub(all(127)), m.Equal(zero))
		sig := m.ShiftAllLeft(sumFraction - 23).CopySign(x.ShiftAllRight(31).Or(all(1)))
		special := field.Equal(all(0xff))
		if special.ToBits() != 0 {
			e = all(infExp).Merge(all(nanExp), mantissa.Equal(zero)).Merge(e, special)
			sig = all(1).Merge(sig, special)
			t.Special = true
		}
		sig.Store(&t.CSig[i])
		e.Store(&t.CExp[i])
	}
	archsimd.ClearAVXUpperBits()
}

// encodeVector is encodeF32 of a row of sums into t.C. It reports false where one of them is too
// small for a double's way, and leaves t.C.
func encodeVector(t *ir.Tile, i int) bool {
	all := archsimd.BroadcastInt32x8
	var zero archsimd.Int32x8
	sum, start := archsimd.LoadInt32x8(&t.Sum[i]), archsimd.LoadInt32x8(&t.Start[i])
	unit := archsimd.LoadInt32x8(&t.Max[i]).Sub(all(sumFraction))
	small := all(-99).Greater(unit).ToBits()
	if small&^sum.Or(start).Equal(zero).ToBits() != 0 {
		archsimd.ClearAVXUpperBits()
		return false
	}
	unit = unit.Max(all(-99)) // of zeros, which stay zero
	var c archsimd.Float32x8
	c = c.SetLo(encodeFour(sum.GetLo(), start.GetLo(), unit.GetLo()))
	c = c.SetHi(encodeFour(sum.GetHi(), start.GetHi(), unit.GetHi()))
	c.AsUint32x8().Store(&t.C[i])
	archsimd.ClearAVXUpperBits()
	return true
}

// encodeFour is encodeF32 of the sums of four products and starts, of which none is too small.
func encodeFour(sum, start, unit archsimd.Int32x4) archsimd.Float32x4 {
	scale := unit.ExtendToInt64().Add(archsimd.BroadcastInt64x4(1023)).ShiftAllLeft(52).AsFloat64x4()
	x := sum.ConvertToFloat64().Add(start.ConvertToFloat64()).Mul(scale).AsInt64x4() // exact
	return x.And(archsimd.BroadcastInt64x4(-1 << 29)).AsFloat64x4().ConvertToFloat32()
}
