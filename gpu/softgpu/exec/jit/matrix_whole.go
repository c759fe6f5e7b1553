//go:build amd64 && linux

package jit

import "pvdrm/gpu/softgpu/exec/jit/internal/x86"

// bytes has in t0 every second byte of the lanes of z, from n on, as numbers of 16 bits.
func (m *product) bytes(signed bool, z x86.Z, n int) {
	a := &m.a
	switch {
	case signed && n == 0:
		a.V(&x86.PSLLW, t0, 0, z, x86.Arg{Imm: 8})
		a.V(&x86.PSRAW, t0, 0, t0, x86.Arg{Imm: 8})
	case signed:
		a.V(&x86.PSRAW, t0, 0, z, x86.Arg{Imm: 8})
	case n == 0:
		m.with(&x86.PANDD, t0, z, word(0x00ff00ff))
	default:
		a.V(&x86.PSRLD, t0, 0, z, x86.Arg{Imm: 8})
		m.with(&x86.PANDD, t0, t0, word(0x00ff00ff))
	}
}

// wholeBlock computes the sums of a block of integers.
func (m *product) wholeBlock(at int) {
	a, sum, c := &m.a, m.s[0:2], m.s[2]
	for i := range 2 {
		m.plain(&x86.PXORD, sum[i], sum[i], sum[i])
	}
	m.products(tileA, tileB, func(odd int) {
		m.plain(&x86.PMADDWD, t1, t1, t0)
		m.plain(&x86.PADDD, sum[odd], sum[odd], t1)
	})
	for i := range 2 {
		here := x86.Mem{Base: x86.RDX, Disp: int32(at + 64*i)}
		a.VM(&x86.LOADD, c, 0, here, x86.Arg{})
		m.plain(&x86.PADDD, t0, sum[i], c)
		if m.op.Saturate {
			m.plain(&x86.PXORD, t1, t0, sum[i])
			m.plain(&x86.PXORD, t2, t0, c)
			m.plain(&x86.PANDD, t1, t1, t2)
			m.with(&x86.PANDD, t1, t1, constant(offSign))
			a.VK(&x86.PTESTMD, k7, t1, t1, x86.Arg{})
			a.V(&x86.PSRAD, t2, 0, c, x86.Arg{Imm: 31})
			a.VB(&x86.PXORD, t0, t2, constant(offAbs), x86.Arg{Mask: k7}) // the least or the most
		}
		a.VM(&x86.STORED, t0, 0, here, x86.Arg{})
	}
}
