package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// MallocLanes allocates memory of the context's heap for each active lane: d = the address of a
// bytes, or 0.
func MallocLanes(w *ir.Warp, in *ir.Inst) {
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		w.R64[in.D][lane] = w.Worker.Heap.Malloc(w.R64[in.A][lane])
	}
	w.Budget -= SpinCost
}

// FreeLanes gives back what is at address a, for each active lane. An address that malloc did not
// return, or that is free already, ends the kernel.
func FreeLanes(w *ir.Warp, in *ir.Inst) {
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		if addr := w.R64[in.A][lane]; addr != 0 && !w.Worker.Heap.Free(addr) {
			w.FailAddress(lane, gpu.LostAddress, addr, true, "free of an address that malloc did not return")
		}
	}
	w.Budget -= SpinCost
}
