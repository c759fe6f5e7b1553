package jit

import (
	"runtime"
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
)

// A ring is the warps of a block that run in native code from barrier to barrier, one after the other, with
// no Go in between: where one comes to a barrier, the next goes on from its own last one. When the first
// comes to its turn again, all have arrived, and the barrier is complete. All of them run with all lanes, and
// all barriers of the kernel are for all threads of the block; where they have different numbers, each warp looks
// whether it is at the one of the warp before it. A warp that has ended is none of the ring any more.
//
// Where a warp leaves native code, the interpreter may run some operations of it and let the ring go on there.
// Else the ring ends: the warps before it in the order have arrived at a barrier, and those behind it have passed
// theirs.
//
// The first turn of each warp ends where it would go back in a loop, or come to a barrier: it is parked there, and the
// next one runs; where lanes part by that, it is parked before the branch. So all warps have begun before one goes on.

// nowhere is the position of a warp that has not left native code, or come to a barrier.
const nowhere = -1

// maxBarriers is how many barriers a block has.
const maxBarriers = 16

// ringKind says what is known of the barriers of a kernel.
type ringKind struct {
	some    bool   // warps may run in a ring
	several bool   // not all barriers are the same one
	count   uint32 // of threads that all of them name; 0: they name none
}

// ringOf finds whether warps may run in a ring: all barriers of the function are for all threads of the block, by the same
// constant number of threads or by none, and functions that it calls have none: those are a crew's.
func ringOf(p *ir.Program, fn *ir.Function) (r ringKind) {
	if !fn.Kernel {
		return r
	}
	if list, _ := reached(p, fn); slices.ContainsFunc(list[1:], func(to *ir.Function) bool { return hasBarrier(p, to) }) {
		return ringKind{}
	}
	var first *ir.Inst
	for pc := fn.Entry; pc < fn.End; pc++ {
		in := &p.Code[pc]
		if in.Kind != ir.KBarrier {
			continue
		}
		if !isPlainBarrier(in) {
			return ringKind{}
		}
		if first == nil {
			first, r = in, ringKind{some: true, count: countOf(fn, in)}
		}
		if count := in.X.Barrier.Count; count != first.X.Barrier.Count || count != ir.NoReg && r.count == 0 {
			return ringKind{}
		}
		r.several = r.several || keyOf(in) != keyOf(first)
	}
	return r
}

// hasBarrier reports whether a function has a barrier itself.
func hasBarrier(p *ir.Program, fn *ir.Function) bool {
	return slices.ContainsFunc(p.Code[fn.Entry:fn.End], func(in ir.Inst) bool { return in.Kind == ir.KBarrier })
}

// keyOf tells a barrier from others with the same number of threads.
func keyOf(in *ir.Inst) int32 { return int32(in.X.Barrier.Number) }

// countOf is the number of threads that a barrier names, if that is constant, else 0.
func countOf(fn *ir.Function, in *ir.Inst) uint32 {
	count, _ := constantOf(fn, in.X.Barrier.Count)
	return count
}

// constantOf is the value of a 32-bit register that is constant, the same in all blocks.
func constantOf(fn *ir.Function, reg uint32) (value uint32, ok bool) {
	for i, c := range fn.Const32 {
		if c.Reg == reg && !slices.Contains(fn.Shared32, i) {
			return c.Value, true
		}
	}
	return 0, false
}

// Rings reports whether the warps of blocks of so many threads of n's kernel can run in a ring.
func (n *Code) Rings(threads int) bool {
	return n.ring.some && (n.ring.count == 0 || int(n.ring.count) == threads)
}

// Counts reports whether n's barriers name a number of threads, to which those that have exited do not count.
func (n *Code) Counts() bool { return n.ring.count != 0 }

// Link is where a warp is in a ring.
type Link struct {
	Before, Next *Frame
	Place        int    // in the order of the ring
	Warps        int    // in the ring
	Seen         uint64 // what Control.word was
	Fresh        bool   // the warp has not had its first turn
}

// Join prepares a warp to run in a ring. It reports false if native code cannot be entered where it is.
func (n *Code) Join(f *Frame, w *ir.Warp, by Link) bool {
	if !n.prepare(f, w, by.Seen) {
		return false
	}
	if f.fresh = 0; by.Fresh {
		f.fresh, f.budget = f.budget, 0
	}
	f.fuel /= int64(by.Warps)
	f.place, f.barrier = int32(by.Place), nowhere
	f.join(by.Before, by.Next)
	return true
}

// Pass runs a ring, or a chain, beginning with the warp of f, until one leaves native code. It returns that one's frame.
func (n *Code) Pass(f *Frame) *Frame {
	code := n.full.code.Load()
	last := n.native(f)
	runtime.KeepAlive(code)
	return last
}

// Leave returns the position at which the warp of f has left native code, as one of a ring, for the lanes that w.Mask
// has then.
func (n *Code) Leave(f *Frame, w *ir.Warp, sites *Sites) int32 {
	w.Mask, w.Live, w.Budget = f.mask, f.live, int(f.budget)
	f.InCalled(w, func() { n.codeAt(f, w).findPage(w, sites, f.pc) })
	return f.pc
}

// GoOn lets the warp of f, which has left native code, go on in its ring of so many at another position. It reports
// false if native code cannot be entered there.
func (n *Code) GoOn(f *Frame, w *ir.Warp, pc int32, warps int) bool {
	f.pc = pc
	here := n.codeAt(f, w)
	if here == nil {
		return false
	}
	code, at := here.EntryAt(pc, w.Mask)
	if at == 0 {
		return false
	}
	f.entry, f.target, f.fuel, f.pc = code.entry, at, int64(fuel/warps), nowhere
	f.forgetKept()
	return true
}

// MayTurn reports whether the warp of f may pass heads of loops in its turn.
func (n *Code) MayTurn(f *Frame) bool { return f.budget > 1 }

// Called reports whether the warp of f has left native code in a function that it called.
func (f *Frame) Called() bool { return f.open() != 0 }

// MayLoop reports whether the warp of f may pass heads of loops before others have their turn.
func (n *Code) MayLoop(f *Frame) bool { return f.fresh == 0 && f.budget > 1 }

// Parted is where a warp is that was in a ring.
type Parted struct {
	Left   int32  // where it left native code; below 0: nowhere
	Limit  int32  // the lowest position of lanes that wait then
	Ended  bool   // all its threads have exited there
	Passed int32  // where it goes on behind the last barrier that it came to; below 0: it came to none
	Parked int32  // where it goes on behind its first turn; below 0: that was before, or is still to come
	Fresh  bool   // it is still to come
	Held   uint32 // lanes that are held at a barrier, see hold.go
	HeldAt int32  // and its position
}

// Part takes a warp from its ring.
func (n *Code) Part(f *Frame, w *ir.Warp, sites *Sites) Parted {
	p := Parted{Left: f.pc, Limit: f.limit, Passed: f.passed, Parked: f.parked, Fresh: f.fresh != 0, Held: f.held, HeldAt: f.heldAt}
	if p.Left >= 0 {
		n.giveBackCalled(f, w, sites)
		p.Ended = w.Mask == ir.AllLanes && endsWarp(&n.prog.Code[p.Left]) && w.Frame.Fn == n.fn
	}
	f.fresh, f.held = 0, 0
	f.join(nil, nil)
	return p
}
