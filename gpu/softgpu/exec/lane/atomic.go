package lane

import (
	"math"
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/scalar"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// GlobalUpdates are the operations that global memory computes for itself and
// in its own way: f32 flushes subnormals, f64 leaves NaNs as they are.
var GlobalUpdates = map[string]ir.UpdateFunc{
	"add.f32": func(old, b, _ uint64) uint64 { return uint64(addFlushed(uint32(old), uint32(b))) },
	"add.f64": func(old, b, _ uint64) uint64 {
		x, y := math.Float64frombits(old), math.Float64frombits(b)
		switch {
		case y != y:
			return b
		case x != x:
			return old
		}
		return math.Float64bits(x + y)
	},
}

// WordUpdates are the most frequent of those of 32 bits, as global memory computes them.
var WordUpdates = map[string]ir.WordFunc{
	"add.f32": func(p *uint32, b, _ uint64) uint32 {
		for {
			old := atomic.LoadUint32(p)
			if x := addFlushed(old, uint32(b)); x == old || atomic.CompareAndSwapUint32(p, old, x) {
				return old
			}
		}
	},
	"add.u32": addWord, "add.s32": addWord,
	"exch.b32": func(p *uint32, b, _ uint64) uint32 { return atomic.SwapUint32(p, uint32(b)) },
	"and.b32":  func(p *uint32, b, _ uint64) uint32 { return atomic.AndUint32(p, uint32(b)) },
	"or.b32":   func(p *uint32, b, _ uint64) uint32 { return atomic.OrUint32(p, uint32(b)) },
}

func addWord(p *uint32, b, _ uint64) uint32 { return atomic.AddUint32(p, uint32(b)) - uint32(b) }

func addFlushed(old, b uint32) uint32 {
	x, y := math.Float32frombits(scalar.FtzBits(old)), math.Float32frombits(scalar.FtzBits(b))
	return scalar.FtzBits(math.Float32bits(scalar.Canon32(x + y)))
}

// Updates are the atomic operations by name and type.
var Updates = map[string]ir.UpdateFunc{
	"cas.b16": compareAndSwap, "cas.b32": compareAndSwap, "cas.b64": compareAndSwap,
	"exch.b32": exchange, "exch.b64": exchange,
	"and.b32": func(old, b, _ uint64) uint64 { return old & b }, "and.b64": func(old, b, _ uint64) uint64 { return old & b },
	"or.b32": func(old, b, _ uint64) uint64 { return old | b }, "or.b64": func(old, b, _ uint64) uint64 { return old | b },
	"xor.b32": func(old, b, _ uint64) uint64 { return old ^ b }, "xor.b64": func(old, b, _ uint64) uint64 { return old ^ b },
	"add.u32": addBits, "add.s32": addBits, "add.u64": addBits,
	"inc.u32": increment, "dec.u32": decrement,
	"min.u32": func(old, b, _ uint64) uint64 { return uint64(min(uint32(old), uint32(b))) },
	"max.u32": func(old, b, _ uint64) uint64 { return uint64(max(uint32(old), uint32(b))) },
	"min.s32": func(old, b, _ uint64) uint64 { return uint64(uint32(min(int32(old), int32(b)))) },
	"max.s32": func(old, b, _ uint64) uint64 { return uint64(uint32(max(int32(old), int32(b)))) },
	"min.u64": func(old, b, _ uint64) uint64 { return min(old, b) },
	"max.u64": func(old, b, _ uint64) uint64 { return max(old, b) },
	"min.s64": func(old, b, _ uint64) uint64 { return uint64(min(int64(old), int64(b))) },
	"max.s64": func(old, b, _ uint64) uint64 { return uint64(max(int64(old), int64(b))) },
	"add.f32": func(old, b, _ uint64) uint64 {
		return uint64(math.Float32bits(scalar.Canon32(math.Float32frombits(uint32(old)) + math.Float32frombits(uint32(b)))))
	},
	"add.f64": func(old, b, _ uint64) uint64 {
		return math.Float64bits(math.Float64frombits(old) + math.Float64frombits(b))
	},
	"add.noftz.f16":    addHalf,
	"add.noftz.bf16":   addBHalf,
	"add.noftz.f16x2":  addPacked(addHalf),
	"add.noftz.bf16x2": addPacked(addBHalf),
	"min.noftz.f16":    onHalf(scalar.Min32), "min.noftz.f16x2": addPacked(onHalf(scalar.Min32)),
	"max.noftz.f16": onHalf(scalar.Max32), "max.noftz.f16x2": addPacked(onHalf(scalar.Max32)),
	"min.noftz.bf16": onBHalf(scalar.Min32), "min.noftz.bf16x2": addPacked(onBHalf(scalar.Min32)),
	"max.noftz.bf16": onBHalf(scalar.Max32), "max.noftz.bf16x2": addPacked(onBHalf(scalar.Max32)),
}

// AtomKinds are those that the compiler to native code knows, by name and type. What .shared and global
// memory compute in different ways it tells apart itself.
var AtomKinds = map[string]ir.AtomKind{
	"add.u32": ir.AtomAdd, "add.s32": ir.AtomAdd, "add.u64": ir.AtomAdd,
	"and.b32": ir.AtomAnd, "and.b64": ir.AtomAnd, "or.b32": ir.AtomOr, "or.b64": ir.AtomOr, "xor.b32": ir.AtomXor, "xor.b64": ir.AtomXor,
	"exch.b32": ir.AtomExch, "exch.b64": ir.AtomExch, "cas.b32": ir.AtomCas, "cas.b64": ir.AtomCas, "inc.u32": ir.AtomInc, "dec.u32": ir.AtomDec,
	"min.u32": ir.AtomMin, "min.u64": ir.AtomMin, "min.s32": ir.AtomMinSigned, "min.s64": ir.AtomMinSigned,
	"max.u32": ir.AtomMax, "max.u64": ir.AtomMax, "max.s32": ir.AtomMaxSigned, "max.s64": ir.AtomMaxSigned,
	"add.f32": ir.AtomAddFloat, "add.f64": ir.AtomAddDouble,
}

// AtomOf returns an operation by its name and type, with a dot between them.
func AtomOf(name string, size int) (op ir.AtomOp, ok bool) {
	update, ok := Updates[name]
	return ir.AtomOp{Kind: AtomKinds[name], Size: uint64(size), Update: update, Global: GlobalUpdates[name], Word: WordUpdates[name]}, ok
}

// onHalf and onBHalf compute an f16 or bf16 in f32.
func onHalf(f func(a, b float32) float32) ir.UpdateFunc {
	return func(old, b, _ uint64) uint64 {
		return uint64(scalar.F16from32(f(scalar.F16to32(uint32(old)), scalar.F16to32(uint32(b)))))
	}
}

func onBHalf(f func(a, b float32) float32) ir.UpdateFunc {
	return func(old, b, _ uint64) uint64 {
		return uint64(scalar.Bf16from32(f(scalar.Bf16to32(uint32(old)), scalar.Bf16to32(uint32(b)))))
	}
}

func compareAndSwap(old, b, c uint64) uint64 {
	if old == b {
		return c
	}
	return old
}

func exchange(_, b, _ uint64) uint64 { return b }

func addBits(old, b, _ uint64) uint64 { return old + b }

func increment(old, b, _ uint64) uint64 {
	if uint32(old) >= uint32(b) {
		return 0
	}
	return old + 1
}

func decrement(old, b, _ uint64) uint64 {
	if uint32(old) == 0 || uint32(old) > uint32(b) {
		return b
	}
	return old - 1
}

func addHalf(old, b, _ uint64) uint64 {
	return uint64(scalar.F16from32(scalar.F16to32(uint32(old)) + scalar.F16to32(uint32(b))))
}

func addBHalf(old, b, _ uint64) uint64 {
	return uint64(scalar.Bf16from32(scalar.Bf16to32(uint32(old)) + scalar.Bf16to32(uint32(b))))
}

func addPacked(add ir.UpdateFunc) ir.UpdateFunc {
	return func(old, b, _ uint64) uint64 {
		return add(old&0xffff, b&0xffff, 0) | add(old>>16&0xffff, b>>16&0xffff, 0)<<16
	}
}

// AtomLanes runs an atom or red, lane after lane, each as one atomic step
// towards all other workers.
func AtomLanes(w *ir.Warp, in *ir.Inst) {
	op := in.X.Atom
	if atomTogether(w, in, op) {
		w.Budget -= SpinCost
		return
	}
	addrs := &w.R64[in.A]
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		b, c := operand(w, in.B, op.Size, i), uint64(0)
		if in.C != ir.NoReg {
			c = operand(w, in.C, op.Size, i)
		}
		old := atomLane(w, in.Space, i, addrs[i]+in.Imm, op, b, c)
		if !op.Result || in.D == ir.NoReg {
			continue
		}
		if op.Size == 8 {
			w.R64[in.D][i] = old
		} else {
			w.R32[in.D][i] = uint32(old)
		}
	}
	w.Budget -= SpinCost
}

// atomTogether is AtomLanes for lanes that are all in one page of global memory, or in .shared, where
// one check does for all. It reports false, and has done nothing, for others.
func atomTogether(w *ir.Warp, in *ir.Inst, op *ir.AtomOp) bool {
	if op.Size < 4 {
		return false
	}
	s := resolve(w, in, &w.R64[in.A])
	e := memory(w, s, gpu.ProtRead|gpu.ProtWrite)
	if e == nil {
		return false
	}
	update := op.Update
	if s.space == ir.SpaceGlobal && op.Global != nil {
		update = op.Global
	}
	switch global := s.space == ir.SpaceGlobal; {
	case global && op.Word != nil:
		eachAtom(w, in, op, e, s.offset, op.Word)
	case global && op.Size == 4:
		eachAtom(w, in, op, e, s.offset, func(p *uint32, b, c uint64) uint32 { return update32(p, update, b, c) })
	case global:
		eachAtom(w, in, op, e, s.offset, func(p *uint64, b, c uint64) uint64 { return update64(p, update, b, c) })
	case op.Size == 4:
		eachAtom(w, in, op, e, s.offset, updateShared[uint32](update))
	default:
		eachAtom(w, in, op, e, s.offset, updateShared[uint64](update))
	}
	return true
}

// updateShared updates a word of .shared: the block runs on this goroutine alone.
func updateShared[T uint32 | uint64](update ir.UpdateFunc) func(p *T, b, c uint64) T {
	return func(p *T, b, c uint64) T {
		old := *p
		*p = T(update(uint64(old), b, c))
		return old
	}
}

// eachAtom updates the word of each active lane in turn. Precondition: all are in e.
func eachAtom[T uint32 | uint64](w *ir.Warp, in *ir.Inst, op *ir.AtomOp, e *tlb.Translation, off uint64, update func(p *T, b, c uint64) T) {
	addrs, b, d := &w.R64[in.A], reg[T](w, in.B), (*[32]T)(nil)
	if op.Result && in.D != ir.NoReg {
		d = reg[T](w, in.D)
	}
	for m := w.Mask; m != 0; m &= m - 1 {
		i, c := ir.FirstOf(m), uint64(0)
		if in.C != ir.NoReg {
			c = operand(w, in.C, op.Size, i)
		}
		if old := update(tlb.At[T](e, addrs[i]+off), uint64(b[i]), c); d != nil {
			d[i] = old
		}
	}
}

func operand(w *ir.Warp, r uint32, size uint64, lane int) uint64 {
	if size == 8 {
		return w.R64[r][lane]
	}
	return uint64(w.R32[r][lane])
}

func atomLane(w *ir.Warp, s ir.Space, lane int, addr uint64, op *ir.AtomOp, b, c uint64) uint64 {
	if op.Align > op.Size && addr&(op.Align-1) != 0 {
		w.FailAddress(lane, gpu.LostAlign, addr, true, "")
	}
	if s == ir.SpaceGeneric {
		s, addr = ir.WindowOf(addr)
	}
	if s != ir.SpaceGlobal {
		// The block runs on this goroutine alone.
		checkLane(w, s, lane, addr, op.Size, op.Size, true)
		old := loadLane(w, s, lane, addr, op.Size, op.Size)
		storeLane(w, s, lane, addr, op.Size, op.Size, op.Update(old, b, c))
		return old
	}
	checkLane(w, s, lane, addr, op.Size, op.Size, true)
	e := w.Worker.TLB.Translate(addr, gpu.ProtRead|gpu.ProtWrite)
	if e == nil {
		w.FailAddress(lane, gpu.LostAddress, addr, true, "")
	}
	update := op.Update
	if op.Global != nil {
		update = op.Global
	}
	switch op.Size {
	case 8:
		return update64(tlb.At[uint64](e, addr), update, b, c)
	case 4:
		return uint64(update32(tlb.At[uint32](e, addr), update, b, c))
	}
	// Half of a word: the other half is kept.
	shift := 8 * (addr & 2)
	half := func(old, b, c uint64) uint64 {
		return old&^(0xffff<<shift) | (op.Update(old>>shift&0xffff, b&0xffff, c&0xffff)&0xffff)<<shift
	}
	return uint64(update32(tlb.At[uint32](e, addr&^3), half, b, c)) >> shift & 0xffff
}

// update32 and update64 replace *p by update(*p, b, c) in one atomic step and
// return the old value. P is memory that other workers and the guest access.

func update32(p *uint32, update ir.UpdateFunc, b, c uint64) uint32 {
	for {
		old := atomic.LoadUint32(p)
		if x := uint32(update(uint64(old), b, c)); x == old || atomic.CompareAndSwapUint32(p, old, x) {
			return old
		}
	}
}

func update64(p *uint64, update ir.UpdateFunc, b, c uint64) uint64 {
	for {
		old := atomic.LoadUint64(p)
		if x := update(old, b, c); x == old || atomic.CompareAndSwapUint64(p, old, x) {
			return old
		}
	}
}

// SpinCost is how many loop heads an atomic or volatile access counts as, of which
// spin locks are made.
const SpinCost = 64
