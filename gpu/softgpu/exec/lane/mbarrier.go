package lane

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// An mbarrier is a word of shared memory, whose contents PTX leaves open. Bits 0 to 19 are
// the arrivals that its phase still waits for, bits 20 to 39 those of each phase, bits 40 to
// 61 the bytes that are expected, as a signed number, and bit 63 is the number of the phase,
// modulo 2.
const (
	mbarrierMask  = 1<<20 - 1
	mbarrierPhase = 1 << 63
)

// mbarrier is such a word, taken apart.
type mbarrier struct {
	pending, expected uint64
	bytes             int64
	phase             uint64
}

func mbarrierOf(x uint64) mbarrier {
	return mbarrier{pending: x & mbarrierMask, expected: x >> 20 & mbarrierMask, bytes: int64(x<<2) >> 42, phase: x & mbarrierPhase}
}

// word puts the parts together, after the phase has ended if it waits for nothing.
func (b mbarrier) word() uint64 {
	if b.pending == 0 && b.bytes == 0 {
		b.pending, b.phase = b.expected, b.phase^mbarrierPhase
	}
	return b.pending | b.expected<<20 | uint64(b.bytes)<<42>>2 | b.phase
}

// MBarrierLanes is mbarrier, lane after lane.
func MBarrierLanes(w *ir.Warp, in *ir.Inst) {
	op := in.X.MBarrier
	done := uint32(0)
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		if op.Kind == ir.MBarrierPending {
			w.R32[in.D][lane] = uint32(mbarrierOf(w.R64[in.A][lane]).pending)
			continue
		}
		s, addr := in.Space, w.R64[in.A][lane]+in.Imm
		if s == ir.SpaceGeneric {
			if s, addr = ir.WindowOf(addr); s != ir.SpaceCluster {
				w.FailAddress(lane, gpu.LostAddress, addr, true, "mbarrier outside of .shared")
			}
		}
		checkLane(w, s, lane, addr, 8, 8, true)
		old := loadLane(w, s, lane, addr, 8, 8)
		x := uint64(1)
		if op.Operand != ir.NoReg {
			x = operand(w, op.Operand, op.Size, lane)
		}
		if op.Kind == ir.MBarrierTest {
			if op.Parity {
				x <<= 63
			}
			if (old^x)&mbarrierPhase != 0 {
				done |= 1 << lane
			}
			continue
		}
		if op.Kind == ir.MBarrierComplete {
			completeBytes(w, lane, addr, x)
			continue
		}
		storeLane(w, s, lane, addr, 8, 8, updateMBarrier(w, op, lane, old, x))
		if in.D != ir.NoReg {
			w.R64[in.D][lane] = old
		}
	}
	if op.Kind == ir.MBarrierTest {
		w.SetPred(in.D, done)
		w.Budget -= SpinCost
	}
}

// updateMBarrier is what an mbarrier becomes.
func updateMBarrier(w *ir.Warp, op *ir.MBarrierOp, lane int, old, x uint64) uint64 {
	b, count := mbarrierOf(old), x
	switch op.Kind {
	case ir.MBarrierInit:
		if x == 0 || x > mbarrierMask {
			w.FailLane(lane, gpu.LostInstruction, fmt.Sprintf("mbarrier for %d arrivals", x))
		}
		return x | x<<20
	case ir.MBarrierNothing:
		return old
	}
	if op.Bytes {
		b.bytes += int64(x)
		if x > mbarrierMask || b.bytes > mbarrierMask {
			w.FailLane(lane, gpu.LostInstruction, fmt.Sprintf("mbarrier for %d bytes", b.bytes))
		}
		count = 1
		if op.Kind == ir.MBarrierExpect {
			return b.pending | b.expected<<20 | uint64(b.bytes)<<42>>2 | b.phase
		}
	}
	if count > b.pending {
		w.FailLane(lane, gpu.LostInstruction, fmt.Sprintf("%d arrivals at an mbarrier that waits for %d", count, b.pending))
	}
	b.pending -= count
	if op.Drop {
		b.expected -= min(count, b.expected)
	}
	return b.word()
}
