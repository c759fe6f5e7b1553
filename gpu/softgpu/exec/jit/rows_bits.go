//go:build amd64 && linux

package jit

import (
	"fmt"

	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// swapBits swaps the bits that mask has with those n places above them.
func (e *emitter) swapBits(z x86.Z, mask uint32, n uint8) {
	e.with(&x86.PANDD, t2, z, word(mask))
	e.a.V(&x86.PSLLD, t2, 0, t2, x86.Arg{Imm: n})
	e.a.V(&x86.PSRLD, z, 0, z, x86.Arg{Imm: n})
	e.with(&x86.PANDD, z, z, word(mask))
	e.plain(&x86.PORD, z, z, t2)
}

// reverseBits is brev.b32, of z itself.
func (e *emitter) reverseBits(z x86.Z) {
	e.swapBits(z, 0x55555555, 1)
	e.swapBits(z, 0x33333333, 2)
	e.swapBits(z, 0x0f0f0f0f, 4)
	e.swapBits(z, 0x00ff00ff, 8)
	e.a.V(&x86.PSLLD, t2, 0, z, x86.Arg{Imm: 16})
	e.a.V(&x86.PSRLD, z, 0, z, x86.Arg{Imm: 16})
	e.plain(&x86.PORD, z, z, t2)
}

// highestBit is bfind: 31 less the zeros in front, or all ones for none.
func highestBit(signed, shift bool) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		d := l.d
		if signed {
			s := e.scratch()
			e.a.V(&x86.PSRAD, s, 0, l.a, x86.Arg{Imm: 31})
			e.plain(&x86.PXORD, s, s, l.a)
			l.a = s
		}
		r := e.scratch()
		leadingZeros(e, vec{d: r, a: l.a})
		if shift {
			e.a.VKB(&x86.PCMPUD, k7, r, constant(off32), x86.Arg{Imm: intEqual})
			e.a.VM(&x86.BROADCASTD, r, 0, constant(offOnes), x86.Arg{Mask: k7})
			e.a.V(&x86.MOVD, d, 0, r, l.arg())
			return
		}
		e.a.VM(&x86.BROADCASTD, t2, 0, constant(off31), x86.Arg{})
		e.a.V(&x86.PSUBD, d, t2, r, l.arg())
	}
}

// upperProduct64 is the upper half of a product of 64 bits, by products of halves; with signs it is less by each
// operand where the other is negative.
func upperProduct64(signed, mad bool) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		s := e.scratches(3)
		ah, bh, r := s[0], s[1], s[2]
		low := double(0xffffffff)
		e.a.V(&x86.PSRLQ, ah, 0, l.a, x86.Arg{Imm: 32})
		e.a.V(&x86.PSRLQ, bh, 0, l.b, x86.Arg{Imm: 32})
		e.plain(&x86.PMULUDQ, t2, l.a, l.b)
		e.a.V(&x86.PSRLQ, t2, 0, t2, x86.Arg{Imm: 32})
		e.plain(&x86.PMULUDQ, r, ah, l.b)
		e.plain(&x86.PADDQ, r, r, t2) // no carry: a product and 32 bits
		e.with(&x86.PANDQ, t2, r, low)
		e.a.V(&x86.PSRLQ, r, 0, r, x86.Arg{Imm: 32})
		e.plain(&x86.PMULUDQ, t3, l.a, bh)
		e.plain(&x86.PADDQ, t3, t3, t2)
		e.a.V(&x86.PSRLQ, t3, 0, t3, x86.Arg{Imm: 32})
		e.plain(&x86.PADDQ, r, r, t3)
		e.plain(&x86.PMULUDQ, t2, ah, bh)
		e.plain(&x86.PADDQ, r, r, t2)
		if signed {
			e.plain(&x86.PXORQ, t2, t2, t2)
			for _, z := range [][2]x86.Z{{l.a, l.b}, {l.b, l.a}} {
				e.a.VK(&x86.PCMPQ, k7, z[0], t2, x86.Arg{Imm: intLess})
				e.a.V(&x86.PSUBQ, r, r, z[1], x86.Arg{Mask: k7})
			}
		}
		if mad {
			e.plain(&x86.PADDQ, r, r, l.c)
		}
		e.a.V(&x86.MOVQ, l.d, 0, r, l.arg())
	}
}

// bytesProduct is dp4a: the products of the four bytes, added up.
func bytesProduct(signA, signB bool) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		sum := e.scratch()
		e.copyTo(sum, l.c)
		for i := range uint8(4) {
			for _, b := range []struct {
				d, s   x86.Z
				signed bool
			}{{d: t2, s: l.a, signed: signA}, {d: t3, s: l.b, signed: signB}} {
				e.a.V(&x86.PSLLD, b.d, 0, b.s, x86.Arg{Imm: 24 - 8*i})
				if b.signed {
					e.a.V(&x86.PSRAD, b.d, 0, b.d, x86.Arg{Imm: 24})
				} else {
					e.a.V(&x86.PSRLD, b.d, 0, b.d, x86.Arg{Imm: 24})
				}
			}
			e.plain(&x86.PMULLD, t2, t2, t3)
			e.plain(&x86.PADDD, sum, sum, t2)
		}
		e.a.V(&x86.MOVD, l.d, 0, sum, l.arg())
	}
}

// small16 is an operation on numbers of 16 bits with their sign.
func small16(op *x86.Op) func(*emitter, vec) {
	return func(e *emitter, l vec) {
		e.extended(l.a, t2, 16, true)
		e.extended(l.b, t0, 16, true)
		e.plain(op, t2, t2, t0)
		e.a.VB(&x86.PANDD, l.d, t2, word(0xffff), l.arg())
	}
}

// bitRows are operations on bits, and integers of sizes that few programs use.
func bitRows(rows map[string]rowOp) {
	rows["brev.b32"] = rowOp{form: "w=w", emit: func(e *emitter, l vec) {
		s := e.scratch()
		e.copyTo(s, l.a)
		e.reverseBits(s)
		e.a.V(&x86.MOVD, l.d, 0, s, l.arg())
	}}
	rows["brev.b64"] = rowOp{form: "q=q", emit: func(e *emitter, l vec) { // the halves change places
		s := e.scratches(2)
		e.copyTo(s[0], l.a)
		e.reverseBits(s[0])
		e.a.V(&x86.PSRLQ, s[1], 0, s[0], x86.Arg{Imm: 32})
		e.a.V(&x86.PSLLQ, s[0], 0, s[0], x86.Arg{Imm: 32})
		e.a.V(&x86.PORQ, l.d, s[0], s[1], l.arg())
	}}
	for t, signed := range map[string]bool{"u32": false, "s32": true} {
		rows["bfind."+t] = rowOp{form: "w=w", emit: highestBit(signed, false)}
		rows["bfind.shiftamt."+t] = rowOp{form: "w=w", emit: highestBit(signed, true)}
	}
	for t, signed := range map[string]bool{"u64": false, "s64": true} {
		rows["mul.hi."+t] = rowOp{form: "q=qq", emit: upperProduct64(signed, false)}
		rows["mad.hi."+t] = rowOp{form: "q=qqq", emit: upperProduct64(signed, true)}
	}
	for a, signA := range map[string]bool{"u32": false, "s32": true} {
		for b, signB := range map[string]bool{"u32": false, "s32": true} {
			rows[fmt.Sprintf("dp4a.%s.%s", a, b)] = rowOp{form: "w=www", emit: bytesProduct(signA, signB)}
		}
	}
	rows["copysign.f32"] = rowOp{form: "w=ww", emit: func(e *emitter, l vec) {
		e.a.VM(&x86.BROADCASTD, t2, 0, constant(offSign), x86.Arg{})
		e.a.V(&x86.PTERNLOGD, t2, l.a, l.b, x86.Arg{Imm: choose})
		e.a.V(&x86.MOVD, l.d, 0, t2, l.arg())
	}}
	rows["slct.32.s32"] = rowOp{form: "w=www", emit: func(e *emitter, l vec) {
		e.plain(&x86.PXORD, t2, t2, t2)
		e.a.VK(&x86.PCMPD, k7, l.c, t2, x86.Arg{Imm: intGreatEq})
		e.copyTo(t2, l.b)
		e.a.V(&x86.MOVD, t2, 0, l.a, x86.Arg{Mask: k7})
		e.a.V(&x86.MOVD, l.d, 0, t2, l.arg())
	}}
	rows["abs.s64"] = rowOp{form: "q=q", emit: func(e *emitter, l vec) {
		e.plain(&x86.PXORQ, t2, t2, t2)
		e.plain(&x86.PSUBQ, t2, t2, l.a)
		e.a.V(&x86.PMAXSQ, l.d, t2, l.a, l.arg())
	}}
	rows["min.s16"] = rowOp{form: "w=ww", emit: small16(&x86.PMINSD)}
	rows["max.s16"] = rowOp{form: "w=ww", emit: small16(&x86.PMAXSD)}
	rows["not.b16"] = rowOp{form: "w=w", emit: func(e *emitter, l vec) {
		e.with(&x86.PXORD, t2, l.a, constant(offOnes))
		e.a.VB(&x86.PANDD, l.d, t2, word(0xffff), l.arg())
	}}
	rows["neg.s16"] = rowOp{form: "w=w", emit: func(e *emitter, l vec) {
		e.plain(&x86.PXORD, t2, t2, t2)
		e.plain(&x86.PSUBD, t2, t2, l.a)
		e.a.VB(&x86.PANDD, l.d, t2, word(0xffff), l.arg())
	}}
	rows["pack.b32"] = rowOp{form: "w=ww", emit: func(e *emitter, l vec) {
		e.with(&x86.PANDD, t2, l.a, word(0xffff))
		e.a.V(&x86.PSLLD, t3, 0, l.b, x86.Arg{Imm: 16})
		e.a.V(&x86.PORD, l.d, t2, t3, l.arg())
	}}
}
