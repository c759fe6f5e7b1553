package x86

// narrowed is an instruction on 256 bits, or on the lower 128 of them.
type narrowed struct {
	op      *Op
	d, s, r y
	m       Mem // in place of r, if inMem
	inMem   bool
	imm     uint8
	parts   int
}

// takes is what the last operand of an instruction may be in narrow code. A form that took another for it would be wrong without a word.
type takes uint8

const (
	either    takes = iota
	registers       // no memory
	memory          // no register
)

// narrowStep makes code of one instruction.
func (a *Asm) narrowStep(i narrowed, long bool) {
	i.parts = 1
	if long {
		i.parts = 2
	}
	if i.op.narrow == nil {
		panic("x86: " + i.op.Name + " has no form for narrow code") // a bug of who uses it
	}
	if i.op.takes == registers && i.inMem || i.op.takes == memory && !i.inMem {
		panic("x86: " + i.op.Name + " has no form for such an operand in narrow code") // a bug of who uses it
	}
	i.op.narrow(a, &i)
	a.sse.held = 0
}

// How instructions are made of narrow ones.
func init() {
	for _, op := range []*Op{
		&ADDPS, &MULPS, &PADDD, &PADDQ, &PMULLD, &PMULUDQ, &PMULDQ, &PANDD, &PORD, &PXORD, &PANDQ, &PORQ, &PXORQ,
		&PMINSD, &PMINUD, &PMAXSD, &PMAXUD, &PMADDWD, &yCMPEQD, &yCMPEQQ,
	} {
		op.narrow = narrowEither
	}
	for _, op := range []*Op{
		&SUBPS, &DIVPS, &MINPS, &MAXPS, &ADDPD, &MULPD, &SUBPD, &DIVPD, &MINPD, &MAXPD, &PSUBD, &PSUBQ, &PSHUFB, &yCMPGTD, &yCMPGTQ, &yANDN,
		&ySHUFPS, &yUNPACKL, &yUNPACKH, &yUNPACKLQ, &yUNPACKHQ, &UNPCKLD, &UNPCKHD, &UNPCKLQ, &UNPCKHQ,
	} {
		op.narrow = narrowTwo
	}
	for _, op := range []*Op{&SQRTPS, &SQRTPD, &yROUNDS, &yROUNDD, &CVTDQ2PS, &CVTTPS2DQ, &CVTPS2DQ, &PABSD, &PSHUFD} {
		op.narrow = narrowOne
	}
	for _, op := range []*Op{&PSLLD, &PSRLD, &PSRAD, &PSLLQ, &PSRLQ, &PSLLW, &PSRAW} {
		op.narrow, op.takes = narrowShift, registers
	}
	for _, op := range []*Op{&PMOVZXDQ, &PMOVSXDQ, &CVTPS2PD, &CVTDQ2PD, &PMOVZXBD, &PMOVZXWD} {
		op.narrow = narrowWiden
	}
	for op, form := range map[*Op]func(*Asm, *narrowed){
		&MOVD: narrowMove, &LOADD: narrowMove, &LOADX: narrowMove, &LOADXA: narrowMove, &STORED: narrowStore, &STOREX: narrowStore, &STOREXA: narrowStore, &ySTORESS: narrowFirst, &yTOQ: narrowFirst, &yTOD: narrowFirst,
		&yFROMD: narrowFrom, &yFROMQ: narrowFrom, &yCVTSI2SS: narrowConvert, &yCVTTSD2SI: narrowTruncate,
		&BROADCASTD: narrowBroadcast, &yBROADCASTQ: narrowBroadcast, &BROADCASTQ: narrowBroadcast, &BROADCASTX4: narrowBroadcast,
		&CMPPS: narrowCompare, &CMPPD: narrowCompare, &yBLENDV: narrowBlend, &yBLENDD: narrowChoose, &yTEST: narrowTest,
		&yMASKD: narrowBits, &yMASKQ: narrowBits, &yPERMQ: narrowQuads, &yPERMD: narrowFirsts,
		&yEXTRACT: narrowExtract, &yINSERT: narrowJoin, &yJOIN: narrowJoin, &CVTPD2PS: narrowNarrow, &CVTTPD2DQ: narrowNarrow,
		&PSLLVD: narrowVariable, &PSRLVD: narrowVariable, &PSRAVD: narrowVariable, &PSLLVQ: narrowVariable, &PSRLVQ: narrowVariable,
		&yMASKLOAD: narrowMaskedLoad, &yMASKLOADQ: narrowMaskedLoad, &yMASKSTORE: narrowMaskedStore, &yMASKSTOREQ: narrowMaskedStore,
	} {
		op.narrow = form
	}
	for _, op := range []*Op{&yFROMD, &yFROMQ, &yTEST, &yMASKD, &yMASKQ, &yPERMQ, &yPERMD, &CVTPD2PS, &CVTTPD2DQ} {
		op.takes = registers
	}
	for _, op := range []*Op{
		&STORED, &STOREX, &STOREXA, &yCVTSI2SS, &yCVTTSD2SI, &BROADCASTX4, &yMASKLOAD, &yMASKLOADQ, &yMASKSTORE, &yMASKSTOREQ,
	} {
		op.takes = memory
	}
	for op, signs := range map[*Op][2]bool{ // of the product, and of what is added
		&FMADD231PS: {}, &FMADD213PS: {}, &FMADD231PD: {}, &FMSUB231PS: {false, true}, &FMSUB213PS: {false, true}, &FMSUB231PD: {false, true},
		&FNMADD231PS: {true, false}, &FNMADD213PS: {true, false}, &FNMADD231PD: {true, false},
		&FNMSUB231PS: {true, true}, &FNMSUB213PS: {true, true}, &FNMSUB231PD: {true, true},
	} {
		op.narrow = narrowFused
		op.negative = signs
	}
}

// source is the last operand of half of an instruction: a register, held, or memory that is aligned.
type source struct {
	reg   xmm
	m     Mem
	inMem bool
}

// right is the last operand of half h.
func (a *Asm) right(i *narrowed, h int) source {
	if i.inMem {
		m := i.m
		m.Disp += 16 * int32(h)
		if m.Base == area && m.Disp%16 == 0 {
			return source{m: m, inMem: true}
		}
		r := a.take()
		a.om(&oLOADU, r, m)
		return source{reg: r}
	}
	v := 2*i.r + part(h)
	if a.sse.at[v] == noReg && a.sse.free() == noReg && a.sse.stored>>v&1 != 0 {
		return source{m: a.sse.home(v), inMem: true}
	}
	return source{reg: a.have(v)}
}

// rightIn is that in a register, held.
func (a *Asm) rightIn(i *narrowed, h int) xmm {
	s := a.right(i, h)
	if !s.inMem {
		return s.reg
	}
	r := a.take()
	a.om(&oLOAD, r, s.m)
	return r
}

// do is op d, s.
func (a *Asm) do(op *Op, d xmm, s source, imm uint8) {
	if s.inMem {
		a.om(op, d, s.m)
	} else {
		a.oo(op, d, s.reg)
	}
	if op.imm {
		a.bytes(imm)
	}
}

// narrowTwo is d = s op r.
func narrowTwo(a *Asm, i *narrowed) {
	for h := range i.parts {
		b := a.right(i, h)
		d := a.copied(2*i.d+part(h), 2*i.s+part(h))
		a.do(i.op, d, b, i.imm)
		a.bind(2*i.d+part(h), d)
		a.sse.held = 0
	}
}

// narrowEither is narrowTwo where the sources may change places. Those of float64 may not: of two NaNs, the first counts.
func narrowEither(a *Asm, i *narrowed) {
	switch {
	case (i.op == &PXORD || i.op == &PXORQ) && !i.inMem && i.s == i.r:
		r := a.take()
		a.oo(&PXORD, r, r)
		a.bindAll(i, r)
		return
	case i.op == &yCMPEQD && !i.inMem && i.s == i.r:
		r := a.take()
		a.oo(&yCMPEQD, r, r)
		a.bindAll(i, r)
		return
	case !i.inMem && i.d == i.r:
		i.s, i.r = i.r, i.s
	}
	narrowTwo(a, i)
}

// bindAll makes a register all parts of the result.
func (a *Asm) bindAll(i *narrowed, r xmm) {
	for h := range i.parts {
		a.bind(2*i.d+part(h), r)
	}
}

// narrowOne is d = op r.
func narrowOne(a *Asm, i *narrowed) {
	for h := range i.parts {
		b, v := a.right(i, h), 2*i.d+part(h)
		if !b.inMem && a.sse.isOnly(b.reg, v) {
			a.do(i.op, b.reg, b, i.imm)
			a.bind(v, b.reg)
		} else {
			d := a.written(v)
			a.do(i.op, d, b, i.imm)
			a.bind(v, d)
		}
		a.sse.held = 0
	}
}

// narrowShift is d = r shifted by a constant.
func narrowShift(a *Asm, i *narrowed) {
	for h := range i.parts {
		d := a.copied(2*i.d+part(h), 2*i.r+part(h))
		a.shiftBy(i.op, d, i.imm)
		a.bind(2*i.d+part(h), d)
	}
}

// narrowMove copies a register, or loads one.
func narrowMove(a *Asm, i *narrowed) {
	for h := range i.parts {
		v := 2*i.d + part(h)
		if !i.inMem {
			a.bind(v, a.have(2*i.r+part(h)))
			continue
		}
		d, m := a.written(v), i.m
		m.Disp += 16 * int32(h)
		a.om(&oLOADU, d, m)
		a.bind(v, d)
	}
}

// narrowStore stores one.
func narrowStore(a *Asm, i *narrowed) {
	for h := range i.parts {
		m := i.m
		m.Disp += 16 * int32(h)
		a.om(&oSTOREU, a.have(2*i.d+part(h)), m)
	}
}

// narrowFirst moves the first lane to memory, or to a general register.
func narrowFirst(a *Asm, i *narrowed) {
	s := a.have(2 * i.d)
	if i.inMem {
		a.omGeneral(i.op, i.op.wide, s, i.m)
	} else {
		a.oGeneral(i.op, i.op.wide, s, i.r)
	}
}

// narrowFrom is a general register as the first lane.
func narrowFrom(a *Asm, i *narrowed) {
	d := a.written(2 * i.d)
	a.oGeneral(i.op, i.op.wide, d, i.r)
	a.bind(2*i.d, d)
}

// narrowConvert is a whole number in memory as the first lane of s.
func narrowConvert(a *Asm, i *narrowed) {
	d := a.copied(2*i.d, 2*i.s)
	a.omGeneral(i.op, true, d, i.m)
	a.bind(2*i.d, d)
}

// narrowTruncate is a float64 in memory as a whole number in a general register.
func narrowTruncate(a *Asm, i *narrowed) { a.omGeneral(i.op, true, i.d, i.m) }

// narrowBroadcast gives all lanes the first, or what lies in memory.
func narrowBroadcast(a *Asm, i *narrowed) {
	order := uint8(0)
	if i.op == &yBROADCASTQ || i.op == &BROADCASTQ {
		order = 0x44
	}
	d := a.take()
	switch {
	case i.op == &BROADCASTX4:
		a.om(&oLOADU, d, i.m)
	case i.inMem && order == 0:
		a.om(&yFROMD, d, i.m)
		a.oi(&PSHUFD, d, d, order)
	case i.inMem:
		a.om(&oDOUBLE, d, i.m)
	default:
		a.oi(&PSHUFD, d, a.have(2*i.r), order)
	}
	a.bindAll(i, d)
}

// oDOUBLE loads 64 bits for both lanes.
var oDOUBLE = Op{Name: "movddup", table: 1, prefix: 3, code: 0x12}

// narrowWiden gives the lanes of the lower half, or of memory, twice their length, or four times.
func narrowWiden(a *Asm, i *narrowed) {
	if i.inMem {
		for h := range i.parts {
			d, m := a.written(2*i.d+part(h)), i.m
			switch i.op {
			case &PMOVZXBD:
				m.Disp += 4 * int32(h)
			default:
				m.Disp += 8 * int32(h)
			}
			a.om(i.op, d, m)
			a.bind(2*i.d+part(h), d)
		}
		return
	}
	s := a.have(2 * i.r)
	lo, hi := a.take(), a.take()
	a.oi(&PSHUFD, hi, s, 0xee)
	a.oo(i.op, lo, s)
	a.oo(i.op, hi, hi)
	a.bind(2*i.d, lo)
	a.bind(2*i.d+1, hi)
}

// narrowNarrow is what makes four lanes of 32 bits of ones of 64.
func narrowNarrow(a *Asm, i *narrowed) {
	lo, hi := a.have(2*i.r), a.have(2*i.r+1)
	d := a.take()
	a.oo(i.op, d, lo)
	a.oo(i.op, scratch, hi)
	a.oo(&yUNPACKLQ, d, scratch)
	a.bind(2*i.d, d)
	a.sse.drop(2*i.d + 1)
}
