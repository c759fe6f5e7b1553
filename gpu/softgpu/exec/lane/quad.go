package lane

import (
	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// AtomPairs runs atom.exch.b128 or atom.cas.b128, lane after lane, each as one atomic step towards all
// other workers.
func AtomPairs(w *ir.Warp, in *ir.Inst) {
	op := in.X.Pair
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		b, c := pairOf(w, op.B, i), [2]uint64{}
		if op.Compare {
			c = pairOf(w, op.C, i)
		}
		old := atomPair(w, in.Space, i, w.R64[in.A][i]+in.Imm, op.Compare, b, c)
		for n, r := range op.Old {
			if r != ir.NoReg {
				w.R64[r][i] = old[n]
			}
		}
	}
	w.Budget -= SpinCost
}

func pairOf(w *ir.Warp, regs [2]uint32, lane int) [2]uint64 {
	return [2]uint64{w.R64[regs[0]][lane], w.R64[regs[1]][lane]}
}

// atomPair replaces 16 bytes by b, or by c where they equal b, and returns what they were.
func atomPair(w *ir.Warp, s ir.Space, lane int, addr uint64, compare bool, b, c [2]uint64) (old [2]uint64) {
	const size = 16
	if s == ir.SpaceGeneric {
		s, addr = ir.WindowOf(addr)
	}
	checkLane(w, s, lane, addr, size, size, true)
	next := b
	if compare {
		next = c
	}
	if s != ir.SpaceGlobal { // the cluster runs on this goroutine alone
		old = [2]uint64{loadLane(w, s, lane, addr, 8, 8), loadLane(w, s, lane, addr+8, 8, 8)}
		if !compare || old == b {
			storeLane(w, s, lane, addr, 8, 8, next[0])
			storeLane(w, s, lane, addr+8, 8, 8, next[1])
		}
		return old
	}
	e := w.Worker.TLB.Translate(addr, gpu.ProtRead|gpu.ProtWrite)
	if e == nil {
		w.FailAddress(lane, gpu.LostAddress, addr, true, "")
	}
	p := tlb.PairAt(e, addr)
	for want := b; ; want = old {
		if old[0], old[1] = swapPair(p, want[0], want[1], next[0], next[1]); compare || old == want {
			return old
		}
	}
}
