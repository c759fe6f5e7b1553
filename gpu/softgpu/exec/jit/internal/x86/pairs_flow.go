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
	after []need // needed behind each step
	at    []need // by label
	bound []int32
	entry []bool // labels that are entered from outside
	even  []even // at labels
}

// even says which vectors have two equal halves, by the bits of their lower ones: all 32 bits the
// same, or all 64.
type even struct{ words, pairs uint64 }

func (e even) and(f even) even { return even{e.words & f.words, e.pairs & f.pairs} }

// maxFlowPasses bounds how often the steps are looked through for what is needed.
const maxFlowPasses = 64

// findFlow looks through the steps. It reports false if they do not settle.
func findFlow(steps []step, labels int) (*flow, bool) {
	f := &flow{after: make([]need, len(steps)), at: make([]need, labels), bound: make([]int32, labels), entry: make([]bool, labels), even: make([]even, labels)}
	for i := range f.bound {
		f.bound[i] = -1
		f.even[i] = even{1<<64 - 1, 1<<64 - 1}
	}
	for i := range steps {
		switch s := &steps[i]; s.kind {
		case kBind:
			f.bound[s.label] = int32(i)
		case kEntry:
			f.entry[s.label] = true
			f.even[s.label] = even{}
		}
	}
	return f, f.needed(steps) && f.evenness(steps)
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
			e := s.effect()
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
				s.keepEven(&now)
			}
		}
		if !changed {
			return true
		}
	}
	return false
}

// keepEven takes what is known to behind a step.
func (s *step) keepEven(now *even) {
	e := s.effect()
	var words, pairs bool
	switch {
	case e.writes == 0:
		return
	case s.arg.Mask != 0 || s.kind == kLanes || s.kind == kMem && shapes[s.op] != sBroadcast:
	case s.kind == kFromGP:
		words, pairs = !s.op.wide, true
	case shapes[s.op] == sBroadcast:
		words, pairs = s.op == &BROADCASTD, true
	case s.kind == kV || s.kind == kEach:
		words, pairs = s.evenResult(*now)
	}
	for z := range uint8(32) {
		if e.writes&both(z) == 0 {
			continue
		}
		now.words &^= lower(z)
		now.pairs &^= lower(z)
		if pairs {
			now.pairs |= lower(z)
		}
		if words {
			now.words |= lower(z)
		}
	}
}

// evenResult reports how even the result of an operation on each lane is.
func (s *step) evenResult(now even) (words, pairs bool) {
	if s.zeroes() {
		return true, true
	}
	var sources uint64
	switch shapes[s.op] {
	case sBinary:
		sources = lower(s.s)
	case sUnary, sCopy, sWiden:
	case sTernary:
		sources = lower(s.s) | lower(s.d)
	default:
		return false, false
	}
	if s.op == &SHUFI64X2 || s.op == &PSHUFB || s.op == &CVTTPD2QQ {
		return false, false
	}
	if s.kind == kV {
		sources |= lower(s.r)
	}
	words, pairs = now.words&sources == sources, now.pairs&sources == sources
	switch {
	case shapes[s.op] == sWiden:
		return false, words
	case s.op.wide:
		return false, pairs
	}
	return words, pairs
}
