package run

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
	"pvdrm/gpu/softgpu/exec/lane"
)

// view makes f the running frame.
func (w *warp) view(f *ir.Frame) {
	w.Frame = f
	w.R32 = w.Store32[f.Base32 : f.Base32+f.Fn.Regs32]
	w.R64 = w.Store64[f.Base64 : f.Base64+f.Fn.Regs64]
	w.Pr = w.StorePr[f.BasePr : f.BasePr+f.Fn.Preds]
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
	w.met, w.passed = 0, 0
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
	w.passHead()
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
	f := &ir.Frame{
		Parent: up, Fn: fn, Site: site, Ret: w.PC, Depth: up.Depth + 1,
		Base32: up.Base32 + up.Fn.Regs32, Base64: up.Base64 + up.Fn.Regs64, BasePr: up.BasePr + up.Fn.Preds,
		Base: up.Top, Top: up.Top + fn.LocalBytes/4,
	}
	f.Stacked = up.StackBytes() + fn.FrameBytes
	if f.Stacked > w.block.limits.StackBytes {
		w.FailLane(w.First(), gpu.LostStack, "call of "+fn.Name)
	}
	w.reserve(f)
	w.view(f)
	w.writeConstants(fn)
	w.clear(f)
	for i, p := range fn.Params {
		w.move(f, ir.Actual{Offset: p.Offset, Reg: p.Reg, Kind: p.Kind}, up, site.Args[i], p.Size)
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
	for i, r := range f.Fn.Results {
		if i < len(f.Site.Results) {
			w.move(up, f.Site.Results[i], f, ir.Actual{Offset: r.Offset, Reg: r.Reg, Kind: r.Kind}, r.Size)
		}
	}
	w.view(up)
	w.PC = f.Ret
	w.limit = noLimit
	if len(w.Rest) != 0 {
		w.reschedule()
	}
}

// move copies size bytes from one frame to another for the active lanes.
func (w *warp) move(df *ir.Frame, d ir.Actual, sf *ir.Frame, s ir.Actual, size int) {
	for n := 0; n < size; n += 4 {
		var row *[32]uint32
		switch s.Kind {
		case ir.InMemory:
			row = &w.Local[sf.Base+(s.Offset+n)/4]
		case ir.In32:
			row = &w.Store32[sf.Base32+int(s.Reg)]
		case ir.In64:
			row = w.half(&w.Store64[sf.Base64+int(s.Reg)], n)
		}
		switch d.Kind {
		case ir.InMemory:
			lane.CopyLanes(&w.Local[df.Base+(d.Offset+n)/4], row, w.Mask, w.Live)
		case ir.In32:
			lane.CopyLanes(&w.Store32[df.Base32+int(d.Reg)], row, w.Mask, w.Live)
		case ir.In64:
			r := &w.Store64[df.Base64+int(d.Reg)]
			for m := w.Mask; m != 0; m &= m - 1 {
				i := ir.FirstOf(m)
				r[i] = r[i]&^(math32<<(8*n)) | uint64(row[i])<<(8*n)
			}
		}
	}
}

const math32 = 1<<32 - 1

// half returns the lower (n = 0) or upper (n = 4) words of a 64-bit register.
func (w *warp) half(r *[32]uint64, n int) *[32]uint32 {
	var row [32]uint32
	for i := range row {
		row[i] = uint32(r[i] >> (8 * n))
	}
	return &row
}
