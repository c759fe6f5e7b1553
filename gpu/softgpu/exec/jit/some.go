//go:build amd64 && linux

package jit

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Accesses of warps that do not run with all lanes: those of each half are moved as a vector where they follow one another.

// someLanes is the rest of an access of a warp that does not run with all lanes.
func (m *memoryAccess) someLanes(uniform bool, scattered, done x86.Label) {
	e, mode := m.emitter, m.mode
	if m.in.Space != ir.SpaceShared && m.in.Space != ir.SpaceLocal && m.size >= 4 && !uniform {
		m.lanesApart(mode, done)
	}
	if m.wide {
		m.narrow()
	} else {
		m.half = [2]x86.Z{m.off[0], m.off[1]}
	}
	if m.n > 1 {
		m.each()
		e.a.Bind(done)
		return
	}
	m.some(scattered)
	e.a.Bind(done)
	if scattered == m.out {
		return
	}
	e.later = append(e.later, func() {
		e.a.Bind(scattered)
		e.mode = mode
		m.each()
		e.a.Jump(done)
	})
}

// narrow makes offsets of 32 bits.
func (m *memoryAccess) narrow() {
	a := &m.emitter.a
	m.half = [2]x86.Z{m.s[2], m.s[3]}
	for h, z := range m.half {
		a.V(&x86.PMOVQD, m.off[2*h], 0, z, x86.Arg{})
		a.V(&x86.PMOVQD, m.off[2*h+1], 0, m.s[0], x86.Arg{})
		a.V(&x86.INSERTI64X4, z, z, m.s[0], x86.Arg{Imm: 1})
	}
}

// some moves the active lanes as vectors, or goes to scattered unless those of
// each half access neighbouring places: they do if their offsets, less their distance
// from lane 0, are those of the first of them. The processor does not access what
// belongs to the others.
func (m *memoryAccess) some(scattered x86.Label) {
	a := &m.emitter.a
	at := constant(offStep32 + int32(bits.TrailingZeros(uint(m.size)))*64)
	for h, r := range [2]x86.R{x86.RAX, x86.RCX} {
		k := m.lanes(false, h)
		a.VM(&x86.PSUBD, m.s[0], m.half[h], at, x86.Arg{})
		a.V(&x86.PCOMPRESSD, m.s[0], 0, m.s[1], x86.Arg{Mask: k, Zero: true})
		a.ToGP(&x86.TOGPD, r, m.s[1])
		a.V(&x86.BROADCASTD, m.s[1], 0, m.s[1], x86.Arg{})
		a.VK(&x86.PCMPD, k7, m.s[0], m.s[1], x86.Arg{Mask: k, Imm: intNotEqual})
		a.KK(&x86.KORTESTD, k7, 0, k7)
		a.JumpIf(x86.NotEqual, scattered)
		a.SignExtend(r, r)
		a.RR(x86.ADD, true, r, x86.RDX)
	}
	m.moveSome()
}

// moveSome moves the active lanes as vectors, of which the first of each half has its address in rax and rcx.
func (m *memoryAccess) moveSome() {
	a := &m.emitter.a
	load, store := m.moves()
	n := parts(m.file)
	for p := range n {
		place := x86.Mem{Base: [2]x86.R{x86.RAX, x86.RCX}[p*2/n], Disp: int32(p%(n/2)) * 64}
		arg := x86.Arg{Mask: m.lanes(m.size == 8, p)}
		if stores(m.in.Op) {
			a.VM(store, m.vals[0].part(p), 0, place, arg)
		} else {
			a.VM(load, m.dst[0][p], 0, place, arg)
		}
		if m.both {
			a.VM(load, m.dst[1][p], 0, plus(place, m.size), arg)
		}
	}
}
