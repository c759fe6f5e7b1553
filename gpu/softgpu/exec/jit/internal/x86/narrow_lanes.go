package x86

// Gathers, and loads and stores of some lanes. Where all lanes are there, which is what happens most, they go
// without a look at each; where some are not, those are not accessed. The bits of the mask are in r14, and r15
// has the number of a lane's place: these change flags.

var (
	oINSERT  = Op{Name: "pinsrd", table: 3, prefix: 1, code: 0x22, imm: true}
	oEXTRACT = Op{Name: "pextrd", table: 3, prefix: 1, code: 0x16, imm: true}
)

// lane is one of up to eight, in two registers.
type laneOf struct {
	reg   xmm
	index uint8 // in it
	bit   uint8
	off   int32 // in memory, where lanes follow one another
}

// lanesIn are the lanes of registers, of 32 bits or of 64.
func lanesIn(regs []xmm, wide bool) (list []laneOf) {
	each, size := uint8(4), int32(4)
	if wide {
		each, size = 2, 8
	}
	for _, r := range regs {
		for i := range each {
			n := int32(len(list))
			list = append(list, laneOf{reg: r, index: i, bit: 1 << n, off: size * n})
		}
	}
	return list
}

// lanesWhere makes code for all lanes, and other code, off the way, lane by lane for those that the mask in r14 has.
func (a *Asm) lanesWhere(lanes []laneOf, all, before func(), each func(l laneOf)) {
	some, done := a.NewLabel(), a.NewLabel()
	a.RI(CMP, false, one, int32(1)<<len(lanes)-1)
	a.jumpNearIf(NotEqual, some)
	all()
	a.bindHere(done)
	a.sse.aside = append(a.sse.aside, func() {
		a.bindHere(some)
		before()
		for _, l := range lanes {
			a.testBits(one, l.bit)
			a.bytes(0x74, 0) // je, over a byte's distance
			from := a.n
			each(l)
			a.buf[from-1] = byte(a.n - from)
		}
		a.jumpNear(done)
	})
}

// testBits is test r, x on 8 bits, of the registers from r8 on.
func (a *Asm) testBits(r R, x uint8) {
	a.rex(false, 0, r)
	a.bytes(0xf6)
	a.modReg(0, uint8(r))
	a.bytes(x)
}

// parts are both parts of a register, or the lower one, held.
func (a *Asm) parts(r y, n int) (list []xmm) {
	for h := range n {
		list = append(list, a.have(2*r+part(h)))
	}
	return list
}

// maskBits has the bits of a mask of lanes of 32 bits or of 64 in r14.
func (a *Asm) maskBits(mask y, wide bool, halves int) {
	m := a.parts(mask, halves)
	switch {
	case halves == 1:
		a.oGeneral(&yMASKD, false, uint8(one), m[0])
	case wide:
		a.signs(&yMASKQ, one, m[0], m[1])
	default:
		a.signs(&yMASKD, one, m[0], m[1])
	}
}

// narrowMaskedLoad loads the lanes that a mask has; the others become zero.
func narrowMaskedLoad(a *Asm, i *narrowed) {
	wide := i.op == &yMASKLOADQ
	a.maskBits(i.s, wide, 2)
	a.sse.held = 0
	d := []xmm{a.take(), a.take()}
	a.lanesWhere(lanesIn(d, wide), func() {
		for h, r := range d {
			m := i.m
			m.Disp += 16 * int32(h)
			a.om(&oLOADU, r, m)
		}
	}, func() {
		for _, r := range d {
			a.oo(&PXORD, r, r)
		}
	}, func(l laneOf) {
		m := i.m
		m.Disp += l.off
		a.omGeneral(&oINSERT, wide, l.reg, m)
		a.bytes(l.index)
	})
	a.bind(2*i.d, d[0])
	a.bind(2*i.d+1, d[1])
}

// narrowMaskedStore stores the lanes that a mask has.
func narrowMaskedStore(a *Asm, i *narrowed) {
	wide := i.op == &yMASKSTOREQ
	a.maskBits(i.s, wide, 2)
	a.sse.held = 0
	d := a.parts(i.d, 2)
	a.lanesWhere(lanesIn(d, wide), func() {
		for h, r := range d {
			m := i.m
			m.Disp += 16 * int32(h)
			a.om(&oSTOREU, r, m)
		}
	}, func() {}, func(l laneOf) {
		m := i.m
		m.Disp += l.off
		a.omGeneral(&oEXTRACT, wide, l.reg, m)
		a.bytes(l.index)
	})
}

// narrowGather is yLanes.
func (a *Asm) narrowGather(op *Op, d y, base R, index y, disp int32, mask y) {
	wordIndex, wide := op.code&1 == 0, op.wide
	halves := 2
	if !wide && !wordIndex {
		halves = 1
	}
	a.maskBits(mask, wide, halves)
	a.sse.held = 0
	for h := range part(2) {
		a.settle(2*index + h)
	}
	var out []xmm
	for h := range halves {
		out = append(out, a.copied(2*d+part(h), 2*d+part(h)))
	}
	indices := a.sse.home(2 * index)
	lane := func(l laneOf) {
		n := l.off / 4
		if wide {
			n = l.off / 8
		}
		at := indices
		if wordIndex {
			at.Disp += 4 * n
			a.rex(true, other, at.Base)
			a.bytes(0x63) // movsxd
			a.modMem(uint8(other), at, 1)
		} else {
			at.Disp += 8 * n
			a.RM(MOV, true, other, at)
		}
		a.insert(wide, l.reg, base, other, disp, l.index)
	}
	lanes := lanesIn(out, wide)
	a.lanesWhere(lanes, func() {
		for _, l := range lanes {
			lane(l)
		}
	}, func() {}, lane)
	for h, r := range out {
		a.bind(2*d+part(h), r)
	}
	a.sse.held = 0
}

// insert loads [base+index+disp] into a lane.
func (a *Asm) insert(wide bool, d xmm, base, index R, disp int32, lane uint8) {
	a.oPrefix(&oINSERT, wide, d, uint8(index), uint8(base))
	a.bytes(2<<6|d&7<<3|4, uint8(index)&7<<3|uint8(base)&7)
	a.imm32(disp)
	a.bytes(lane)
}
