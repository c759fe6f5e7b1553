package x86

// A product and a sum that are rounded once. Of float32, the product is exact as float64, and so the sum in float64
// is rounded twice: that is wrong only where the sum is half way between two float32, which its lower bits
// tell, or where the result is subnormal. There, off the way, the sum is rounded to odd (its error, which
// is exact, says where it is not), and what is rounded then has all that the second rounding needs. Rounding
// other than to nearest may be done twice.

// narrowFused is d = s*r + d, or s*d + r, with signs. Of float64, the product must be exact: what uses it has
// operands that were float32.
func narrowFused(a *Asm, i *narrowed) {
	mul := i.op.code&0xf0 == 0xa0 // d is multiplied
	for h := range i.parts {
		last, own, s := a.rightIn(i, h), a.have(2*i.d+part(h)), a.have(2*i.s+part(h))
		f := fused{a: s, b: last, c: own}
		if mul {
			f.b, f.c = own, last
		}
		f.d = a.take()
		if i.op.wide {
			a.fusedDouble(i, f)
		} else {
			f.t, f.u = a.take(), a.take()
			a.fusedSingle(i, f)
		}
		a.bind(2*i.d+part(h), f.d)
		a.sse.held = 0
	}
}

// fused is d = a*b + c; t and u are free.
type fused struct{ a, b, c, d, t, u xmm }

func (a *Asm) fusedDouble(i *narrowed, f fused) {
	a.oo(&oMOVE, f.d, f.a)
	a.oo(&MULPD, f.d, f.b)
	if i.op.negative[0] {
		a.om(&PXORD, f.d, constant(cSign64))
	}
	if i.op.negative[1] {
		a.oo(&SUBPD, f.d, f.c)
	} else {
		a.oo(&ADDPD, f.d, f.c)
	}
}

// doubles are lanes 0 and 1, or 2 and 3, as float64.
func (a *Asm) doubles(d, s xmm, pair int) {
	if pair == 0 {
		a.oo(&CVTPS2PD, d, s)
		return
	}
	a.oi(&PSHUFD, d, s, 0xee)
	a.oo(&CVTPS2PD, d, d)
}

// productAndAddend are those of a pair of lanes, in d and t. Scratch is used.
func (a *Asm) productAndAddend(i *narrowed, f fused, d, t xmm, pair int) {
	a.doubles(d, f.a, pair)
	a.doubles(scratch, f.b, pair)
	a.oo(&MULPD, d, scratch)
	a.doubles(t, f.c, pair)
	if i.op.negative[0] {
		a.om(&PXORD, d, constant(cSign64))
	}
	if i.op.negative[1] {
		a.om(&PXORD, t, constant(cSign64))
	}
}

// oLOWER is d with the lower lane of s as its upper one.
var oLOWER = Op{Name: "movlhps", table: 1, code: 0x16}

func (a *Asm) fusedSingle(i *narrowed, f fused) {
	a.productAndAddend(i, f, f.t, f.d, 0)
	a.oo(&ADDPD, f.t, f.d)
	a.productAndAddend(i, f, f.u, f.d, 1)
	a.oo(&ADDPD, f.u, f.d)
	a.oo(&CVTPD2PS, f.d, f.t)
	a.oo(&CVTPD2PS, scratch, f.u)
	a.oo(&oLOWER, f.d, scratch)
	if a.sse.directed {
		return
	}
	a.oi(&ySHUFPS, f.t, f.u, 0x88) // the lower bits
	a.shiftBy(&PSLLD, f.t, 3)
	a.om(&yCMPEQD, f.t, constant(cSign32))
	// Results up to 2^-126, but for zero.
	a.oo(&oMOVE, f.u, f.d)
	a.oo(&PADDD, f.u, f.u)
	a.oo(&yCMPEQD, scratch, scratch)
	a.oo(&PADDD, f.u, scratch)
	a.oo(&oMOVE, scratch, f.u)
	a.om(&PMINUD, scratch, constant(cTiny))
	a.oo(&yCMPEQD, scratch, f.u)
	a.oo(&PORD, f.t, scratch)
	a.oo(&yTEST, f.t, f.t)
	odd, done := a.NewLabel(), a.NewLabel()
	a.jumpNearIf(NotEqual, odd)
	a.bindHere(done)
	step := *i
	a.sse.aside = append(a.sse.aside, func() {
		a.bindHere(odd)
		a.fusedOdd(&step, f)
		a.jumpNear(done)
	})
}

// fusedOdd goes by a sum that is rounded to odd.
func (a *Asm) fusedOdd(i *narrowed, f fused) {
	save := tableAt(96)
	free := xmm(1)
	for free == f.a || free == f.b || free == f.c || free == f.d || free == f.t || free == f.u {
		free++
	}
	a.om(&oSTOREU, free, save)
	for pair := range 2 {
		p, c, s, v := f.t, f.u, f.d, free
		a.productAndAddend(i, f, p, c, pair)
		a.oo(&oMOVE, s, p)
		a.oo(&ADDPD, s, c)
		// The error of the sum: p - (s-v) + (c-v), where v is s-p.
		a.oo(&oMOVE, v, s)
		a.oo(&SUBPD, v, p)
		a.oo(&oMOVE, scratch, s)
		a.oo(&SUBPD, scratch, v)
		a.oo(&SUBPD, p, scratch)
		a.oo(&SUBPD, c, v)
		a.oo(&ADDPD, p, c)
		// Where there is one: a number next to s, towards zero if the error has the other sign; and odd.
		a.oo(&PXORD, c, c)
		a.oi(&CMPPD, c, p, 4)
		a.oo(&oMOVE, v, p)
		a.oi(&CMPPD, v, v, 7)
		a.oo(&PANDD, c, v)
		a.oo(&PXORD, p, s)
		a.shiftBy(&PSRAD, p, 31)
		a.oi(&PSHUFD, p, p, 0xf5)
		a.oo(&PANDD, p, c)
		a.oo(&PADDQ, s, p)
		a.shiftBy(&PSRLQ, c, 63)
		a.oo(&PORD, s, c)
		a.om(&oSTOREU, s, tableAt(64+16*int32(pair)))
	}
	a.om(&CVTPD2PS, f.d, tableAt(64))
	a.om(&CVTPD2PS, f.t, tableAt(80))
	a.oo(&oLOWER, f.d, f.t)
	a.om(&oLOADU, free, save)
}
