package x86

import (
	"math"
	"math/bits"
)

// Where halves are while code for pairs is made: a half is in a register, in its slot in memory, or in
// both. Of vectors with equal halves only the lower one is kept.

// A half's number: that of vector z is 2z or 2z+1. Masks as vectors follow: four halves for each
// mask, of lanes of 32 bits and of 64.
const (
	vectorHalves = 64
	allHalves    = vectorHalves + 32
	maskWords    = 0
	maskPairs    = 2
)

func halfOf(z uint8, h int) int { return 2*int(z) + h }

func maskHalf(k K, form, h int) int { return vectorHalves + 4*int(k) + form + h }

// The area at r13. Bits of masks have 8 bytes each, of which the upper 4 are zero.
const (
	areaSlots  = 0
	areaBits   = areaSlots + 32*allHalves
	areaTable  = areaBits + 64 // of 128 bytes, for permutations
	areaSaved  = areaTable + 128
	areaConsts = areaSaved + 32
	areaParts  = areaConsts + 32*constants // of narrow code
	areaEnd    = areaParts + 16*32

	areaDropped = areaSaved + 8 // of DropBit
)

const area = Area

func slot(half int) Mem { return Mem{Base: area, Disp: areaSlots + 32*int32(half)} }
func bitsOf(k K) Mem    { return Mem{Base: area, Disp: areaBits + 8*int32(k)} }

// place is where a half is: noReg and no slot if nothing is known of it.
type place struct {
	reg  int8
	slot bool
}

const noReg = -1

// state is where everything is at a point of the code.
type state struct {
	at   [allHalves]place
	own  [16]int8 // the half in a register; noHalf: none
	full uint16   // registers that hold a half
	even even
	bits uint8 // masks whose bits are in memory
}

const noHalf = -1

// noState is the state where code is entered: nothing is anywhere but the masks of active lanes, of
// which memory has all forms.
func noState() (s state) {
	for i := range s.at {
		s.at[i] = place{reg: noReg, slot: i >= maskHalf(1, 0, 0) && i < maskHalf(5, 0, 0)}
	}
	for i := range s.own {
		s.own[i] = noHalf
	}
	s.bits = 0x1e
	return s
}

var atEntry = noState()

// fill makes a register hold a half, and empty nothing.
func (s *state) fill(r y, half int) {
	s.own[r] = int8(half)
	s.full |= 1 << r
}

func (s *state) empty(r y) {
	s.own[r] = noHalf
	s.full &^= 1 << r
}

// lowering makes code of steps.
type lowering struct {
	*Asm
	flow *flow
	state
	pins      [16]uint8
	pinned    uint16 // registers with pins
	used      [16]int32
	clock     int32
	need      need // what the step reads and what is needed behind it
	after     need
	labels    []*state // where everything is at a label
	pairs     *pairs
	dead      bool // what comes next is not reached
	aside     []func()
	next      *step // that follows
	afterNext need  // what is needed behind that
	skip      bool  // the one that follows is done already
	effect    *effect
}

// isNeeded reports whether a half is still read.
func (n *lowering) isNeeded(half int) bool { return has(n.need, half) }

// fold makes the lower half stand for both where they are equal.
func (n need) fold(e even) need { return need{n.z | n.z>>1&e.pairs, n.k} }

func has(s need, half int) bool {
	if half < vectorHalves {
		return s.z>>half&1 != 0
	}
	return s.k>>((half-vectorHalves)/4)&1 != 0
}

// hold pins a register until the end of the step.
func (n *lowering) hold(r y) y {
	n.clock++
	n.pins[r]++
	n.pinned |= 1 << r
	n.used[r] = n.clock
	return r
}

// drop lets a register go for others, within a step.
func (n *lowering) drop(regs ...y) {
	for _, r := range regs {
		if n.pins[r]--; n.pins[r] == 0 {
			n.pinned &^= 1 << r
		}
	}
}

// fresh finds a register, pinned, that holds nothing.
func (n *lowering) fresh() y {
	if free := ^(n.pinned | n.full); free != 0 {
		return n.hold(y(bits.TrailingZeros16(free)))
	}
	best, oldest := -1, int32(math.MaxInt32)
	for m := ^n.pinned; m != 0; m &= m - 1 {
		r := bits.TrailingZeros16(m)
		v := n.own[r]
		if !n.isNeeded(int(v)) {
			best = r
			break
		}
		age := n.used[r]
		if n.at[v].slot {
			age -= 8 // it costs no store
		}
		if age < oldest {
			best, oldest = r, age
		}
	}
	if best < 0 {
		panic("x86: a step needs more registers than there are") // a bug of this package
	}
	n.evict(y(best))
	return n.hold(y(best))
}

// evict makes a register hold nothing.
func (n *lowering) evict(r y) {
	v := n.own[r]
	if v == noHalf {
		return
	}
	if p := &n.at[v]; !p.slot && n.isNeeded(int(v)) {
		n.store(r, int(v))
		p.slot = true
	}
	n.at[v].reg = noReg
	n.vacate(r)
}

// alias is the half that stands for one.
func (n *lowering) alias(half int) int {
	if half < vectorHalves && half&1 != 0 && n.even.pairs>>(half-1)&1 != 0 {
		return half - 1
	}
	return half
}

// load brings a half into a register and pins it. Of one that was never written it is any.
func (n *lowering) load(half int) y {
	half = n.alias(half)
	p := &n.at[half]
	if p.reg != noReg {
		return n.hold(y(p.reg))
	}
	r := n.fresh()
	if p.slot {
		if n.sse != nil {
			n.sse.lazily(r)
		} else {
			n.ym(&LOADD, r, 0, slot(half), 0)
		}
		p.reg = int8(r)
		n.fill(r, half)
	}
	return r
}

// vector is half of a vector.
func (n *lowering) vector(z uint8, h int) y { return n.load(halfOf(z, h)) }

// isAnything reports whether a half was never written.
func (n *lowering) isAnything(half int) bool {
	p := n.at[n.alias(half)]
	return p.reg == noReg && !p.slot
}

// put makes a pinned register the place of a half, and its only one. The register may hold another
// half that is not needed any more.
func (n *lowering) put(half int, r y) {
	old := n.own[r]
	if old != noHalf && int(old) != half {
		n.at[old].reg = noReg
	}
	if n.sse != nil && int(old) != half {
		n.moves(r)
	}
	if old := n.at[half].reg; old != noReg && y(old) != r {
		n.vacate(y(old))
	}
	n.at[half] = place{reg: int8(r)}
	n.fill(r, half)
}

// lose forgets a half.
func (n *lowering) lose(half int) {
	if r := n.at[half].reg; r != noReg {
		n.vacate(y(r))
	}
	n.at[half] = place{reg: noReg}
}

// putVector makes registers the halves of a vector; the upper one may be missing.
func (n *lowering) putVector(z uint8, regs []y) {
	n.put(halfOf(z, 0), regs[0])
	if len(regs) > 1 {
		n.put(halfOf(z, 1), regs[1])
	} else {
		n.lose(halfOf(z, 1))
	}
}

// target is a register for a half that an instruction writes after it has read its sources, which are
// pinned once for each time that it reads them.
func (n *lowering) target(half int, sources ...y) y {
	free := func(r y) bool { return int(n.pins[r]) == count(sources, r) }
	if r := n.at[half].reg; r != noReg && free(y(r)) {
		return n.hold(y(r))
	}
	for _, s := range sources {
		if v := n.own[s]; free(s) && (v == noHalf || !has(n.after, int(v))) {
			return n.hold(s)
		}
	}
	return n.fresh()
}

// count is how often a register is among sources.
func count(sources []y, r y) (times int) {
	for _, s := range sources {
		if s == r {
			times++
		}
	}
	return times
}

// end ends a step: nothing is pinned, and what is not needed any more goes.
func (n *lowering) end() {
	n.pins, n.pinned = [16]uint8{}, 0
	for m := n.full; m != 0; m &= m - 1 {
		r := y(bits.TrailingZeros16(m))
		if v := n.own[r]; !has(n.after, int(v)) {
			n.lose(int(v))
			n.vacate(r)
		}
	}
	if n.sse != nil {
		n.sse.keep(n.full)
	}
}

// spill makes memory have a half that is needed.
func (n *lowering) spill(half int) {
	if n.at[half].slot || n.isAnything(half) {
		return
	}
	r := n.load(half)
	n.store(r, half)
	n.at[half].slot = true
	n.drop(r)
}

// Jumps. The first jump to a label, or the label itself, says where everything is there; others
// bring it there. Masks have only their bits at labels.

// settleMasks makes memory have the bits of masks that are needed at a label.
func (n *lowering) settleMasks(l Label) {
	for k := K(5); k < 8; k++ {
		if n.flow.at[l].k>>k&1 != 0 && n.hasMask(k) {
			n.bitsOfMask(k)
		}
	}
}

// stateFor is the state here as a label has it.
func (n *lowering) stateFor(l Label) *state {
	s := n.pairs.keep(&n.state)
	live := n.flow.at[l].fold(n.flow.even[l])
	s.even = n.flow.even[l]
	s.bits = s.bits&live.k | 0x1e
	for half := range s.at {
		p := &s.at[half]
		switch {
		case half >= vectorHalves:
			if p.reg != noReg {
				s.empty(y(p.reg))
			}
			*p = place{reg: noReg, slot: half >= maskHalf(1, 0, 0) && half < maskHalf(5, 0, 0)}
		case !has(live, half) || half&1 != 0 && s.even.pairs>>(half-1)&1 != 0:
			if p.reg != noReg {
				s.empty(y(p.reg))
			}
			*p = place{reg: noReg}
		}
	}
	return s
}

// stateInMemory is a state with all that a label needs in memory.
func (n *lowering) stateInMemory(l Label) *state {
	s := n.pairs.keep(&atEntry)
	s.even = n.flow.even[l]
	live := n.flow.at[l].fold(s.even)
	s.bits |= live.k
	for half := range vectorHalves {
		if has(live, half) && (half&1 == 0 || s.even.pairs>>(half-1)&1 == 0) {
			s.at[half].slot = true
		}
	}
	return s
}

// prepare makes a jump to a label possible that nothing has reached before: what was equal halves and
// is not there gets its upper ones.
func (n *lowering) prepare(l Label) {
	n.settleMasks(l)
	for m := n.flow.at[l].z & ((n.even.pairs &^ n.flow.even[l].pairs & lowerHalves) << 1); m != 0; m &= m - 1 {
		n.spill(bits.TrailingZeros64(m))
	}
}

// fits reports whether the state is one that a label's code expects.
func (n *lowering) fits(l Label, s *state) bool {
	live := n.flow.at[l].fold(n.flow.even[l])
	for m := live.z; m != 0; m &= m - 1 {
		half := bits.TrailingZeros64(m)
		p, want := n.at[half], s.at[half]
		if want.reg != noReg && p.reg != want.reg && n.sse == nil || (want.slot || n.sse != nil) && !p.slot {
			return false
		}
	}
	return s.bits&live.k&^n.bits == 0
}

// bring makes the state that a label's code expects. It changes no flags.
func (n *lowering) bring(l Label, s *state) {
	live := n.flow.at[l].fold(n.flow.even[l])
	n.settleMasks(l)
	for m := live.z; m != 0; m &= m - 1 {
		half := bits.TrailingZeros64(m)
		if want := s.at[half]; want.slot || want.reg != noReg && n.at[half].reg != want.reg || n.sse != nil {
			n.spill(half)
		}
	}
	for m := live.z; m != 0; m &= m - 1 {
		half := bits.TrailingZeros64(m)
		if want := s.at[half].reg; want != noReg && n.at[half].reg != want && n.at[half].slot && n.sse == nil {
			n.ym(&LOADD, y(want), 0, slot(half), 0)
		}
	}
}

// adopt makes the state that of a label.
func (n *lowering) adopt(s *state) {
	n.state = *s
	n.dead = false
	if n.sse != nil {
		n.sse.reached(n.full)
	}
}

// bind puts a label here.
func (n *lowering) bind(l Label) {
	n.inSlots()
	n.need = n.flow.at[l].fold(n.even)
	if n.flow.entry[l] && n.labels[l] == nil {
		n.labels[l] = n.pairs.keep(&atEntry)
	}
	s := n.labels[l]
	switch {
	case n.dead && s == nil: // only what comes later leads here
		s = n.stateInMemory(l)
		n.labels[l] = s
	case s == nil:
		n.prepare(l)
		s = n.stateFor(l)
		n.labels[l] = s
	case !n.dead:
		n.bring(l, s)
	}
	n.Asm.Bind(l)
	n.adopt(s)
}

// jump goes to a label.
func (n *lowering) jump(l Label) {
	if n.dead {
		return
	}
	n.toLabel(l)
	n.Asm.Jump(l)
	n.dead = true
}

func (n *lowering) toLabel(l Label) {
	n.inSlots()
	n.need = n.need.or(n.flow.at[l]).fold(n.even)
	s := n.labels[l]
	if s == nil && n.flow.entry[l] {
		s = n.pairs.keep(&atEntry)
		n.labels[l] = s
	}
	if s == nil {
		n.prepare(l)
		n.labels[l] = n.stateFor(l)
		return
	}
	n.bring(l, s)
}

// jumpIf goes to a label on a condition.
func (n *lowering) jumpIf(c Cond, l Label) {
	s := n.labels[l]
	if s == nil {
		n.toLabel(l)
		n.Asm.JumpIf(c, l)
		return
	}
	n.inSlots()
	n.settleMasks(l)
	if n.fits(l, s) {
		n.Asm.JumpIf(c, l)
		return
	}
	way, here, all := n.Asm.NewLabel(), n.pairs.keep(&n.state), n.need
	n.Asm.JumpIf(c, way)
	n.aside = append(n.aside, func() {
		n.state, n.need, n.pins, n.pinned = *here, all, [16]uint8{}, 0
		n.Asm.Bind(way)
		n.adopt(here)
		n.bring(l, s)
		n.Asm.Jump(l)
	})
}
