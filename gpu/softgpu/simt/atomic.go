package simt

import (
	"math"
	"sync/atomic"

	"pvdrm/gpu"
)

// atomOp is an atom or red instruction: register a (64 bits) + imm is the
// address, b and c are the operands, d receives the old value.
type atomOp struct {
	size   uint64 // bytes: 2, 4 or 8
	update updateFunc
	global updateFunc // in global memory, where that differs
	result bool       // atom, not red
}

// globalUpdates are the operations that global memory computes for itself and
// in its own way: f32 flushes subnormals, f64 leaves NaNs as they are.
var globalUpdates = map[string]updateFunc{
	"add.f32": func(old, b, _ uint64) uint64 {
		x, y := math.Float32frombits(ftzBits(uint32(old))), math.Float32frombits(ftzBits(uint32(b)))
		return uint64(ftzBits(math.Float32bits(canon32(x + y))))
	},
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

// updateFunc makes the new value of an atomic operation from the old one and
// its operands.
type updateFunc func(old, b, c uint64) uint64

// updates are the atomic operations by name and type.
var updates = map[string]updateFunc{
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
		return uint64(math.Float32bits(canon32(math.Float32frombits(uint32(old)) + math.Float32frombits(uint32(b)))))
	},
	"add.f64": func(old, b, _ uint64) uint64 {
		return math.Float64bits(math.Float64frombits(old) + math.Float64frombits(b))
	},
	"add.noftz.f16":    addHalf,
	"add.noftz.bf16":   addBHalf,
	"add.noftz.f16x2":  addPacked(addHalf),
	"add.noftz.bf16x2": addPacked(addBHalf),
}

func compareAndSwap(old, b, c uint64) uint64 {
	if old == b {
		return c
	}
	return old
}

func exchange(_, b, _ uint64) uint64  { return b }
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
	return uint64(f16from32(f16to32(uint32(old)) + f16to32(uint32(b))))
}

func addBHalf(old, b, _ uint64) uint64 {
	return uint64(bf16from32(bf16to32(uint32(old)) + bf16to32(uint32(b))))
}

func addPacked(add updateFunc) updateFunc {
	return func(old, b, _ uint64) uint64 {
		return add(old&0xffff, b&0xffff, 0) | add(old>>16&0xffff, b>>16&0xffff, 0)<<16
	}
}

// atomLanes runs an atom or red, lane after lane, each as one atomic step
// towards all other workers.
func atomLanes(w *warp, in *inst) {
	op := in.x.atom
	addrs := &w.r64[in.a]
	for m := w.mask; m != 0; m &= m - 1 {
		i := firstOf(m)
		b, c := w.operand(in.b, op.size, i), uint64(0)
		if in.c != noReg {
			c = w.operand(in.c, op.size, i)
		}
		old := w.atomLane(in.space, i, addrs[i]+in.imm, op, b, c)
		if !op.result || in.d == noReg {
			continue
		}
		if op.size == 8 {
			w.r64[in.d][i] = old
		} else {
			w.r32[in.d][i] = uint32(old)
		}
	}
	w.budget -= spinCost
}

func (w *warp) operand(r uint32, size uint64, lane int) uint64 {
	if size == 8 {
		return w.r64[r][lane]
	}
	return uint64(w.r32[r][lane])
}

func (w *warp) atomLane(s space, lane int, addr uint64, op *atomOp, b, c uint64) uint64 {
	if s == spaceGeneric {
		s, addr = windowOf(addr)
	}
	if s != spaceGlobal {
		// The block runs on this goroutine alone.
		old := w.loadLane(s, lane, addr, op.size, op.size)
		w.storeLane(s, lane, addr, op.size, op.size, op.update(old, b, c))
		return old
	}
	w.checkLane(s, lane, addr, op.size, op.size, true)
	e := w.worker.translate(addr, gpu.ProtRead|gpu.ProtWrite)
	if e == nil {
		w.failAddress(lane, gpu.LostAddress, addr, true, "")
	}
	update := op.update
	if op.global != nil {
		update = op.global
	}
	switch op.size {
	case 8:
		return update64(at[uint64](e, addr), update, b, c)
	case 4:
		return uint64(update32(at[uint32](e, addr), update, b, c))
	}
	// Half of a word: the other half is kept.
	shift := 8 * (addr & 2)
	half := func(old, b, c uint64) uint64 {
		return old&^(0xffff<<shift) | (op.update(old>>shift&0xffff, b&0xffff, c&0xffff)&0xffff)<<shift
	}
	return uint64(update32(at[uint32](e, addr&^3), half, b, c)) >> shift & 0xffff
}

// update32 and update64 replace *p by update(*p, b, c) in one atomic step and
// return the old value. P is memory that other workers and the guest access.

func update32(p *uint32, update updateFunc, b, c uint64) uint32 {
	for {
		old := atomic.LoadUint32(p)
		if x := uint32(update(uint64(old), b, c)); x == old || atomic.CompareAndSwapUint32(p, old, x) {
			return old
		}
	}
}

func update64(p *uint64, update updateFunc, b, c uint64) uint64 {
	for {
		old := atomic.LoadUint64(p)
		if x := update(old, b, c); x == old || atomic.CompareAndSwapUint64(p, old, x) {
			return old
		}
	}
}
