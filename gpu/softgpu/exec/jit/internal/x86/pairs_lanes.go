package x86

// Gathers, scatters, permutations, and lanes that go one by one through memory. Where lanes do, r14
// has the ones that are left, r15 the one that is moved, and rbx its value.

const value = RBX

// tableAt is a place in the table of the area.
func tableAt(bytes int32) Mem { return Mem{Base: area, Disp: areaTable + bytes} }

// lanesStep gathers or scatters.
func (n *lowering) lanesStep(s *step) {
	if !gathers(s.op) {
		n.scatter(s)
		return
	}
	indexWords, dataWords := s.op.code&1 == 0, !s.op.wide
	k, base := s.arg.Mask, R(s.r)
	out := make([]y, 0, 2)
	switch {
	case indexWords == dataWords:
		for h := range 2 {
			out = append(out, n.gatherHalf(s, n.vector(s.s, h), halfOf(s.d, h), n.maskVector(k, formOf(s.op), h)))
		}
	case dataWords: // four lanes at a time
		mask, old := n.maskVector(k, maskWords, 0), n.load(halfOf(s.d, 0))
		for h := range 2 {
			index, m, d := n.vector(s.s, h), n.fresh(), n.fresh()
			n.y(&yEXTRACT, mask, 0, m, uint8(h))
			n.y(&yEXTRACT, old, 0, d, uint8(h))
			n.yLanes(s.op, d, base, index, s.m.Disp, m, true)
			out = append(out, d)
			n.drop(index, m)
		}
		n.y(&yINSERT, out[0], out[0], out[1], 1)
		out = out[:1]
	default:
		index := n.vector(s.s, 0)
		for h := range 2 {
			t := n.fresh()
			n.y(&yEXTRACT, index, 0, t, uint8(h))
			out = append(out, n.gatherHalf(s, t, halfOf(s.d, h), n.maskVector(k, maskPairs, h)))
		}
	}
	if dataWords && !indexWords {
		n.put(halfOf(s.d, 0), out[0])
	} else {
		n.putVector(s.d, out)
	}
	n.loseMask(k)
}

// gatherHalf gathers into a register the lanes of half, which it has where the mask does not.
func (n *lowering) gatherHalf(s *step, index y, half int, mask y) y {
	m, d := n.fresh(), n.fresh()
	n.y(&MOVD, m, 0, mask, 0)
	if !n.isAnything(half) {
		old := n.load(half)
		n.y(&MOVD, d, 0, old, 0)
		n.drop(old)
	}
	n.yLanes(s.op, d, R(s.r), index, s.m.Disp, m, true)
	n.drop(index, mask, m)
	return d
}

// lanesOf has the bits of a mask that an instruction on so many lanes looks at in r14.
func (n *lowering) lanesOf(k K, lanes int) {
	n.bitsOfMask(k)
	code := byte(zeroWord)
	if lanes == 8 {
		code = zeroByte
	}
	n.extend(code, one, bitsOf(k))
	n.RR(TEST, false, one, one)
}

// eachLane makes code for each of the lanes of a mask, the lowest first, whose number is in r15.
func (n *lowering) eachLane(k K, lanes int, body func()) {
	n.lanesOf(k, lanes)
	next, end := n.Asm.NewLabel(), n.Asm.NewLabel()
	saved := Mem{Base: area, Disp: areaSaved}
	n.Asm.JumpIf(Equal, end)
	n.Store(true, saved, value)
	n.Asm.Bind(next)
	n.FirstBit(other, one)
	body()
	n.DropBit(one, one)
	n.Asm.JumpIf(NotEqual, next)
	n.RM(MOV, true, value, saved)
	n.Asm.Bind(end)
}

// inMemory makes memory have both halves of a vector.
func (n *lowering) inMemory(z uint8) int32 {
	n.spill(n.alias(halfOf(z, 0)))
	n.spill(halfOf(z, 1))
	return slot(halfOf(z, 0)).Disp
}

func (n *lowering) scatter(s *step) {
	index, data, lanes := n.inMemory(s.s), n.inMemory(s.d), 16
	if s.op.code&1 != 0 || s.op.wide {
		lanes = 8
	}
	n.eachLane(s.arg.Mask, lanes, func() {
		if s.op.code&1 == 0 {
			n.index(0x63, true, value, area, other, 2, index)
		} else {
			n.index(0x8b, true, value, area, other, 3, index)
		}
		shift := uint8(2)
		if s.op.wide {
			shift = 3
		}
		n.index(0x8b, s.op.wide, other, area, other, shift, data)
		n.index(0x89, s.op.wide, other, R(s.r), value, 0, s.m.Disp)
	})
}

// first gives the first lane of those of a mask, if there is one, else what was there, or zero.
func (n *lowering) first(s *step) {
	if s.arg.Mask == 0 {
		panic("x86: the first lane of all has no form for pairs") // a bug of who uses it
	}
	from := n.inMemory(s.d)
	half, none := halfOf(s.r, 0), n.Asm.NewLabel()
	r := n.fresh()
	switch {
	case s.arg.Zero:
		n.y(&PXORD, r, r, r, 0)
	case !n.isAnything(half):
		n.y(&MOVD, r, 0, n.load(half), 0)
	}
	shift, op, lanes := uint8(2), &yFROMD, 16
	if s.op.wide {
		shift, op, lanes = 3, &yFROMQ, 8
	}
	n.lanesOf(s.arg.Mask, lanes)
	n.Asm.JumpIf(Equal, none)
	n.FirstBit(one, one)
	n.index(0x8b, s.op.wide, one, area, one, shift, from)
	n.x(op, r, 0, uint8(one), 0)
	n.Asm.Bind(none)
	n.putVector(s.r, []y{r})
}

// permute gathers from both sources in memory.
func (n *lowering) permute(s *step) {
	var index [2]y
	for h := range 2 {
		index[h] = n.vector(s.d, h)
		from := n.vector(s.s, h)
		n.ym(&STORED, from, 0, tableAt(32*int32(h)), 0)
		n.drop(from)
	}
	for h, b := range n.operands(s, 2) {
		n.ym(&STORED, n.register(b), 0, tableAt(64+32*int32(h)), 0)
	}
	out := make([]y, 0, 2)
	for h := range 2 {
		t, m, d := n.fresh(), n.fresh(), n.fresh()
		n.y(&PSLLD, t, 0, index[h], 27)
		n.y(&PSRLD, t, 0, t, 25)
		n.y(&yCMPEQD, m, m, m, 0)
		n.yLanes(&PGATHERDD, d, area, t, areaTable, m, true)
		n.drop(t, m)
		out = append(out, d)
	}
	n.finish(s, out)
}

// shuffle has the lanes of two vectors in another order.
func (n *lowering) shuffle(s *step) {
	a := [2]y{n.vector(s.s, 0), n.vector(s.s, 1)}
	var b [2]y
	for h, o := range n.operands(s, 2) {
		b[h] = n.register(o)
	}
	lo, hi := n.fresh(), n.fresh()
	low, high := &yUNPACKL, &yUNPACKH
	switch s.op {
	case &EVERY2:
		which := uint8(0x88)
		if s.arg.Imm != 0 {
			which = 0xdd
		}
		n.y(&ySHUFPS, lo, a[0], a[1], which)
		n.y(&ySHUFPS, hi, b[0], b[1], which)
		n.y(&yPERMQ, lo, 0, lo, 0xd8)
		n.y(&yPERMQ, hi, 0, hi, 0xd8)
		n.finish(s, []y{lo, hi})
		return
	case &EVERY2PAIRS:
		op := [...]*Op{&yUNPACKLQ, &yUNPACKHQ}[s.arg.Imm]
		n.y(op, lo, a[0], a[1], 0)
		n.y(op, hi, b[0], b[1], 0)
		n.y(&yPERMQ, lo, 0, lo, 0xd8)
		n.y(&yPERMQ, hi, 0, hi, 0xd8)
		n.finish(s, []y{lo, hi})
		return
	case &JOINPAIRS:
		low, high = &yUNPACKLQ, &yUNPACKHQ
	}
	t, k := n.fresh(), s.arg.Imm
	n.y(low, t, a[k], b[k], 0)
	n.y(high, hi, a[k], b[k], 0)
	n.y(&yJOIN, lo, t, hi, 0x20)
	n.y(&yJOIN, hi, t, hi, 0x31)
	n.finish(s, []y{lo, hi})
}

// pack stores the lower bytes, or the lower 16 bits, of all lanes.
func (n *lowering) pack(s *step) {
	shift := uint8(0)
	if s.op == &PMOVDW {
		shift = 1
	}
	if s.arg.Mask != 0 {
		from := n.inMemory(s.d)
		n.eachLane(s.arg.Mask, 16, func() {
			n.index(0x8b, false, value, area, other, 2, from)
			if shift == 0 {
				n.index(0x88, false, value, s.m.Base, other, shift, s.m.Disp)
			} else {
				n.bytes(0x66)
				n.index(0x89, false, value, s.m.Base, other, shift, s.m.Disp)
			}
		})
		return
	}
	for h := range 2 {
		from, t, m := n.vector(s.d, h), n.fresh(), s.m
		if shift == 0 {
			quads := n.fresh()
			m.Disp += 8 * int32(h)
			n.ym(&PSHUFB, t, from, constant(cBytes), 0)
			n.ym(&LOADD, quads, 0, constant(cQuads), 0)
			n.y(&yPERMD, t, quads, t, 0)
			n.xm(&yTOQ, t, 0, m, 0)
			n.drop(quads)
		} else {
			m.Disp += 16 * int32(h)
			n.ym(&PSHUFB, t, from, constant(cWords), 0)
			n.y(&yPERMQ, t, 0, t, 8)
			n.xm(&STORED, t, 0, m, 0)
		}
		n.drop(from, t)
	}
}

// unpack loads bytes or words into lanes.
func (n *lowering) unpack(s *step) {
	bytes, code := int32(1), uint16(0x0fb6)
	if s.op == &PMOVZXWD {
		bytes, code = 2, 0x0fb7
	}
	out := make([]y, 0, 2)
	if s.arg.Mask == 0 {
		for h := range 2 {
			m, r := s.m, n.fresh()
			if s.op != &BROADCASTX4 { // of which both halves are the same
				m.Disp += 8 * bytes * int32(h)
			}
			n.ym(s.op, r, 0, m, 0)
			out = append(out, r)
		}
		n.putVector(s.d, out)
		return
	}
	n.eachLane(s.arg.Mask, 16, func() {
		n.index(code, false, value, s.m.Base, other, uint8(bytes-1), s.m.Disp)
		n.index(0x89, false, value, area, other, 2, areaTable)
	})
	for h := range 2 {
		r := n.fresh()
		n.ym(&LOADD, r, 0, tableAt(32*int32(h)), 0)
		out = append(out, r)
	}
	n.finish(s, out)
}
