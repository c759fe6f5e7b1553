package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// Tick counts cycles of the running block.
func Tick(w *ir.Warp, in *ir.Inst) {
	m := w.Worker.Model
	if m == nil {
		return
	}
	w.Worker.Cycles += in.Imm
	if m.Limit != 0 && w.Worker.Cycles > m.Limit {
		panic(&gpu.LostError{Cause: gpu.LostTimeout, Kernel: w.Block.Fn.Name, Detail: "by modelled time"})
	}
}
