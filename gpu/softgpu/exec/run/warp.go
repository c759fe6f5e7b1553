package run

import (
	"math"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
	"pvdrm/gpu/softgpu/exec/lane"
)

// noLimit is the limit of a fragment that waits for no other.
const noLimit = math.MaxInt32

// quantum is how many loop heads a warp may pass before others get their turn;
// boostQuantum is the share of a fragment that would not be next by the usual
// order. A warp's first turn ends when it goes back to its first loop head, because the warps of
// a block begin together on a GPU, and some programs rely on it without a barrier. After every
// yieldHeads of them that are interpreted, a warp asks whether it has to make room for others: a
// quantum of long loops takes milliseconds.
const (
	quantum      = 4096
	boostQuantum = 256
	yieldHeads   = 64
	grace        = 64 // bounded calls that a warp may make in its first turn
)

// warp is a warp that is scheduled.
//
//	        split                 meets its kin
//	ready ─────────► two of them ───────────────► one
//	  │ ▲
//	  │ └──── barrier complete, or last lane arrived
//	  └─────► AtBarrier, AtSync
type warp struct {
	code     []ir.Inst
	native   *jit.Code // nil: everything is interpreted
	limit    int32     // the lowest position of another ready fragment of the same depth
	boost    bool      // the next to run is the fragment that waits longest, for a short while
	boosted  bool      // the running fragment has the boost
	spared   bool      // the last call was one of those that Grace allows
	fresh    bool      // it has not run yet, and has others beside it
	first    bool      // this is the turn of a fresh one
	forced   bool      // a synchronising operation goes ahead without the missing lanes
	exist    uint32
	sleepers int    // fragments that are asleep
	met      uint32 // lanes that have arrived at the barrier of the cluster
	passed   uint32 // and those that all have followed, but that have not waited yet
	block    *block
	worker   *worker
	ir.Warp

	frame0 jit.Frame
	calls  *jit.Calls // of native code; nil before the first launch that makes calls
	root   ir.Frame
}

// outcome says why run returned.
type outcome uint8

const (
	done    outcome = iota // all lanes have exited
	blocked                // all fragments wait for a barrier, or sleep
	asleep                 // nothing has run: some fragments sleep
	yielded                // the quantum is used up
)

// run runs the warp until it is done, blocked or has used up its quantum. It
// panics with *gpu.LostError on a fault.
func (w *warp) run() outcome {
	if w.sleepers != 0 && !w.wake() {
		return asleep
	}
	if !w.turn() {
		return w.idle()
	}
	code, pc := w.code, w.PC
	for {
		entered := false
		if n := w.native; n != nil {
			pc, entered = w.runNative(n, pc)
		}
		if c := w.worker.counts; c != nil {
			c.interpret(w, pc, entered)
		}
		in := &code[pc]
		pc++
		if in.Guard != 0 {
			switch m := w.guard(in); m {
			case w.Mask:
			case 0:
				continue
			default:
				w.PC = pc - 1
				w.partly(in, m)
				continue
			}
		}
		var target int32
		switch in.Kind {
		case ir.KLane32, ir.KLane64:
			if w.Mask == w.Live {
				in.Fn(&w.Warp, in)
			} else {
				lane.Step(&w.Warp, in)
			}
			continue
		case ir.KMasked:
			w.PC = pc - 1
			in.Fn(&w.Warp, in)
			continue
		case ir.KCompare:
			lane.Compare(&w.Warp, in)
			continue
		case ir.KJump:
			target = in.Target
		case ir.KBranch:
			target = w.way(in, w.sense(in, w.Pr[in.A]))
		case ir.KCompareBranch:
			m := in.Cmp(&w.Warp, in)
			w.Pr[in.D] = w.Pr[in.D]&^w.Mask | m&w.Mask
			target = w.way(in, w.sense(in, m))
		default:
			w.PC = pc
			if !w.control(in) {
				return w.idle()
			}
			if w.Budget <= 0 && !w.eased(in) && w.loopHead() {
				return yielded
			}
			pc = w.PC
			continue
		}
		w.PC = target
		if target < pc {
			if w.loopHead() {
				return yielded
			}
		} else if target >= w.limit {
			w.reschedule()
		}
		pc = w.PC
	}
}

// runNative runs native code from pc on, if there is some. It returns where the interpreter goes on.
func (w *warp) runNative(n *jit.Code, pc int32) (left int32, entered bool) {
	code, at := n.EntryAt(pc, w.Mask)
	if at == 0 {
		return pc, false
	}
	before := w.Frame
	left, w.limit = n.Run(&w.frame0, &w.Warp, w.worker.sites, code, at, jit.Turn{Limit: w.limit, Boosted: w.boosted, Seen: w.worker.seen})
	if w.Frame != before { // that of a function that native code has called
		w.view(w.Frame)
	}
	return left, true
}

// guard returns the lanes of the mask that an operation's guard lets run.
func (w *warp) guard(in *ir.Inst) uint32 {
	m := w.Pr[in.Guard-1]
	if in.GuardNeg {
		m = ^m
	}
	return m & w.Mask
}

// partly runs an operation for some lanes of the mask.
func (w *warp) partly(in *ir.Inst, m uint32) {
	active := w.Mask
	w.Mask = m
	lane.Step(&w.Warp, in)
	w.Mask = active
}

// sense returns the lanes of the mask that branch where the condition holds for lanes m.
func (w *warp) sense(in *ir.Inst, m uint32) uint32 {
	if in.Neg {
		m = ^m
	}
	return m & w.Mask
}

// way returns where the warp goes on when lanes m of the mask branch.
func (w *warp) way(in *ir.Inst, m uint32) int32 {
	switch m {
	case w.Mask:
		return in.Target
	case 0:
		return in.Other
	}
	if in.E != 0 {
		return int32(in.E)
	}
	return w.split(m, in.Target, in.Other)
}

// turn begins a turn of the warp. It reports false when no fragment can run.
func (w *warp) turn() bool {
	w.Budget = quantum
	if w.boost {
		w.Budget = boostQuantum
	}
	if w.first, w.fresh = w.fresh, false; w.first {
		w.Budget = 0
	}
	return w.pick()
}

// idle is the outcome where no fragment can run.
func (w *warp) idle() outcome {
	if w.Live == 0 {
		return done
	}
	return blocked
}
