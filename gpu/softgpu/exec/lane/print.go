package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/internal/cprintf"
)

// readsPerHead is how many reads of an operation, lane by lane, count as a loop head.
const readsPerHead = 64

// PrintLanes prints for each active lane, in order, and gives each the number of its
// arguments. A fault in the format, or in memory that it names, is one of the kernel.
func PrintLanes(w *ir.Warp, in *ir.Inst) {
	reads := 0
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		read := func(addr, size uint64) uint64 {
			reads++
			return loadLane(w, ir.SpaceGeneric, lane, addr, size, size)
		}
		text, n := cprintf.Format(read, w.R64[in.A][lane], w.R64[in.B][lane])
		if out := w.Worker.Print; out != nil {
			out(text)
		}
		w.R32[in.D][lane] = uint32(n)
	}
	w.Budget -= reads / readsPerHead
}

// AssertLanes prints the failed assertion of each active lane: its message a, file b, line c and
// function e.
func AssertLanes(w *ir.Warp, in *ir.Inst) {
	out := w.Worker.Print
	if out == nil {
		return
	}
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		read := func(addr, size uint64) uint64 { return loadLane(w, ir.SpaceGeneric, lane, addr, size, size) }
		a := cprintf.Assert{Message: w.R64[in.A][lane], File: w.R64[in.B][lane], Line: w.R32[in.C][lane],
			Function: w.R64[in.E][lane], Block: w.Block.ID}
		for i := range a.Thread {
			a.Thread[i] = w.Tid[i][lane]
		}
		out(gpu.StderrMark + a.Text(read))
	}
}
