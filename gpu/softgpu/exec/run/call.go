package run

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
	"pvdrm/gpu/softgpu/exec/lane"
)

// view makes f the running frame.
func (w *warp) view(f *ir.Frame) {
	w.View(f)
	if r := w.worker.run; r.native != nil {
		w.native = r.nativeOf(f.Fn)
	}
}

// nativeOf returns the code of a function, or nil. There is some of the kernel.
func (r *run) nativeOf(fn *ir.Function) *jit.Code {
	if fn == r.kernel.fn {
		return r.native
	}
	if c := r.kernel.called[fn]; c != nil {
		return c.PrepareCalled(r.native, r.kernel.prog, fn, r.launch.Native)
	}
	return nil
}

// see makes the frame the running one in which native code has left the warp.
func (w *warp) see() {
	if f := w.Frame; w.native != nil && f.Depth != 0 {
		w.view(f)
	}
}

// passCall counts a call as the head of a loop. A first turn goes on behind some calls that come to an end without one.
func (w *warp) passCall(site *ir.CallSite) {
	if w.spared = w.Budget <= 1 && w.Grace > 0 && jit.IsBounded(site); !w.spared {
		w.passHead()
		return
	}
	w.Grace--
	w.Budget++
	w.passHead()
}

// eased reports whether a turn goes on behind control flow although its quantum is used up.
func (w *warp) eased(in *ir.Inst) bool {
	return !w.worker.preempting && (in.Kind == ir.KRet || in.Kind == ir.KCall && w.spared)
}

// start prepares the warp for a block of the kernel. Constants are written only
// once in the life of the warp, since nothing overwrites them.
func (w *warp) start(fn *ir.Function) {
	f := &w.root
	if f.Fn != fn {
		*f = ir.Frame{Fn: fn, Top: fn.LocalBytes / 4, Stacked: fn.FrameBytes}
		w.reserve(f)
		w.view(f)
		w.Mask, w.Live = ir.AllLanes, ir.AllLanes
		w.writeConstants(fn)
	} else if w.Frame != f {
		w.view(f)
	}
	w.warm()
	f.Top = fn.LocalBytes / 4
	w.Mask, w.Live, w.PC = w.exist, w.exist, fn.Entry
	w.limit = noLimit
	w.Rest = w.Rest[:0]
	w.boost, w.forced, w.sleepers, w.Groups = false, false, 0, 0
	w.fresh = len(w.block.warps) > 1
	w.met, w.passed, w.Grace = 0, 0, grace
	w.clear(f)
}

// reserve makes the stores large enough for f.
func (w *warp) reserve(f *ir.Frame) {
	w.Store32 = ir.Grow(w.Store32, f.Base32+f.Fn.Regs32)
	w.Store64 = ir.Grow(w.Store64, f.Base64+f.Fn.Regs64)
	w.StorePr = ir.Grow(w.StorePr, f.BasePr+f.Fn.Preds)
	w.Local = ir.Grow(w.Local, f.Top)
}

// writeConstants writes the constants of fn for the active lanes of the running frame.
func (w *warp) writeConstants(fn *ir.Function) {
	for _, c := range fn.Const32 {
		lane.Fill(&w.R32[c.Reg], c.Value, w.Mask, w.Live)
	}
	for _, c := range fn.Const64 {
		lane.Fill(&w.R64[c.Reg], c.Value, w.Mask, w.Live)
	}
	own := w.Warp.Block.Own()
	if own == 0 {
		return
	}
	for _, i := range fn.Shared32 {
		c := &fn.Const32[i]
		lane.Fill(&w.R32[c.Reg], c.Value+uint32(own), w.Mask, w.Live)
	}
	for _, i := range fn.Shared64 {
		c := &fn.Const64[i]
		lane.Fill(&w.R64[c.Reg], c.Value+own, w.Mask, w.Live)
	}
}

// clear zeroes what the running frame f may read before it writes it: some
// registers, and its local memory.
func (w *warp) clear(f *ir.Frame) {
	for _, r := range f.Fn.Zero32 {
		lane.Fill(&w.R32[r], 0, w.Mask, w.Live)
	}
	for _, r := range f.Fn.Zero64 {
		lane.Fill(&w.R64[r], 0, w.Mask, w.Live)
	}
	for _, p := range f.Fn.ZeroPr {
		w.Pr[p] &^= w.Mask
	}
	rows := w.Local[f.Base:f.Top]
	if w.Mask == w.Live {
		clear(rows)
		return
	}
	for i := range rows {
		lane.Fill(&rows[i], 0, w.Mask, w.Live)
	}
}

// call runs a call of the active lanes.
func (w *warp) call(in *ir.Inst) {
	site := in.X.Call
	w.passCall(site)
	if site.Fn != nil {
		w.enter(site, site.Fn)
		return
	}
	// Lanes that call different functions part.
	targets := &w.R64[in.A]
	after := w.PC
	lane := w.First()
	fn := w.block.Prog.FuncAt(targets[lane], site)
	if fn == nil {
		w.FailLane(lane, gpu.LostInstruction, "indirect call of what is no function of the declared type")
	}
	same := uint32(0)
	for m := w.Mask; m != 0; m &= m - 1 {
		if i := ir.FirstOf(m); targets[i] == targets[lane] {
			same |= 1 << i
		}
	}
	if others := w.Mask &^ same; others != 0 {
		w.add(ir.Fragment{Mask: others, PC: after - 1, Frame: w.Frame})
		w.Mask = same
	}
	w.enter(site, fn)
}

// enter makes a frame for fn, copies the arguments and goes there.
func (w *warp) enter(site *ir.CallSite, fn *ir.Function) {
	up := w.Frame
	f := new(ir.Frame)
	*f = up.Called(fn, site, w.PC)
	if f.Stacked > w.block.limits.StackBytes {
		w.FailLane(w.First(), gpu.LostStack, "call of "+fn.Name)
	}
	w.reserve(f)
	w.view(f)
	w.writeConstants(fn)
	w.clear(f)
	for i, p := range fn.Params {
		lane.Move(&w.Warp, w.Mask, f, p.Place(), up, site.Args[i], p.Size)
	}
	w.PC = fn.Entry
	w.limit = noLimit
	w.warm()
	if len(w.Rest) != 0 {
		w.reschedule()
	}
}

// ret returns the active lanes to the caller.
func (w *warp) ret() {
	f := w.Frame
	up := f.Parent
	lane.Return(&w.Warp, w.Mask, f)
	w.view(up)
	w.PC = f.Ret
	w.limit = noLimit
	if len(w.Rest) != 0 {
		w.reschedule()
	}
}
