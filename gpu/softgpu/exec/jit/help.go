package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// Help: an operation of which native code has no form, and that isn't control flow, is done by the function that
// interprets it, and the warp goes on in native code behind it. It stays in its ring or chain, whose other warps
// never see that it was away. All registers are in memory meanwhile.

// isHelped reports whether an operation is done by its function for native code, if that has no form of it. Those for which
// lanes wait are where all of these are there.
func isHelped(in *ir.Inst) bool {
	switch in.Kind {
	case ir.KLane32, ir.KLane64, ir.KMasked, ir.KCompare:
		return in.Op != ir.OpRestore
	case ir.KWarpSync:
		return in.Guard == 0
	}
	return false
}

// native runs native code from f on until a warp leaves it for the interpreter. It returns that one's frame.
func (n *Code) native(f *Frame) *Frame {
	for {
		if f = callNative(f); f.asks == 0 {
			return f
		}
		n.help(f)
	}
}

// help does the operation that the code of a warp asks for.
func (n *Code) help(f *Frame) {
	w, pc := f.warp, f.pc
	in := &n.prog.Code[pc]
	w.PC, w.Mask, w.Live, w.Budget, f.asks, f.pc = pc, f.mask, f.live, int(f.budget), 0, nowhere
	f.InCalled(w, func() { n.do(f, w, in, pc) })
}

// do does an operation for a warp whose registers are in view.
func (n *Code) do(f *Frame, w *ir.Warp, in *ir.Inst, pc int32) {
	active := w.Mask
	if in.Guard != 0 {
		m := w.Pr[in.Guard-1]
		if in.GuardNeg {
			m = ^m
		}
		w.Mask &= m
	}
	if w.Mask != 0 {
		if f.note != nil {
			f.note(pc)
		}
		if w.Mask == w.Live && (in.Kind == ir.KLane32 || in.Kind == ir.KLane64) {
			in.Fn(w, in)
		} else {
			lane.Step(w, in)
		}
	}
	w.Mask = active
	f.view(w)
}

// Note has a function called for each operation that native code has done by its function.
func (f *Frame) Note(note func(pc int32)) { f.note = note }
