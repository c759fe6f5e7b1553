package x86

// operand is half of the last operand of a step: a register, pinned, or memory.
type operand struct {
	reg   y
	m     Mem
	inMem bool
}

// operands are the halves of the last operand of a step.
func (n *lowering) operands(s *step, halves int) (list [2]operand) {
	switch s.kind {
	case kMem:
		for h := range halves {
			m := s.m
			m.Disp += 32 * int32(h)
			list[h] = operand{m: m, inMem: true}
		}
	case kEach:
		op := &BROADCASTD
		if s.op.wide {
			op = &yBROADCASTQ
		}
		r := n.fresh()
		n.ym(op, r, 0, s.m, 0)
		list[0] = operand{reg: r}
		list[1] = operand{reg: n.hold(r)}
	default:
		for h := range halves {
			half := n.alias(halfOf(s.r, h))
			if p := n.at[half]; p.reg == noReg && p.slot && !has(n.after, half) && h < 2 {
				list[h] = operand{m: slot(half), inMem: true}
				continue
			}
			list[h] = operand{reg: n.load(half)}
		}
	}
	return list
}

// apply is op d, a, b.
func (n *lowering) apply(op *Op, d, a y, b operand, imm uint8) {
	if b.inMem {
		n.ym(op, d, a, b.m, imm)
	} else {
		n.y(op, d, a, b.reg, imm)
	}
}

// register brings an operand into a register, pinned.
func (n *lowering) register(b operand) y {
	if !b.inMem {
		return b.reg
	}
	r := n.fresh()
	n.ym(&LOADD, r, 0, b.m, 0)
	return r
}

// setSame names the instructions that AVX2 has, too, on 256 bits, and those in place of others.
func setSame() {
	RNDSCALE.same, RNDSCALED.same = &yROUNDS, &yROUNDD
	for _, op := range []*Op{
		&ADDPS, &MULPS, &SUBPS, &DIVPS, &MINPS, &MAXPS, &ADDPD, &MULPD, &SUBPD, &DIVPD, &MINPD, &MAXPD,
		&PADDD, &PSUBD, &PADDQ, &PSUBQ, &PMULLD, &PMULUDQ, &PMULDQ, &PANDD, &PORD, &PXORD, &PANDQ, &PORQ, &PXORQ,
		&PMINSD, &PMINUD, &PMAXSD, &PMAXUD, &PSLLVD, &PSRLVD, &PSRAVD, &PSLLVQ, &PSRLVQ, &PSHUFB, &PSHUFD, &PMADDWD, &PSLLW, &PSRAW,
		&UNPCKLD, &UNPCKHD, &UNPCKLQ, &UNPCKHQ, &SQRTPS, &SQRTPD, &CVTDQ2PS, &CVTTPS2DQ, &PABSD, &PSLLD, &PSRLD, &PSRAD, &PSLLQ, &PSRLQ,
	} {
		op.same = op
	}
	for op, more := range expansions {
		op.more = more
	}
}

// isWhole reports whether the result of a step has two halves to be computed.
func (n *lowering) isWhole(s *step) bool {
	after := n.even
	s.keepEven(n.effect, &after)
	return after.pairs&lower(s.d) == 0
}

// onLanes is an operation on each lane, of one source or two.
func (n *lowering) onLanes(s *step) {
	halves := 1
	if n.isWhole(s) {
		halves = 2
	}
	if s.zeroes() {
		r := n.fresh()
		n.y(&PXORD, r, r, r, 0)
		n.finish(s, []y{r, r}[:halves])
		return
	}
	var a [2]y
	binary := s.op.shape == sBinary
	if binary {
		for h := range halves {
			a[h] = n.vector(s.s, h)
		}
	}
	b := n.operands(s, halves)
	op, more := s.op.same, s.op.more
	if s.op.digit != 0 { // which has no form with memory
		for h := range halves {
			b[h] = operand{reg: n.register(b[h])}
		}
	}
	if s.arg.Round != AsSet && more == nil {
		n.mxcsr(rounding(s.arg.Round))
	}
	out := make([]y, 0, 2)
	for h := range halves {
		switch {
		case more != nil:
			d := n.fresh()
			more(n, s, d, a[h], n.register(b[h]))
			out = append(out, d)
			continue
		case s.arg.Mask != 0:
			out = append(out, n.fresh())
		default:
			sources := make([]y, 0, 2)
			if binary {
				sources = append(sources, a[h])
			}
			if !b[h].inMem {
				sources = append(sources, b[h].reg)
			}
			out = append(out, n.target(halfOf(s.d, h), sources...))
		}
		n.apply(op, out[h], a[h], b[h], s.arg.Imm)
	}
	if s.arg.Round != AsSet && more == nil {
		n.mxcsr(rounding(AsSet))
	}
	n.finish(s, out)
}

// finish makes registers the result of a step, under its mask.
func (n *lowering) finish(s *step, out []y) {
	d := s.d
	if s.op.shape == sNarrowed || s.op.shape == sExtract || s.op.shape == sFirst {
		d = s.r
	}
	if s.arg.Mask == 0 {
		n.putVector(d, out)
		return
	}
	form := formOf(s.op)
	var old [2]y
	for h := range out {
		if half := halfOf(d, h); !s.arg.Zero && !n.isAnything(half) {
			old[h] = n.load(half)
		}
	}
	result := make([]y, 2)[:len(out)]
	for h, r := range out {
		switch half := halfOf(d, h); {
		case s.arg.Zero:
			mask := n.maskVector(s.arg.Mask, form, h)
			result[h] = n.fresh()
			n.y(&PANDD, result[h], r, mask, 0)
		case n.isAnything(half):
			result[h] = n.fresh()
			n.move(result[h], r)
		default:
			mask := n.maskVector(s.arg.Mask, form, h)
			result[h] = n.target(half, old[h])
			n.y(&yBLENDV, result[h], old[h], r, mask<<4)
		}
	}
	n.putVector(d, result)
}

// ternary is an operation whose destination is a source.
func (n *lowering) ternary(s *step) {
	if s.op == &PTERNLOGD || s.op == &PTERNLOGQ {
		n.table(s)
		return
	}
	halves := 1
	if n.isWhole(s) {
		halves = 2
	}
	var d, a [2]y
	for h := range halves {
		d[h], a[h] = n.vector(s.d, h), n.vector(s.s, h)
	}
	b := n.operands(s, halves)
	if s.arg.Round != AsSet {
		n.mxcsr(rounding(s.arg.Round))
	}
	if n.sse != nil {
		n.sse.directed = s.arg.Round > Nearest
	}
	out := make([]y, 0, 2)
	for h := range halves {
		all := []y{d[h], a[h]}
		if !b[h].inMem {
			all = append(all, b[h].reg)
		}
		r := d[h]
		if s.arg.Mask != 0 || int(n.pins[r]) != count(all, r) {
			r = n.fresh()
			n.y(&MOVD, r, 0, d[h], 0)
		}
		n.apply(s.op, r, a[h], b[h], 0)
		out = append(out, r)
	}
	if s.arg.Round != AsSet {
		n.mxcsr(rounding(AsSet))
	}
	n.finish(s, out)
}

// copyStep copies a vector, or loads one.
func (n *lowering) copyStep(s *step) {
	form := formOf(s.op)
	out := make([]y, 0, 2)
	switch {
	case s.kind == kV && !n.isWhole(s):
		from := n.vector(s.r, 0)
		r := n.target(halfOf(s.d, 0), from)
		n.move(r, from)
		out = []y{r}
	case s.kind == kV:
		from := [2]y{n.vector(s.r, 0), n.vector(s.r, 1)}
		for h := range 2 {
			r := from[h]
			if s.arg.Mask == 0 {
				r = n.target(halfOf(s.d, h), from[h])
				n.move(r, from[h])
			}
			out = append(out, r)
		}
	default:
		for h, b := range n.operands(s, 2) {
			r := n.fresh()
			switch {
			case s.arg.Mask == 0:
				n.ym(&LOADD, r, 0, b.m, 0)
			case form == maskPairs:
				n.ym(&yMASKLOADQ, r, n.maskVector(s.arg.Mask, form, h), b.m, 0)
			default:
				n.ym(&yMASKLOAD, r, n.maskVector(s.arg.Mask, form, h), b.m, 0)
			}
			out = append(out, r)
		}
	}
	n.finish(s, out)
}

func (n *lowering) move(d, s y) {
	if d != s {
		n.y(&MOVD, d, 0, s, 0)
	}
}

// storeStep stores a vector.
func (n *lowering) storeStep(s *step) {
	form := formOf(s.op)
	for h := range 2 {
		r, m := n.vector(s.d, h), s.m
		m.Disp += 32 * int32(h)
		switch {
		case s.arg.Mask == 0:
			n.ym(&STORED, r, 0, m, 0)
		case form == maskPairs:
			n.ym(&yMASKSTOREQ, r, n.maskVector(s.arg.Mask, form, h), m, 0)
		default:
			n.ym(&yMASKSTORE, r, n.maskVector(s.arg.Mask, form, h), m, 0)
		}
	}
}

// broadcast gives all lanes the first of a vector, or what lies in memory.
func (n *lowering) broadcast(s *step) {
	var r y
	if s.kind == kV {
		from := n.vector(s.r, 0)
		r = n.fresh()
		n.y(s.op, r, 0, from, 0)
	} else {
		r = n.fresh()
		n.ym(s.op, r, 0, s.m, 0)
	}
	n.allLanes(s, r)
}

// allLanes makes a register both halves of the result.
func (n *lowering) allLanes(s *step, r y) {
	if s.arg.Mask == 0 {
		n.putVector(s.d, []y{r})
		return
	}
	n.finish(s, []y{r, r})
}

// fromGeneral gives all lanes a general register.
func (n *lowering) fromGeneral(s *step) {
	r := n.fresh()
	if s.op.wide {
		n.x(&yFROMQ, r, 0, s.s, 0)
		n.y(&yBROADCASTQ, r, 0, r, 0)
	} else {
		n.x(&yFROMD, r, 0, s.s, 0)
		n.y(&BROADCASTD, r, 0, r, 0)
	}
	n.allLanes(s, r)
}

// toGeneral is the first lane in a general register.
func (n *lowering) toGeneral(s *step) {
	op := &yTOD
	if s.op.wide {
		op = &yTOQ
	}
	n.x(op, n.vector(s.s, 0), 0, s.d, 0)
}

// widen is an operation on the lanes of a lower half, which have 32 bits and get 64.
func (n *lowering) widen(s *step) {
	if s.kind == kV && !n.isWhole(s) {
		r := n.fresh()
		n.widenHalf(s, r, n.vector(s.r, 0))
		n.finish(s, []y{r})
		return
	}
	if s.kind == kMem {
		panic("x86: " + s.op.Name + " from memory has no form for pairs") // a bug of who uses it
	}
	from := n.vector(s.r, 0)
	lo, hi := n.fresh(), n.fresh()
	n.y(&yEXTRACT, from, 0, hi, 1)
	n.widenHalf(s, lo, from)
	n.widenHalf(s, hi, hi)
	n.finish(s, []y{lo, hi})
}

func (n *lowering) widenHalf(s *step, d, a y) {
	if s.op != &CVTUDQ2PD {
		n.y(s.op, d, 0, a, 0)
		return
	}
	n.y(&PMOVZXDQ, d, 0, a, 0)
	n.ym(&PORQ, d, d, constant(cTwo52), 0)
	n.ym(&SUBPD, d, d, constant(cTwo52), 0)
}

// narrow is an operation on lanes of 64 bits that get 32.
func (n *lowering) narrow(s *step) {
	if s.kind != kV || s.arg.Mask != 0 {
		panic("x86: " + s.op.Name + " of this kind has no form for pairs") // a bug of who uses it
	}
	lo, hi := n.vector(s.r, 0), n.vector(s.r, 1)
	d := n.fresh()
	switch s.op {
	case &CVTQQ2PS, &CVTUQQ2PS:
		n.singles(s, d, lo, hi)
	case &CVTTPD2UDQ:
		t := n.fresh()
		n.unsignedWords(d, lo)
		n.unsignedWords(t, hi)
		n.y(&ySHUFPS, d, d, t, 0x88)
		n.y(&yPERMQ, d, 0, d, 0xd8)
	default:
		t := n.fresh()
		n.y(s.op, d, 0, lo, 0)
		n.y(s.op, t, 0, hi, 0)
		n.y(&yINSERT, d, d, t, 1)
	}
	n.putVector(s.d, []y{d})
}

// narrowed is the lower 32 bits of lanes of 64.
func (n *lowering) narrowed(s *step) {
	lo, hi := n.vector(s.d, 0), n.vector(s.d, 1)
	d := n.fresh()
	n.y(&ySHUFPS, d, lo, hi, 0x88)
	n.y(&yPERMQ, d, 0, d, 0xd8)
	n.finish(s, []y{d})
}

// extract is one half, insert two of them.
func (n *lowering) extract(s *step) {
	from := n.vector(s.d, int(s.arg.Imm))
	r := n.target(halfOf(s.r, 0), from)
	n.move(r, from)
	n.finish(s, []y{r})
}

func (n *lowering) insert(s *step) {
	lo, hi := n.vector(s.s, 0), n.vector(s.r, 0)
	a := n.target(halfOf(s.d, 0), lo)
	n.move(a, lo)
	b := n.fresh()
	n.move(b, hi)
	n.finish(s, []y{a, b})
}

// joined is the lower halves of two vectors, or the upper ones.
func (n *lowering) joined(s *step) {
	h := 0
	switch s.arg.Imm {
	case 0x44:
	case 0xee:
		h = 1
	default:
		panic("x86: this shuffle has no form for pairs") // a bug of who uses it
	}
	a, b := n.vector(s.s, h), n.vector(s.r, h)
	lo, hi := n.fresh(), n.fresh()
	n.move(lo, a)
	n.move(hi, b)
	n.finish(s, []y{lo, hi})
}
