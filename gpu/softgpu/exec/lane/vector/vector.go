//go:build goexperiment.simd && amd64

// Package vector computes 8 or 4 lanes at once, for processors with AVX2 and FMA. It gives
// the bits that package scalar gives. What a vector cannot know (the NaN that a double
// has, a result that may round to the smallest normal number) is left to the portable
// function.
//
// Functions are named after what they work on: W8 is 8 lanes of 32-bit
// registers, F8 the same as float32, Q4 and G4 are 4 lanes of 64-bit registers
// as integers and as float64, P8 and P4 are lanes of predicates as masks.
package vector

import (
	"simd/archsimd"

	"pvdrm/gpu/softgpu/exec/lane/scalar"
)

func LoadW8(r *[32]uint32, at int) archsimd.Uint32x8 {
	return archsimd.LoadUint32x8((*[8]uint32)(r[at:]))
}

func LoadF8(r *[32]uint32, at int) archsimd.Float32x8 { return LoadW8(r, at).AsFloat32x8() }

func LoadW4(r *[32]uint32, at int) archsimd.Uint32x4 {
	return archsimd.LoadUint32x4((*[4]uint32)(r[at:]))
}

func LoadF4(r *[32]uint32, at int) archsimd.Float32x4 { return LoadW4(r, at).AsFloat32x4() }

func LoadQ4(r *[32]uint64, at int) archsimd.Uint64x4 {
	return archsimd.LoadUint64x4((*[4]uint64)(r[at:]))
}

func LoadG4(r *[32]uint64, at int) archsimd.Float64x4 { return LoadQ4(r, at).AsFloat64x4() }

func StoreW8(r *[32]uint32, at int, x archsimd.Uint32x8) { x.Store((*[8]uint32)(r[at:])) }

func StoreF8(r *[32]uint32, at int, x archsimd.Float32x8) { StoreW8(r, at, x.AsUint32x8()) }

func StoreW4(r *[32]uint32, at int, x archsimd.Uint32x4) { x.Store((*[4]uint32)(r[at:])) }

func StoreF4(r *[32]uint32, at int, x archsimd.Float32x4) { StoreW4(r, at, x.AsUint32x4()) }

func StoreQ4(r *[32]uint64, at int, x archsimd.Uint64x4) { x.Store((*[4]uint64)(r[at:])) }

func StoreG4(r *[32]uint64, at int, x archsimd.Float64x4) { StoreQ4(r, at, x.AsUint64x4()) }

// bitOfLane has bit i set in lane i.
var bitOfLane32 = [8]uint32{1, 2, 4, 8, 16, 32, 64, 128}

var bitOfLane64 = [4]uint64{1, 2, 4, 8}

func LoadP8(p uint32, at int) archsimd.Mask32x8 {
	bits := archsimd.LoadUint32x8(&bitOfLane32)
	return AllW8(p >> at).And(bits).Equal(bits)
}

func LoadP4(p uint32, at int) archsimd.Mask64x4 {
	bits := archsimd.LoadUint64x4(&bitOfLane64)
	return AllQ4(uint64(p >> at)).And(bits).Equal(bits)
}

func AllW8(x uint32) archsimd.Uint32x8 { return archsimd.BroadcastUint32x8(x) }

func AllQ4(x uint64) archsimd.Uint64x4 { return archsimd.BroadcastUint64x4(x) }

func AllF8(x float32) archsimd.Float32x8 { return archsimd.BroadcastFloat32x8(x) }

func AllG4(x float64) archsimd.Float64x4 { return archsimd.BroadcastFloat64x4(x) }

func OnesW8() archsimd.Uint32x8 { return AllW8(1<<32 - 1) }

func OnesQ4() archsimd.Uint64x4 { return AllQ4(1<<64 - 1) }

func CanonF8(x archsimd.Float32x8) archsimd.Float32x8 {
	return AllW8(scalar.NaN32).AsFloat32x8().Merge(x, x.IsNaN())
}

func CanonF4(x archsimd.Float32x4) archsimd.Float32x4 {
	return archsimd.BroadcastUint32x4(scalar.NaN32).AsFloat32x4().Merge(x, x.IsNaN())
}

func FtzF8(x archsimd.Float32x8) archsimd.Float32x8 {
	u := x.AsUint32x8()
	tiny := u.And(AllW8(0x7f800000)).Equal(archsimd.Uint32x8{})
	return u.And(AllW8(1<<31)).Merge(u, tiny).AsFloat32x8()
}

// IsMinNormalF8 finds results that .ftz flushes or keeps by what they were
// before they were rounded (see FlushTiny): those that are the smallest normal
// number, of either sign.
func IsMinNormalF8(x archsimd.Float32x8) archsimd.Mask32x8 {
	return x.AsUint32x8().AndNot(AllW8(1 << 31)).Equal(AllW8(0x00800000))
}

func IsNaNG4(x archsimd.Float64x4) archsimd.Mask64x4 { return x.IsNaN() }

func SatF8(x archsimd.Float32x8) archsimd.Float32x8 {
	return x.Masked(x.Greater(archsimd.Float32x8{})).Min(AllF8(1))
}

func NegF8(x archsimd.Float32x8) archsimd.Float32x8 {
	return x.AsUint32x8().Xor(AllW8(1 << 31)).AsFloat32x8()
}

func AbsF8(x archsimd.Float32x8) archsimd.Float32x8 {
	return x.AsUint32x8().AndNot(AllW8(1 << 31)).AsFloat32x8()
}

func NegG4(x archsimd.Float64x4) archsimd.Float64x4 {
	return x.AsUint64x4().Xor(AllQ4(1 << 63)).AsFloat64x4()
}

// SignQ4 is y, a double x with another sign; but a NaN becomes quiet and keeps its own.
func SignQ4(x, y archsimd.Uint64x4) archsimd.Uint64x4 {
	return x.Or(AllQ4(1<<51)).Merge(y, x.AsFloat64x4().IsNaN())
}

// MinF8 and MaxF8 ignore a NaN beside a number. Of equal numbers the bits are
// the same but for the sign of zero, which Or makes negative and And positive.

func MinF8(a, b archsimd.Float32x8) archsimd.Float32x8 {
	r := a.AsUint32x8().Or(b.AsUint32x8()).AsFloat32x8()
	r = a.Merge(r, a.Less(b).Or(b.IsNaN()))
	return b.Merge(r, b.Less(a).Or(a.IsNaN()))
}

func MaxF8(a, b archsimd.Float32x8) archsimd.Float32x8 {
	r := a.AsUint32x8().And(b.AsUint32x8()).AsFloat32x8()
	r = a.Merge(r, a.Greater(b).Or(b.IsNaN()))
	return b.Merge(r, b.Greater(a).Or(a.IsNaN()))
}

// MinG4 and MaxG4 are the same for doubles; both give NaN for two NaNs.

func MinG4(a, b archsimd.Float64x4) archsimd.Float64x4 {
	r := a.AsUint64x4().Or(b.AsUint64x4()).AsFloat64x4()
	r = a.Merge(r, a.Less(b).Or(b.IsNaN()))
	return b.Merge(r, b.Less(a).Or(a.IsNaN()))
}

func MaxG4(a, b archsimd.Float64x4) archsimd.Float64x4 {
	r := a.AsUint64x4().And(b.AsUint64x4()).AsFloat64x4()
	r = a.Merge(r, a.Greater(b).Or(b.IsNaN()))
	return b.Merge(r, b.Greater(a).Or(a.IsNaN()))
}

func DivApproxF8(a, b archsimd.Float32x8) archsimd.Float32x8 {
	u := AbsF8(b)
	huge := u.Greater(AllF8(0x1p126)).And(u.AsUint32x8().AsInt32x8().Less(AllW8(0x7f800000).AsInt32x8()))
	return a.Mul(archsimd.Float32x8{}).Merge(a.Div(b), huge)
}

func RsqrtF4(x archsimd.Float32x4) archsimd.Float32x4 {
	return AllG4(1).Div(x.ConvertToFloat64().Sqrt()).ConvertToFloat32()
}

// TruncF8 is TruncS32: the conversion gives the top bit alone for what does not fit.
func TruncF8(x archsimd.Float32x8) archsimd.Uint32x8 {
	r := x.ConvertToInt32().AsUint32x8()
	high := x.GreaterEqual(AllF8(1 << 31)).ToInt32x8().AsUint32x8()
	return r.Xor(high).Masked(x.Equal(x))
}

// FloatUW8 converts unsigned integers: the upper half times 65536 is exact, so
// that adding the lower half rounds once.
func FloatUW8(x archsimd.Uint32x8) archsimd.Float32x8 {
	high := x.ShiftAllRight(16).AsInt32x8().ConvertToFloat32()
	low := x.And(AllW8(0xffff)).AsInt32x8().ConvertToFloat32()
	return high.MulAdd(AllF8(65536), low)
}

// LowQ4 is the lower half of each lane.
func LowQ4(x archsimd.Uint64x4) archsimd.Uint32x4 {
	return x.AsUint32x8().Permute(archsimd.LoadUint32x8(&evenHalves)).GetLo()
}

var evenHalves = [8]uint32{0, 2, 4, 6}

func MulWideU(a, b archsimd.Uint32x4) archsimd.Uint64x4 {
	return a.ExtendToUint64().AsUint32x8().MulEvenWiden(b.ExtendToUint64().AsUint32x8())
}

func MulWideS(a, b archsimd.Uint32x4) archsimd.Uint64x4 {
	x, y := a.ExtendToUint64().AsInt32x8(), b.ExtendToUint64().AsInt32x8() // the upper halves are not looked at
	return x.MulEvenWiden(y).AsUint64x4()
}

// MulHiUW8 and MulHiSW8 multiply even and odd lanes, and join the upper halves.

func MulHiUW8(a, b archsimd.Uint32x8) archsimd.Uint32x8 {
	even := a.MulEvenWiden(b).ShiftAllRight(32)
	odd := oddHalves(a).MulEvenWiden(oddHalves(b))
	return joinHigh(even, odd)
}

func MulHiSW8(a, b archsimd.Uint32x8) archsimd.Uint32x8 {
	even := a.AsInt32x8().MulEvenWiden(b.AsInt32x8()).AsUint64x4().ShiftAllRight(32)
	odd := oddHalves(a).AsInt32x8().MulEvenWiden(oddHalves(b).AsInt32x8()).AsUint64x4()
	return joinHigh(even, odd)
}

func oddHalves(x archsimd.Uint32x8) archsimd.Uint32x8 {
	return x.AsUint64x4().ShiftAllRight(32).AsUint32x8()
}

func joinHigh(even, odd archsimd.Uint64x4) archsimd.Uint32x8 {
	return even.Or(odd.And(AllQ4((1<<32 - 1) << 32))).AsUint32x8()
}

func MulQ4(a, b archsimd.Uint64x4) archsimd.Uint64x4 {
	x, y := a.AsUint32x8(), b.AsUint32x8()
	cross := oddHalves(x).MulEvenWiden(y).Add(x.MulEvenWiden(oddHalves(y)))
	return x.MulEvenWiden(y).Add(cross.ShiftAllLeft(32))
}

// SarQ4 shifts with the sign: what is negative is shifted as its complement.
func SarQ4(x, n archsimd.Uint64x4) archsimd.Uint64x4 {
	sign := x.AsInt64x4().Less(archsimd.Int64x4{}).ToInt64x4().AsUint64x4()
	return x.Xor(sign).ShiftRight(n).Xor(sign)
}

func BfeUW8(a, pos, n archsimd.Uint32x8) archsimd.Uint32x8 {
	byteOf, one := AllW8(0xff), AllW8(1)
	return a.ShiftRight(pos.And(byteOf)).And(one.ShiftLeft(n.And(byteOf)).Sub(one))
}

// ShfLW8 and ShfRW8 shift b:a by n, at most 32, and give the upper and lower half.

func ShfLW8(a, b, n archsimd.Uint32x8) archsimd.Uint32x8 {
	return b.ShiftLeft(n).Or(a.ShiftRight(AllW8(32).Sub(n)))
}

func ShfRW8(a, b, n archsimd.Uint32x8) archsimd.Uint32x8 {
	return a.ShiftRight(n).Or(b.ShiftLeft(AllW8(32).Sub(n)))
}

func Lop3W8(a, b, c archsimd.Uint32x8, lut uint64) (r archsimd.Uint32x8) {
	ones := OnesW8()
	for i := range uint(8) {
		if lut>>i&1 == 0 {
			continue
		}
		x, y, z := a, b, c
		if i&4 == 0 {
			x = x.Xor(ones)
		}
		if i&2 == 0 {
			y = y.Xor(ones)
		}
		if i&1 == 0 {
			z = z.Xor(ones)
		}
		r = r.Or(x.And(y).And(z))
	}
	return r
}
