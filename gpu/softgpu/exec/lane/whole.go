package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Vector loads and stores of global memory that no other block sees in part: 8 or 16 bytes
// of a lane are one access, as on NVIDIA's GPUs. Programs hand a value and its state from
// block to block so. The others (loadElements) go element by element, for all lanes at once.

// wholePlace is where size bytes of a lane are one access, or nil where the elements are
// accessed one by one: outside of global memory, which blocks do not share, and where the access
// fails.
func wholePlace(w *ir.Warp, in *ir.Inst, addr uint64, need gpu.Prot) *tlb.Translation {
	s := in.Space
	if s == ir.SpaceGeneric {
		s, _ = ir.WindowOf(addr)
	}
	if s != ir.SpaceGlobal || addr&uint64(in.Align) != 0 {
		return nil
	}
	return w.Worker.TLB.Translate(addr, need)
}

// loadWhole is the lane function of such a load, see loadElements.
//
//go:norace
func loadWhole[T, A uint32 | uint64](w *ir.Warp, in *ir.Inst) {
	a := reg[A](w, in.A)
	regs, n := ir.Elements(in)
	size := tlb.SizeOf[T]()
	var x [4]T
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		addr := uint64(a[i] + A(in.Imm))
		switch e := wholePlace(w, in, addr, gpu.ProtRead); {
		case e == nil:
			for k := range n {
				x[k] = T(loadLane(w, in.Space, i, uint64(a[i]+A(in.Imm+uint64(k)*size)), size, alignOf(in, k, size)))
			}
		case size == 8:
			lo, hi := loadPair(tlb.PairAt(e, addr))
			x[0], x[1] = T(lo), T(hi)
		case n == 2:
			x[0], x[1] = split[T](*tlb.At[uint64](e, addr))
		default:
			lo, hi := loadPair(tlb.PairAt(e, addr))
			x[0], x[1] = split[T](lo)
			x[2], x[3] = split[T](hi)
		}
		for k := range n {
			reg[T](w, regs[k])[i] = x[k]
		}
	}
}

// storeWhole is the lane function of such a store.
//
//go:norace
func storeWhole[T, A uint32 | uint64](w *ir.Warp, in *ir.Inst) {
	a := reg[A](w, in.A)
	regs, n := ir.Elements(in)
	size := tlb.SizeOf[T]()
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		addr := uint64(a[i] + A(in.Imm))
		var x [4]uint64
		for k := range n {
			x[k] = uint64(reg[T](w, regs[k])[i])
		}
		switch e := wholePlace(w, in, addr, gpu.ProtWrite); {
		case e == nil:
			for k := range n {
				storeLane(w, in.Space, i, uint64(a[i]+A(in.Imm+uint64(k)*size)), size, alignOf(in, k, size), x[k])
			}
		case size == 8:
			storePair(tlb.PairAt(e, addr), x[0], x[1])
		case n == 2:
			*tlb.At[uint64](e, addr) = x[0] | x[1]<<32
		default:
			storePair(tlb.PairAt(e, addr), x[0]|x[1]<<32, x[2]|x[3]<<32)
		}
	}
}

// alignOf is the alignment of element k: the others are aligned if the first is.
func alignOf(in *ir.Inst, k int, size uint64) uint64 {
	if k == 0 {
		return uint64(in.Align) + 1
	}
	return size
}

func split[T uint32 | uint64](x uint64) (T, T) { return T(uint32(x)), T(x >> 32) }

// WholeFuncs are these loads and stores, by the size of an element. There are 2 elements of
// 8 bytes, or 2 or 4 of 4.
var WholeFuncs = map[ir.AccessKey]ir.Func{
	{Size: 4, Wide: false, Writes: false}: loadWhole[uint32, uint32],
	{Size: 8, Wide: false, Writes: false}: loadWhole[uint64, uint32],
	{Size: 4, Wide: true, Writes: false}:  loadWhole[uint32, uint64],
	{Size: 8, Wide: true, Writes: false}:  loadWhole[uint64, uint64],
	{Size: 4, Wide: false, Writes: true}:  storeWhole[uint32, uint32],
	{Size: 8, Wide: false, Writes: true}:  storeWhole[uint64, uint32],
	{Size: 4, Wide: true, Writes: true}:   storeWhole[uint32, uint64],
	{Size: 8, Wide: true, Writes: true}:   storeWhole[uint64, uint64],
}
