//go:build goexperiment.simd && amd64

package texture

import (
	"math"
	"simd/archsimd"
)

func init() {
	if archsimd.X86.AVX2() && archsimd.X86.FMA() {
		clampSpans, aroundSpans, splitLanes = axis.clampVector, axis.aroundVector, (*Lanes).splitVector
		blendFloats, blendUnsigned = (*Lanes).floatsVector, (*Descriptor).unsignedVector
	}
}

// reals are four numbers as float64.
func reals(x *[32]uint32, i int) archsimd.Float64x4 {
	return archsimd.LoadUint32x4Slice(x[i : i+4]).AsFloat32x4().ConvertToFloat64()
}

// allReals is a number four times.
func allReals(x float64) archsimd.Float64x4 { return archsimd.BroadcastFloat64x4(x) }

// scales are what a coordinate is multiplied by before it is cut off (0: it is not), and after.
func (a axis) scales(linear bool) (before, after float64) {
	after = 1
	if linear {
		after = one
	}
	if a.normalized {
		before = float64(uint64(1) << a.fixedBits())
		after *= float64(a.size) / before
	}
	return before, after
}

// half is what rounds a coordinate that is filtered.
func halfOf(linear bool) archsimd.Float64x4 {
	if linear {
		return allReals(0.5)
	}
	return allReals(0)
}

// clampVector is clampLanes.
func (a axis) clampVector(x *[32]uint32, linear bool, s *Spans) {
	before, after := a.scales(linear)
	end := float64(a.size)
	if a.normalized {
		end = 1
	}
	var fixed [32]int32
	half := halfOf(linear)
	for i := 0; i < 32; i += 4 {
		u := reals(x, i).Max(allReals(0)).Min(allReals(end)) // Max gives the second for NaN
		if before != 0 {
			u = u.Mul(allReals(before)).Trunc()
		}
		u.Mul(allReals(after)).Add(half).ConvertToInt32().StoreSlice(fixed[i : i+4])
	}
	last := archsimd.BroadcastInt32x8(int32(a.size) - 1)
	for i := 0; i < 32; i += 8 {
		at := archsimd.LoadInt32x8Slice(fixed[i : i+8])
		if !linear {
			at.Min(last).StoreSlice(s.A[i : i+8])
			continue
		}
		at = at.Sub(archsimd.BroadcastInt32x8(one / 2)).Max(archsimd.BroadcastInt32x8(0)).Min(last.ShiftAllLeft(fractionBits))
		first, weight := at.ShiftAllRight(fractionBits), at.And(archsimd.BroadcastInt32x8(one-1))
		first.StoreSlice(s.A[i : i+8])
		first.Add(weight.Add(archsimd.BroadcastInt32x8(one - 1)).ShiftAllRight(fractionBits)).StoreSlice(s.B[i : i+8])
		weight.AsUint32x8().StoreSlice(s.Weight[i : i+8])
	}
	archsimd.ClearAVXUpperBits()
}

// aroundVector is aroundLanes.
func (a axis) aroundVector(x *[32]uint32, linear bool, s *Spans) {
	const even = 1 << 24
	before, after := a.scales(linear)
	var fixed [32]int32
	half := halfOf(linear)
	for i := 0; i < 32; i += 4 {
		u := reals(x, i)
		size := u.Max(allReals(0).Sub(u))
		u = u.Masked(size.GreaterEqual(allReals(smallest)).And(size.Less(allReals(even))))
		u = u.Mul(allReals(before)).Floor()
		u = u.Sub(u.Mul(allReals(0.5 / before)).Floor().Mul(allReals(2 * before)))
		u.Mul(allReals(after)).Add(half).ConvertToInt32().StoreSlice(fixed[i : i+4])
	}
	n := archsimd.BroadcastInt32x8(int32(a.size))
	for i := 0; i < 32; i += 8 {
		at := archsimd.LoadInt32x8Slice(fixed[i : i+8])
		if !linear {
			a.mode.foldVector(at, n).StoreSlice(s.A[i : i+8])
			continue
		}
		at = at.Sub(archsimd.BroadcastInt32x8(one / 2))
		whole, weight := at.ShiftAllRight(fractionBits), at.And(archsimd.BroadcastInt32x8(one-1))
		a.mode.foldVector(whole, n).StoreSlice(s.A[i : i+8])
		a.mode.foldVector(whole.Add(weight.Add(archsimd.BroadcastInt32x8(one-1)).ShiftAllRight(fractionBits)), n).StoreSlice(s.B[i : i+8])
		weight.AsUint32x8().StoreSlice(s.Weight[i : i+8])
	}
	archsimd.ClearAVXUpperBits()
}

// foldVector is fold.
func (m Mode) foldVector(i, n archsimd.Int32x8) archsimd.Int32x8 {
	twice, none := n.Add(n), archsimd.BroadcastInt32x8(0)
	i = i.Add(twice.Masked(i.Less(none)))
	i = i.Sub(twice.Masked(i.GreaterEqual(twice)))
	if m == Wrap {
		return i.Sub(n.Masked(i.GreaterEqual(n)))
	}
	return i.Min(twice.Sub(archsimd.BroadcastInt32x8(1)).Sub(i))
}

// splitVector is split.
func (l *Lanes) splitVector() {
	all := archsimd.BroadcastUint32x8
	for i := 0; i < 32; i += 8 {
		x, y := archsimd.LoadUint32x8Slice(l.X.Weight[i:i+8]), archsimd.LoadUint32x8Slice(l.Y.Weight[i:i+8])
		left := all(one).Sub(x)
		low := x.Mul(y).Add(all(one / 2)).ShiftAllRight(fractionBits)
		high := left.Mul(all(one).Sub(y)).Add(all(one / 2)).ShiftAllRight(fractionBits)
		high.StoreSlice(l.weight[0][i : i+8])
		x.Sub(low).StoreSlice(l.weight[1][i : i+8])
		left.Sub(high).StoreSlice(l.weight[2][i : i+8])
		low.StoreSlice(l.weight[3][i : i+8])
	}
	archsimd.ClearAVXUpperBits()
}

// quads are the words of four lanes, 64 bits each, shifted down and masked, and their weights.
func (l *Lanes) quads(words *[4][32]uint64, k, i int, shift uint64, mask uint64) (x, weight archsimd.Uint64x4) {
	x = archsimd.LoadUint64x4Slice(words[k][i : i+4]).ShiftAllRight(shift).And(archsimd.BroadcastUint64x4(mask))
	return x, archsimd.LoadUint32x4Slice(l.weight[k][i : i+4]).ExtendToUint64()
}

// whole is integers below 1<<52 as float64.
func whole(x archsimd.Uint64x4) archsimd.Float64x4 {
	const magic = 1 << 52
	return x.Or(archsimd.BroadcastUint64x4(math.Float64bits(magic))).AsFloat64x4().Sub(allReals(magic))
}

// floatsVector is blendFloats.
func (l *Lanes) floatsVector(n int) {
	words, shift := l.words(n)
	all := archsimd.BroadcastUint64x4
	none := archsimd.BroadcastInt32x8(0)
	for i := 0; i < 32; i += 4 {
		var v, w [4]archsimd.Uint64x4
		top, most := none, none
		for k := range v {
			v[k], w[k] = l.quads(words, k, i, uint64(shift), math.MaxUint32)
			e := v[k].ShiftAllRight(23).And(all(255)).AsInt32x8() // the upper halves are 0, here and below
			most = most.Max(e)
			top = top.Max(e.Masked(w[k].AsInt32x8().Greater(none)))
		}
		small := top.Less(archsimd.BroadcastInt32x8(leastExponent)).And(top.Greater(none))
		if small.Or(most.Greater(archsimd.BroadcastInt32x8(mostExponent))).ToBits() != 0 {
			archsimd.ClearAVXUpperBits()
			l.blendFloats(n, i, i+4)
			continue
		}
		scale := all(1023 + 127 + realBits - 1).Sub(top.AsUint64x4()).ShiftAllLeft(52).AsFloat64x4()
		scale = scale.Masked(top.AsInt64x4().Greater(archsimd.BroadcastInt64x4(0))) // of zeros it is 0
		var sum archsimd.Float64x4                                                  // begins with 0, so that it is not -0
		for k := range v {
			sign := v[k].And(all(1 << 31)).ShiftAllLeft(32)
			f := v[k].And(all(1<<31 - 1)).ShiftAllLeft(29).Add(all((1023 - 127) << 52)).Or(sign).AsFloat64x4()
			sum = sum.Add(f.Mul(scale).Trunc().Mul(whole(w[k])))
		}
		f := sum.AsUint64x4().Add(all(1 << (dropped - 1))).And(all(1<<64 - 1<<dropped)).AsFloat64x4()
		unit := top.AsUint64x4().Add(all(1023 - 127 - (realBits - 1) - fractionBits)).ShiftAllLeft(52).AsFloat64x4()
		f.Mul(unit).ConvertToFloat32().AsUint32x4().StoreSlice(l.Channel[n][i : i+4])
	}
	archsimd.ClearAVXUpperBits()
}

// unsignedVector is blendUnsigned.
func (d *Descriptor) unsignedVector(l *Lanes, n int) {
	factor, bits := uint64(257), 8
	if d.Format == U16 {
		factor, bits = 1, 16
	}
	all := archsimd.BroadcastUint64x4
	for i := 0; i < 32; i += 4 {
		sum := all(one / 2)
		for k := range 4 {
			x, w := l.quads(&l.Lo, k, i, uint64(n*bits), 1<<bits-1)
			x = x.AsUint32x8().Mul(all(factor).AsUint32x8()).Mul(w.AsUint32x8()).AsUint64x4()
			sum = sum.Add(x)
		}
		whole(sum.ShiftAllRight(fractionBits)).Div(allReals(math.MaxUint16)).ConvertToFloat32().AsUint32x4().StoreSlice(l.Channel[n][i : i+4])
	}
	archsimd.ClearAVXUpperBits()
}
