package x86

// expansions, which setSame gives to their Op, are operations that AVX2 does not have: d is a register beside those of a and b.
var expansions = map[*Op]func(n *lowering, s *step, d, a, b y){
	&PMULLQ:     func(n *lowering, _ *step, d, a, b y) { n.product64(d, a, b) },
	&PMINSQ:     func(n *lowering, _ *step, d, a, b y) { n.extreme64(d, a, b, false, false) },
	&PMAXSQ:     func(n *lowering, _ *step, d, a, b y) { n.extreme64(d, a, b, false, true) },
	&PMINUQ:     func(n *lowering, _ *step, d, a, b y) { n.extreme64(d, a, b, true, false) },
	&PMAXUQ:     func(n *lowering, _ *step, d, a, b y) { n.extreme64(d, a, b, true, true) },
	&PSRAVQ:     func(n *lowering, _ *step, d, a, b y) { n.shiftSigned64(d, a, b) },
	&SCALEFPD:   func(n *lowering, _ *step, d, a, b y) { n.scale(d, a, b) },
	&GETEXPPD:   func(n *lowering, _ *step, d, _, a y) { n.exponent(d, a) },
	&GETMANT:    func(n *lowering, s *step, d, _, a y) { n.fraction(s, d, a) },
	&CVTUDQ2PS:  func(n *lowering, _ *step, d, _, a y) { n.unsignedToSingle(d, a) },
	&CVTTPS2UDQ: func(n *lowering, _ *step, d, _, a y) { n.singleToUnsigned(d, a) },
	&CVTPS2UDQ: func(n *lowering, s *step, d, _, a y) {
		t := n.fresh()
		n.y(&yROUNDS, t, 0, a, roundTo(s.arg.Round))
		n.singleToUnsigned(d, t)
		n.drop(t)
	},
	&CVTPS2DQ: func(n *lowering, s *step, d, _, a y) {
		n.y(&yROUNDS, d, 0, a, roundTo(s.arg.Round))
		n.y(&CVTPS2DQ, d, 0, d, 0)
	},
	&CVTQQ2PD:  func(n *lowering, _ *step, d, _, a y) { n.toDouble(d, a, &PXORQ, cUpperSigned, cBothSigned) },
	&CVTUQQ2PD: func(n *lowering, _ *step, d, _, a y) { n.toDouble(d, a, &PORQ, cUpper, cBoth) },
	&CVTTPD2QQ: func(n *lowering, _ *step, d, _, a y) { n.toInt64(d, a) },
}

// roundTo is a mode as vroundps has it.
func roundTo(mode Round) uint8 {
	return [...]uint8{AsSet: 8, Nearest: 8, Down: 9, Up: 10, Truncate: 11}[mode]
}

func (n *lowering) product64(d, a, b y) {
	t := n.fresh()
	n.y(&PSRLQ, t, 0, a, 32)
	n.y(&PMULUDQ, t, t, b, 0)
	n.y(&PSRLQ, d, 0, b, 32)
	n.y(&PMULUDQ, d, d, a, 0)
	n.y(&PADDQ, d, d, t, 0)
	n.y(&PSLLQ, d, 0, d, 32)
	n.y(&PMULUDQ, t, a, b, 0)
	n.y(&PADDQ, d, d, t, 0)
	n.drop(t)
}

func (n *lowering) extreme64(d, a, b y, unsigned, most bool) {
	if unsigned {
		n.above(true, d, a, b)
	} else {
		n.y(&yCMPGTQ, d, a, b, 0)
	}
	if most {
		a, b = b, a
	}
	n.y(&yBLENDV, d, a, b, d<<4)
}

// shiftSigned64 moves the sign as a number without sign, and takes what is above it off.
func (n *lowering) shiftSigned64(d, a, b y) {
	t, u := n.fresh(), n.fresh()
	n.ym(&LOADD, t, 0, constant(c63), 0)
	n.above(true, u, b, t)
	n.y(&yBLENDV, t, b, t, u<<4)
	n.ym(&LOADD, u, 0, constant(cSign64), 0)
	n.y(&PXORQ, d, a, u, 0)
	n.y(&PSRLVQ, d, d, t, 0)
	n.y(&PSRLVQ, u, u, t, 0)
	n.y(&PSUBQ, d, d, u, 0)
	n.drop(t, u)
}

// scale is a * 2^b, b whole and between -1022 and 1023, or NaN where a is.
func (n *lowering) scale(d, a, b y) {
	n.ym(&ADDPD, d, b, constant(cTwo52Bias), 0)
	n.y(&PSLLQ, d, 0, d, 52)
	n.y(&MULPD, d, a, d, 0)
}

// exponent is that of a normal, positive, finite number.
func (n *lowering) exponent(d, a y) {
	n.y(&PSRLQ, d, 0, a, 52)
	n.ym(&PORQ, d, d, constant(cTwo52), 0)
	n.ym(&SUBPD, d, d, constant(cTwo52Bias), 0)
}

// fraction is a normal, positive, finite number with another exponent, so that it is from a half to
// one; NaN stays.
func (n *lowering) fraction(s *step, d, a y) {
	if s.arg.Imm != 2 {
		panic("x86: these fractions have no form for pairs") // a bug of who uses it
	}
	t := n.fresh()
	n.ym(&PANDQ, d, a, constant(cFraction), 0)
	n.ym(&PORQ, d, d, constant(cHalf), 0)
	n.y(&CMPPD, t, a, a, 3)
	n.y(&yBLENDV, d, d, a, t<<4)
	n.drop(t)
}

// unsignedToSingle goes by float64, which has all of a number, so that it is rounded once.
func (n *lowering) unsignedToSingle(d, a y) {
	t := n.fresh()
	n.y(&yEXTRACT, a, 0, t, 1)
	for i, r := range []y{d, t} {
		from := []y{a, t}[i]
		n.y(&PMOVZXDQ, r, 0, from, 0)
		n.ym(&PORQ, r, r, constant(cTwo52), 0)
		n.ym(&SUBPD, r, r, constant(cTwo52), 0)
		n.y(&CVTPD2PS, r, 0, r, 0)
	}
	n.y(&yINSERT, d, d, t, 1)
	n.drop(t)
}

// singleToUnsigned gives all ones for what does not fit.
func (n *lowering) singleToUnsigned(d, a y) {
	t, u := n.fresh(), n.fresh()
	n.ym(&LOADD, u, 0, constant(cTwo31Single), 0)
	n.y(&CMPPS, t, a, u, 29) // not below
	n.y(&PANDD, u, u, t, 0)
	n.y(&SUBPS, u, a, u, 0)
	n.y(&CVTTPS2DQ, d, 0, u, 0)
	n.y(&PSLLD, t, 0, t, 31)
	n.y(&PXORD, d, d, t, 0)
	n.ym(&LOADD, u, 0, constant(cMinus1Single), 0)
	n.y(&CMPPS, t, u, a, 21) // not below it, or NaN
	n.ym(&LOADD, u, 0, constant(cTwo32Single), 0)
	n.y(&CMPPS, u, a, u, 21)
	n.y(&PORD, d, d, t, 0)
	n.y(&PORD, d, d, u, 0)
	n.drop(t, u)
}

// unsignedWords is float64 to 32 bits without sign, in the lower halves of lanes; all ones for what
// does not fit.
func (n *lowering) unsignedWords(d, a y) {
	t, u := n.fresh(), n.fresh()
	n.y(&yROUNDD, t, 0, a, 11)
	n.y(&PXORD, u, u, u, 0)
	n.y(&CMPPD, u, t, u, 25) // below 0, or NaN
	n.ym(&CMPPD, d, t, constant(cTwo32), 21)
	n.y(&PORD, u, u, d, 0)
	n.ym(&ADDPD, d, t, constant(cTwo52), 0)
	n.y(&PORD, d, d, u, 0)
	n.drop(t, u)
}

// toDouble adds the upper and the lower 32 bits, each exact as float64.
func (n *lowering) toDouble(d, a y, join *Op, upper, sum int) {
	t, zero := n.fresh(), n.fresh()
	n.y(&PSRLQ, d, 0, a, 32)
	n.ym(join, d, d, constant(upper), 0)
	n.ym(&SUBPD, d, d, constant(sum), 0)
	n.ym(&LOADD, zero, 0, constant(cTwo52), 0)
	n.y(&yBLENDD, t, zero, a, 0x55)
	n.y(&ADDPD, d, d, t, 0)
	n.drop(t, zero)
}

// toInt64 goes lane by lane, through the table in memory.
func (n *lowering) toInt64(d, a y) {
	at := Mem{Base: area, Disp: areaTable}
	n.ym(&STORED, a, 0, at, 0)
	for lane := range int32(4) {
		m := Mem{Base: area, Disp: at.Disp + 8*lane}
		n.xm(&yCVTTSD2SI, uint8(one), 0, m, 0)
		n.Store(true, m, one)
	}
	n.ym(&LOADD, d, 0, at, 0)
}

// singles are float32 of whole numbers of 64 bits, lane by lane. One without sign that is too large
// is halved, with the bit that is lost put into the lowest, and doubled afterwards.
func (n *lowering) singles(s *step, d, lo, hi y) {
	at := Mem{Base: area, Disp: areaTable}
	big := [2]y{lo, hi}
	for h, r := range []y{lo, hi} {
		m := at
		m.Disp += 32 * int32(h)
		if s.op == &CVTUQQ2PS {
			r = n.halved(r)
			n.drop(r)
		}
		n.ym(&STORED, r, 0, m, 0)
	}
	t := n.fresh()
	n.y(&PXORD, t, t, t, 0)
	for lane := range int32(8) {
		n.xm(&yCVTSI2SS, d, t, Mem{Base: area, Disp: at.Disp + 8*lane}, 0)
		n.xm(&ySTORESS, d, 0, Mem{Base: area, Disp: at.Disp + 64 + 4*lane}, 0)
	}
	n.ym(&LOADD, d, 0, Mem{Base: area, Disp: at.Disp + 64}, 0)
	if s.op == &CVTUQQ2PS {
		n.y(&ySHUFPS, t, big[0], big[1], 0xdd) // the upper 32 bits of each
		n.y(&yPERMQ, t, 0, t, 0xd8)
		u := n.fresh()
		n.y(&ADDPS, u, d, d, 0)
		n.y(&yBLENDV, d, d, u, t<<4)
		n.drop(u)
	}
	n.drop(t)
}

// halved is a, or a half of it where it is 2^63 or more.
func (n *lowering) halved(a y) y {
	r, t := n.fresh(), n.fresh()
	n.y(&PSRLQ, r, 0, a, 1)
	n.y(&PSLLQ, t, 0, a, 63)
	n.y(&PSRLQ, t, 0, t, 63)
	n.y(&PORD, r, r, t, 0)
	n.y(&PXORD, t, t, t, 0)
	n.y(&yCMPGTQ, t, t, a, 0)
	n.y(&yBLENDV, r, a, r, t<<4)
	n.drop(t)
	return r
}

// table is any function of three bits: with F the one of b and c where a is 1, and G where it is 0,
// it is (F^G)&a ^ G.
func (n *lowering) table(s *step) {
	halves := 1
	if n.isWhole(s) {
		halves = 2
	}
	var a, b [2]y
	for h := range halves {
		a[h], b[h] = n.vector(s.d, h), n.vector(s.s, h)
	}
	c := n.operands(s, halves)
	f, g := s.arg.Imm>>4, s.arg.Imm&15
	out := make([]y, 0, 2)
	for h := range halves {
		d, z := n.fresh(), n.register(c[h])
		switch {
		case f == g:
			n.ofTwo(d, b[h], z, f)
		case f^g == 15:
			n.ofTwo(d, b[h], z, g)
			n.y(&PXORD, d, d, a[h], 0)
		case f == 15:
			n.ofTwo(d, b[h], z, g)
			n.y(&PORD, d, d, a[h], 0)
		case g == 0:
			n.ofTwo(d, b[h], z, f)
			n.y(&PANDD, d, d, a[h], 0)
		case f == 0:
			n.ofTwo(d, b[h], z, g)
			n.y(&yANDN, d, a[h], d, 0)
		default:
			t := n.fresh()
			n.ofTwo(d, b[h], z, f^g)
			n.ofTwo(t, b[h], z, g)
			n.y(&PANDD, d, d, a[h], 0)
			n.y(&PXORD, d, d, t, 0)
			n.drop(t)
		}
		out = append(out, d)
	}
	n.finish(s, out)
}

// ofTwo is a function of two bits, by its table, whose number is 2b+c.
func (n *lowering) ofTwo(d, b, c y, table uint8) {
	if table&1 != 0 { // of two zeros it is 1
		n.ofTwo(d, b, c, ^table&15)
		n.invert(d)
		return
	}
	switch table {
	case 0:
		n.y(&PXORD, d, d, d, 0)
	case 2:
		n.y(&yANDN, d, b, c, 0)
	case 4:
		n.y(&yANDN, d, c, b, 0)
	case 6:
		n.y(&PXORD, d, b, c, 0)
	case 8:
		n.y(&PANDD, d, b, c, 0)
	case 10:
		n.move(d, c)
	case 12:
		n.move(d, b)
	case 14:
		n.y(&PORD, d, b, c, 0)
	}
}
