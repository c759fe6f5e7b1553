package x86

// Masks. Bits of all are in memory; as vectors, with lanes of 32 or of 64 bits, they are made where
// they are needed. Those of active lanes, k1 to k4, are set where code is entered, and memory has all
// forms of them from then on. What makes bits changes no flags.

// bits of masks pass through these.
const (
	one   = R14
	other = R15
)

func (n *lowering) hasForm(k K, form int) bool {
	for h := range 2 {
		if p := n.at[maskHalf(k, form, h)]; p.reg == noReg && !p.slot {
			return false
		}
	}
	return true
}

// hasMask reports whether a mask was written.
func (n *lowering) hasMask(k K) bool {
	return n.bits>>k&1 != 0 || n.hasForm(k, maskWords) || n.hasForm(k, maskPairs)
}

// formOf is which lanes a mask of an operation has.
func formOf(op *Op) int {
	if op.wide {
		return maskPairs
	}
	return maskWords
}

// maskVector is half of a mask as a vector, pinned.
func (n *lowering) maskVector(k K, form, h int) y {
	half := maskHalf(k, form, h)
	if p := n.at[half]; p.reg != noReg || p.slot {
		return n.load(half)
	}
	n.bitsOfMask(k)
	r := n.fresh()
	n.expand(r, k, form, h)
	n.put(half, r)
	return r
}

// expand makes lanes of the bits of a mask.
func (n *lowering) expand(r y, k K, form, h int) {
	table, equal := constant(cBits32+h), &yCMPEQD
	if form == maskPairs {
		table, equal = constant(cBits64+h), &yCMPEQQ
	}
	n.ym(&BROADCASTD, r, 0, bitsOf(k), 0)
	n.ym(&PANDD, r, r, table, 0)
	n.ym(equal, r, r, table, 0)
}

// bitsOfMask makes memory have the bits of a mask.
func (n *lowering) bitsOfMask(k K) {
	if n.bits>>k&1 != 0 {
		return
	}
	form, op, lanes := maskWords, &yMASKD, uint8(8)
	if !n.hasForm(k, maskWords) {
		form, op, lanes = maskPairs, &yMASKQ, 4
		if !n.hasForm(k, maskPairs) {
			panic("x86: a mask that was not written") // a bug of who uses it
		}
	}
	lo := n.load(maskHalf(k, form, 0))
	hi := n.load(maskHalf(k, form, 1))
	n.y(op, uint8(one), 0, lo, 0)
	n.y(op, uint8(other), 0, hi, 0)
	n.rotate(other, other, 32-lanes)
	n.sum(one, one, other)
	n.drop(lo, hi)
	n.keepBits(k)
}

// keepBits writes the bits of a mask, beside what vectors there are of it.
func (n *lowering) keepBits(k K) {
	n.Store(true, bitsOf(k), one)
	n.bits |= 1 << k
}

// setBits gives a mask the bits in r14.
func (n *lowering) setBits(k K) {
	n.loseMask(k)
	n.keepBits(k)
	if k == 0 || k > 4 {
		return
	}
	for _, form := range []int{maskWords, maskPairs} {
		for h := range 2 {
			half := maskHalf(k, form, h)
			r := n.fresh()
			n.expand(r, k, form, h)
			n.ym(&STORED, r, 0, slot(half), 0)
			n.drop(r)
			n.at[half] = place{reg: noReg, slot: true}
		}
	}
}

func (n *lowering) loseMask(k K) {
	for i := range 4 {
		n.lose(maskHalf(k, 0, i))
	}
	n.bits &^= 1 << k
}

// setMask gives a mask two vectors, which are pinned.
func (n *lowering) setMask(k K, form int, lo, hi y) {
	n.loseMask(k)
	n.put(maskHalf(k, form, 0), lo)
	n.put(maskHalf(k, form, 1), hi)
}

// compareStep is a comparison or test.
func (n *lowering) compareStep(s *step) {
	form := formOf(s.op)
	var a, out [2]y
	var under [2]y
	for h := range 2 {
		a[h] = n.vector(s.s, h)
		if s.arg.Mask != 0 {
			under[h] = n.maskVector(s.arg.Mask, form, h)
		}
	}
	b := n.operands(s, 2)
	if n.anyAtAll(s, a, b) {
		return
	}
	for h := range 2 {
		out[h] = n.fresh()
		n.compareHalf(s, out[h], a[h], b[h])
		if s.arg.Mask != 0 {
			n.y(&PANDD, out[h], out[h], under[h], 0)
		}
	}
	n.setMask(K(s.d), form, out[0], out[1])
}

// anyAtAll is a test whether any lanes have common bits, of which only the flags matter that the
// instruction behind it sets.
func (n *lowering) anyAtAll(s *step, a [2]y, b [2]operand) bool {
	next := n.next
	if s.op != &PTESTMD && s.op != &PTESTMQ || s.arg.Mask != 0 || next == nil || next.mask != &KORTESTD || next.r != s.d || next.s != 0 || n.afterNext.k>>s.d&1 != 0 {
		return false
	}
	t := n.fresh()
	if s.kind == kV && s.s == s.r {
		n.y(&PORD, t, a[0], a[1], 0)
	} else {
		u := n.fresh()
		n.apply(&PANDD, t, a[0], b[0], 0)
		n.apply(&PANDD, u, a[1], b[1], 0)
		n.y(&PORD, t, t, u, 0)
	}
	n.y(&yTEST, t, 0, t, 0)
	n.loseMask(K(s.d))
	n.skip = true
	return true
}

// compareHalf makes all bits of the lanes of d that fulfil a comparison.
func (n *lowering) compareHalf(s *step, d, a y, b operand) {
	switch s.op {
	case &CMPPS, &CMPPD:
		n.apply(s.op, d, a, b, s.arg.Imm)
		return
	case &PTESTMD, &PTESTMQ, &PTESTNMD:
		n.apply(&PANDD, d, a, b, 0)
		zero := n.fresh()
		n.y(&PXORD, zero, zero, zero, 0)
		n.y(equalOf(s.op), d, d, zero, 0)
		n.drop(zero)
		if s.op != &PTESTNMD {
			n.invert(d)
		}
		return
	}
	unsigned := s.op == &PCMPUD || s.op == &PCMPUQ
	switch s.arg.Imm {
	case 0, 4: // equal, not equal
		n.apply(equalOf(s.op), d, a, b, 0)
	default:
		c := n.register(b)
		if s.arg.Imm == 1 || s.arg.Imm == 5 { // a < b, a >= b
			a, c = c, a
		}
		if unsigned {
			n.above(s.op.wide, d, a, c)
		} else {
			n.y(greaterOf(s.op), d, a, c, 0)
		}
	}
	if s.arg.Imm == 4 || s.arg.Imm == 2 || s.arg.Imm == 5 {
		n.invert(d)
	}
}

// above is a > b of numbers without sign.
func (n *lowering) above(wide bool, d, a, b y) {
	sign, greater := constant(cSign32), &yCMPGTD
	if wide {
		sign, greater = constant(cSign64), &yCMPGTQ
	}
	t := n.fresh()
	n.ym(&PXORD, t, a, sign, 0)
	n.ym(&PXORD, d, b, sign, 0)
	n.y(greater, d, t, d, 0)
	n.drop(t)
}

func equalOf(op *Op) *Op {
	if op.wide {
		return &yCMPEQQ
	}
	return &yCMPEQD
}

func greaterOf(op *Op) *Op {
	if op.wide {
		return &yCMPGTQ
	}
	return &yCMPGTD
}

// invert changes all bits.
func (n *lowering) invert(d y) {
	ones := n.fresh()
	n.y(&yCMPEQD, ones, ones, ones, 0)
	n.y(&PXORD, d, d, ones, 0)
	n.drop(ones)
}

// maskStep is an operation on masks.
func (n *lowering) maskStep(s *step) {
	d, a, b := K(s.d), K(s.s), K(s.r)
	switch s.mask {
	case &KORTESTD:
		n.bitsOfMask(b)
		n.RM(MOV, false, one, bitsOf(b))
		if a != b && a != 0 {
			n.bitsOfMask(a)
			n.RM(OR, false, one, bitsOf(a))
			return
		}
		n.RR(TEST, false, one, one)
		return
	case &KUNPCKWD, &KUNPCKBW:
		n.bitsOfMask(a)
		n.bitsOfMask(b)
		code, turn := byte(zeroWord), uint8(16)
		if s.mask == &KUNPCKBW {
			code, turn = zeroByte, 24
		}
		n.extend(code, one, bitsOf(b))
		n.extend(code, other, bitsOf(a))
		n.rotate(other, other, turn)
		n.sum(one, one, other)
		n.setBits(d)
		return
	}
	for _, form := range []int{maskWords, maskPairs} {
		if op := vectorOf(s.mask); op != nil && d > 4 && n.hasForm(a, form) && n.hasForm(b, form) {
			n.maskOnVectors(d, a, b, form, op)
			return
		}
	}
	n.bitsOfMask(b)
	if s.mask == &KNOTD {
		n.RM(MOV, false, one, bitsOf(b))
		n.Not(one)
		n.setBits(d)
		return
	}
	n.bitsOfMask(a)
	n.RM(MOV, false, one, bitsOf(a))
	switch {
	case s.mask == &KANDND:
		n.Not(one)
		n.RM(AND, false, one, bitsOf(b))
	case a == b && s.mask != &KXORD:
	default:
		n.RM(map[*MaskOp]Alu{&KANDD: AND, &KORD: OR, &KXORD: XOR}[s.mask], false, one, bitsOf(b))
	}
	n.setBits(d)
}

// vectorOf is an operation on masks as one on vectors.
func vectorOf(op *MaskOp) *Op {
	return map[*MaskOp]*Op{&KANDD: &PANDD, &KANDND: &yANDN, &KORD: &PORD, &KXORD: &PXORD}[op]
}

func (n *lowering) maskOnVectors(d, a, b K, form int, op *Op) {
	var out [2]y
	for h := range 2 {
		x, y := n.load(maskHalf(a, form, h)), n.load(maskHalf(b, form, h))
		out[h] = n.fresh()
		n.y(op, out[h], x, y, 0)
		n.drop(x, y)
	}
	n.setMask(d, form, out[0], out[1])
}

// shiftMask is a shift to the right by a number of bits that is a multiple of 8.
func (n *lowering) shiftMask(d, s K, by uint8) {
	if by%8 != 0 {
		panic("x86: a mask is shifted by whole bytes") // a bug of who uses it
	}
	n.bitsOfMask(s)
	m := bitsOf(s)
	m.Disp += int32(by / 8)
	n.RM(MOV, false, one, m)
	n.setBits(d)
}
