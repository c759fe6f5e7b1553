package lane

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/scalar"
	"pvdrm/gpu/softgpu/exec/tlb"
)

const (
	ShflUp ir.ShflMode = iota
	ShflDown
	ShflButterfly
	ShflIndex
)

// ShflLanes exchanges registers between lanes: d = a of the lane that b and c
// name; predicate e.. pred (in.other) says whether that lane is in range
// (section 9.7.8.6). PTX does not define what a source lane gives that takes no part. It is 0:
// reductions of NVIDIA's samples add up 32 lanes of which 8 take part.
func ShflLanes(w *ir.Warp, in *ir.Inst) {
	src, bs, cs := w.R32[in.A], &w.R32[in.B], &w.R32[in.C]
	inRange := uint32(0)
	var out [32]uint32
	for m := w.Mask; m != 0; m &= m - 1 {
		lane := ir.FirstOf(m)
		b, c := int(bs[lane]&31), cs[lane]
		clamp, seg := int(c&31), int(c>>8&31)
		high := lane&seg | clamp&^seg
		low := lane & seg
		j, ok := lane, false
		switch in.X.Shfl.Mode {
		case ShflUp:
			j = lane - b
			ok = j >= high
		case ShflDown:
			j = lane + b
			ok = j <= high
		case ShflButterfly:
			j = lane ^ b
			ok = j <= high
		case ShflIndex:
			j = low | b&^seg
			ok = j <= high
		}
		if !ok {
			j = lane
		} else {
			inRange |= 1 << lane
		}
		if w.Mask>>j&1 != 0 {
			out[lane] = src[j&31]
		}
	}
	CopyLanes(&w.R32[in.D], &out, w.Mask, ir.AllLanes)
	if in.Other >= 0 {
		w.SetPred(uint32(in.Other), inRange)
	}
}

// Groups are the lanes of each mask, of those that run, in the order of their first lanes. It reports false where some
// lanes that a mask names have not exited and are not among those that name it.
func Groups(masks *[32]uint32, running, live uint32) (groups [32]uint32, n int, complete bool) {
	for left := running; left != 0; n++ {
		mask := masks[ir.FirstOf(left)]
		groups[n] = left &^ Differing(masks, mask)
		if mask&live&^groups[n] != 0 {
			return groups, 0, false
		}
		left &^= groups[n]
	}
	return groups, n, true
}

// votes: predicate a (negated if in.neg) of the lanes that run.
func votes(w *ir.Warp, in *ir.Inst) uint32 {
	p := w.Pr[in.A]
	if in.Neg {
		p = ^p
	}
	return p & w.Mask
}

func VoteBallot(w *ir.Warp, in *ir.Inst) {
	Fill(&w.R32[in.D], votes(w, in), w.Mask, ir.AllLanes)
}

func VoteAll(w *ir.Warp, in *ir.Inst) { w.SetAll(in.D, votes(w, in) == w.Mask) }

func VoteAny(w *ir.Warp, in *ir.Inst) { w.SetAll(in.D, votes(w, in) != 0) }

func VoteUni(w *ir.Warp, in *ir.Inst) {
	p := votes(w, in)
	w.SetAll(in.D, p == 0 || p == w.Mask)
}

func ActiveMask(w *ir.Warp, in *ir.Inst) { Fill(&w.R32[in.D], w.Mask, w.Mask, ir.AllLanes) }

// matchKey reads the value that match compares.
func matchKey(w *ir.Warp, in *ir.Inst, lane int) uint64 {
	if in.Imm == 8 {
		return w.R64[in.A][lane]
	}
	return uint64(w.R32[in.A][lane])
}

func MatchAny(w *ir.Warp, in *ir.Inst) {
	out := &w.Old32
	for left := w.Mask; left != 0; {
		lane := ir.FirstOf(left)
		key, same := matchKey(w, in, lane), uint32(0)
		for m := left; m != 0; m &= m - 1 {
			if j := ir.FirstOf(m); matchKey(w, in, j) == key {
				same |= 1 << j
			}
		}
		Fill(out, same, same, ir.AllLanes)
		left &^= same
	}
	CopyLanes(&w.R32[in.D], out, w.Mask, ir.AllLanes)
}

func MatchAll(w *ir.Warp, in *ir.Inst) {
	key, all := matchKey(w, in, w.First()), true
	for m := w.Mask; m != 0; m &= m - 1 {
		all = all && matchKey(w, in, ir.FirstOf(m)) == key
	}
	if in.D != ir.NoReg {
		x := uint32(0)
		if all {
			x = w.Mask
		}
		Fill(&w.R32[in.D], x, w.Mask, ir.AllLanes)
	}
	if in.Other >= 0 {
		w.SetAll(uint32(in.Other), all)
	}
}

func ElectLanes(w *ir.Warp, in *ir.Inst) {
	leader := w.First()
	Fill(&w.R32[in.D], uint32(leader), w.Mask, ir.AllLanes)
	if in.Other >= 0 {
		w.SetPred(uint32(in.Other), 1<<leader)
	}
}

// ReduxOp is an operation of redux.sync.
type ReduxOp struct {
	Kind ir.ReduxKind
	Fn   func(a, b uint32) uint32
}

// ReduxOps are the operations of redux.sync.
var ReduxOps = map[string]ReduxOp{
	"add.u32": {Kind: ir.ReduxAdd, Fn: func(a, b uint32) uint32 { return a + b }},
	"add.s32": {Kind: ir.ReduxAdd, Fn: func(a, b uint32) uint32 { return a + b }},
	"min.u32": {Kind: ir.ReduxMin, Fn: func(a, b uint32) uint32 { return min(a, b) }},
	"max.u32": {Kind: ir.ReduxMax, Fn: func(a, b uint32) uint32 { return max(a, b) }},
	"min.s32": {Kind: ir.ReduxMinSigned, Fn: func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) }},
	"max.s32": {Kind: ir.ReduxMaxSigned, Fn: func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) }},
	"and.b32": {Kind: ir.ReduxAnd, Fn: func(a, b uint32) uint32 { return a & b }},
	"or.b32":  {Kind: ir.ReduxOr, Fn: func(a, b uint32) uint32 { return a | b }},
	"xor.b32": {Kind: ir.ReduxXor, Fn: func(a, b uint32) uint32 { return a ^ b }},
}

func Redux(op func(a, b uint32) uint32) ir.Func {
	return func(w *ir.Warp, in *ir.Inst) {
		x := w.R32[in.A][w.First()]
		for m := w.Mask & (w.Mask - 1); m != 0; m &= m - 1 {
			x = op(x, w.R32[in.A][ir.FirstOf(m)])
		}
		Fill(&w.R32[in.D], x, w.Mask, ir.AllLanes)
	}
}

// Nothing is the lane function of instructions without effect here, such as
// fences: a block's accesses are in program order anyway, and atomics order
// those of different workers.
func Nothing(*ir.Warp, *ir.Inst) {}

// Predicate logic.
func PredAnd(w *ir.Warp, in *ir.Inst) { w.SetPred(in.D, w.Pr[in.A]&w.Pr[in.B]) }

func PredOr(w *ir.Warp, in *ir.Inst) { w.SetPred(in.D, w.Pr[in.A]|w.Pr[in.B]) }

func PredXor(w *ir.Warp, in *ir.Inst) { w.SetPred(in.D, w.Pr[in.A]^w.Pr[in.B]) }

func PredNot(w *ir.Warp, in *ir.Inst) { w.SetPred(in.D, ^w.Pr[in.A]) }

func PredMov(w *ir.Warp, in *ir.Inst) { w.SetPred(in.D, w.Pr[in.A]) }

// PredImm sets a predicate to a constant.
func PredImm(w *ir.Warp, in *ir.Inst) { w.SetAll(in.D, in.Imm != 0) }

// PredMask sets 32-bit register d to imm where predicate a holds, else to 0.
func PredMask(w *ir.Warp, in *ir.Inst) {
	p, d := w.Pr[in.A], &w.R32[in.D]
	for i := range d {
		d[i] = uint32(in.Imm) & -(p >> i & 1)
	}
}

// IsSpace sets predicate d where generic address a lies in in.space; .const is
// the first part of the module's variables.
func IsSpace(w *ir.Warp, in *ir.Inst) {
	a, m := &w.R64[in.A], uint32(0)
	d := &w.Block.Prog.Data
	for i := range a {
		s, at := ir.WindowOf(a[i])
		switch {
		case s == ir.SpaceGlobal && a[i]-d.Base < d.ConstEnd:
			s = ir.SpaceConst
		case s == ir.SpaceCluster && in.Space == ir.SpaceShared && at>>tlb.ClusterShift == uint64(w.Block.Place.Rank):
			s = ir.SpaceShared
		}
		m |= scalar.Bit(s == in.Space) << i
	}
	w.SetPred(in.D, m)
}

// Extended precision: predicate e is the carry of the previous instruction, d's
// that this one makes.

// CarryFuncs are the operations with a carry.
var CarryFuncs = map[ir.Opcode]ir.Func{
	ir.OpAddCarry: AddCarry, ir.OpAddCarry64: AddCarry64, ir.OpSubCarry: SubCarry, ir.OpSubCarry64: SubCarry64,
}

// AddCarry is add.cc and addc: d = a + b (+ carry in).
func AddCarry(w *ir.Warp, in *ir.Inst) {
	cin := w.Pr[in.E] & -uint32(in.Imm&1)
	cout := uint32(0)
	a, b, d := &w.R32[in.A], &w.R32[in.B], &w.R32[in.D]
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		var c uint32
		d[i], c = bits.Add32(a[i], b[i], cin>>i&1)
		cout |= c << i
	}
	setCarry(w, in, cout)
}

func AddCarry64(w *ir.Warp, in *ir.Inst) {
	cin := w.Pr[in.E] & -uint32(in.Imm&1)
	cout := uint32(0)
	a, b, d := &w.R64[in.A], &w.R64[in.B], &w.R64[in.D]
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		var c uint64
		d[i], c = bits.Add64(a[i], b[i], uint64(cin>>i&1))
		cout |= uint32(c) << i
	}
	setCarry(w, in, cout)
}

// SubCarry is sub.cc and subc. As in the hardware, which adds the complement,
// the carry is set where there is no borrow.
func SubCarry(w *ir.Warp, in *ir.Inst) {
	bin := ^w.Pr[in.E] & -uint32(in.Imm&1)
	bout := uint32(0)
	a, b, d := &w.R32[in.A], &w.R32[in.B], &w.R32[in.D]
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		var c uint32
		d[i], c = bits.Sub32(a[i], b[i], bin>>i&1)
		bout |= c << i
	}
	setCarry(w, in, ^bout)
}

func SubCarry64(w *ir.Warp, in *ir.Inst) {
	bin := ^w.Pr[in.E] & -uint32(in.Imm&1)
	bout := uint32(0)
	a, b, d := &w.R64[in.A], &w.R64[in.B], &w.R64[in.D]
	for m := w.Mask; m != 0; m &= m - 1 {
		i := ir.FirstOf(m)
		var c uint64
		d[i], c = bits.Sub64(a[i], b[i], uint64(bin>>i&1))
		bout |= uint32(c) << i
	}
	setCarry(w, in, ^bout)
}

// setCarry keeps the carry where the instruction has .cc.
func setCarry(w *ir.Warp, in *ir.Inst, carry uint32) {
	if in.Imm&2 != 0 {
		w.SetPred(in.E, carry)
	}
}
