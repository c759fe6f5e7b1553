package x86

// What atomic operations take, lane by lane: on general registers and on words in memory.

// Place is a memory operand with an index: [Base+Index<<Shift+Disp]. RSP as the index stands for none.
type Place struct {
	Base, Index R
	Shift       uint8
	Disp        int32
}

func (a *Asm) place(code uint16, wide bool, r R, p Place) {
	a.index(code, wide, r, p.Base, p.Index, p.Shift, p.Disp)
}

// RP is op d, [p], as RM; StoreTo is mov [p], s.
func (a *Asm) RP(op Alu, wide bool, d R, p Place) { a.place(uint16(op), wide, d, p) }
func (a *Asm) StoreTo(wide bool, p Place, s R)    { a.place(0x89, wide, s, p) }

// Lea is lea d, [p].
func (a *Asm) Lea(d R, p Place) { a.place(0x8d, true, d, p) }

// StorePart is mov [m], s of 1 or 2 bytes.
func (a *Asm) StorePart(bytes int, m Mem, s R) {
	code := byte(0x88)
	if bytes == 2 {
		a.bytes(0x66)
		code = 0x89
	}
	a.rexByte(s, m.Base)
	a.bytes(code)
	a.modMem(uint8(s), m, 1)
}

// Copy copies 16 bytes by two of LOADX and its like, with a vector register that it changes.
func (a *Asm) Copy(load, store *Op, to, from Mem, t Z) {
	if a.pairs != nil {
		a.remember(step{kind: kCopy, op: load, with: store, m: from, s: uint8(to.Base), from: to.Disp})
		return
	}
	a.vm(load, t, 0, from, Arg{}, false)
	a.vm(store, t, 0, to, Arg{}, false)
}

// MoveIf is cmov d, [p] on a condition.
func (a *Asm) MoveIf(c Cond, wide bool, d R, p Place) { a.place(0x0f40|uint16(c), wide, d, p) }

// toMemory is an instruction that changes [m], in one step towards all processors if lock is set.
func (a *Asm) toMemory(lock, wide bool, m Mem, s R, code ...byte) {
	if lock {
		a.bytes(0xf0)
	}
	a.rex(wide, s, m.Base)
	a.bytes(code...)
	a.modMem(uint8(s), m, 1)
}

// ToMemory is op [m], s; not for MOV, CMP and TEST.
func (a *Asm) ToMemory(op Alu, lock, wide bool, m Mem, s R) {
	a.toMemory(lock, wide, m, s, byte(op)&^2)
}

// ExchangeAdd is xadd [m], s; Exchange is xchg [m], s, which is always locked. Both leave the old value in s.
func (a *Asm) ExchangeAdd(lock, wide bool, m Mem, s R) { a.toMemory(lock, wide, m, s, 0x0f, 0xc1) }
func (a *Asm) Exchange(wide bool, m Mem, s R)          { a.toMemory(false, wide, m, s, 0x87) }

// Prefetch is prefetcht0 [m], which never faults.
func (a *Asm) Prefetch(m Mem) { a.toMemory(false, false, m, 1, 0x0f, 0x18) }

// CompareExchange is cmpxchg [m], s: it writes s where rax is the old value, which it leaves in rax.
func (a *Asm) CompareExchange(lock, wide bool, m Mem, s R) {
	a.toMemory(lock, wide, m, s, 0x0f, 0xb1)
}

// FirstBit is tzcnt d, s on 32 bits; DropBit is blsr d, s, which sets the flags.
func (a *Asm) FirstBit(d, s R) {
	if a.sse == nil { // else it is bsf, which does the same for what is not zero
		a.bytes(0xf3)
	}
	a.rexByte(d, s)
	a.bytes(0x0f, 0xbc)
	a.modReg(uint8(d), uint8(s))
}

// CountBits is popcnt d, s on 32 bits.
func (a *Asm) CountBits(d, s R) {
	a.bytes(0xf3)
	a.rexByte(d, s)
	a.bytes(0x0f, 0xb8)
	a.modReg(uint8(d), uint8(s))
}

var yBLSR = Op{Name: "blsr", table: 2, code: 0xf3}

func (a *Asm) DropBit(d, s R) {
	if a.sse != nil {
		saved := Mem{Base: area, Disp: areaDropped}
		a.Store(true, saved, s)
		a.RR(MOV, false, d, s)
		a.RI(SUB, false, d, 1)
		a.RM(AND, false, d, saved)
		return
	}
	a.vexPrefix(&yBLSR, 0, 0, uint8(s)>>3, uint8(d), false)
	a.modReg(1, uint8(s))
}
