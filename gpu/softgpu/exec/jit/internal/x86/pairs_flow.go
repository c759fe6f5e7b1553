package x86

import "slices"

// Which halves and masks are needed, and which vectors have equal halves, at each step.

// need is a set of halves and of masks.
type need struct {
	z uint64
	k uint8
}

func (n need) or(m need) need { return need{n.z | m.z, n.k | m.k} }

// flow is what is known of the steps.
type flow struct {
	effects []effect
	after   []need // needed behind each step
	at      []need // by label
	entry   []bool // labels that are entered from outside
	even    []even // at labels
}

// even says which vectors have two equal halves, by the bits of their lower ones: all 32 bits the
// same, or all 64.
type even struct{ words, pairs uint64 }

func (e even) and(f even) even { return even{e.words & f.words, e.pairs & f.pairs} }

// maxFlowPasses bounds how often the steps are looked through for what is needed.
const maxFlowPasses = 64

// find looks through the steps. It reports false if they do not settle.
func (f *flow) find(steps []step, labels int) bool {
	f.effects, f.after = cleared(f.effects, len(steps)), cleared(f.after, len(steps))
	f.at, f.entry, f.even = cleared(f.at, labels), cleared(f.entry, labels), cleared(f.even, labels)
	for i := range f.even {
		f.even[i] = even{1<<64 - 1, 1<<64 - 1}
	}
	for i := range steps {
		f.effects[i] = steps[i].effect()
		if s := &steps[i]; s.kind == kEntry {
			f.entry[s.label] = true
			f.even[s.label] = even{}
		}
	}
	return f.needed(steps) && f.evenness(steps)
}

func (f *flow) needed(steps []step) bool {
	for range maxFlowPasses {
		changed := false
		var now need
		for i := range slices.Backward(steps) {
			s := &steps[i]
			switch s.kind {
			case kJump:
				now = f.at[s.label]
			case kJumpIf:
				now = now.or(f.at[s.label])
			case kEnd:
				now = need{}
			}
			f.after[i] = now
			if s.kind == kBind {
				if f.at[s.label] != now {
					f.at[s.label], changed = now, true
				}
				continue
			}
			e := &f.effects[i]
			now = need{now.z&^e.writes | e.reads, now.k&^e.writesK | e.readsK}
		}
		if !changed {
			return true
		}
	}
	return false
}

// evenness finds which vectors have equal halves wherever a label is reached.
func (f *flow) evenness(steps []step) bool {
	for range maxFlowPasses {
		changed, reached := false, true
		var now even
		meet := func(l Label) {
			if m := f.even[l].and(now); reached && m != f.even[l] {
				f.even[l], changed = m, true
			}
		}
		for i := range steps {
			s := &steps[i]
			switch s.kind {
			case kBind:
				meet(s.label)
				now, reached = f.even[s.label], true
			case kJump:
				meet(s.label)
				reached = false
			case kJumpIf:
				meet(s.label)
			case kEnd:
				reached = false
			default:
				s.keepEven(&f.effects[i], &now)
			}
		}
		if !changed {
			return true
		}
	}
	return false
}

// keepEven takes what is known to behind a step.
func (s *step) keepEven(e *effect, now *even) {
	var words, pairs bool
	switch {
	case e.writes == 0:
		return
	case s.arg.Mask != 0 || s.kind == kLanes || s.kind == kMem && s.op.shape != sBroadcast:
	case s.kind == kFromGP:
		words, pairs = !s.op.wide, true
	case s.op.shape == sBroadcast:
		words, pairs = s.op == &BROADCASTD, true
	case s.kind == kV || s.kind == kEach:
		words, pairs = s.evenResult(*now)
	}
	written := (e.writes | e.writes>>1) & lowerHalves
	now.words &^= written
	now.pairs &^= written
	if pairs {
		now.pairs |= written
	}
	if words {
		now.words |= written
	}
}

// lowerHalves are those of all vectors.
const lowerHalves = 0x5555555555555555

// evenResult reports how even the result of an operation on each lane is.
func (s *step) evenResult(now even) (words, pairs bool) {
	if s.zeroes() {
		return true, true
	}
	var sources uint64
	switch s.op.shape {
	case sBinary:
		sources = lower(s.s)
	case sUnary, sCopy, sWiden:
	case sTernary:
		sources = lower(s.s) | lower(s.d)
	default:
		return false, false
	}
	switch s.op {
	case &SHUFI64X2, &PSHUFB, &PSHUFD, &CVTTPD2QQ, &UNPCKLD, &UNPCKHD, &UNPCKLQ, &UNPCKHQ:
		return false, false
	}
	if s.kind == kV {
		sources |= lower(s.r)
	}
	words, pairs = now.words&sources == sources, now.pairs&sources == sources
	switch {
	case s.op.shape == sWiden:
		return false, words
	case s.op.wide:
		return false, pairs
	}
	return words, pairs
}
