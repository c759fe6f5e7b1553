package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Loads and stores of a warp. The ways that programs access memory most (all
// lanes in one page of global memory, or in .shared, or one word of .local) are
// checked once for all lanes and then go straight through; everything else, and
// every fault, goes lane by lane.
//
// The race detector does not look at accesses to device memory: races between
// the threads of a kernel are the kernel's, and not of this package.

// load is the lane function of a load of T into registers of type D, with the
// address in a register of type A.
//
//go:norace
func load[T tlb.Word, D, A uint32 | uint64](w *ir.Warp, in *ir.Inst) {
	d, a := reg[D](w, in.D), reg[A](w, in.A)
	s := resolve(w, in, a)
	off := A(s.offset)
	if e := memory(w, s, gpu.ProtRead); e != nil {
		if w.Mask != ir.AllLanes {
			for m := w.Mask; m != 0; m &= m - 1 {
				i := ir.FirstOf(m)
				d[i] = D(*tlb.At[T](e, uint64(a[i]+off)))
			}
			return
		}
		for i := 0; i < 32; i += 4 {
			d[i] = D(*tlb.At[T](e, uint64(a[i]+off)))
			d[i+1] = D(*tlb.At[T](e, uint64(a[i+1]+off)))
			d[i+2] = D(*tlb.At[T](e, uint64(a[i+2]+off)))
			d[i+3] = D(*tlb.At[T](e, uint64(a[i+3]+off)))
		}
		return
	}
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		if s.space == ir.SpaceLocal {
			d[i] = D(loadLocal(w, uint64(a[i]+off), i, tlb.SizeOf[T]()))
		} else {
			d[i] = D(loadLane(w, in.Space, i, uint64(a[i]+A(in.Imm)), tlb.SizeOf[T](), uint64(in.Align)+1))
		}
	}
}

// store is the lane function of a store of T from registers of type D. Where
// lanes write the same place, the highest lane wins.
//
//go:norace
func store[T tlb.Word, D, A uint32 | uint64](w *ir.Warp, in *ir.Inst) {
	d, a := reg[D](w, in.D), reg[A](w, in.A)
	s := resolve(w, in, a)
	off := A(s.offset)
	if e := memory(w, s, gpu.ProtWrite); e != nil {
		if w.Mask != ir.AllLanes {
			for m := w.Mask; m != 0; m &= m - 1 {
				i := ir.FirstOf(m)
				*tlb.At[T](e, uint64(a[i]+off)) = T(d[i])
			}
			return
		}
		for i := 0; i < 32; i += 4 {
			*tlb.At[T](e, uint64(a[i]+off)) = T(d[i])
			*tlb.At[T](e, uint64(a[i+1]+off)) = T(d[i+1])
			*tlb.At[T](e, uint64(a[i+2]+off)) = T(d[i+2])
			*tlb.At[T](e, uint64(a[i+3]+off)) = T(d[i+3])
		}
		return
	}
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		if s.space == ir.SpaceLocal {
			storeLocal(w, uint64(a[i]+off), i, tlb.SizeOf[T](), uint64(d[i]))
		} else {
			storeLane(w, in.Space, i, uint64(a[i]+A(in.Imm)), tlb.SizeOf[T](), uint64(in.Align)+1, uint64(d[i]))
		}
	}
}

// loadElements is the lane function of a vector load: 2 or 4 elements of type T
// go to registers d, b, c and e, of which the last two are NoReg if there are 2.
// The register with the address is none of them.
//
//go:norace
func loadElements[T, A uint32 | uint64](w *ir.Warp, in *ir.Inst) {
	a := reg[A](w, in.A)
	s := resolve(w, in, a)
	e := memory(w, s, gpu.ProtRead)
	if e == nil {
		eachElement(w, in, tlb.SizeOf[T](), load[T, T, A])
		return
	}
	regs, n := ir.Elements(in)
	for k := range n {
		d, off := reg[T](w, regs[k]), A(s.offset+uint64(k)*tlb.SizeOf[T]())
		if w.Mask != ir.AllLanes {
			for m := w.Mask; m != 0; m &= m - 1 {
				i := ir.FirstOf(m)
				d[i] = *tlb.At[T](e, uint64(a[i]+off))
			}
			continue
		}
		for i := range d {
			d[i] = *tlb.At[T](e, uint64(a[i]+off))
		}
	}
}

// storeElements is the lane function of a vector store, see loadElements.
//
//go:norace
func storeElements[T, A uint32 | uint64](w *ir.Warp, in *ir.Inst) {
	a := reg[A](w, in.A)
	s := resolve(w, in, a)
	e := memory(w, s, gpu.ProtWrite)
	if e == nil {
		eachElement(w, in, tlb.SizeOf[T](), store[T, T, A])
		return
	}
	regs, n := ir.Elements(in)
	for k := range n {
		d, off := reg[T](w, regs[k]), A(s.offset+uint64(k)*tlb.SizeOf[T]())
		if w.Mask != ir.AllLanes {
			for m := w.Mask; m != 0; m &= m - 1 {
				i := ir.FirstOf(m)
				*tlb.At[T](e, uint64(a[i]+off)) = d[i]
			}
			continue
		}
		for i := range d {
			*tlb.At[T](e, uint64(a[i]+off)) = d[i]
		}
	}
}

// eachElement makes one access of each element.
func eachElement(w *ir.Warp, in *ir.Inst, size uint64, access ir.Func) {
	regs, n := ir.Elements(in)
	for k := range n {
		one := *in
		one.D, one.Imm = regs[k], in.Imm+uint64(k)*size
		if k > 0 {
			one.Align = uint8(size - 1) // the others are aligned if the first is
		}
		access(w, &one)
	}
}

// span says how the active lanes access memory at once: SpaceGlobal, still to be
// translated; SpaceShared and SpaceLocal, all inside; or spaces, lane by lane.
type span struct {
	space  ir.Space
	offset uint64    // to be added to the base registers
	first  uint64    // address of the first active lane
	diff   uint64    // bits in which the addresses differ
	block  *ir.Block // of SpaceShared
}

var laneByLane = span{space: ir.Spaces}

// memory is the memory that a span lies in, or nil where it must be accessed
// lane by lane.
func memory(w *ir.Warp, s span, need gpu.Prot) *tlb.Translation {
	switch s.space {
	case ir.SpaceGlobal:
		if e := w.Worker.TLB.Translate(s.first, need); e != nil && s.diff&^e.Mask == 0 {
			return e
		}
	case ir.SpaceShared:
		return &s.block.Window
	}
	return nil
}

// resolve looks at the addresses of the active lanes, of which there is at least
// one. What it does not understand, or
// would fault, is laneByLane.
func resolve[A uint32 | uint64](w *ir.Warp, in *ir.Inst, a *[32]A) span {
	imm := A(in.Imm)
	x0 := a[w.First()] + imm
	var p, q A
	if w.Mask != ir.AllLanes {
		for m := w.Mask; m != 0; m &= m - 1 {
			p |= (a[ir.FirstOf(m)] + imm) ^ x0
		}
		return locate(w, in, a, uint64(x0), uint64(p))
	}
	for i := 0; i < 32; i += 4 {
		p |= (a[i] + imm) ^ x0
		q |= (a[i+1] + imm) ^ x0
		p |= (a[i+2] + imm) ^ x0
		q |= (a[i+3] + imm) ^ x0
	}
	return locate(w, in, a, uint64(x0), uint64(p|q))
}

// locate is resolve for addresses of which the first and the bits in which they
// differ, or more bits, are known.
func locate[A uint32 | uint64](w *ir.Warp, in *ir.Inst, a *[32]A, first, diff uint64) span {
	s := span{space: in.Space, offset: in.Imm, first: first, diff: diff}
	if (s.first|s.diff)&uint64(in.Align) != 0 {
		return laneByLane
	}
	if s.space == ir.SpaceGeneric {
		var off uint64
		if s.space, off = ir.WindowOf(s.first); s.space != ir.SpaceGlobal {
			if s.diff >= tlb.WindowSize {
				return laneByLane
			}
			s.offset -= s.first - off
			s.first = off
		}
	}
	var limit uint64
	switch s.space {
	case ir.SpaceGlobal:
		return s
	case ir.SpaceShared, ir.SpaceCluster:
		s.block = w.Block
		if s.space == ir.SpaceCluster {
			s.block, _ = w.Block.At(s.first)
		}
		if s.block == nil || s.diff>>tlb.ClusterShift != 0 {
			return laneByLane
		}
		s.space, limit = ir.SpaceShared, uint64(len(s.block.Shared))
		own := s.block.Own()
		s.offset -= own
		s.first -= own // beyond the limit where the block is not that of the address
	case ir.SpaceLocal:
		limit = 4 * uint64(len(w.Local))
	default:
		return laneByLane
	}
	// Accesses are aligned, and no larger than in.align+1, so they end within
	// the same 16 bytes. first|diff is at least the largest address.
	size := uint64(in.Align) + 1
	if limit < size {
		return laneByLane
	}
	if last := limit - size; s.first|s.diff > last {
		off := A(s.offset)
		for m := w.Mask; m != 0; m &= m - 1 {
			if uint64(a[ir.FirstOf(m)]+off) > last {
				return laneByLane
			}
		}
	}
	return s
}

// loadLocal reads .local memory for one lane. Precondition: addr is aligned and inside.
func loadLocal(w *ir.Warp, addr uint64, lane int, size uint64) uint64 {
	x := uint64(w.Local[addr/4][lane&31])
	if size == 8 {
		return x | uint64(w.Local[addr/4+1][lane&31])<<32
	}
	if size == 4 {
		return x
	}
	return x >> (8 * (addr & 3)) & (1<<(8*size) - 1)
}

// storeLocal writes .local memory for one lane. Precondition: addr is aligned and inside.
func storeLocal(w *ir.Warp, addr uint64, lane int, size, x uint64) {
	p := &w.Local[addr/4][lane&31]
	switch size {
	case 8:
		w.Local[addr/4+1][lane&31] = uint32(x >> 32)
		*p = uint32(x)
	case 4:
		*p = uint32(x)
	default:
		shift, mask := 8*(addr&3), uint32(1<<(8*size)-1)
		*p = *p&^(mask<<shift) | uint32(x)&mask<<shift
	}
}

// Vectors says whether this process computes several lanes at once; it is set at its start.
var Vectors bool

var AccessFuncs = map[ir.AccessKey]ir.Func{
	{Size: 1, Wide: false, Writes: false}: load[uint8, uint32, uint32],
	{Size: 2, Wide: false, Writes: false}: load[uint16, uint32, uint32],
	{Size: 4, Wide: false, Writes: false}: load[uint32, uint32, uint32],
	{Size: 8, Wide: false, Writes: false}: load[uint64, uint64, uint32],
	{Size: 1, Wide: true, Writes: false}:  load[uint8, uint32, uint64],
	{Size: 2, Wide: true, Writes: false}:  load[uint16, uint32, uint64],
	{Size: 4, Wide: true, Writes: false}:  load[uint32, uint32, uint64],
	{Size: 8, Wide: true, Writes: false}:  load[uint64, uint64, uint64],
	{Size: 1, Wide: false, Writes: true}:  store[uint8, uint32, uint32],
	{Size: 2, Wide: false, Writes: true}:  store[uint16, uint32, uint32],
	{Size: 4, Wide: false, Writes: true}:  store[uint32, uint32, uint32],
	{Size: 8, Wide: false, Writes: true}:  store[uint64, uint64, uint32],
	{Size: 1, Wide: true, Writes: true}:   store[uint8, uint32, uint64],
	{Size: 2, Wide: true, Writes: true}:   store[uint16, uint32, uint64],
	{Size: 4, Wide: true, Writes: true}:   store[uint32, uint32, uint64],
	{Size: 8, Wide: true, Writes: true}:   store[uint64, uint64, uint64],
}

// ElementFuncs are the vector loads and stores, by the size of an element.
var ElementFuncs = map[ir.AccessKey]ir.Func{
	{Size: 4, Wide: false, Writes: false}: loadElements[uint32, uint32],
	{Size: 8, Wide: false, Writes: false}: loadElements[uint64, uint32],
	{Size: 4, Wide: true, Writes: false}:  loadElements[uint32, uint64],
	{Size: 8, Wide: true, Writes: false}:  loadElements[uint64, uint64],
	{Size: 4, Wide: false, Writes: true}:  storeElements[uint32, uint32],
	{Size: 8, Wide: false, Writes: true}:  storeElements[uint64, uint32],
	{Size: 4, Wide: true, Writes: true}:   storeElements[uint32, uint64],
	{Size: 8, Wide: true, Writes: true}:   storeElements[uint64, uint64],
}
