//go:build goexperiment.simd && amd64

package texture

import (
	"math"
	"simd/archsimd"
)

// Parts makes the weights of the texels, and gives lanes outside the colour of the border. It comes
// after Words are filled in, and before Result.
func (p *Plan) Parts() {
	if (p.outside[0][0] | p.outside[0][1] | p.outside[1][0] | p.outside[1][1]) != 0 {
		p.patch()
	}
	if p.Single {
		return
	}
	full, half := archsimd.BroadcastUint32x8(one), archsimd.BroadcastUint32x8(one/2)
	for i := 0; i < 32; i += 8 {
		x, y := load8(&p.weight[0], i), load8(&p.weight[1], i)
		left := full.Sub(x)
		low := x.Mul(y).Add(half).ShiftAllRight(fractionBits)
		high := left.Mul(full.Sub(y)).Add(half).ShiftAllRight(fractionBits)
		store8(&p.part[0], i, high)
		store8(&p.part[1], i, x.Sub(low))
		store8(&p.part[2], i, left.Sub(high))
		store8(&p.part[3], i, low)
	}
	archsimd.ClearAVXUpperBits()
}

// Result makes channel n of all lanes, which the texture has. Precondition: Parts has been called.
func (p *Plan) Result(n int, out *[32]uint32) {
	d := p.d
	switch f := d.Format; {
	case f == F32 && !p.Single:
		p.floats(n, out)
	case f == F32 && d.Linear:
		middles(&p.Words[0][n], out)
	case f.Size() == 4:
		*out = p.Words[0][n]
	case p.Single:
		p.smallOnes(n, out)
	default:
		p.bytes(n, out)
	}
	archsimd.ClearAVXUpperBits()
}

// middles is the filter of float32 that takes one texel: subnormal numbers are 0, and there is one NaN.
func middles(words, out *[32]uint32) {
	magnitude, infinity, least := archsimd.BroadcastInt32x8(math.MaxInt32), archsimd.BroadcastInt32x8(0xff<<23), archsimd.BroadcastInt32x8(1<<23-1)
	nan := archsimd.BroadcastInt32x8(int32(resultNaN(realResult)))
	for i := 0; i < 32; i += 8 {
		x := load8(words, i).AsInt32x8()
		size := x.And(magnitude)
		x = nan.Merge(x.Masked(size.Greater(least)), size.Greater(infinity))
		store8(out, i, x.AsUint32x8())
	}
}

// smallOnes is channel n of texels of 8 or 16 bits a channel, one a lane.
func (p *Plan) smallOnes(n int, out *[32]uint32) {
	bits := 8 * p.d.Format.Size()
	words := &p.Words[0][n*bits/32]
	left := uint64(32 - bits - n*bits%32) // to the top, and down again
	right := uint64(32 - bits)
	if p.d.Format.Signed() {
		for i := 0; i < 32; i += 8 {
			store8(out, i, load8(words, i).AsInt32x8().ShiftAllLeft(left).ShiftAllRight(right).AsUint32x8())
		}
		return
	}
	rest, power := quotient(bits)
	slow, fast := archsimd.BroadcastFloat32x8(rest), archsimd.BroadcastFloat32x8(power)
	for i := 0; i < 32; i += 8 {
		x := load8(words, i).ShiftAllLeft(left).ShiftAllRight(right)
		if p.d.Floats {
			f := x.AsInt32x8().ConvertToFloat32()
			x = f.MulAdd(slow, f.Mul(fast)).AsUint32x8()
		}
		store8(out, i, x)
	}
}

// bytes filters channel n of bytes.
func (p *Plan) bytes(n int, out *[32]uint32) {
	up := uint64(24 - 8*n)
	rest, power := quotient(16)
	slow, fast := archsimd.BroadcastFloat32x8(rest), archsimd.BroadcastFloat32x8(power)
	half, twice := archsimd.BroadcastUint32x8(one/2), archsimd.BroadcastUint32x8(257)
	for i := 0; i < 32; i += 8 {
		sum := load8(&p.Words[0][0], i).ShiftAllLeft(up).ShiftAllRight(24).Mul(load8(&p.part[0], i))
		sum = sum.Add(load8(&p.Words[1][0], i).ShiftAllLeft(up).ShiftAllRight(24).Mul(load8(&p.part[1], i)))
		sum = sum.Add(load8(&p.Words[2][0], i).ShiftAllLeft(up).ShiftAllRight(24).Mul(load8(&p.part[2], i)))
		sum = sum.Add(load8(&p.Words[3][0], i).ShiftAllLeft(up).ShiftAllRight(24).Mul(load8(&p.part[3], i)))
		f := sum.Mul(twice).Add(half).ShiftAllRight(fractionBits).AsInt32x8().ConvertToFloat32()
		store8(out, i, f.MulAdd(slow, f.Mul(fast)).AsUint32x8())
	}
}

// floats filters channel n of float32. A number that is cut off at the last bit of the largest has 28 bits:
// its upper 16 and lower 12 are weighted apart, so that a float32 holds each sum.
func (p *Plan) floats(n int, out *[32]uint32) {
	const lowBits = 12
	none, magnitude := archsimd.BroadcastInt32x8(0), archsimd.BroadcastInt32x8(math.MaxInt32)
	infinity, least := archsimd.BroadcastInt32x8((mostExponent+1)<<23-1), archsimd.BroadcastInt32x8(leastExponent<<23)
	subnormal := archsimd.BroadcastInt32x8(1<<23 - 1)
	for i := 0; i < 32; i += 8 {
		var most, top archsimd.Int32x8
		for k := range 4 {
			v := load8(&p.Words[k][n], i).AsInt32x8().And(magnitude)
			most = most.Max(v)
			top = top.Max(v.Masked(load8(&p.part[k], i).AsInt32x8().Greater(none)))
		}
		if !most.Greater(infinity).Or(least.Greater(top).And(top.Greater(subnormal))).ToInt32x8().IsZero() {
			archsimd.ClearAVXUpperBits()
			p.filterOne(n, i, i+8, out)
			continue
		}
		exps := top.ShiftAllRight(23) // of zeros and subnormal numbers alone it is 0
		scale := archsimd.BroadcastInt32x8(2*127 + realBits - 1).Sub(exps).ShiftAllLeft(23).Masked(exps.Greater(none)).AsFloat32x8()
		down, up := archsimd.BroadcastFloat32x8(1.0/(1<<lowBits)), archsimd.BroadcastFloat32x8(-(1 << lowBits))
		var high, low archsimd.Float32x8
		for k := range 4 {
			part := load8(&p.part[k], i).AsInt32x8()
			w := part.ConvertToFloat32()
			x := load8(&p.Words[k][n], i).AsInt32x8().Masked(part.Greater(none)).AsFloat32x8().Mul(scale).Trunc()
			h := x.Mul(down).Trunc()
			high, low = h.MulAdd(w, high), h.MulAdd(up, x).MulAdd(w, low)
		}
		lo := rounded(high.GetLo(), low.GetLo(), exps.GetLo())
		hi := rounded(high.GetHi(), low.GetHi(), exps.GetHi())
		store8(out, i, archsimd.Uint32x8{}.SetLo(lo).SetHi(hi))
	}
}

// rounded is the sum of both parts, rounded half away from zero to 24 bits; a carry goes into the
// exponent. exps are the exponents of the largest numbers.
func rounded(high, low archsimd.Float32x4, exps archsimd.Int32x4) archsimd.Uint32x4 {
	const lowBits = 12
	sum := high.ConvertToFloat64().MulAdd(archsimd.BroadcastFloat64x4(1<<lowBits), low.ConvertToFloat64())
	f := sum.AsUint64x4().Add(archsimd.BroadcastUint64x4(1 << (dropped - 1))).And(archsimd.BroadcastUint64x4(1<<64 - 1<<dropped)).AsFloat64x4()
	unit := exps.AsUint32x4().ExtendToUint64().Add(archsimd.BroadcastUint64x4(1023 - 127 - (realBits - 1) - fractionBits)).ShiftAllLeft(52).AsFloat64x4()
	return f.Mul(unit).ConvertToFloat32().AsUint32x4()
}

// patch gives lanes outside the colour of the border.
func (p *Plan) patch() {
	for k := range 4 {
		out := p.outside[0][k&1] | p.outside[1][k>>1]
		if out == 0 {
			continue
		}
		for n := range (p.Texel + 3) / 4 {
			for i := range 32 {
				if out>>i&1 != 0 {
					p.Words[k][n][i] = p.border[n]
				}
			}
		}
	}
}

// filterOne is the filter of channel n of float32 of some lanes, for all numbers.
func (p *Plan) filterOne(n, from, to int, out *[32]uint32) {
	for i := from; i < to; i++ {
		var v, w [4]uint32
		for k := range v {
			v[k], w[k] = p.Words[k][n][i], p.part[k][i]
		}
		out[i] = filterFloats(&v, &w)
	}
}
