package simt

import "pvdrm/gpu"

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
func load[T word, D, A uint32 | uint64](w *warp, in *inst) {
	d, a := reg[D](w, in.d), reg[A](w, in.a)
	s := resolve(w, in, a)
	off := A(s.offset)
	if e := w.memory(s, gpu.ProtRead); e != nil {
		if w.mask != allLanes {
			for m := w.mask; m != 0; m &= m - 1 {
				i := firstOf(m)
				d[i] = D(*at[T](e, uint64(a[i]+off)))
			}
			return
		}
		for i := 0; i < 32; i += 4 {
			d[i] = D(*at[T](e, uint64(a[i]+off)))
			d[i+1] = D(*at[T](e, uint64(a[i+1]+off)))
			d[i+2] = D(*at[T](e, uint64(a[i+2]+off)))
			d[i+3] = D(*at[T](e, uint64(a[i+3]+off)))
		}
		return
	}
	for m := w.mask; m != 0; m &= m - 1 {
		i := firstOf(m)
		if s.space == spaceLocal {
			d[i] = D(w.loadLocal(uint64(a[i]+off), i, sizeOf[T]()))
		} else {
			d[i] = D(w.loadLane(in.space, i, uint64(a[i]+A(in.imm)), sizeOf[T](), uint64(in.align)+1))
		}
	}
}

// store is the lane function of a store of T from registers of type D. Where
// lanes write the same place, the highest lane wins.
//
//go:norace
func store[T word, D, A uint32 | uint64](w *warp, in *inst) {
	d, a := reg[D](w, in.d), reg[A](w, in.a)
	s := resolve(w, in, a)
	off := A(s.offset)
	if e := w.memory(s, gpu.ProtWrite); e != nil {
		if w.mask != allLanes {
			for m := w.mask; m != 0; m &= m - 1 {
				i := firstOf(m)
				*at[T](e, uint64(a[i]+off)) = T(d[i])
			}
			return
		}
		for i := 0; i < 32; i += 4 {
			*at[T](e, uint64(a[i]+off)) = T(d[i])
			*at[T](e, uint64(a[i+1]+off)) = T(d[i+1])
			*at[T](e, uint64(a[i+2]+off)) = T(d[i+2])
			*at[T](e, uint64(a[i+3]+off)) = T(d[i+3])
		}
		return
	}
	for m := w.mask; m != 0; m &= m - 1 {
		i := firstOf(m)
		if s.space == spaceLocal {
			w.storeLocal(uint64(a[i]+off), i, sizeOf[T](), uint64(d[i]))
		} else {
			w.storeLane(in.space, i, uint64(a[i]+A(in.imm)), sizeOf[T](), uint64(in.align)+1, uint64(d[i]))
		}
	}
}

// loadElements is the lane function of a vector load: 2 or 4 elements of type T
// go to registers d, b, c and e, of which the last two are noReg if there are 2.
// The register with the address is none of them.
//
//go:norace
func loadElements[T, A uint32 | uint64](w *warp, in *inst) {
	a := reg[A](w, in.a)
	s := resolve(w, in, a)
	e := w.memory(s, gpu.ProtRead)
	if e == nil {
		eachElement(w, in, sizeOf[T](), load[T, T, A])
		return
	}
	regs, n := elements(in)
	for k := range n {
		d, off := reg[T](w, regs[k]), A(s.offset+uint64(k)*sizeOf[T]())
		if w.mask != allLanes {
			for m := w.mask; m != 0; m &= m - 1 {
				i := firstOf(m)
				d[i] = *at[T](e, uint64(a[i]+off))
			}
			continue
		}
		for i := range d {
			d[i] = *at[T](e, uint64(a[i]+off))
		}
	}
}

// storeElements is the lane function of a vector store, see loadElements.
//
//go:norace
func storeElements[T, A uint32 | uint64](w *warp, in *inst) {
	a := reg[A](w, in.a)
	s := resolve(w, in, a)
	e := w.memory(s, gpu.ProtWrite)
	if e == nil {
		eachElement(w, in, sizeOf[T](), store[T, T, A])
		return
	}
	regs, n := elements(in)
	for k := range n {
		d, off := reg[T](w, regs[k]), A(s.offset+uint64(k)*sizeOf[T]())
		if w.mask != allLanes {
			for m := w.mask; m != 0; m &= m - 1 {
				i := firstOf(m)
				*at[T](e, uint64(a[i]+off)) = d[i]
			}
			continue
		}
		for i := range d {
			*at[T](e, uint64(a[i]+off)) = d[i]
		}
	}
}

// elements are the registers of a vector load or store, the first n of them.
func elements(in *inst) (regs [4]uint32, n int) {
	if in.e == noReg {
		return [4]uint32{in.d, in.b}, 2
	}
	return [4]uint32{in.d, in.b, in.c, in.e}, 4
}

// eachElement makes one access of each element.
func eachElement(w *warp, in *inst, size uint64, access laneFunc) {
	regs, n := elements(in)
	for k := range n {
		one := *in
		one.d, one.imm = regs[k], in.imm+uint64(k)*size
		if k > 0 {
			one.align = uint8(size - 1) // the others are aligned if the first is
		}
		access(w, &one)
	}
}

// span says how the active lanes access memory at once: spaceGlobal, still to be
// translated; spaceShared and spaceLocal, all inside; or spaces, lane by lane.
type span struct {
	space  space
	offset uint64 // to be added to the base registers
	first  uint64 // address of the first active lane
	diff   uint64 // bits in which the addresses differ
}

var laneByLane = span{space: spaces}

// memory is the memory that a span lies in, or nil where it must be accessed
// lane by lane.
func (w *warp) memory(s span, need gpu.Prot) *translation {
	switch s.space {
	case spaceGlobal:
		if e := w.worker.translate(s.first, need); e != nil && s.diff&^e.mask == 0 {
			return e
		}
	case spaceShared:
		return &w.block.window
	}
	return nil
}

// resolve looks at the addresses of the active lanes, of which there is at least
// one. What it does not understand, or
// would fault, is laneByLane.
func resolve[A uint32 | uint64](w *warp, in *inst, a *[32]A) span {
	imm := A(in.imm)
	x0 := a[w.first()] + imm
	var p, q A
	if w.mask != allLanes {
		for m := w.mask; m != 0; m &= m - 1 {
			p |= (a[firstOf(m)] + imm) ^ x0
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
func locate[A uint32 | uint64](w *warp, in *inst, a *[32]A, first, diff uint64) span {
	s := span{in.space, in.imm, first, diff}
	if (s.first|s.diff)&uint64(in.align) != 0 {
		return laneByLane
	}
	if s.space == spaceGeneric {
		var off uint64
		if s.space, off = windowOf(s.first); s.space != spaceGlobal {
			if s.diff >= WindowSize {
				return laneByLane
			}
			s.offset -= s.first - off
			s.first = off
		}
	}
	var limit uint64
	switch s.space {
	case spaceGlobal:
		return s
	case spaceShared:
		limit = uint64(len(w.block.shared))
	case spaceLocal:
		limit = 4 * uint64(len(w.local))
	default:
		return laneByLane
	}
	// Accesses are aligned, and no larger than in.align+1, so they end within
	// the same 16 bytes. first|diff is at least the largest address.
	size := uint64(in.align) + 1
	if limit < size {
		return laneByLane
	}
	if last := limit - size; s.first|s.diff > last {
		off := A(s.offset)
		for m := w.mask; m != 0; m &= m - 1 {
			if uint64(a[firstOf(m)]+off) > last {
				return laneByLane
			}
		}
	}
	return s
}

// loadLocal reads .local memory for one lane. Precondition: addr is aligned and inside.
func (w *warp) loadLocal(addr uint64, lane int, size uint64) uint64 {
	x := uint64(w.local[addr/4][lane&31])
	if size == 8 {
		return x | uint64(w.local[addr/4+1][lane&31])<<32
	}
	if size == 4 {
		return x
	}
	return x >> (8 * (addr & 3)) & (1<<(8*size) - 1)
}

// storeLocal writes .local memory for one lane. Precondition: addr is aligned and inside.
func (w *warp) storeLocal(addr uint64, lane int, size, x uint64) {
	p := &w.local[addr/4][lane&31]
	switch size {
	case 8:
		w.local[addr/4+1][lane&31] = uint32(x >> 32)
		*p = uint32(x)
	case 4:
		*p = uint32(x)
	default:
		shift, mask := 8*(addr&3), uint32(1<<(8*size)-1)
		*p = *p&^(mask<<shift) | uint32(x)&mask<<shift
	}
}

// accessFuncs are the loads and stores by size and by the width of the register
// with the address.
type accessKey struct {
	size   int // bytes
	wide   bool
	writes bool
}

var accessFuncs = map[accessKey]laneFunc{
	{1, false, false}: load[uint8, uint32, uint32],
	{2, false, false}: load[uint16, uint32, uint32],
	{4, false, false}: load[uint32, uint32, uint32],
	{8, false, false}: load[uint64, uint64, uint32],
	{1, true, false}:  load[uint8, uint32, uint64],
	{2, true, false}:  load[uint16, uint32, uint64],
	{4, true, false}:  load[uint32, uint32, uint64],
	{8, true, false}:  load[uint64, uint64, uint64],
	{1, false, true}:  store[uint8, uint32, uint32],
	{2, false, true}:  store[uint16, uint32, uint32],
	{4, false, true}:  store[uint32, uint32, uint32],
	{8, false, true}:  store[uint64, uint64, uint32],
	{1, true, true}:   store[uint8, uint32, uint64],
	{2, true, true}:   store[uint16, uint32, uint64],
	{4, true, true}:   store[uint32, uint32, uint64],
	{8, true, true}:   store[uint64, uint64, uint64],
}

// elementFuncs are the vector loads and stores, by the size of an element.
var elementFuncs = map[accessKey]laneFunc{
	{4, false, false}: loadElements[uint32, uint32],
	{8, false, false}: loadElements[uint64, uint32],
	{4, true, false}:  loadElements[uint32, uint64],
	{8, true, false}:  loadElements[uint64, uint64],
	{4, false, true}:  storeElements[uint32, uint32],
	{8, false, true}:  storeElements[uint64, uint32],
	{4, true, true}:   storeElements[uint32, uint64],
	{8, true, true}:   storeElements[uint64, uint64],
}
