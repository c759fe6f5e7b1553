// Package x86 assembles the few amd64 instructions that kernels are compiled to:
// AVX-512 on whole vectors, mask registers, and a little of the rest. It knows
// encodings and labels, nothing of kernels. After MakePairs, it makes code for AVX2 of
// the same calls (pairs.go).
//
// An Asm belongs to one goroutine.
package x86

import (
	"encoding/binary"
	"math"
)

// Z is a vector register, 0 to 31; K a mask register, 0 to 7, where K0 as the
// mask of an operation stands for all lanes; R a general register.
type (
	Z uint8
	K uint8
	R uint8
)

const (
	RAX R = iota
	RCX
	RDX
	RBX
	RSP
	RBP
	RSI
	RDI
	R8
	R9
	R10
	R11
	R12
	R13
	R14
	R15
)

// Mem is a memory operand: [Base+Disp].
type Mem struct {
	Base R
	Disp int32
}

// Label is a place in the code, made by NewLabel and put by Bind.
type Label int32

// Asm is code that is being made.
type Asm struct {
	buf    []byte
	n      int     // bytes of buf that are code
	labels []int32 // offset in the code; -1: not yet
	fixups []fixup
	pairs  *pairs // where the processor has no AVX-512
	sse    *sse   // where it has no AVX2 either
}

type fixup struct {
	at    int32 // of 4 bytes, relative to their end
	label Label
}

// longest is at least the size of an instruction, in bytes.
const longest = 16

// Grow makes room for n more bytes.
func (a *Asm) Grow(n int) {
	if len(a.buf)-a.n < n {
		a.buf = append(make([]byte, 0, 2*len(a.buf)+n), a.buf...)
		a.buf = a.buf[:cap(a.buf)]
	}
}

// Code is the code so far.
func (a *Asm) Code() []byte { return a.buf[:a.n] }

// Len is about how many bytes of code there are; exactly, once it is resolved.
func (a *Asm) Len() int {
	if a.pairs != nil {
		return a.n + 2*longest*len(a.pairs.steps)
	}
	return a.n
}

// NewLabel makes a label that stands nowhere yet.
func (a *Asm) NewLabel() Label {
	a.labels = append(a.labels, -1)
	return Label(len(a.labels) - 1)
}

// Bind puts a label here.
func (a *Asm) Bind(l Label) {
	if a.pairs != nil {
		a.remember(step{kind: kBind, label: l})
		return
	}
	if a.sse != nil {
		a.settleAll()
		a.sse.forget()
	}
	a.labels[l] = int32(a.n)
}

// Offset is where a label stands, in bytes from the start of the code.
func (a *Asm) Offset(l Label) int { return int(a.labels[l]) }

// Resolve fills in the jumps. It reports false if a label stands nowhere, or if there is too much code
// for pairs.
func (a *Asm) Resolve() bool {
	if a.pairs != nil && !a.lower() {
		return false
	}
	for _, f := range a.fixups {
		to := a.labels[f.label]
		if to < 0 {
			return false
		}
		binary.LittleEndian.PutUint32(a.buf[f.at:], uint32(to-f.at-4))
	}
	a.fixups = a.fixups[:0]
	return true
}

func (a *Asm) bytes(b ...byte) {
	a.Grow(longest)
	for i, x := range b {
		a.buf[a.n+i] = x
	}
	a.n += len(b)
}

// word writes the first bytes of x, n of them.
func (a *Asm) word(x uint64, n int) {
	a.Grow(longest)
	binary.LittleEndian.PutUint64(a.buf[a.n:], x)
	a.n += n
}

func (a *Asm) imm32(x int32) {
	a.Grow(longest)
	binary.LittleEndian.PutUint32(a.buf[a.n:], uint32(x))
	a.n += 4
}

func (a *Asm) jumpTo(l Label) {
	a.fixups = append(a.fixups, fixup{int32(a.n), l})
	a.imm32(0)
}

// modMem writes ModRM, SIB and displacement of a memory operand. Unit is the
// scale of a displacement of one byte; 0: none is used.
func (a *Asm) modMem(reg uint8, m Mem, unit int32) {
	mod, short := uint8(2), false
	if unit > 0 && m.Disp%unit == 0 && m.Disp/unit >= math.MinInt8 && m.Disp/unit <= math.MaxInt8 {
		mod, short = 1, true
	}
	x, n := uint64(mod<<6|reg&7<<3|uint8(m.Base)&7), 1
	if m.Base&7 == RSP {
		x, n = x|0x24<<8, 2
	}
	if short {
		a.word(x|uint64(byte(int8(m.Disp/unit)))<<(8*n), n+1)
		return
	}
	a.word(x|uint64(uint32(m.Disp))<<(8*n), n+4)
}

// modReg writes ModRM of two registers.
func (a *Asm) modReg(reg, rm uint8) { a.word(uint64(3<<6|reg&7<<3|rm&7), 1) }

// invert gives bit n of x at bit `at`, inverted.
func invert(x uint8, n, at uint) byte { return (^x >> n & 1) << at }

// rounding modes of an operation, in place of that of MXCSR; without exceptions.
type Round uint8

const (
	AsSet Round = iota // as MXCSR says
	Nearest
	Down
	Up
	Truncate
)

// Arg is what an instruction does with its vectors, beside the registers.
type Arg struct {
	Mask  K    // lanes to write; the others keep what they had
	Zero  bool // the others become zero
	Round Round
	Imm   uint8
}

func (a *Asm) evex(op *Op, reg, v, b3, x4 uint8, arg Arg, broadcast bool) {
	if a.sse != nil {
		panic("x86: " + op.Name + " has no form without an EVEX prefix") // a bug of who uses it
	}
	p := 0x62
	length := byte(2)
	if op.width != 0 {
		length = op.width - 1
	}
	third := byte(0)
	if arg.Zero {
		third |= 1 << 7
	}
	if arg.Round != AsSet {
		length = byte(arg.Round - Nearest)
		broadcast = true // the same bit
	}
	if broadcast {
		third |= 1 << 4
	}
	third |= length<<5 | invert(v, 4, 3) | byte(arg.Mask)
	wide := byte(0)
	if op.wide {
		wide = 1 << 7
	}
	a.bytes(byte(p), invert(reg, 3, 7)|invert(x4, 0, 6)|invert(b3, 0, 5)|invert(reg, 4, 4)|op.table,
		wide|(^v&15)<<3|1<<2|op.prefix, third, op.code)
}

// mustBe refuses an operation on what is no vector register: an encoding would take it for another one.
func mustBe(op *Op, all Z) {
	if all >= zRegs {
		panic("x86: " + op.Name + " of no vector register") // a bug of who uses it
	}
}

// zRegs is how many vector registers there are.
const zRegs = 32

// V is op d, s, r: registers only. Operations of one source take s as 0.
func (a *Asm) V(op *Op, d, s, r Z, arg Arg) {
	mustBe(op, d|s|r)
	if a.pairs != nil {
		a.remember(step{kind: kV, op: op, d: uint8(d), s: uint8(s), r: uint8(r), arg: arg})
		return
	}
	reg, v := uint8(d), uint8(s)
	if op.digit != 0 {
		reg, v = op.digit, uint8(d)
	}
	a.evex(op, reg, v, uint8(r)>>3&1, uint8(r)>>4&1, arg, false)
	a.modReg(reg, uint8(r))
	if op.imm {
		a.bytes(arg.Imm)
	}
}

// VM is op d, s, [m].
func (a *Asm) VM(op *Op, d, s Z, m Mem, arg Arg) { a.vm(op, d, s, m, arg, false) }

// VB is op d, s, [m] with one element of memory for all lanes.
func (a *Asm) VB(op *Op, d, s Z, m Mem, arg Arg) { a.vm(op, d, s, m, arg, true) }

func (a *Asm) vm(op *Op, d, s Z, m Mem, arg Arg, broadcast bool) {
	mustBe(op, d|s)
	if a.pairs != nil {
		a.remember(step{kind: memoryKind(broadcast), op: op, d: uint8(d), s: uint8(s), m: m, arg: arg})
		return
	}
	unit := int32(op.memory)
	if broadcast {
		unit = 4
		if op.wide {
			unit = 8
		}
	}
	reg, v := uint8(d), uint8(s)
	if op.digit != 0 {
		reg, v = op.digit, uint8(d)
	}
	a.evex(op, reg, v, uint8(m.Base)>>3, 0, arg, broadcast)
	a.modMem(reg, m, unit)
	if op.imm {
		a.bytes(arg.Imm)
	}
}

// VK is a comparison or test, whose result is a mask; arg.Mask says which lanes may
// be in it.
func (a *Asm) VK(op *Op, d K, s, r Z, arg Arg) { a.V(op, Z(d), s, r, arg) }

// VKB is VK with one element of memory for all lanes, VKM with a vector.
func (a *Asm) VKB(op *Op, d K, s Z, m Mem, arg Arg) { a.vm(op, Z(d), s, m, arg, true) }
func (a *Asm) VKM(op *Op, d K, s Z, m Mem, arg Arg) { a.vm(op, Z(d), s, m, arg, false) }

// ToGP moves the first element of a vector to a general register; FromGP gives
// all lanes its value.
func (a *Asm) ToGP(op *Op, d R, s Z) {
	mustBe(op, s)
	if a.pairs != nil {
		a.remember(step{kind: kToGP, op: op, d: uint8(d), s: uint8(s)})
		return
	}
	a.evex(op, uint8(s), 0, uint8(d)>>3, 0, Arg{}, false)
	a.modReg(uint8(s), uint8(d))
}

func (a *Asm) FromGP(op *Op, d Z, s R, arg Arg) {
	mustBe(op, d)
	if a.pairs != nil {
		a.remember(step{kind: kFromGP, op: op, d: uint8(d), s: uint8(s), arg: arg})
		return
	}
	a.evex(op, uint8(d), 0, uint8(s)>>3, 0, arg, false)
	a.modReg(uint8(d), uint8(s))
}

// Lanes loads or stores the lanes of k at base+index+disp: a gather, which
// clears k, or a scatter.
func (a *Asm) Lanes(op *Op, z Z, base R, index Z, disp int32, k K) {
	mustBe(op, z|index)
	if a.pairs != nil {
		a.remember(step{kind: kLanes, op: op, d: uint8(z), s: uint8(index), r: uint8(base), m: Mem{Disp: disp}, arg: Arg{Mask: k}})
		return
	}
	// The fifth bit of the index is in the place of that of the second source.
	a.evex(op, uint8(z), uint8(index)&16, uint8(base)>>3, uint8(index)>>3&1, Arg{Mask: k}, false)
	a.bytes(2<<6|uint8(z)&7<<3|4, uint8(index)&7<<3|uint8(base)&7)
	a.imm32(disp)
}

func (a *Asm) vex(op *MaskOp, reg, v, rm uint8) {
	if a.sse != nil {
		panic("x86: " + op.Name + " has no form without a VEX prefix") // a bug of who uses it
	}
	w, l := byte(0), byte(0)
	if op.wide {
		w = 1 << 7
	}
	if op.long {
		l = 1 << 2
	}
	a.bytes(0xc4, invert(reg, 3, 7)|1<<6|invert(rm, 3, 5)|op.table, w|(^v&15)<<3|l|op.prefix, op.code)
}

// KK is op d, s, r on masks; operations of one source take s as 0.
func (a *Asm) KK(op *MaskOp, d, s, r K) {
	if a.pairs != nil {
		a.remember(step{kind: kMask, mask: op, d: uint8(d), s: uint8(s), r: uint8(r)})
		return
	}
	a.vex(op, uint8(d), uint8(s), uint8(r))
	a.modReg(uint8(d), uint8(r))
}

// KShift is op d, s, n.
func (a *Asm) KShift(op *MaskOp, d, s K, n uint8) {
	if a.pairs != nil {
		a.remember(step{kind: kShift, mask: op, d: uint8(d), s: uint8(s), arg: Arg{Imm: n}})
		return
	}
	a.KK(op, d, 0, s)
	a.bytes(n)
}

// KFrom, KTo, KLoad and KStore move 32 bits between a mask and the rest.

func (a *Asm) KFrom(d K, s R) {
	if a.pairs != nil {
		a.remember(step{kind: kKFrom, d: uint8(d), s: uint8(s)})
		return
	}
	a.vex(&KFROMGP, uint8(d), 0, uint8(s))
	a.modReg(uint8(d), uint8(s))
}

func (a *Asm) KTo(d R, s K) {
	if a.pairs != nil {
		a.remember(step{kind: kKTo, d: uint8(d), s: uint8(s)})
		return
	}
	a.vex(&KTOGP, uint8(d), 0, uint8(s))
	a.modReg(uint8(d), uint8(s))
}

func (a *Asm) KLoad(d K, m Mem) {
	if a.pairs != nil {
		a.remember(step{kind: kKLoad, d: uint8(d), m: m})
		return
	}
	a.kmem(&KLOAD, d, m)
}

func (a *Asm) KStore(m Mem, s K) {
	if a.pairs != nil {
		a.remember(step{kind: kKStore, s: uint8(s), m: m})
		return
	}
	a.kmem(&KSTORE, s, m)
}

func (a *Asm) kmem(op *MaskOp, k K, m Mem) {
	a.vex(op, uint8(k), 0, uint8(m.Base))
	a.modMem(uint8(k), m, 1)
}
