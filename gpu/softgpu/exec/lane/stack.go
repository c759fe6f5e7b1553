package lane

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// AllocaLanes runs alloca: d = the address of a new part of the frame.
func AllocaLanes(w *ir.Warp, in *ir.Inst) {
	f, want := w.Frame, uint64(0)
	for m := w.Mask; m != 0; m &= m - 1 {
		want = max(want, w.R64[in.A][ir.FirstOf(m)])
	}
	align := max(int(in.Imm), 16) / 4
	at := (f.Top + align - 1) / align * align
	limit := uint64(w.Block.StackBytes)
	if want > limit || uint64(4*(at-f.Base))+want > limit {
		w.Fail(gpu.LostStack, fmt.Sprintf("alloca of %d bytes", want))
	}
	f.Top = at + int(want+15)/16*4
	if f.StackBytes() > w.Block.StackBytes {
		w.Fail(gpu.LostStack, fmt.Sprintf("alloca of %d bytes", want))
	}
	w.Local = ir.Grow(w.Local, f.Top)
	Fill(&w.R64[in.D], 4*uint64(at), w.Mask, ir.AllLanes)
}

// SaveStack and RestoreStack run stacksave and stackrestore.
func SaveStack(w *ir.Warp, in *ir.Inst) {
	Fill(&w.R64[in.D], 4*uint64(w.Frame.Top), ir.AllLanes, ir.AllLanes)
}

// RestoreStack gives memory back unless other lanes in the same frame run
// apart from these and may still use theirs.
func RestoreStack(w *ir.Warp, in *ir.Inst) {
	f := w.Frame
	for i := range w.Rest {
		if w.Rest[i].Frame == f {
			return
		}
	}
	to := w.R64[in.A][w.First()] / 4
	if to >= uint64(f.Base+f.Fn.LocalBytes/4) && to <= uint64(f.Top) {
		f.Top = int(to)
	}
}
