package x86

// stepBytes is about what a step becomes.
const stepBytes = 40

// lower makes code of what is remembered. It reports false where that is too much.
func (a *Asm) lower() bool {
	p, raw := a.pairs, a.buf[:a.n]
	defer p.rest()
	if a.n > p.raw {
		p.steps = append(p.steps, step{kind: kRaw, from: int32(p.raw), to: int32(a.n)})
	}
	steps := p.steps
	a.pairs = nil
	a.buf, a.n = nil, 0
	a.Grow(stepBytes * len(steps))
	if !p.flow.find(steps, len(a.labels)) {
		return false
	}
	p.at = cleared(p.at, len(a.labels))
	n := &lowering{Asm: a, flow: &p.flow, state: noState(), labels: p.at, pairs: p}
	n.bits = 0x1e
	if a.sse != nil {
		a.sse.halves = &n.own
	}
	for i := range steps {
		n.step(steps, i, raw)
	}
	for len(n.aside) > 0 {
		next := n.aside[0]
		n.aside = n.aside[1:]
		next()
	}
	if a.sse != nil {
		for _, next := range a.sse.aside {
			next()
		}
		a.sse.aside = nil
	}
	return true
}

// step makes code of one instruction.
func (n *lowering) step(steps []step, i int, raw []byte) {
	s := &steps[i]
	switch {
	case s.kind == kBind:
		n.bind(s.label)
		return
	case n.skip:
		n.skip = false
		return
	case n.dead:
		return
	}
	n.next, n.effect = nil, &n.flow.effects[i]
	if i+1 < len(steps) {
		n.next, n.afterNext = &steps[i+1], n.flow.after[i+1]
	}
	e := n.effect
	n.after = n.flow.after[i].fold(n.even)
	n.need = n.after.or(need{e.reads, e.readsK}).fold(n.even)
	n.one(s, raw)
	if n.dead {
		return
	}
	s.keepEven(e, &n.even)
	n.after = n.flow.after[i].fold(n.even)
	n.end()
}

// one makes code of an instruction, whatever else there is.
func (n *lowering) one(s *step, raw []byte) {
	switch s.kind {
	case kRaw:
		n.Grow(int(s.to - s.from))
		n.n += copy(n.buf[n.n:], raw[s.from:s.to])
	case kV, kMem, kEach:
		n.vectorStep(s)
	case kToGP:
		n.toGeneral(s)
	case kFromGP:
		n.fromGeneral(s)
	case kCopy:
		r := n.fresh()
		n.xm(s.op, r, 0, s.m, 0)
		n.xm(s.with, r, 0, Mem{Base: R(s.s), Disp: s.from}, 0)
		n.drop(r)
	case kLanes:
		n.lanesStep(s)
	case kMask:
		n.maskStep(s)
	case kShift:
		n.shiftMask(K(s.d), K(s.s), s.arg.Imm)
	case kKFrom:
		n.RR(MOV, false, one, R(s.s))
		n.setBits(K(s.d))
	case kKTo:
		n.bitsOfMask(K(s.s))
		n.RM(MOV, false, R(s.d), bitsOf(K(s.s)))
	case kKLoad:
		n.RM(MOV, false, one, s.m)
		n.setBits(K(s.d))
	case kKStore:
		n.bitsOfMask(K(s.s))
		n.RM(MOV, false, one, bitsOf(K(s.s)))
		n.Store(false, s.m, one)
	case kJump:
		n.jump(s.label)
	case kJumpIf:
		n.jumpIf(s.cond, s.label)
	case kEnd:
		n.dead = true
		if n.sse != nil {
			n.sse.reached(0)
		}
	case kAddress:
		n.Address(R(s.d), s.label)
	}
}

func (n *lowering) vectorStep(s *step) {
	switch s.op.shape {
	case sBinary:
		if s.op == &SHUFI64X2 {
			n.joined(s)
		} else {
			n.onLanes(s)
		}
	case sUnary:
		n.onLanes(s)
	case sTernary:
		n.ternary(s)
	case sCompare:
		n.compareStep(s)
	case sCopy:
		n.copyStep(s)
	case sStore:
		n.storeStep(s)
	case sBroadcast:
		n.broadcast(s)
	case sWiden:
		n.widen(s)
	case sNarrow:
		n.narrow(s)
	case sNarrowed:
		n.narrowed(s)
	case sExtract:
		n.extract(s)
	case sInsert:
		n.insert(s)
	case sFirst:
		n.first(s)
	case sPermute:
		n.permute(s)
	case sPack:
		n.pack(s)
	case sUnpack:
		n.unpack(s)
	case sShuffle:
		n.shuffle(s)
	case sQuarter:
		n.quarter(s)
	case sQuarterOut:
		n.quarterOut(s)
	}
}
