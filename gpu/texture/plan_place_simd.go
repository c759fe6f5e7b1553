//go:build goexperiment.simd && amd64

package texture

import (
	"math"
	"simd/archsimd"
)

func init() { planVectors = archsimd.X86.AVX2() && archsimd.X86.FMA() }

// load8 is lanes at to at+7 of a row.
func load8(x *[32]uint32, at int) archsimd.Uint32x8 {
	return archsimd.LoadUint32x8((*[8]uint32)(x[at:]))
}

// store8 writes them.
func store8(x *[32]uint32, at int, v archsimd.Uint32x8) { v.Store((*[8]uint32)(x[at:])) }

// Place resolves coordinates, which are the bits of float32 numbers, and the numbers of layers.
// A texture of one dimension ignores y, and one without layers the layer. Precondition: Make planned the fetches.
func (p *Plan) Place(x, y, layer *[32]uint32) {
	p.axes[0].place(p, 0, x, &p.Column)
	if p.d.Shape == Shape2D {
		p.axes[1].place(p, 1, y, &p.Row)
	}
	if p.d.Layered {
		p.layers(layer)
	}
	p.Single = !p.d.Linear || p.still()
	archsimd.ClearAVXUpperBits()
}

// layers adds the layers of the lanes to their rows.
func (p *Plan) layers(layer *[32]uint32) {
	last, slice := archsimd.BroadcastUint32x8(p.d.Layers-1), archsimd.BroadcastUint32x8(uint32(p.d.Slice))
	for i := 0; i < 32; i += 8 {
		at := load8(layer, i).Min(last).Mul(slice)
		if p.d.Shape == Shape1D {
			store8(&p.Row[0], i, at)
			store8(&p.Row[1], i, at)
			continue
		}
		store8(&p.Row[0], i, load8(&p.Row[0], i).Add(at))
		store8(&p.Row[1], i, load8(&p.Row[1], i).Add(at))
	}
}

// still reports whether no lane has a weight.
func (p *Plan) still() bool {
	some := archsimd.BroadcastUint32x8(0)
	for i := 0; i < 32; i += 8 {
		some = some.Or(load8(&p.weight[0], i)).Or(load8(&p.weight[1], i))
	}
	return some.IsZero()
}

// place resolves axis n: the place of the two texels around each coordinate, in bytes, or of the
// nearest.
func (a *planAxis) place(p *Plan, n int, x *[32]uint32, to *[2][32]uint32) {
	var fixed [32]uint32
	switch {
	case a.before == 0:
		a.texels(x, p.d.Linear, &fixed)
	case a.mode == Clamp || a.mode == Border:
		a.bounded(x, p.d.Linear, &fixed)
	default:
		a.repeated(x, p.d.Linear, &fixed)
	}
	switch {
	case p.d.Linear && a.mode == Border:
		p.outside[n] = a.pairOutside(&fixed, to, &p.weight[n])
	case p.d.Linear && a.mode == Clamp:
		a.pair(&fixed, to, &p.weight[n])
	case p.d.Linear:
		a.pairAround(&fixed, to, &p.weight[n])
	case a.mode == Border:
		p.outside[n][0] = a.oneOutside(&fixed, &to[0])
	case a.mode == Clamp:
		a.one(&fixed, &to[0])
	default:
		a.oneAround(&fixed, &to[0])
	}
}

// numbersOf are coordinates, where NaN and subnormal numbers are 0.
func numbersOf(x archsimd.Float32x8, magnitude archsimd.Uint32x8, least archsimd.Float32x8) archsimd.Float32x8 {
	return x.Masked(x.AsUint32x8().And(magnitude).AsFloat32x8().GreaterEqual(least))
}

// texels counts coordinates in texels, or in 1/one of a texel where there is a filter: their double is cut off,
// so that half is added without a step between the bits of a float32.
func (a *planAxis) texels(x *[32]uint32, linear bool, fixed *[32]uint32) {
	low, high := archsimd.BroadcastFloat32x8(a.low), archsimd.BroadcastFloat32x8(a.high)
	magnitude, least := archsimd.BroadcastUint32x8(math.MaxInt32), archsimd.BroadcastFloat32x8(smallest)
	double, rounded := archsimd.BroadcastFloat32x8(2*one), archsimd.BroadcastInt32x8(1)
	for i := 0; i < 32; i += 8 {
		u := load8(x, i).AsFloat32x8()
		if a.mode == Border {
			u = numbersOf(u, magnitude, least)
		}
		u = u.Max(low).Min(high) // Max gives the second for NaN
		if linear {
			store8(fixed, i, u.Mul(double).Floor().ConvertToInt32().Add(rounded).ShiftAllRight(1).AsUint32x8())
		} else {
			store8(fixed, i, u.Floor().ConvertToInt32().AsUint32x8())
		}
	}
}

// inTexels multiplies whole numbers, and cuts them off when a half is added.
func inTexels(q archsimd.Float32x8, after, half archsimd.Float64x4) archsimd.Uint32x8 {
	lo := q.GetLo().ConvertToFloat64().MulAdd(after, half).Floor().ConvertToInt32()
	hi := q.GetHi().ConvertToFloat64().MulAdd(after, half).Floor().ConvertToInt32()
	return archsimd.Uint32x8{}.SetLo(lo.AsUint32x4()).SetHi(hi.AsUint32x4())
}

// bounded is texels for normalized coordinates.
func (a *planAxis) bounded(x *[32]uint32, linear bool, fixed *[32]uint32) {
	low, high, before := archsimd.BroadcastFloat32x8(a.low), archsimd.BroadcastFloat32x8(a.high), archsimd.BroadcastFloat32x8(a.before)
	magnitude, least := archsimd.BroadcastUint32x8(math.MaxInt32), archsimd.BroadcastFloat32x8(smallest)
	after, half := allReals(a.after), halfOf(linear)
	first, last := a.bounds(linear)
	for i := 0; i < 32; i += 8 {
		u := load8(x, i).AsFloat32x8()
		if a.mode == Border {
			u = numbersOf(u, magnitude, least)
		}
		at := inTexels(u.Max(low).Min(high).Mul(before).Floor(), after, half).AsInt32x8()
		store8(fixed, i, at.Max(first).Min(last).AsUint32x8())
	}
}

// bounds are where place ends, in texels or 1/one of one.
func (a *planAxis) bounds(linear bool) (first, last archsimd.Int32x8) {
	from, to := int32(-2), int32(a.size)+2
	if linear {
		from, to = from*one, to*one
	}
	return archsimd.BroadcastInt32x8(from), archsimd.BroadcastInt32x8(to)
}

// repeated is bounded for wrap and mirror: what remains of a coordinate lies between 0 and two extents.
func (a *planAxis) repeated(x *[32]uint32, linear bool, fixed *[32]uint32) {
	magnitude, least := archsimd.BroadcastUint32x8(math.MaxInt32), archsimd.BroadcastFloat32x8(smallest)
	even := archsimd.BroadcastFloat32x8(1 << 24) // numbers from here on are even
	before, period, turns := archsimd.BroadcastFloat32x8(a.before), archsimd.BroadcastFloat32x8(-2*a.before), archsimd.BroadcastFloat32x8(0.5/a.before)
	after, half := allReals(a.after), halfOf(linear)
	for i := 0; i < 32; i += 8 {
		u := load8(x, i).AsFloat32x8()
		size := u.AsUint32x8().And(magnitude).AsFloat32x8()
		u = u.Masked(size.GreaterEqual(least).And(size.Less(even))).Mul(before).Floor()
		u = u.Mul(turns).Floor().MulAdd(period, u)
		store8(fixed, i, inTexels(u, after, half))
	}
}

// one is where the nearest texels lie, with mode Clamp.
func (a *planAxis) one(fixed, to *[32]uint32) {
	none, last, stride := archsimd.BroadcastInt32x8(0), archsimd.BroadcastInt32x8(int32(a.size)-1), archsimd.BroadcastUint32x8(a.stride)
	for i := 0; i < 32; i += 8 {
		store8(to, i, load8(fixed, i).AsInt32x8().Max(none).Min(last).AsUint32x8().Mul(stride))
	}
}

// oneAround is one with modes Wrap and Mirror.
func (a *planAxis) oneAround(fixed, to *[32]uint32) {
	n, stride, m := archsimd.BroadcastInt32x8(int32(a.size)), archsimd.BroadcastUint32x8(a.stride), a.mode
	for i := 0; i < 32; i += 8 {
		store8(to, i, m.foldVector(load8(fixed, i).AsInt32x8(), n).AsUint32x8().Mul(stride))
	}
}

// oneOutside is one with mode Border. It returns the lanes outside, which have any texel.
func (a *planAxis) oneOutside(fixed, to *[32]uint32) (out uint32) {
	n, stride, none := archsimd.BroadcastInt32x8(int32(a.size)), archsimd.BroadcastUint32x8(a.stride), archsimd.BroadcastInt32x8(-1)
	for i := 0; i < 32; i += 8 {
		at := load8(fixed, i).AsInt32x8()
		inside := at.Greater(none).And(n.Greater(at))
		store8(to, i, at.Masked(inside).AsUint32x8().Mul(stride))
		out |= uint32(^inside.ToBits()) << i
	}
	return out
}

// pair is where the two texels around coordinates lie, with mode Clamp. Without a weight the second is
// the first.
func (a *planAxis) pair(fixed *[32]uint32, to *[2][32]uint32, weight *[32]uint32) {
	none, last, stride := archsimd.BroadcastInt32x8(0), archsimd.BroadcastInt32x8((int32(a.size)-1)<<fractionBits), archsimd.BroadcastUint32x8(a.stride)
	middle, fraction := archsimd.BroadcastInt32x8(one/2), archsimd.BroadcastInt32x8(one-1)
	for i := 0; i < 32; i += 8 {
		at := load8(fixed, i).AsInt32x8().Sub(middle).Max(none).Min(last)
		w := at.And(fraction)
		first := at.ShiftAllRight(fractionBits).AsUint32x8().Mul(stride)
		store8(&to[0], i, first)
		store8(&to[1], i, first.Add(stride.AsInt32x8().Masked(w.Greater(none)).AsUint32x8()))
		store8(weight, i, w.AsUint32x8())
	}
}

// neighbours8 are the indexes around coordinates, and the weights of the second, which is the first without one.
func neighbours8(at, fraction archsimd.Int32x8) (first, second, weight archsimd.Int32x8) {
	weight, first = at.And(fraction), at.ShiftAllRight(fractionBits)
	return first, first.Add(weight.Add(fraction).ShiftAllRight(fractionBits)), weight
}

// pairAround is pair with modes Wrap and Mirror.
func (a *planAxis) pairAround(fixed *[32]uint32, to *[2][32]uint32, weight *[32]uint32) {
	n, stride, m := archsimd.BroadcastInt32x8(int32(a.size)), archsimd.BroadcastUint32x8(a.stride), a.mode
	middle, fraction := archsimd.BroadcastInt32x8(one/2), archsimd.BroadcastInt32x8(one-1)
	for i := 0; i < 32; i += 8 {
		first, second, w := neighbours8(load8(fixed, i).AsInt32x8().Sub(middle), fraction)
		store8(&to[0], i, m.foldVector(first, n).AsUint32x8().Mul(stride))
		store8(&to[1], i, m.foldVector(second, n).AsUint32x8().Mul(stride))
		store8(weight, i, w.AsUint32x8())
	}
}

// pairOutside is pair with mode Border. It returns the lanes whose texels are outside.
func (a *planAxis) pairOutside(fixed *[32]uint32, to *[2][32]uint32, weight *[32]uint32) (out [2]uint32) {
	n, stride, none := archsimd.BroadcastInt32x8(int32(a.size)), archsimd.BroadcastUint32x8(a.stride), archsimd.BroadcastInt32x8(-1)
	middle, fraction := archsimd.BroadcastInt32x8(one/2), archsimd.BroadcastInt32x8(one-1)
	for i := 0; i < 32; i += 8 {
		first, second, w := neighbours8(load8(fixed, i).AsInt32x8().Sub(middle), fraction)
		left, right := first.Greater(none).And(n.Greater(first)), second.Greater(none).And(n.Greater(second))
		store8(&to[0], i, first.Masked(left).AsUint32x8().Mul(stride))
		store8(&to[1], i, second.Masked(right).AsUint32x8().Mul(stride))
		store8(weight, i, w.AsUint32x8())
		out[0] |= uint32(^left.ToBits()) << i
		out[1] |= uint32(^right.ToBits()) << i
	}
	return out
}
