package simt

import (
	"math"
	"math/bits"
)

// allLanes is the mask of a warp whose 32 lanes all run.
const allLanes = math.MaxUint32

// noLimit is the limit of a fragment that waits for no other.
const noLimit = math.MaxInt32

// quantum is how many loop heads a warp may pass before others get their turn;
// boostQuantum is the share of a fragment that would not be next by the usual
// order. Atomics and volatile accesses, of which spin locks are made, count
// more than one loop head.
const (
	quantum      = 4096
	boostQuantum = 256
	spinCost     = 64
)

// state is what a fragment waits for.
type state uint8

const (
	ready     state = iota
	atBarrier       // for the other threads of the block
	atSync          // for other lanes of the warp
)

// fragment is a group of lanes of a warp that run together.
type fragment struct {
	mask  uint32
	pc    int32
	frame *frame
	state state

	wait    *inst // the instruction, for atBarrier
	barrier uint32
}

// warp is 32 threads. The registers in view are those of the running frame.
//
//	        split                 meets its kin
//	ready ─────────► two of them ───────────────► one
//	  │ ▲
//	  │ └──── barrier complete, or last lane arrived
//	  └─────► atBarrier, atSync
type warp struct {
	// The running fragment.
	r32   [][32]uint32
	r64   [][32]uint64
	pr    []uint32 // a bit for each lane
	mask  uint32   // lanes that run
	live  uint32   // lanes that have not exited; lanes beyond the block's end count as exited
	frame *frame
	pc    int32
	limit int32 // the lowest position of another ready fragment of the same depth

	rest    []fragment // the other fragments
	budget  int        // loop heads left of the quantum
	boost   bool       // the next to run is the fragment that waits longest, for a short while
	boosted bool       // the running fragment is that one
	forced  bool       // a synchronising operation goes ahead without the missing lanes

	block  *block
	worker *worker
	code   []inst
	index  int     // in the block
	native *native // nil: everything is interpreted
	frame0 nativeFrame
	exist  uint32
	tid    [3][32]uint32

	// For step and matchAny; not variables of theirs, which would be allocated each time.
	old32 [32]uint32
	old64 [32]uint64

	// Backing stores of registers and of local memory, grown by calls.
	store32 [][32]uint32
	store64 [][32]uint64
	storePr []uint32
	local   [][32]uint32 // row n holds bytes 4n to 4n+3 of each lane's local memory
	root    frame
}

// outcome says why run returned.
type outcome uint8

const (
	done    outcome = iota // all lanes have exited
	blocked                // all fragments wait for a barrier
	yielded                // the quantum is used up
)

// run runs the warp until it is done, blocked or has used up its quantum. It
// panics with *gpu.LostError on a fault.
func (w *warp) run() outcome {
	w.budget = quantum
	if w.boost {
		w.budget = boostQuantum
	}
	if !w.pick() {
		return w.idle()
	}
	code, pc := w.code, w.pc
	for {
		if n := w.native; n != nil {
			if code, at := n.entryAt(pc, w.mask); at != 0 {
				pc = w.runNative(code, at)
			}
		}
		in := &code[pc]
		pc++
		if in.guard != 0 {
			m := w.pr[in.guard-1]
			if in.guardNeg {
				m = ^m
			}
			if m &= w.mask; m == 0 {
				continue
			} else if m != w.mask {
				active := w.mask
				w.mask, w.pc = m, pc-1
				w.step(in)
				w.mask = active
				continue
			}
		}
		switch in.kind {
		case kLane32, kLane64:
			if w.mask == w.live {
				in.fn(w, in)
			} else {
				w.step(in)
			}
			continue
		case kMasked:
			w.pc = pc - 1
			in.fn(w, in)
			continue
		case kCompare:
			w.compare(in)
			continue
		case kJump:
			w.pc = in.target
			if in.target < pc {
				if w.loopHead() {
					return yielded
				}
			} else if in.target >= w.limit {
				w.reschedule()
			}
		case kCompareBranch, kBranch:
			var m uint32
			if in.kind == kBranch {
				m = w.pr[in.a]
				if in.neg {
					m = ^m
				}
			} else {
				m = in.cmp(w, in)
				w.pr[in.d] = w.pr[in.d]&^w.mask | m&w.mask
				if in.neg {
					m = ^m
				}
			}
			target := in.target
			switch m &= w.mask; m {
			case w.mask:
			case 0:
				target = in.other
			default:
				target = w.split(m, in.target, in.other)
			}
			w.pc = target
			if target < pc {
				if w.loopHead() {
					return yielded
				}
			} else if target >= w.limit {
				w.reschedule()
			}
		default:
			w.pc = pc
			if !w.control(in) {
				return w.idle()
			}
			if w.budget <= 0 && w.loopHead() {
				return yielded
			}
		}
		pc = w.pc
	}
}

// idle is the outcome where no fragment can run.
func (w *warp) idle() outcome {
	if w.live == 0 {
		return done
	}
	return blocked
}

// step runs an instruction that is not control flow for the active lanes only.
func (w *warp) step(in *inst) {
	switch in.kind {
	case kLane32:
		w.old32 = w.r32[in.d]
		in.fn(w, in)
		blend32(&w.r32[in.d], &w.old32, w.mask)
	case kLane64:
		w.old64 = w.r64[in.d]
		in.fn(w, in)
		blend64(&w.r64[in.d], &w.old64, w.mask)
	case kCompare:
		w.compare(in)
	default:
		in.fn(w, in)
	}
}

// blend32 and blend64 are blend, or its SIMD twin.
var blend32, blend64 = blend[uint32], blend[uint64]

// blend gives the lanes that are not in mask their old values back.
func blend[T uint32 | uint64](d, old *[32]T, mask uint32) {
	for i := 0; i < 32; i += 4 {
		d[i] ^= (d[i] ^ old[i]) & (T(mask&1) - 1)
		d[i+1] ^= (d[i+1] ^ old[i+1]) & (T(mask>>1&1) - 1)
		d[i+2] ^= (d[i+2] ^ old[i+2]) & (T(mask>>2&1) - 1)
		d[i+3] ^= (d[i+3] ^ old[i+3]) & (T(mask>>3&1) - 1)
		mask >>= 4
	}
}

// compare runs setp.
func (w *warp) compare(in *inst) {
	m := in.cmp(w, in)
	if in.combine == boolNone {
		w.setPred(in.d, m)
		if in.e != noReg {
			w.setPred(in.e, ^m)
		}
		return
	}
	c := w.pr[in.c]
	if in.combNeg {
		c = ^c
	}
	// The second result combines the complement.
	p := combine(in.combine, m, c)
	q := combine(in.combine, ^m, c)
	w.setPred(in.d, p)
	if in.e != noReg {
		w.setPred(in.e, q)
	}
}

func combine(op boolOp, a, b uint32) uint32 {
	switch op {
	case boolAnd:
		return a & b
	case boolOr:
		return a | b
	case boolXor:
		return a ^ b
	}
	return a
}

// setPred writes the active lanes of a predicate.
func (w *warp) setPred(p, m uint32) {
	if p != noReg {
		w.pr[p] = w.pr[p]&^w.mask | m&w.mask
	}
}

// first is the lowest active lane.
func (w *warp) first() int { return bits.TrailingZeros32(w.mask) & 31 }
