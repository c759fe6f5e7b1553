package jit

import (
	"runtime"

	"pvdrm/gpu/softgpu/exec/ir"
)

// A ring is the warps of a block that run in native code from barrier to barrier, one after the other, with
// no Go in between: where one comes to a barrier, the next goes on from its own last one. When the first
// comes to its turn again, all have arrived, and the barrier is complete. All of them run with all lanes, and
// all barriers of the kernel are the same one. A warp that has ended is none of the ring any more.
//
// Where a warp leaves native code, the interpreter may run some operations of it and let the ring go on there.
// Else the ring ends: the warps before it in the order have arrived at a barrier, and those behind it have passed
// theirs.
//
// The first turn of each warp ends where it would go back in a loop, or come to a barrier: it is parked there, and the
// next one runs. So all warps have begun before one goes on.

// nowhere is the position of a warp that has not left native code, or come to a barrier.
const nowhere = -1

// Rings reports whether the warps of blocks of n's kernel can run in a ring.
func (n *Code) Rings() bool { return n.rings }

// Link is where a warp is in a ring.
type Link struct {
	Before, Next *Frame
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
	w.Mask = f.mask
	n.findPage(w, sites, f.pc)
	return f.pc
}

// GoOn lets the warp of f, which has left native code, go on in its ring of so many at another position. It reports
// false if native code cannot be entered there.
func (n *Code) GoOn(f *Frame, w *ir.Warp, pc int32, warps int) bool {
	f.pc = pc
	code, at := n.EntryAt(pc, w.Mask)
	if at == 0 {
		return false
	}
	f.entry, f.target, f.fuel, f.pc = code.entry, at, int64(fuel/warps), nowhere
	f.forgetKept()
	if f.fresh == 0 {
		f.budget = int64(w.Budget)
	}
	return true
}

// IsFresh reports whether the warp of f has not had its first turn.
func (n *Code) IsFresh(f *Frame) bool { return f.fresh != 0 }

// Parted is where a warp is that was in a ring.
type Parted struct {
	Left   int32 // where it left native code; below 0: nowhere
	Limit  int32 // the lowest position of lanes that wait then
	Ended  bool  // all its threads have exited there
	Passed int32 // where it goes on behind the last barrier that it came to; below 0: it came to none
	Parked int32 // where it goes on behind its first turn; below 0: that was before, or is still to come
	Fresh  bool  // it is still to come
}

// Part takes a warp from its ring.
func (n *Code) Part(f *Frame, w *ir.Warp) Parted {
	p := Parted{Left: f.pc, Limit: f.limit, Passed: f.passed, Parked: f.parked, Fresh: f.fresh != 0}
	if p.Left >= 0 {
		f.giveBack(w)
		p.Ended = w.Mask == ir.AllLanes && endsWarp(&n.prog.Code[p.Left])
	}
	f.fresh = 0
	f.join(nil, nil)
	return p
}
