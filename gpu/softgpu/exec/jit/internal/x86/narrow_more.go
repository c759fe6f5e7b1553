package x86

// Instructions of 256 bits that are several in narrow code.

// narrowCompare is a comparison of floating point. SSE has the first eight of the predicates; the others
// are those with the operands the other way round, or two of them. Exceptions do not matter.
func narrowCompare(a *Asm, i *narrowed) {
	predicate := i.imm & 15
	join := (*Op)(nil)
	var second uint8
	turned := false
	switch predicate {
	case 8: // equal or unordered
		predicate, second, join = 0, 3, &PORD
	case 12: // not equal, ordered
		predicate, second, join = 4, 7, &PANDD
	case 9: // not >=
		predicate, turned = 6, true
	case 10: // not >
		predicate, turned = 5, true
	case 13: // >=
		predicate, turned = 2, true
	case 14: // >
		predicate, turned = 1, true
	case 11, 15:
		panic("x86: a comparison that is always the same has no form for narrow code") // a bug of who uses it
	}
	for h := range i.parts {
		v, left := 2*i.d+part(h), 2*i.s+part(h)
		var d xmm
		switch b := a.right(i, h); {
		case turned:
			d = a.take()
			if b.inMem {
				a.om(&oLOAD, d, b.m)
			} else {
				a.oo(&oMOVE, d, b.reg)
			}
			a.oi(i.op, d, a.have(left), predicate)
		case join != nil:
			d = a.take()
			s := a.have(left)
			a.oo(&oMOVE, d, s)
			a.oo(&oMOVE, scratch, s)
			a.do(i.op, d, b, predicate)
			a.do(i.op, scratch, b, second)
			a.oo(join, d, scratch)
		default:
			d = a.copied(v, left)
			a.do(i.op, d, b, predicate)
		}
		a.bind(v, d)
		a.sse.held = 0
	}
}

// oBLENDV is d = s where the scratch register has the sign.
var (
	oBLENDV = Op{Name: "blendvps", table: 2, prefix: 1, code: 0x14}
	oBLEND  = Op{Name: "blendps", table: 3, prefix: 1, code: 0x0c, imm: true}
)

// narrowBlend is d = r where the mask, which the immediate names, has the sign, and s elsewhere.
func narrowBlend(a *Asm, i *narrowed) {
	mask := i.imm >> 4
	for h := range i.parts {
		a.oo(&oMOVE, scratch, a.have(2*mask+part(h)))
		b := a.right(i, h)
		d := a.copied(2*i.d+part(h), 2*i.s+part(h))
		a.do(&oBLENDV, d, b, 0)
		a.bind(2*i.d+part(h), d)
		a.sse.held = 0
	}
}

// narrowChoose is d = r in the lanes that the immediate names, and s elsewhere.
func narrowChoose(a *Asm, i *narrowed) {
	for h := range i.parts {
		b := a.right(i, h)
		d := a.copied(2*i.d+part(h), 2*i.s+part(h))
		a.do(&oBLEND, d, b, i.imm>>(4*h)&15)
		a.bind(2*i.d+part(h), d)
		a.sse.held = 0
	}
}

// narrowTest sets the zero flag if a register is zero.
func narrowTest(a *Asm, i *narrowed) {
	if i.d != i.r {
		panic("x86: a test of two registers has no form for narrow code") // a bug of who uses it
	}
	lo, hi := a.have(2*i.d), a.have(2*i.d+1)
	a.oo(&oMOVE, scratch, lo)
	a.oo(&PORD, scratch, hi)
	a.oo(&yTEST, scratch, scratch)
}

// narrowBits are the signs of the lanes in a general register.
func narrowBits(a *Asm, i *narrowed) {
	a.signs(i.op, R(i.d), a.have(2*i.r), a.have(2*i.r+1))
}

// oCLEAR is movq d, s, which makes the upper lane zero.
var oCLEAR = Op{Name: "movq", table: 1, prefix: 2, code: 0x7e}

// signs are those of the lanes of two registers, which are all ones or zero, in a general register. It changes no flags.
func (a *Asm) signs(op *Op, d R, lo, hi xmm) {
	a.oo(&oMOVE, scratch, lo)
	if op == &yMASKQ {
		a.oi(&ySHUFPS, scratch, hi, 0xdd)
		a.oGeneral(&yMASKD, false, uint8(d), scratch)
		return
	}
	a.oo(&yPACKDW, scratch, hi)
	a.oo(&yPACKWB, scratch, scratch)
	a.oo(&oCLEAR, scratch, scratch)
	a.oGeneral(&yMASKB, false, uint8(d), scratch)
}

// oSHUFPD is two lanes of 64 bits, one of each source.
var oSHUFPD = Op{Name: "shufpd", table: 1, prefix: 1, code: 0xc6, imm: true}

// narrowQuads are lanes of 64 bits in another order.
func narrowQuads(a *Asm, i *narrowed) {
	from := [2]xmm{a.have(2 * i.r), a.have(2*i.r + 1)}
	var out [2]xmm
	for h := range 2 {
		first, second := i.imm>>(4*h)&3, i.imm>>(4*h+2)&3
		out[h] = a.take()
		a.oo(&oMOVE, out[h], from[first>>1])
		a.oi(&oSHUFPD, out[h], from[second>>1], first&1|second&1<<1)
	}
	a.bind(2*i.d, out[0])
	a.bind(2*i.d+1, out[1])
}

// narrowFirsts are the first lanes of both halves, beside each other: what a permutation by cQuads is for.
func narrowFirsts(a *Asm, i *narrowed) {
	lo, hi := a.have(2*i.r), a.have(2*i.r+1)
	d := a.take()
	a.oo(&oMOVE, d, lo)
	a.oo(&yUNPACKL, d, hi)
	a.bindAll(i, d)
}

// narrowExtract is half of d as the lower one of r, or in memory.
func narrowExtract(a *Asm, i *narrowed) {
	if i.inMem {
		a.om(&oSTOREU, a.have(2*i.d+i.imm), i.m)
		return
	}
	a.bind(2*i.r, a.have(2*i.d+i.imm))
	a.sse.drop(2*i.r + 1)
}

// narrowJoin is one half of s, and one of r behind it.
func narrowJoin(a *Asm, i *narrowed) {
	h := part(0)
	if i.op == &yJOIN && i.imm == 0x31 {
		h = 1
	}
	lo := a.have(2*i.s + h)
	var hi xmm
	if i.inMem {
		hi = a.take()
		a.om(&oLOADU, hi, i.m)
	} else {
		hi = a.have(2*i.r + h)
	}
	a.bind(2*i.d, lo)
	a.bind(2*i.d+1, hi)
}

// Shifts by one number for all lanes, which is the lower 64 bits of a register.
var shiftAll = map[*Op]*Op{
	&PSLLVD: {Name: "pslld", table: 1, prefix: 1, code: 0xf2}, &PSRLVD: {Name: "psrld", table: 1, prefix: 1, code: 0xd2},
	&PSRAVD: {Name: "psrad", table: 1, prefix: 1, code: 0xe2}, &PSLLVQ: {Name: "psllq", table: 1, prefix: 1, code: 0xf3},
	&PSRLVQ: {Name: "psrlq", table: 1, prefix: 1, code: 0xd3},
}

// narrowVariable shifts each lane by a number of its own: all by that of each lane, of which that lane is kept.
func narrowVariable(a *Asm, i *narrowed) {
	op := shiftAll[i.op]
	wide := i.op == &PSLLVQ || i.op == &PSRLVQ
	for h := range i.parts {
		s, by := a.have(2*i.s+part(h)), a.rightIn(i, h)
		d := a.take()
		if wide {
			t := a.take()
			a.oo(&oMOVE, d, s)
			a.oo(op, d, by)
			a.oi(&PSHUFD, scratch, by, 0xee)
			a.oo(&oMOVE, t, s)
			a.oo(op, t, scratch)
			a.oi(&oBLEND, d, t, 0xc)
		} else {
			a.eachBy(op, d, s, by)
		}
		a.bind(2*i.d+part(h), d)
		a.sse.held = 0
	}
}

// eachBy shifts four lanes.
func (a *Asm) eachBy(op *Op, d, s, by xmm) {
	t, u, v := a.take(), a.take(), a.take()
	a.oo(&PMOVZXDQ, scratch, by) // the numbers of lanes 0 and 1
	a.oo(&oMOVE, d, s)
	a.oo(op, d, scratch)
	a.oi(&PSHUFD, scratch, scratch, 0xee)
	a.oo(&oMOVE, t, s)
	a.oo(op, t, scratch)
	a.oi(&oBLEND, d, t, 2)
	a.oi(&PSHUFD, u, by, 0xee)
	a.oo(&PMOVZXDQ, u, u) // of lanes 2 and 3
	a.oo(&oMOVE, v, s)
	a.oo(op, v, u)
	a.oi(&PSHUFD, u, u, 0xee)
	a.oo(&oMOVE, t, s)
	a.oo(op, t, u)
	a.oi(&oBLEND, v, t, 8)
	a.oi(&oBLEND, d, v, 0xc)
}
