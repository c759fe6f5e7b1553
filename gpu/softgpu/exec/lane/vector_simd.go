//go:build goexperiment.simd && amd64

package lane

import (
	"math/bits"
	"simd/archsimd"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/vector"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// simdAccesses replace the loads and stores of words. Where all lanes run, and
// those of each group of 8 access neighbouring words or the same one (so do
// warps that lie across rows of a block), they move them as vectors; any other
// access they leave to the portable function. Each word is still loaded and
// stored at once: it is aligned, and processors with AVX2 do not tear the
// aligned words of a vector.
var simdAccesses = map[ir.AccessKey]ir.Func{
	{Size: 4, Wide: false, Writes: false}: simdLoad[uint32, uint32],
	{Size: 8, Wide: false, Writes: false}: simdLoad[uint64, uint32],
	{Size: 4, Wide: true, Writes: false}:  simdLoad[uint32, uint64],
	{Size: 8, Wide: true, Writes: false}:  simdLoad[uint64, uint64],
	{Size: 4, Wide: false, Writes: true}:  simdStore[uint32, uint32],
	{Size: 8, Wide: false, Writes: true}:  simdStore[uint64, uint32],
	{Size: 4, Wide: true, Writes: true}:   simdStore[uint32, uint64],
	{Size: 8, Wide: true, Writes: true}:   simdStore[uint64, uint64],
}

var simdElements = map[ir.AccessKey]ir.Func{
	{Size: 4, Wide: false, Writes: false}: simdLoadElements[uint32],
	{Size: 4, Wide: true, Writes: false}:  simdLoadElements[uint64],
	{Size: 4, Wide: false, Writes: true}:  simdStoreElements[uint32],
	{Size: 4, Wide: true, Writes: true}:   simdStoreElements[uint64],
}

// shape says how the addresses of the lanes in each group of 8 lie to each other.
type shape uint8

const (
	scattered shape = iota
	rows            // each at the end of the one before
	same            // all at one address
)

// group is how many lanes are looked at together.
const group = 8

// simdLoad is load of T into registers of type T.
//
//go:norace
func simdLoad[T, A uint32 | uint64](w *ir.Warp, in *ir.Inst) {
	p, q, r, t, s := groups[T, A](w, in, tlb.SizeOf[T](), gpu.ProtRead)
	switch d := reg[T](w, in.D); s {
	case rows:
		copyGroup(&d[0], p)
		copyGroup(&d[8], q)
		copyGroup(&d[16], r)
		copyGroup(&d[24], t)
	case same:
		fillGroup(&d[0], *p)
		fillGroup(&d[8], *q)
		fillGroup(&d[16], *r)
		fillGroup(&d[24], *t)
	default:
		load[T, T, A](w, in)
		return
	}
	archsimd.ClearAVXUpperBits()
}

// simdStore is store of T from registers of type T. Where lanes write the same
// place, the highest lane wins.
//
//go:norace
func simdStore[T, A uint32 | uint64](w *ir.Warp, in *ir.Inst) {
	p, q, r, t, s := groups[T, A](w, in, tlb.SizeOf[T](), gpu.ProtWrite)
	switch d := reg[T](w, in.D); s {
	case rows:
		copyGroup(p, &d[0])
		copyGroup(q, &d[8])
		copyGroup(r, &d[16])
		copyGroup(t, &d[24])
		archsimd.ClearAVXUpperBits()
	case same:
		*p, *q, *r, *t = d[7], d[15], d[23], d[31]
	default:
		store[T, T, A](w, in)
	}
}

// groups returns the places of the first lane of each group, where a whole warp
// accesses size bytes each as shape says, all inside the memory of their space.
func groups[T, A uint32 | uint64](w *ir.Warp, in *ir.Inst, size uint64, need gpu.Prot) (p, q, r, t *T, s shape) {
	if w.Mask != ir.AllLanes || in.Space == ir.SpaceLocal {
		return nil, nil, nil, nil, scattered
	}
	a := reg[A](w, in.A)
	if s = shapeOf(a, size); s == scattered {
		return nil, nil, nil, nil, scattered
	}
	// The bits in which addresses differ, or more: those of a row lie between
	// its ends.
	first, diff := a[0]+A(in.Imm), A(0)
	for k := 0; k < 32; k += group {
		x := a[k] + A(in.Imm)
		diff |= x ^ first
		if s == rows {
			end := x + A((group-1)*size)
			if end < x {
				return nil, nil, nil, nil, scattered
			}
			diff |= end ^ x
		}
	}
	diff |= (1<<bits.Len64(uint64(diff)) - 1) &^ A(size-1)
	l := locate(w, in, a, uint64(first), uint64(diff))
	e := memory(w, l, need)
	if e == nil {
		return nil, nil, nil, nil, scattered
	}
	off := A(l.offset)
	return tlb.At[T](e, uint64(a[0]+off)), tlb.At[T](e, uint64(a[8]+off)), tlb.At[T](e, uint64(a[16]+off)), tlb.At[T](e, uint64(a[24]+off)), s
}

// simdLoadElements is loadElements of 4 elements of 4 bytes; 2 go there.
//
//go:norace
func simdLoadElements[A uint32 | uint64](w *ir.Warp, in *ir.Inst) {
	if in.E != ir.NoReg {
		p, q, r, t, s := groups[uint32, A](w, in, 16, gpu.ProtRead)
		if s != scattered {
			x, y, z, v := &w.R32[in.D], &w.R32[in.B], &w.R32[in.C], &w.R32[in.E]
			for g, p := range [4]*uint32{p, q, r, t} {
				if s == rows {
					gather4(x, y, z, v, group*g, groupOf4(p))
					continue
				}
				m := vector4(p)
				fillGroup(&x[group*g], m[0])
				fillGroup(&y[group*g], m[1])
				fillGroup(&z[group*g], m[2])
				fillGroup(&v[group*g], m[3])
			}
			archsimd.ClearAVXUpperBits()
			return
		}
	}
	loadElements[uint32, A](w, in)
}

// simdStoreElements is storeElements of 4 elements of 4 bytes; 2 go there, and
// lanes that write the same place.
//
//go:norace
func simdStoreElements[A uint32 | uint64](w *ir.Warp, in *ir.Inst) {
	if in.E != ir.NoReg {
		p, q, r, t, s := groups[uint32, A](w, in, 16, gpu.ProtWrite)
		if s == rows {
			for g, p := range [4]*uint32{p, q, r, t} {
				scatter4(&w.R32[in.D], &w.R32[in.B], &w.R32[in.C], &w.R32[in.E], group*g, groupOf4(p))
			}
			archsimd.ClearAVXUpperBits()
			return
		}
	}
	storeElements[uint32, A](w, in)
}

// gather4 loads x, y, z and v of 8 lanes from `at` on, which lie in memory lane
// by lane: a transposition, made of two of 4 by 4 side by side.
//
//go:norace
func gather4(x, y, z, v *[32]uint32, at int, m *[32]uint32) {
	m01, m23, m45, m67 := vector.LoadW8(m, 0), vector.LoadW8(m, 8), vector.LoadW8(m, 16), vector.LoadW8(m, 24)
	l0, l1 := m01.Select128FromPair(0, 2, m45), m01.Select128FromPair(1, 3, m45) // lanes 0 and 4, 1 and 5
	l2, l3 := m23.Select128FromPair(0, 2, m67), m23.Select128FromPair(1, 3, m67)
	xy01, zv01 := l0.InterleaveLoGrouped(l1).AsUint64x4(), l0.InterleaveHiGrouped(l1).AsUint64x4()
	xy23, zv23 := l2.InterleaveLoGrouped(l3).AsUint64x4(), l2.InterleaveHiGrouped(l3).AsUint64x4()
	vector.StoreW8(x, at, xy01.InterleaveLoGrouped(xy23).AsUint32x8())
	vector.StoreW8(y, at, xy01.InterleaveHiGrouped(xy23).AsUint32x8())
	vector.StoreW8(z, at, zv01.InterleaveLoGrouped(zv23).AsUint32x8())
	vector.StoreW8(v, at, zv01.InterleaveHiGrouped(zv23).AsUint32x8())
}

// scatter4 is the inverse of gather4.
//
//go:norace
func scatter4(x, y, z, v *[32]uint32, at int, m *[32]uint32) {
	xs, ys, zs, vs := vector.LoadW8(x, at), vector.LoadW8(y, at), vector.LoadW8(z, at), vector.LoadW8(v, at)
	xy01, xy23 := xs.InterleaveLoGrouped(ys).AsUint64x4(), xs.InterleaveHiGrouped(ys).AsUint64x4()
	zv01, zv23 := zs.InterleaveLoGrouped(vs).AsUint64x4(), zs.InterleaveHiGrouped(vs).AsUint64x4()
	l0, l1 := xy01.InterleaveLoGrouped(zv01).AsUint32x8(), xy01.InterleaveHiGrouped(zv01).AsUint32x8() // lanes 0 and 4, 1 and 5
	l2, l3 := xy23.InterleaveLoGrouped(zv23).AsUint32x8(), xy23.InterleaveHiGrouped(zv23).AsUint32x8()
	vector.StoreW8(m, 0, l0.Select128FromPair(0, 2, l1))
	vector.StoreW8(m, 8, l2.Select128FromPair(0, 2, l3))
	vector.StoreW8(m, 16, l0.Select128FromPair(1, 3, l1))
	vector.StoreW8(m, 24, l2.Select128FromPair(1, 3, l3))
}

// shapeW and shapeQ find the shape of addresses that are size bytes apart in rows.

func shapeW(a *[32]uint32, size uint64) shape {
	b0, b1, b2, b3 := vector.AllW8(a[0]), vector.AllW8(a[8]), vector.AllW8(a[16]), vector.AllW8(a[24])
	d0, d1, d2, d3 := vector.LoadW8(a, 0).Sub(b0), vector.LoadW8(a, 8).Sub(b1), vector.LoadW8(a, 16).Sub(b2), vector.LoadW8(a, 24).Sub(b3)
	lane := archsimd.LoadUint32x8(&laneOf32).Mul(vector.AllW8(uint32(size)))
	steps := d0.Xor(lane).Or(d1.Xor(lane)).Or(d2.Xor(lane)).Or(d3.Xor(lane))
	s := scattered
	if steps.IsZero() {
		s = rows
	} else if d0.Or(d1).Or(d2).Or(d3).IsZero() {
		s = same
	}
	archsimd.ClearAVXUpperBits()
	return s
}

func shapeQ(a *[32]uint64, size uint64) shape {
	b0, b1, b2, b3 := vector.AllQ4(a[0]), vector.AllQ4(a[8]), vector.AllQ4(a[16]), vector.AllQ4(a[24])
	d0, d1, d2, d3 := vector.LoadQ4(a, 0).Sub(b0), vector.LoadQ4(a, 8).Sub(b1), vector.LoadQ4(a, 16).Sub(b2), vector.LoadQ4(a, 24).Sub(b3)
	e0, e1, e2, e3 := vector.LoadQ4(a, 4).Sub(b0), vector.LoadQ4(a, 12).Sub(b1), vector.LoadQ4(a, 20).Sub(b2), vector.LoadQ4(a, 28).Sub(b3)
	lane := archsimd.LoadUint64x4(&laneOf64).AsUint32x8().MulEvenWiden(vector.AllQ4(size).AsUint32x8())
	steps := d0.Xor(lane).Or(d1.Xor(lane)).Or(d2.Xor(lane)).Or(d3.Xor(lane))
	lane = lane.Add(vector.AllQ4(4 * size))
	steps = steps.Or(e0.Xor(lane)).Or(e1.Xor(lane)).Or(e2.Xor(lane)).Or(e3.Xor(lane))
	s := scattered
	if steps.IsZero() {
		s = rows
	} else if d0.Or(d1).Or(d2).Or(d3).Or(e0).Or(e1).Or(e2).Or(e3).IsZero() {
		s = same
	}
	archsimd.ClearAVXUpperBits()
	return s
}

var (
	laneOf32 = [8]uint32{0, 1, 2, 3, 4, 5, 6, 7}
	laneOf64 = [4]uint64{0, 1, 2, 3}
)

// blendW and blendQ are the twins of blend.

func blendW(d, old *[32]uint32, mask uint32) {
	vector.StoreW8(d, 0, vector.LoadW8(d, 0).Merge(vector.LoadW8(old, 0), vector.LoadP8(mask, 0)))
	vector.StoreW8(d, 8, vector.LoadW8(d, 8).Merge(vector.LoadW8(old, 8), vector.LoadP8(mask, 8)))
	vector.StoreW8(d, 16, vector.LoadW8(d, 16).Merge(vector.LoadW8(old, 16), vector.LoadP8(mask, 16)))
	vector.StoreW8(d, 24, vector.LoadW8(d, 24).Merge(vector.LoadW8(old, 24), vector.LoadP8(mask, 24)))
	archsimd.ClearAVXUpperBits()
}

func blendQ(d, old *[32]uint64, mask uint32) {
	vector.StoreQ4(d, 0, vector.LoadQ4(d, 0).Merge(vector.LoadQ4(old, 0), vector.LoadP4(mask, 0)))
	vector.StoreQ4(d, 4, vector.LoadQ4(d, 4).Merge(vector.LoadQ4(old, 4), vector.LoadP4(mask, 4)))
	vector.StoreQ4(d, 8, vector.LoadQ4(d, 8).Merge(vector.LoadQ4(old, 8), vector.LoadP4(mask, 8)))
	vector.StoreQ4(d, 12, vector.LoadQ4(d, 12).Merge(vector.LoadQ4(old, 12), vector.LoadP4(mask, 12)))
	vector.StoreQ4(d, 16, vector.LoadQ4(d, 16).Merge(vector.LoadQ4(old, 16), vector.LoadP4(mask, 16)))
	vector.StoreQ4(d, 20, vector.LoadQ4(d, 20).Merge(vector.LoadQ4(old, 20), vector.LoadP4(mask, 20)))
	vector.StoreQ4(d, 24, vector.LoadQ4(d, 24).Merge(vector.LoadQ4(old, 24), vector.LoadP4(mask, 24)))
	vector.StoreQ4(d, 28, vector.LoadQ4(d, 28).Merge(vector.LoadQ4(old, 28), vector.LoadP4(mask, 28)))
	archsimd.ClearAVXUpperBits()
}

// fillW and fillQ are the twins of FillEach.

func fillW(d *[32]uint32, v uint32) {
	x := vector.AllW8(v)
	vector.StoreW8(d, 0, x)
	vector.StoreW8(d, 8, x)
	vector.StoreW8(d, 16, x)
	vector.StoreW8(d, 24, x)
	archsimd.ClearAVXUpperBits()
}

func fillQ(d *[32]uint64, v uint64) {
	x := vector.AllQ4(v)
	vector.StoreQ4(d, 0, x)
	vector.StoreQ4(d, 4, x)
	vector.StoreQ4(d, 8, x)
	vector.StoreQ4(d, 12, x)
	vector.StoreQ4(d, 16, x)
	vector.StoreQ4(d, 20, x)
	vector.StoreQ4(d, 24, x)
	vector.StoreQ4(d, 28, x)
	archsimd.ClearAVXUpperBits()
}
