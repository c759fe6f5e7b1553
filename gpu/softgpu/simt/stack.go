package simt

import (
	"fmt"

	"pvdrm/gpu"
)

// allocaLanes runs alloca: d = the address of a new part of the frame.
func allocaLanes(w *warp, in *inst) {
	f, want := w.frame, uint64(0)
	for m := w.mask; m != 0; m &= m - 1 {
		want = max(want, w.r64[in.a][firstOf(m)])
	}
	align := max(int(in.imm), 16) / 4
	at := (f.top + align - 1) / align * align
	limit := uint64(w.block.limits.StackBytes)
	if want > limit || uint64(4*(at-f.base))+want > limit {
		w.fail(gpu.LostStack, fmt.Sprintf("alloca of %d bytes", want))
	}
	f.top = at + int(want+15)/16*4
	if f.stackBytes() > w.block.limits.StackBytes {
		w.fail(gpu.LostStack, fmt.Sprintf("alloca of %d bytes", want))
	}
	w.local = grow(w.local, f.top)
	fill(&w.r64[in.d], 4*uint64(at), w.mask, allLanes)
}

// saveStack and restoreStack run stacksave and stackrestore.
func saveStack(w *warp, in *inst) {
	fill(&w.r64[in.d], 4*uint64(w.frame.top), allLanes, allLanes)
}

// restoreStack gives memory back unless other lanes in the same frame run
// apart from these and may still use theirs.
func restoreStack(w *warp, in *inst) {
	f := w.frame
	for i := range w.rest {
		if w.rest[i].frame == f {
			return
		}
	}
	to := w.r64[in.a][w.first()] / 4
	if to >= uint64(f.base+f.fn.localBytes/4) && to <= uint64(f.top) {
		f.top = int(to)
	}
}

// stackBytes is what a thread in frame f has of the call stack.
func (f *frame) stackBytes() int {
	return f.stacked + 4*(f.top-f.base) - f.fn.localBytes
}
