package x86

// Alu is an operation of two operands on general registers; its value is the
// opcode of the form register, memory.
type Alu uint8

const (
	ADD Alu = 0x03
	OR  Alu = 0x0b
	AND Alu = 0x23
	SUB Alu = 0x2b
	XOR Alu = 0x33
	CMP Alu = 0x3b
	MOV Alu = 0x8b
	// TEST has no form with memory.
	TEST Alu = 0x85
)

// Cond is a condition of a jump.
type Cond uint8

const (
	Overflow   Cond = 0 // signed
	Below      Cond = 2 // unsigned <
	AboveEqual Cond = 3
	Equal      Cond = 4
	NotEqual   Cond = 5
	Above      Cond = 7
	Negative   Cond = 8
	Less       Cond = 12 // signed <
	LessEqual  Cond = 14
	Greater    Cond = 15
)

func (a *Asm) rex(wide bool, reg, base R) {
	p := byte(0x40) | byte(reg)>>3<<2 | byte(base)>>3
	if wide {
		p |= 8
	}
	if p != 0x40 {
		a.bytes(p)
	}
}

// RR is op d, s on 32 bits, which clears the upper half of d, or on 64.
func (a *Asm) RR(op Alu, wide bool, d, s R) {
	a.rex(wide, d, s)
	a.bytes(byte(op))
	a.modReg(uint8(d), uint8(s))
}

// RM is op d, [m].
func (a *Asm) RM(op Alu, wide bool, d R, m Mem) {
	a.rex(wide, d, m.Base)
	a.bytes(byte(op))
	a.modMem(uint8(d), m, 1)
}

// Store is mov [m], s.
func (a *Asm) Store(wide bool, m Mem, s R) {
	a.rex(wide, s, m.Base)
	a.bytes(0x89)
	a.modMem(uint8(s), m, 1)
}

// RI is op d, x; not for TEST.
func (a *Asm) RI(op Alu, wide bool, d R, x int32) {
	a.rex(wide, 0, d)
	if op == MOV {
		a.bytes(0xc7)
		a.modReg(0, uint8(d))
	} else {
		a.bytes(0x81)
		a.modReg(uint8(op)>>3, uint8(d))
	}
	a.imm32(x)
}

// MI is op dword or qword [m], x; not for TEST.
func (a *Asm) MI(op Alu, wide bool, m Mem, x int32) {
	a.rex(wide, 0, m.Base)
	if op == MOV {
		a.bytes(0xc7)
		a.modMem(0, m, 1)
	} else {
		a.bytes(0x81)
		a.modMem(uint8(op)>>3, m, 1)
	}
	a.imm32(x)
}

// Imm64 is mov d, x.
func (a *Asm) Imm64(d R, x uint64) {
	a.rex(true, 0, d)
	a.bytes(0xb8 | byte(d)&7)
	a.imm32(int32(x))
	a.imm32(int32(x >> 32))
}

// Not is not d, 32 bits.
func (a *Asm) Not(d R) {
	a.rex(false, 0, d)
	a.bytes(0xf7)
	a.modReg(2, uint8(d))
}

// ShiftByCL is shr d, cl on 64 bits.
func (a *Asm) ShiftByCL(d R) {
	a.rex(true, 0, d)
	a.bytes(0xd3)
	a.modReg(5, uint8(d))
}

// SignExtend is movsxd d, s: 64 bits from 32.
func (a *Asm) SignExtend(d, s R) {
	a.rex(true, d, s)
	a.bytes(0x63)
	a.modReg(uint8(d), uint8(s))
}

// Words writes down numbers that code reads. They must not be reached.
func (a *Asm) Words(list []int32) {
	for _, x := range list {
		a.imm32(x)
	}
	a.goesNowhere()
}

// Jump goes to a label, JumpIf on a condition; JumpMem goes to the address in memory.

func (a *Asm) Jump(l Label) {
	if a.pairs != nil {
		a.remember(step{kind: kJump, label: l})
		return
	}
	a.settleAll()
	a.bytes(0xe9)
	a.jumpTo(l)
}

func (a *Asm) JumpIf(c Cond, l Label) {
	if a.pairs != nil {
		a.remember(step{kind: kJumpIf, cond: c, label: l})
		return
	}
	a.settleAll()
	a.bytes(0x0f, 0x80|byte(c))
	a.jumpTo(l)
}

// Address is lea d, [l].
func (a *Asm) Address(d R, l Label) {
	if a.pairs != nil {
		a.remember(step{kind: kAddress, d: uint8(d), label: l})
		return
	}
	a.rex(true, d, 0)
	a.bytes(0x8d, byte(d)&7<<3|5)
	a.jumpTo(l)
}

func (a *Asm) JumpMem(m Mem) {
	a.rex(false, 0, m.Base)
	a.bytes(0xff)
	a.modMem(4, m, 1)
	a.goesNowhere()
}

// Return is vzeroupper, where there are vectors that have an upper part, and ret.
func (a *Asm) Return() {
	if a.sse == nil {
		a.bytes(0xc5, 0xf8, 0x77)
	}
	a.bytes(0xc3)
	a.goesNowhere()
}
