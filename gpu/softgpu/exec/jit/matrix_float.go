//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// decode has in t0 what element n of each lane of z is, as a float32, and in t1 the power of two of its exponent, as
// the hardware has it: subnormal numbers have that of the smallest normal one, and zero has none. Of integers, t0 has
// two of 16 bits, which are every second byte.
func (m *product) decode(element ir.Element, z x86.Z, n int) {
	a := &m.a
	switch element {
	case ir.ElementF16:
		if n == 0 {
			m.with(&x86.PANDD, t0, z, word(0x7fff))
			a.V(&x86.PSLLD, t0, 0, t0, x86.Arg{Imm: 13})
			m.with(&x86.PANDD, t2, z, word(0x8000))
			a.V(&x86.PSLLD, t2, 0, t2, x86.Arg{Imm: 16})
		} else {
			m.with(&x86.PANDD, t0, z, word(0x7fff0000))
			a.V(&x86.PSRLD, t0, 0, t0, x86.Arg{Imm: 3})
			m.with(&x86.PANDD, t2, z, constant(offSign))
		}
		m.with(&x86.MULPS, t0, t0, word(0x77800000)) // 2 to the 112
		m.with(&x86.PANDD, t1, t0, word(0x7f800000))
		a.VK(&x86.PTESTMD, k7, t0, t0, x86.Arg{})
		a.VB(&x86.MAXPS, t1, t1, word(0x38800000), x86.Arg{Mask: k7}) // 2 to the -14
		m.plain(&x86.PORD, t0, t0, t2)
		return
	case ir.ElementBF16:
		if n == 0 {
			a.V(&x86.PSLLD, t0, 0, z, x86.Arg{Imm: 16})
		} else {
			m.with(&x86.PANDD, t0, z, word(0xffff0000))
		}
	case ir.ElementTF32:
		m.with(&x86.PANDD, t0, z, word(0xffffe000))
	default:
		m.bytes(element == ir.ElementS8, z, n)
		return
	}
	m.checkRange(t0, leastFactor, factorRange)
	m.with(&x86.PANDD, t1, t0, word(0x7f800000))
}

// check notes which elements of a register are not computed here, of those of which decode doesn't.
func (m *product) check(z x86.Z) {
	if m.op.A == ir.ElementF16 {
		m.checkF16(z)
	}
}

// checkF16 notes infinities and NaNs: their exponent and 1 reach the bit above it.
func (m *product) checkF16(z x86.Z) {
	m.with(&x86.PANDD, t2, z, word(0x7c007c00))
	m.with(&x86.PADDD, t2, t2, word(0x04000400))
	m.plain(&x86.PORD, m.bad, m.bad, t2)
}

// checkRange notes numbers other than zero whose magnitudes are not in a range of float32.
func (m *product) checkRange(z x86.Z, least, size uint32) {
	m.with(&x86.PANDD, t2, z, constant(offAbs))
	m.with(&x86.PSUBD, t3, t2, word(least))
	m.a.VKB(&x86.PCMPUD, k7, t3, word(size), x86.Arg{Imm: intGreatEq})
	m.a.VK(&x86.PTESTMD, k7, t2, t2, x86.Arg{Mask: k7})
	m.a.VB(&x86.PORD, m.bad, m.bad, constant(offSign), x86.Arg{Mask: k7})
}

// floatBlock computes the sums of a block.
func (m *product) floatBlock(at int) {
	a, op := &m.a, m.op
	narrow := op.C == ir.ElementF16 && op.D == ir.ElementF16
	c, top, inverse, sum := m.s[0:2], m.s[2:4], m.s[4:6], m.s[6:8]
	here := func(i int) x86.Mem { return x86.Mem{Base: x86.RDX, Disp: int32(at + 64*i)} }
	if op.C == ir.ElementF16 {
		a.VM(&x86.LOADD, sum[0], 0, here(0), x86.Arg{})
	}
	for i := range 2 {
		if op.C == ir.ElementF16 {
			m.decode(op.C, sum[0], i)
			m.copyTo(c[i], t0)
			m.copyTo(top[i], t1)
		} else {
			a.VM(&x86.LOADD, c[i], 0, here(i), x86.Arg{})
		}
		if !narrow {
			m.with(&x86.PANDD, top[i], c[i], word(0x7f800000))
		}
	}
	m.products(tilePower, tileBMax, func(odd int) {
		m.plain(&x86.MULPS, t1, t1, t0)
		m.plain(&x86.MAXPS, top[odd], top[odd], t1)
	})
	for i := range 2 {
		m.with(&x86.MAXPS, top[i], top[i], word(leastSum)) // of sums of zeros
		m.with(&x86.PSUBD, inverse[i], top[i], word(25<<23))
		a.VM(&x86.BROADCASTD, t2, 0, word(279<<23&(1<<32-1)), x86.Arg{})
		m.plain(&x86.PSUBD, top[i], t2, top[i]) // 2 to the 25, divided by it
		m.plain(&x86.MULPS, c[i], c[i], top[i])
		a.V(&x86.CVTTPS2DQ, c[i], 0, c[i], x86.Arg{})
		m.plain(&x86.PXORD, sum[i], sum[i], sum[i])
	}
	m.products(tileA, tileB, func(odd int) {
		m.plain(&x86.MULPS, t1, t1, t0)
		m.plain(&x86.MULPS, t1, t1, top[odd])
		a.V(&x86.CVTTPS2DQ, t1, 0, t1, x86.Arg{})
		m.plain(&x86.PADDD, sum[odd], sum[odd], t1)
	})
	for i := range 2 {
		m.encode(c[i], sum[i], inverse[i], narrow)
		if op.D == ir.ElementF32 {
			a.VM(&x86.STORED, t1, 0, here(i), x86.Arg{})
		} else {
			toF16(m.emitter, sum[i], t1)
		}
	}
	if op.D == ir.ElementF16 {
		a.V(&x86.PSLLD, sum[1], 0, sum[1], x86.Arg{Imm: 16})
		m.plain(&x86.PORD, sum[0], sum[0], sum[1])
		a.VM(&x86.STORED, sum[0], 0, here(0), x86.Arg{})
	}
}

// encode has in t1 the float32 of sums of products and of c, cut towards zero, or to an odd number so that it can be
// rounded to an f16. It notes sums of more than 32 bits.
func (m *product) encode(c, sum, inverse x86.Z, odd bool) {
	a := &m.a
	m.plain(&x86.PADDD, t0, sum, c)
	m.plain(&x86.PXORD, t1, t0, sum)
	m.plain(&x86.PXORD, t2, t0, c)
	m.plain(&x86.PANDD, t1, t1, t2)
	m.with(&x86.PANDD, t1, t1, constant(offSign))
	m.plain(&x86.PORD, m.bad, m.bad, t1)
	a.V(&x86.CVTDQ2PS, t1, 0, t0, x86.Arg{Round: x86.Truncate})
	if odd {
		a.V(&x86.CVTTPS2DQ, t2, 0, t1, x86.Arg{})
		a.VK(&x86.PCMPUD, k7, t2, t0, x86.Arg{Imm: intNotEqual})
		a.VB(&x86.PORD, t1, t1, word(1), x86.Arg{Mask: k7})
	}
	m.plain(&x86.MULPS, t1, t1, inverse)
}
