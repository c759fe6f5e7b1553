//go:build goexperiment.simd && amd64

package simt

import (
	"math/bits"

	"simd/archsimd"

	"pvdrm/gpu"
)

// simdAccesses replace the loads and stores of words. Where all lanes run, and
// those of each group of 8 access neighbouring words or the same one (so do
// warps that lie across rows of a block), they move them as vectors; any other
// access they leave to the portable function. Each word is still loaded and
// stored at once: it is aligned, and processors with AVX2 do not tear the
// aligned words of a vector.
var simdAccesses = map[accessKey]laneFunc{
	{4, false, false}: simdLoad[uint32, uint32],
	{8, false, false}: simdLoad[uint64, uint32],
	{4, true, false}:  simdLoad[uint32, uint64],
	{8, true, false}:  simdLoad[uint64, uint64],
	{4, false, true}:  simdStore[uint32, uint32],
	{8, false, true}:  simdStore[uint64, uint32],
	{4, true, true}:   simdStore[uint32, uint64],
	{8, true, true}:   simdStore[uint64, uint64],
}

// shape says how the addresses of the lanes in each group of 8 lie to each other.
type shape uint8

const (
	scattered shape = iota
	rows            // each a word after the one before
	same            // all at one address
)

// group is how many lanes are looked at together.
const group = 8

// simdLoad is load of T into registers of type T.
//
//go:norace
func simdLoad[T, A uint32 | uint64](w *warp, in *inst) {
	p, q, r, t, s := groups[T, A](w, in, gpu.ProtRead)
	switch d := reg[T](w, in.d); s {
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
func simdStore[T, A uint32 | uint64](w *warp, in *inst) {
	p, q, r, t, s := groups[T, A](w, in, gpu.ProtWrite)
	switch d := reg[T](w, in.d); s {
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
// accesses words as shape says, all of them inside the memory of their space.
func groups[T, A uint32 | uint64](w *warp, in *inst, need gpu.Prot) (p, q, r, t *T, s shape) {
	if w.mask != allLanes || in.space == spaceLocal {
		return nil, nil, nil, nil, scattered
	}
	a := reg[A](w, in.a)
	if s = shapeOf(a, sizeOf[T]()); s == scattered {
		return nil, nil, nil, nil, scattered
	}
	// The bits in which addresses differ, or more: those of a row lie between
	// its ends.
	first, diff := a[0]+A(in.imm), A(0)
	for k := 0; k < 32; k += group {
		x := a[k] + A(in.imm)
		diff |= x ^ first
		if s == rows {
			end := x + A((group-1)*sizeOf[T]())
			if end < x {
				return nil, nil, nil, nil, scattered
			}
			diff |= end ^ x
		}
	}
	diff |= (1<<bits.Len64(uint64(diff)) - 1) &^ A(sizeOf[T]()-1)
	switch l := locate(w, in, a, uint64(first), uint64(diff)); l.space {
	case spaceGlobal:
		if e := w.worker.translate(l.first, need); e != nil && l.diff&^e.mask == 0 {
			off := A(l.offset)
			return at[T](e, uint64(a[0]+off)), at[T](e, uint64(a[8]+off)), at[T](e, uint64(a[16]+off)), at[T](e, uint64(a[24]+off)), s
		}
	case spaceShared:
		off, mem := A(l.offset), w.block.shared
		return sharedAt[T](mem, uint64(a[0]+off)), sharedAt[T](mem, uint64(a[8]+off)), sharedAt[T](mem, uint64(a[16]+off)), sharedAt[T](mem, uint64(a[24]+off)), s
	}
	return nil, nil, nil, nil, scattered
}

// shapeW and shapeQ find the shape of addresses of words of size bytes, 4 or 8.

func shapeW(a *[32]uint32, size uint64) shape {
	b0, b1, b2, b3 := allW8(a[0]), allW8(a[8]), allW8(a[16]), allW8(a[24])
	d0, d1, d2, d3 := loadW8(a, 0).Sub(b0), loadW8(a, 8).Sub(b1), loadW8(a, 16).Sub(b2), loadW8(a, 24).Sub(b3)
	lane := archsimd.LoadUint32x8(&laneOf32).Mul(allW8(uint32(size)))
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
	b0, b1, b2, b3 := allQ4(a[0]), allQ4(a[8]), allQ4(a[16]), allQ4(a[24])
	d0, d1, d2, d3 := loadQ4(a, 0).Sub(b0), loadQ4(a, 8).Sub(b1), loadQ4(a, 16).Sub(b2), loadQ4(a, 24).Sub(b3)
	e0, e1, e2, e3 := loadQ4(a, 4).Sub(b0), loadQ4(a, 12).Sub(b1), loadQ4(a, 20).Sub(b2), loadQ4(a, 28).Sub(b3)
	lane := archsimd.LoadUint64x4(&laneOf64).AsUint32x8().MulEvenWiden(allQ4(size).AsUint32x8())
	steps := d0.Xor(lane).Or(d1.Xor(lane)).Or(d2.Xor(lane)).Or(d3.Xor(lane))
	lane = lane.Add(allQ4(4 * size))
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
	storeW8(d, 0, loadW8(d, 0).Merge(loadW8(old, 0), loadP8(mask, 0)))
	storeW8(d, 8, loadW8(d, 8).Merge(loadW8(old, 8), loadP8(mask, 8)))
	storeW8(d, 16, loadW8(d, 16).Merge(loadW8(old, 16), loadP8(mask, 16)))
	storeW8(d, 24, loadW8(d, 24).Merge(loadW8(old, 24), loadP8(mask, 24)))
	archsimd.ClearAVXUpperBits()
}

func blendQ(d, old *[32]uint64, mask uint32) {
	storeQ4(d, 0, loadQ4(d, 0).Merge(loadQ4(old, 0), loadP4(mask, 0)))
	storeQ4(d, 4, loadQ4(d, 4).Merge(loadQ4(old, 4), loadP4(mask, 4)))
	storeQ4(d, 8, loadQ4(d, 8).Merge(loadQ4(old, 8), loadP4(mask, 8)))
	storeQ4(d, 12, loadQ4(d, 12).Merge(loadQ4(old, 12), loadP4(mask, 12)))
	storeQ4(d, 16, loadQ4(d, 16).Merge(loadQ4(old, 16), loadP4(mask, 16)))
	storeQ4(d, 20, loadQ4(d, 20).Merge(loadQ4(old, 20), loadP4(mask, 20)))
	storeQ4(d, 24, loadQ4(d, 24).Merge(loadQ4(old, 24), loadP4(mask, 24)))
	storeQ4(d, 28, loadQ4(d, 28).Merge(loadQ4(old, 28), loadP4(mask, 28)))
	archsimd.ClearAVXUpperBits()
}

// fillW and fillQ are the twins of fillEach.

func fillW(d *[32]uint32, v uint32) {
	x := allW8(v)
	storeW8(d, 0, x)
	storeW8(d, 8, x)
	storeW8(d, 16, x)
	storeW8(d, 24, x)
	archsimd.ClearAVXUpperBits()
}

func fillQ(d *[32]uint64, v uint64) {
	x := allQ4(v)
	storeQ4(d, 0, x)
	storeQ4(d, 4, x)
	storeQ4(d, 8, x)
	storeQ4(d, 12, x)
	storeQ4(d, 16, x)
	storeQ4(d, 20, x)
	storeQ4(d, 24, x)
	storeQ4(d, 28, x)
	archsimd.ClearAVXUpperBits()
}
