package simt

import (
	"math/bits"
)

// shflOp is what kind of shuffle it is.
type shflOp struct {
	mode shflMode
}

type shflMode uint8

const (
	shflUp shflMode = iota
	shflDown
	shflButterfly
	shflIndex
)

// shflLanes exchanges registers between lanes: d = a of the lane that b and c
// name; predicate e.. pred (in.other) says whether that lane is in range
// (section 9.7.8.6). A source lane that does not run gives its last value.
func shflLanes(w *warp, in *inst) {
	src, bs, cs := w.r32[in.a], &w.r32[in.b], &w.r32[in.c]
	inRange := uint32(0)
	var out [32]uint32
	for m := w.mask; m != 0; m &= m - 1 {
		lane := firstOf(m)
		b, c := int(bs[lane]&31), cs[lane]
		clamp, seg := int(c&31), int(c>>8&31)
		high := lane&seg | clamp&^seg
		low := lane & seg
		j, ok := lane, false
		switch in.x.shfl.mode {
		case shflUp:
			j = lane - b
			ok = j >= high
		case shflDown:
			j = lane + b
			ok = j <= high
		case shflButterfly:
			j = lane ^ b
			ok = j <= high
		case shflIndex:
			j = low | b&^seg
			ok = j <= high
		}
		if !ok {
			j = lane
		} else {
			inRange |= 1 << lane
		}
		out[lane] = src[j&31]
	}
	copyLanes(&w.r32[in.d], &out, w.mask, allLanes)
	if in.other >= 0 {
		w.setPred(uint32(in.other), inRange)
	}
}

// Votes: predicate a (negated if in.neg) of the lanes that run.
func (w *warp) votes(in *inst) uint32 {
	p := w.pr[in.a]
	if in.neg {
		p = ^p
	}
	return p & w.mask
}

func voteBallot(w *warp, in *inst) {
	fill(&w.r32[in.d], w.votes(in), w.mask, allLanes)
}

func voteAll(w *warp, in *inst) { w.setAll(in.d, w.votes(in) == w.mask) }
func voteAny(w *warp, in *inst) { w.setAll(in.d, w.votes(in) != 0) }

func voteUni(w *warp, in *inst) {
	p := w.votes(in)
	w.setAll(in.d, p == 0 || p == w.mask)
}

// setAll sets a predicate of all active lanes.
func (w *warp) setAll(p uint32, on bool) {
	if on {
		w.setPred(p, allLanes)
	} else {
		w.setPred(p, 0)
	}
}

func activeMask(w *warp, in *inst) { fill(&w.r32[in.d], w.mask, w.mask, allLanes) }

// matchKey reads the value that match compares.
func (w *warp) matchKey(in *inst, lane int) uint64 {
	if in.imm == 8 {
		return w.r64[in.a][lane]
	}
	return uint64(w.r32[in.a][lane])
}

func matchAny(w *warp, in *inst) {
	out := &w.old32
	for left := w.mask; left != 0; {
		lane := firstOf(left)
		key, same := w.matchKey(in, lane), uint32(0)
		for m := left; m != 0; m &= m - 1 {
			if j := firstOf(m); w.matchKey(in, j) == key {
				same |= 1 << j
			}
		}
		fill(out, same, same, allLanes)
		left &^= same
	}
	copyLanes(&w.r32[in.d], out, w.mask, allLanes)
}

func matchAll(w *warp, in *inst) {
	key, all := w.matchKey(in, w.first()), true
	for m := w.mask; m != 0; m &= m - 1 {
		all = all && w.matchKey(in, firstOf(m)) == key
	}
	if in.d != noReg {
		x := uint32(0)
		if all {
			x = w.mask
		}
		fill(&w.r32[in.d], x, w.mask, allLanes)
	}
	if in.other >= 0 {
		w.setAll(uint32(in.other), all)
	}
}

func electLanes(w *warp, in *inst) {
	leader := w.first()
	fill(&w.r32[in.d], uint32(leader), w.mask, allLanes)
	if in.other >= 0 {
		w.setPred(uint32(in.other), 1<<leader)
	}
}

// reduxFuncs are the operations of redux.sync.
var reduxFuncs = map[string]func(a, b uint32) uint32{
	"add.u32": func(a, b uint32) uint32 { return a + b },
	"add.s32": func(a, b uint32) uint32 { return a + b },
	"min.u32": func(a, b uint32) uint32 { return min(a, b) },
	"max.u32": func(a, b uint32) uint32 { return max(a, b) },
	"min.s32": func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) },
	"max.s32": func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) },
	"and.b32": func(a, b uint32) uint32 { return a & b },
	"or.b32":  func(a, b uint32) uint32 { return a | b },
	"xor.b32": func(a, b uint32) uint32 { return a ^ b },
}

func redux(op func(a, b uint32) uint32) laneFunc {
	return func(w *warp, in *inst) {
		x := w.r32[in.a][w.first()]
		for m := w.mask & (w.mask - 1); m != 0; m &= m - 1 {
			x = op(x, w.r32[in.a][firstOf(m)])
		}
		fill(&w.r32[in.d], x, w.mask, allLanes)
	}
}

// nothing is the lane function of instructions without effect here, such as
// fences: a block's accesses are in program order anyway, and atomics order
// those of different workers.
func nothing(*warp, *inst) {}

// Predicate logic.
func predAnd(w *warp, in *inst) { w.setPred(in.d, w.pr[in.a]&w.pr[in.b]) }
func predOr(w *warp, in *inst)  { w.setPred(in.d, w.pr[in.a]|w.pr[in.b]) }
func predXor(w *warp, in *inst) { w.setPred(in.d, w.pr[in.a]^w.pr[in.b]) }
func predNot(w *warp, in *inst) { w.setPred(in.d, ^w.pr[in.a]) }
func predMov(w *warp, in *inst) { w.setPred(in.d, w.pr[in.a]) }

// predImm sets a predicate to a constant.
func predImm(w *warp, in *inst) { w.setAll(in.d, in.imm != 0) }

// predMask sets 32-bit register d to imm where predicate a holds, else to 0.
func predMask(w *warp, in *inst) {
	p, d := w.pr[in.a], &w.r32[in.d]
	for i := range d {
		d[i] = uint32(in.imm) & -(p >> i & 1)
	}
}

// isSpace sets predicate d where generic address a lies in in.space; .const is
// the first part of the module's variables.
func isSpace(w *warp, in *inst) {
	a, m := &w.r64[in.a], uint32(0)
	d := &w.block.prog.data
	for i := range a {
		s, _ := windowOf(a[i])
		if s == spaceGlobal && a[i]-d.base < d.constEnd {
			s = spaceConst
		}
		m |= bit(s == in.space) << i
	}
	w.setPred(in.d, m)
}

// Extended precision: predicate e is the carry of the previous instruction, d's
// that this one makes.

// addCarry is add.cc and addc: d = a + b (+ carry in).
func addCarry(w *warp, in *inst) {
	cin := w.pr[in.e] & -uint32(in.imm&1)
	cout := uint32(0)
	a, b, d := &w.r32[in.a], &w.r32[in.b], &w.r32[in.d]
	for m := w.mask; m != 0; m &= m - 1 {
		i := firstOf(m)
		var c uint32
		d[i], c = bits.Add32(a[i], b[i], cin>>i&1)
		cout |= c << i
	}
	w.setCarry(in, cout)
}

func addCarry64(w *warp, in *inst) {
	cin := w.pr[in.e] & -uint32(in.imm&1)
	cout := uint32(0)
	a, b, d := &w.r64[in.a], &w.r64[in.b], &w.r64[in.d]
	for m := w.mask; m != 0; m &= m - 1 {
		i := firstOf(m)
		var c uint64
		d[i], c = bits.Add64(a[i], b[i], uint64(cin>>i&1))
		cout |= uint32(c) << i
	}
	w.setCarry(in, cout)
}

// subCarry is sub.cc and subc. As in the hardware, which adds the complement,
// the carry is set where there is no borrow.
func subCarry(w *warp, in *inst) {
	bin := ^w.pr[in.e] & -uint32(in.imm&1)
	bout := uint32(0)
	a, b, d := &w.r32[in.a], &w.r32[in.b], &w.r32[in.d]
	for m := w.mask; m != 0; m &= m - 1 {
		i := firstOf(m)
		var c uint32
		d[i], c = bits.Sub32(a[i], b[i], bin>>i&1)
		bout |= c << i
	}
	w.setCarry(in, ^bout)
}

func subCarry64(w *warp, in *inst) {
	bin := ^w.pr[in.e] & -uint32(in.imm&1)
	bout := uint32(0)
	a, b, d := &w.r64[in.a], &w.r64[in.b], &w.r64[in.d]
	for m := w.mask; m != 0; m &= m - 1 {
		i := firstOf(m)
		var c uint64
		d[i], c = bits.Sub64(a[i], b[i], uint64(bin>>i&1))
		bout |= uint32(c) << i
	}
	w.setCarry(in, ^bout)
}

// setCarry keeps the carry where the instruction has .cc.
func (w *warp) setCarry(in *inst, carry uint32) {
	if in.imm&2 != 0 {
		w.setPred(in.e, carry)
	}
}

// Special registers.

func specialTid(dim int) laneFunc { return func(w *warp, in *inst) { w.r32[in.d] = w.tid[dim] } }

func specialBlock(get func(*block) uint32) laneFunc {
	return func(w *warp, in *inst) { fill(&w.r32[in.d], get(w.block), allLanes, allLanes) }
}

func specialWarp(get func(*warp) uint32) laneFunc {
	return func(w *warp, in *inst) { fill(&w.r32[in.d], get(w), allLanes, allLanes) }
}

func specialLane(get func(lane uint) uint32) laneFunc {
	var row [32]uint32
	for i := range row {
		row[i] = get(uint(i))
	}
	return func(w *warp, in *inst) { w.r32[in.d] = row }
}

func specialWide(get func(*warp) uint64) laneFunc {
	return func(w *warp, in *inst) { fill(&w.r64[in.d], get(w), allLanes, allLanes) }
}
