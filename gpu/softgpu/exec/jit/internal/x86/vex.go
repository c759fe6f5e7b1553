package x86

// y is a vector register of 256 bits, 0 to 15.
type y = uint8

// What AVX2 has and AVX-512 does not, by its VEX encoding (section 2.3 of the Intel manual's volume 2).
var (
	yBLENDV     = Op{Name: "vblendvps", table: 3, prefix: 1, code: 0x4a, imm: true} // the immediate names the mask
	yCMPEQD     = Op{Name: "vpcmpeqd", table: 1, prefix: 1, code: 0x76}
	yCMPEQQ     = Op{Name: "vpcmpeqq", table: 2, prefix: 1, code: 0x29}
	yCMPGTD     = Op{Name: "vpcmpgtd", table: 1, prefix: 1, code: 0x66}
	yCMPGTQ     = Op{Name: "vpcmpgtq", table: 2, prefix: 1, code: 0x37}
	yANDN       = Op{Name: "vpandn", table: 1, prefix: 1, code: 0xdf}
	yTEST       = Op{Name: "vptest", table: 2, prefix: 1, code: 0x17}
	yMASKD      = Op{Name: "vmovmskps", table: 1, code: 0x50}
	yMASKQ      = Op{Name: "vmovmskpd", table: 1, prefix: 1, code: 0x50}
	yMASKB      = Op{Name: "vpmovmskb", table: 1, prefix: 1, code: 0xd7}
	yPACKDW     = Op{Name: "vpackssdw", table: 1, prefix: 1, code: 0x6b}
	yPACKWB     = Op{Name: "vpacksswb", table: 1, prefix: 1, code: 0x63}
	yROUNDS     = Op{Name: "vroundps", table: 3, prefix: 1, code: 0x08, imm: true}
	yROUNDD     = Op{Name: "vroundpd", table: 3, prefix: 1, code: 0x09, imm: true}
	ySHUFPS     = Op{Name: "vshufps", table: 1, code: 0xc6, imm: true}
	yPERMQ      = Op{Name: "vpermq", table: 3, prefix: 1, wide: true, code: 0x00, imm: true}
	yPERMD      = Op{Name: "vpermd", table: 2, prefix: 1, code: 0x36}
	yEXTRACT    = Op{Name: "vextracti128", table: 3, prefix: 1, code: 0x39, imm: true}
	yINSERT     = Op{Name: "vinserti128", table: 3, prefix: 1, code: 0x38, imm: true}
	yBLENDD     = Op{Name: "vpblendd", table: 3, prefix: 1, code: 0x02, imm: true}
	yBROADCASTQ = Op{Name: "vpbroadcastq", table: 2, prefix: 1, code: 0x59}
	yMASKLOAD   = Op{Name: "vpmaskmovd", table: 2, prefix: 1, code: 0x8c}
	yMASKSTORE  = Op{Name: "vpmaskmovd", table: 2, prefix: 1, code: 0x8e}
	yMASKLOADQ  = Op{Name: "vpmaskmovq", table: 2, prefix: 1, wide: true, code: 0x8c}
	yMASKSTOREQ = Op{Name: "vpmaskmovq", table: 2, prefix: 1, wide: true, code: 0x8e}
	yFROMD      = Op{Name: "vmovd", table: 1, prefix: 1, code: 0x6e}
	yFROMQ      = Op{Name: "vmovq", table: 1, prefix: 1, wide: true, code: 0x6e}
	yTOQ        = Op{Name: "vmovq", table: 1, prefix: 1, wide: true, code: 0x7e}
	yTOD        = Op{Name: "vmovd", table: 1, prefix: 1, code: 0x7e}
	yCVTSI2SS   = Op{Name: "vcvtsi2ss", table: 1, prefix: 2, wide: true, code: 0x2a}
	yCVTTSD2SI  = Op{Name: "vcvttsd2si", table: 1, prefix: 3, wide: true, code: 0x2c}
	ySTORESS    = Op{Name: "vmovss", table: 1, prefix: 2, code: 0x11}
	yRORX       = Op{Name: "rorx", table: 3, prefix: 3, code: 0xf0, imm: true}
	yUNPACKL    = Op{Name: "vunpcklps", table: 1, code: 0x14}
	yUNPACKH    = Op{Name: "vunpckhps", table: 1, code: 0x15}
	yUNPACKLQ   = Op{Name: "vunpcklpd", table: 1, prefix: 1, code: 0x14}
	yUNPACKHQ   = Op{Name: "vunpckhpd", table: 1, prefix: 1, code: 0x15}
	yJOIN       = Op{Name: "vperm2i128", table: 3, prefix: 1, code: 0x46, imm: true}
	yMXCSR      = Op{Name: "vldmxcsr", table: 1, code: 0xae}
)

// vexPrefix writes the prefix of an instruction of 128 bits, or of 256 if long. R, X and B are the
// upper bits of the registers that ModRM and SIB name.
func (a *Asm) vexPrefix(op *Op, r, x, b, v uint8, long bool) {
	if a.sse != nil {
		panic("x86: " + op.Name + " has no form without a VEX prefix") // a bug of who uses it
	}
	last := (^v&15)<<3 | op.prefix
	if long {
		last |= 1 << 2
	}
	wide := op.wide && op != &BROADCASTQ
	if op.table == 1 && !wide && x == 0 && b == 0 {
		a.word(0xc5|uint64(invert(r, 0, 7)|last)<<8|uint64(op.code)<<16, 3)
		return
	}
	if wide {
		last |= 1 << 7
	}
	first := invert(r, 0, 7) | invert(x, 0, 6) | invert(b, 0, 5) | op.table
	a.word(0xc4|uint64(first)<<8|uint64(last)<<16|uint64(op.code)<<24, 4)
}

// y is op d, s, r on 256 bits, x on 128 bits. Operations of one source take s as 0; those that
// store to their last operand take it as r.
func (a *Asm) y(op *Op, d, s, r y, imm uint8) { a.yy(op, d, s, r, imm, true) }
func (a *Asm) x(op *Op, d, s, r y, imm uint8) { a.yy(op, d, s, r, imm, false) }

func (a *Asm) yy(op *Op, d, s, r y, imm uint8, long bool) {
	if a.sse != nil {
		a.narrowStep(narrowed{op: op, d: d, s: s, r: r, imm: imm}, long)
		return
	}
	if op.digit != 0 {
		d, s = op.digit, d
	}
	a.vexPrefix(op, d>>3, 0, r>>3, s, long)
	a.modReg(d, r)
	if op.imm {
		a.bytes(imm)
	}
}

// ym is op d, s, [m] on 256 bits, xm on 128 bits.
func (a *Asm) ym(op *Op, d, s y, m Mem, imm uint8) { a.yyM(op, d, s, m, imm, true) }
func (a *Asm) xm(op *Op, d, s y, m Mem, imm uint8) { a.yyM(op, d, s, m, imm, false) }

func (a *Asm) yyM(op *Op, d, s y, m Mem, imm uint8, long bool) {
	if a.sse != nil {
		a.narrowStep(narrowed{op: op, d: d, s: s, m: m, inMem: true, imm: imm}, long)
		return
	}
	if op.digit != 0 {
		d, s = op.digit, d
	}
	a.vexPrefix(op, d>>3, 0, uint8(m.Base)>>3, s, long)
	a.modMem(d, m, 1)
	if op.imm {
		a.bytes(imm)
	}
}

// yLanes gathers what lies at base+index+disp into the lanes of d that are set in mask, which it clears.
func (a *Asm) yLanes(op *Op, d y, base R, index y, disp int32, mask y, long bool) {
	if a.sse != nil {
		a.narrowGather(op, d, base, index, disp, mask)
		return
	}
	a.vexPrefix(op, d>>3, index>>3, uint8(base)>>3, mask, long)
	a.bytes(2<<6|d&7<<3|4, index&7<<3|uint8(base)&7)
	a.imm32(disp)
}

// Of general registers: the bits that scatters and masks of vectors need.

// rotate is rorx d, s, n on 32 bits, which leaves the flags.
func (a *Asm) rotate(d, s R, n uint8) {
	if a.sse != nil {
		a.turn(d, s, n)
		return
	}
	a.vexPrefix(&yRORX, uint8(d)>>3, 0, uint8(s)>>3, 0, false)
	a.modReg(uint8(d), uint8(s))
	a.bytes(n)
}

// sum is lea d, [s+r] on 64 bits, which leaves the flags.
func (a *Asm) sum(d, s, r R) { a.index(0x8d, true, d, s, r, 0, 0) }

// index is an instruction with a memory operand s + r<<shift + disp; its code has 0f before it from
// 0x0f00 on.
func (a *Asm) index(code uint16, wide bool, d, s, r R, shift uint8, disp int32) {
	p := byte(0x40) | byte(d)>>3<<2 | byte(r)>>3<<1 | byte(s)>>3
	if wide {
		p |= 8
	}
	a.bytes(p)
	if code > 0xff {
		a.bytes(0x0f)
	}
	a.bytes(byte(code), 2<<6|byte(d)&7<<3|4, shift<<6|byte(r)&7<<3|byte(s)&7)
	a.imm32(disp)
}

// extend is movzx d, byte or word of [m].
func (a *Asm) extend(code byte, d R, m Mem) {
	a.rexByte(d, m.Base)
	a.bytes(0x0f, code)
	a.modMem(uint8(d), m, 1)
}

const (
	zeroByte = 0xb6
	zeroWord = 0xb7
)

func (a *Asm) rexByte(reg, base R) { a.bytes(byte(0x40) | byte(reg)>>3<<2 | byte(base)>>3) }

// mxcsr sets how floating point rounds, from memory.
func (a *Asm) mxcsr(m Mem) {
	if a.sse != nil {
		a.om(&yMXCSR, 2, m)
		return
	}
	a.vexPrefix(&yMXCSR, 0, 0, uint8(m.Base)>>3, 0, false)
	a.modMem(2, m, 1)
}
