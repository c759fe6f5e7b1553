package jit

import "pvdrm/gpu/softgpu/exec/ir"

// A chain is the warps of a block that run in native code from where the kernel begins to its end, one after
// the other, with no Go in between. A warp that leaves native code elsewhere, as where it would go back in a
// loop, ends the chain: those before it have ended, and those behind it have not begun. Kernels with barriers have
// rings instead (ring.go).

// Chains reports whether so many warps of n's kernel can run in a chain. Each operation runs once, so that native code
// comes back to Go as soon as it does for loops.
func (n *Code) Chains(warps int) bool {
	return !n.ring.some && !n.crew.some && int64(n.fn.End-n.fn.Entry)*int64(warps) <= fuel
}

// Link prepares a warp, which has not begun, to run in a chain of so many behind that of another frame, if there is one. It
// reports false if native code cannot be entered.
func (n *Code) Link(f, before *Frame, w *ir.Warp, seen uint64, warps int) bool {
	if !n.prepare(f, w, seen) {
		return false
	}
	f.fuel /= int64(warps)
	f.link(before)
	return true
}

// Unlink takes a warp from its chain. It returns where it left native code, or a number below 0 if it has not begun,
// the limit of the lanes that run there, and whether it has ended there.
func (n *Code) Unlink(f *Frame, w *ir.Warp, sites *Sites) (left, limit int32, ended bool) {
	f.unlink()
	if left = f.pc; left < 0 {
		return left, noLimit, false
	}
	f.giveBack(w)
	if in := &n.prog.Code[left]; endsWarp(in) && w.Mask == ir.AllLanes && w.Frame.Fn == n.fn {
		return left, noLimit, true
	}
	n.codeAt(f, w).findPage(w, sites, left)
	return left, f.limit, false
}

// endsWarp reports whether all lanes that run an operation of a kernel end there.
func endsWarp(in *ir.Inst) bool { return (in.Kind == ir.KRet || in.Kind == ir.KExit) && in.Guard == 0 }
