package x86

import (
	"math"
	"math/bits"
)

// Narrow code: that for pairs where the processor has no AVX either, but SSE4.2. What pairs take for
// registers of 256 bits, sixteen of them, lies in memory, in the area: in the slot of the half of a vector or mask
// that the register has, or beside, if it has none. The registers that there are, of 128 bits, have some of it: as much as
// fits from one label or jump to the next, where memory has all of it again. So pairs load and store halves for nothing. Each instruction on 256 bits is two
// on 128 (narrow_ops.go), or several where SSE4.2 has none that does the same (narrow_more.go, narrow_lanes.go,
// narrow_fused.go). Nothing of it has a VEX prefix.

// part is half of a register of 256 bits: that of register r is 2r or 2r+1.
type part = uint8

// xmm is a register of 128 bits, 0 to 15. The first is scratch, for one instruction.
type xmm = uint8

const scratch xmm = 0

// sse is where the parts are.
type sse struct {
	at       [32]int8   // by part: the register that has it, or noReg
	own      [16]uint32 // by register: the parts that have what is in it
	dirty    uint32     // parts that memory does not have
	stored   uint32     // parts that memory has
	halves   *[16]int8  // by register of 256 bits: the half that it has
	held     uint16     // registers that the instruction being made uses
	used     [16]int32
	clock    int32
	aside    []func() // code off the way
	directed bool     // the rounding is one of those that may be done twice
}

func newSSE() *sse {
	n := &sse{halves: &atEntry.own}
	n.forget()
	return n
}

// MakeNarrow makes an empty Asm one for SSE4.2.
func (a *Asm) MakeNarrow() {
	a.MakePairs()
	a.sse = newSSE()
}

// home is where memory has a part.
func (n *sse) home(v part) Mem {
	at := int32(areaParts) + 16*int32(v)
	if half := n.halves[v>>1]; half != noHalf {
		at = slot(int(half)).Disp + 16*int32(v&1)
	}
	return Mem{Base: area, Disp: at}
}

// forget says that only memory has the parts, or nothing has.
func (n *sse) forget() {
	for v := range n.at {
		n.at[v] = noReg
	}
	n.own, n.dirty, n.held = [16]uint32{}, 0, 0
}

// drop says that nothing reads a part any more.
func (n *sse) drop(v part) {
	if r := n.at[v]; r != noReg {
		n.own[r] &^= 1 << v
		n.at[v] = noReg
	}
	n.dirty &^= 1 << v
	n.stored &^= 1 << v
}

// lazily says that memory has a register of 256 bits, where the half lies that it has from now on.
func (n *sse) lazily(r y) {
	n.drop(2 * r)
	n.drop(2*r + 1)
	n.stored |= 3 << (2 * r)
}

// keep drops all parts but those of a set of registers of 256 bits.
func (n *sse) keep(full uint16) {
	for r := range 16 {
		if full>>r&1 == 0 {
			n.drop(part(2 * r))
			n.drop(part(2*r + 1))
		}
	}
}

// reached says that memory has all parts of a set of registers of 256 bits, and nothing else has anything.
func (n *sse) reached(full uint16) {
	n.forget()
	n.stored = 0
	for m := full; m != 0; m &= m - 1 {
		n.stored |= 3 << (2 * bits.TrailingZeros16(m))
	}
}

// hold keeps a register for the instruction that is being made.
func (n *sse) hold(r xmm) xmm {
	n.clock++
	n.held |= 1 << r
	n.used[r] = n.clock
	return r
}

// free is a register that has nothing, or noReg.
func (n *sse) free() int8 {
	for r := 1; r < 16; r++ {
		if n.own[r] == 0 && n.held>>r&1 == 0 {
			return int8(r)
		}
	}
	return noReg
}

// take finds a register that has nothing, and holds it.
func (a *Asm) take() xmm {
	n := a.sse
	if r := n.free(); r != noReg {
		return n.hold(xmm(r))
	}
	best, oldest := 0, int32(math.MaxInt32)
	for r := 1; r < 16; r++ {
		if n.held>>r&1 == 0 && n.used[r] < oldest {
			best, oldest = r, n.used[r]
		}
	}
	if best == 0 {
		panic("x86: an instruction needs more registers than there are") // a bug of this package
	}
	a.evict(xmm(best))
	return n.hold(xmm(best))
}

// evict makes a register have nothing.
func (a *Asm) evict(r xmm) {
	n := a.sse
	for m := n.own[r]; m != 0; m &= m - 1 {
		v := part(bits.TrailingZeros32(m))
		a.settle(v)
		n.at[v] = noReg
	}
	n.own[r] = 0
}

// settle makes memory have a part.
func (a *Asm) settle(v part) {
	if n := a.sse; n.dirty>>v&1 != 0 {
		a.om(&oSTORE, xmm(n.at[v]), n.home(v))
		n.dirty &^= 1 << v
		n.stored |= 1 << v
	}
}

// settleAll makes memory have all parts. It changes no flags.
func (a *Asm) settleAll() {
	if a.sse == nil {
		return
	}
	for m := a.sse.dirty; m != 0; m &= m - 1 {
		a.settle(part(bits.TrailingZeros32(m)))
	}
}

// have is a register, held, that has a part.
func (a *Asm) have(v part) xmm {
	n := a.sse
	if r := n.at[v]; r != noReg {
		return n.hold(xmm(r))
	}
	r := a.take()
	if n.stored>>v&1 != 0 { // else it is anything
		a.om(&oLOAD, r, n.home(v))
	}
	n.at[v], n.own[r] = int8(r), 1<<v
	return r
}

// bind makes a held register have a part, beside those that it has.
func (a *Asm) bind(v part, r xmm) {
	n := a.sse
	if old := n.at[v]; old != noReg {
		n.own[old] &^= 1 << v
	}
	n.at[v] = int8(r)
	n.own[r] |= 1 << v
	n.dirty |= 1 << v
	n.stored &^= 1 << v
}

// moves makes a register of 256 bits ready to have another half: memory has it elsewhere then.
func (a *Asm) moves(r y) {
	n := a.sse
	for v := 2 * r; v < 2*r+2; v++ {
		if n.at[v] == noReg && n.stored>>v&1 != 0 {
			a.have(v)
		}
		if n.at[v] != noReg {
			n.dirty |= 1 << v
			n.stored &^= 1 << v
		}
	}
	n.held = 0
}

// isOnly reports whether a register has a part and no other.
func (n *sse) isOnly(r xmm, v part) bool { return n.own[r] == 1<<v }

// copied is a register, held, with what a part has, that becomes another part: nothing else has it.
func (a *Asm) copied(to, from part) xmm {
	n := a.sse
	r := n.at[from]
	if r != noReg && to == from && n.isOnly(xmm(r), to) {
		return n.hold(xmm(r))
	}
	if r == noReg {
		d := a.take()
		if n.stored>>from&1 != 0 {
			a.om(&oLOAD, d, n.home(from))
		}
		return d
	}
	s := n.hold(xmm(r))
	d := a.take()
	a.oo(&oMOVE, d, s)
	return d
}

// written is a register, held, for a part that is written without a look at what it was.
func (a *Asm) written(v part) xmm {
	n := a.sse
	if r := n.at[v]; r != noReg && n.held>>uint8(r)&1 == 0 && n.isOnly(xmm(r), v) {
		return n.hold(xmm(r))
	}
	return a.take()
}

// Legacy encodings. The Op's table, prefix and code are those of the form with a VEX prefix.

var (
	oMOVE   = Op{Name: "movaps", table: 1, code: 0x28}
	oLOAD   = Op{Name: "movaps", table: 1, code: 0x28}
	oSTORE  = Op{Name: "movaps", table: 1, code: 0x29}
	oLOADU  = Op{Name: "movups", table: 1, code: 0x10}
	oSTOREU = Op{Name: "movups", table: 1, code: 0x11}
)

// oPrefix writes what comes before ModRM: the prefix that belongs to the code, REX, and the code.
func (a *Asm) oPrefix(op *Op, wide bool, r, x, b uint8) {
	if op.prefix != 0 {
		a.bytes([...]byte{0, 0x66, 0xf3, 0xf2}[op.prefix])
	}
	p := byte(0x40) | r>>3<<2 | x>>3<<1 | b>>3
	if wide {
		p |= 8
	}
	if p != 0x40 {
		a.bytes(p)
	}
	switch op.table {
	case 1:
		a.bytes(0x0f, op.code)
	case 2:
		a.bytes(0x0f, 0x38, op.code)
	default:
		a.bytes(0x0f, 0x3a, op.code)
	}
}

// oo is op d, s; om is op d, [m].
func (a *Asm) oo(op *Op, d, s uint8) {
	a.oPrefix(op, false, d, 0, s)
	a.modReg(d, s)
}

func (a *Asm) om(op *Op, d uint8, m Mem) {
	a.oPrefix(op, false, d, 0, uint8(m.Base))
	a.modMem(d, m, 1)
}

// oi is op d, s, imm.
func (a *Asm) oi(op *Op, d, s, imm uint8) {
	a.oo(op, d, s)
	a.bytes(imm)
}

// general is oo where one of the two is a general register of 64 bits, if wide, or 32.
func (a *Asm) oGeneral(op *Op, wide bool, d, s uint8) {
	a.oPrefix(op, wide, d, 0, s)
	a.modReg(d, s)
}

func (a *Asm) omGeneral(op *Op, wide bool, d uint8, m Mem) {
	a.oPrefix(op, wide, d, 0, uint8(m.Base))
	a.modMem(d, m, 1)
}

// shiftBy is a shift of a register by a constant.
func (a *Asm) shiftBy(op *Op, d xmm, by uint8) {
	a.oPrefix(op, false, 0, 0, d)
	a.modReg(op.digit, d)
	a.bytes(by)
}

// Jumps inside an instruction, at which nothing moves.

func (a *Asm) bindHere(l Label) { a.labels[l] = int32(a.n) }

func (a *Asm) jumpNear(l Label) {
	a.bytes(0xe9)
	a.jumpTo(l)
}

func (a *Asm) jumpNearIf(c Cond, l Label) {
	a.bytes(0x0f, 0x80|byte(c))
	a.jumpTo(l)
}

// scaled is lea d, [s<<shift], 64 bits, which leaves the flags.
func (a *Asm) scaled(d, s R, shift uint8) {
	a.bytes(0x48|byte(d)>>3<<2|byte(s)>>3<<1, 0x8d, byte(d)&7<<3|4, shift<<6|byte(s)&7<<3|5)
	a.imm32(0)
}

// turn is what rotate does to a number that has no bits where it would lose them.
func (a *Asm) turn(d, s R, n uint8) {
	for left := 32 - n; left > 0; s = d {
		by := min(left, 3)
		a.scaled(d, s, by)
		left -= by
	}
}
