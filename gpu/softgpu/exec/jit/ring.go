package jit

import (
	"runtime"

	"pvdrm/gpu/softgpu/exec/ir"
)

// A ring is the warps of a block that run in native code from barrier to barrier, one after the other, with
// no Go in between: where one comes to a barrier, the next goes on from its own last one. When the first
// comes to its turn again, all have arrived, and the barrier is complete. All of them run with all lanes, and
// all barriers of the kernel are the same one. As soon as a warp leaves native code, the ring ends: those
// before it in the order have arrived at a barrier, and those behind it have passed theirs.

// nowhere is the position of a warp that has not left native code, or come to a barrier.
const nowhere = -1

// Rings reports whether the warps of blocks of n's kernel can run in a ring.
func (n *Code) Rings() bool { return n.rings }

// Join prepares a warp to run in a ring of so many, before the one of next. It reports false if native
// code cannot be entered where it is.
func (n *Code) Join(f, next *Frame, w *ir.Warp, seen uint64, warps int) bool {
	if !n.prepare(f, w, seen) {
		return false
	}
	f.fuel /= int64(warps)
	f.join(next)
	return true
}

// Pass runs a ring, beginning with the warp of f, until one leaves native code.
func (n *Code) Pass(f *Frame) {
	code := n.full.code.Load()
	n.native(f)
	runtime.KeepAlive(code)
}

// Part takes a warp from its ring. It returns where it left native code, and where it goes on behind the
// last barrier that it came to, each of which may be below 0, for nowhere; and the limit of the lanes that run.
func (n *Code) Part(f *Frame, w *ir.Warp, sites *Sites) (left, passed, limit int32) {
	left, passed = f.pc, f.passed
	f.join(nil)
	if left >= 0 {
		f.giveBack(w)
		n.findPage(w, sites, left)
	}
	return left, passed, f.limit
}
