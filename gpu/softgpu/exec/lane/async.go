package lane

import "pvdrm/gpu/softgpu/exec/ir"

// CopyAsync is cp.async: 4, 8 or 16 bytes from global to shared memory, of which the last
// are zeros where the source has fewer.
func CopyAsync(w *ir.Warp, in *ir.Inst) {
	op := in.X.Copy
	word := min(op.Size, 8)
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		to, from, n := w.R64[in.A][lane]+in.Imm, w.R64[in.B][lane]+op.Offset, op.Size
		if op.Source != ir.NoReg {
			n = min(n, uint64(w.R32[op.Source][lane]))
		}
		checkLane(w, ir.SpaceShared, lane, to, op.Size, op.Size, true)
		var words [2]uint64
		if n == op.Size {
			words[0] = loadLane(w, ir.SpaceGlobal, lane, from, word, op.Size)
			if op.Size > 8 {
				words[1] = loadLane(w, ir.SpaceGlobal, lane, from+8, 8, 8)
			}
		} else if n > 0 {
			checkLane(w, ir.SpaceGlobal, lane, from, 1, op.Size, false)
			for k := range n {
				words[k/8] |= loadLane(w, ir.SpaceGlobal, lane, from+k, 1, 1) << (k % 8 * 8)
			}
		}
		storeLane(w, ir.SpaceShared, lane, to, word, word, words[0])
		if op.Size > 8 {
			storeLane(w, ir.SpaceShared, lane, to+8, 8, 8, words[1])
		}
	}
}
