//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// scalar is a load of one address by all lanes.
func (m *memoryAccess) scalar(pc int32, addr x86.Z) {
	a := &m.emitter.a
	m.out = m.aside(pc)
	from := x86.Mem{Base: x86.RAX}
	var z [4]x86.Z
	var n int
	if m.in.Space == ir.SpaceGeneric { // the lanes get different values where the address is one of .local
		z, n = m.write(m.file, m.regs[0], false)
		m.dst[0], m.windows.done, m.windows.one = z, a.NewLabel(), true
	}
	if m.findPlace(pc, regRef{kind: ir.In64, index: m.in.A}) && m.reaches {
		slow, done := a.NewLabel(), a.NewLabel()
		at := placeAt(m.place.at)
		a.MI(x86.CMP, true, plus(at, placeReach), placeOne)
		a.JumpIf(x86.NotEqual, slow)
		a.RM(x86.MOV, true, x86.RAX, plus(at, placeHost))
		a.Bind(done)
		from.Disp = m.ahead
		m.later = append(m.later, func() {
			a := &m.emitter.a
			a.Bind(slow)
			m.oneInPage(pc, addr)
			a.RI(x86.SUB, true, x86.RAX, m.ahead)
			a.Jump(done)
		})
	} else {
		m.oneInPage(pc, addr)
	}
	if m.in.Space != ir.SpaceGeneric {
		z, n = m.write(m.file, m.regs[0], true)
	}
	for p := range n {
		a.VM(m.broadcast(), z[p], 0, from, x86.Arg{})
	}
	if m.windows.one {
		a.Bind(m.windows.done)
	}
}

// oneInPage has the host's address of what all lanes load in rax.
func (m *memoryAccess) oneInPage(pc int32, addr x86.Z) {
	a := &m.emitter.a
	m.found = a.NewLabel()
	site, other := m.site(pc), m.anotherPage(pc, &value{z: [4]x86.Z{addr}, uniform: true})
	a.ToGP(&x86.TOGPQ, x86.RAX, addr)
	a.Imm64(x86.RDX, m.in.Imm)
	a.RR(x86.ADD, true, x86.RAX, x86.RDX)
	a.RM(x86.SUB, true, x86.RAX, plus(site, siteFrom))
	a.RM(x86.MOV, true, x86.RDX, plus(site, siteExtent))
	a.RI(x86.SUB, true, x86.RDX, int32(m.total()))
	a.JumpIf(x86.Below, other) // empty
	a.RR(x86.CMP, true, x86.RAX, x86.RDX)
	a.JumpIf(x86.Above, other)
	if m.in.Align != 0 {
		a.RR(x86.MOV, true, x86.RDX, x86.RAX)
		a.RI(x86.AND, true, x86.RDX, int32(m.in.Align))
		a.JumpIf(x86.NotEqual, m.out)
	}
	a.RM(x86.MOV, true, x86.RDX, plus(site, siteHost))
	a.RR(x86.ADD, true, x86.RAX, x86.RDX)
	m.reachInPage(site)
	a.Bind(m.found)
}

// reachInPage looks whether all loads by the register are in the page at rdx where this one is, of which rax is the
// address.
func (m *memoryAccess) reachInPage(site x86.Mem) {
	if !m.reaches {
		return
	}
	a, at, out := &m.emitter.a, placeAt(m.place.at), m.emitter.a.NewLabel()
	a.MI(x86.MOV, true, plus(at, placeReach), 0)
	a.RR(x86.MOV, true, x86.RBX, x86.RAX)
	a.RI(x86.SUB, true, x86.RBX, m.ahead)
	a.Store(true, plus(at, placeHost), x86.RBX)
	a.RR(x86.SUB, true, x86.RBX, x86.RDX)
	a.JumpIf(x86.Below, out)
	a.RI(x86.ADD, true, x86.RBX, m.place.span+int32(m.total()))
	a.RM(x86.CMP, true, x86.RBX, plus(site, siteExtent))
	a.JumpIf(x86.Above, out)
	a.MI(x86.MOV, true, plus(at, placeReach), placeOne)
	a.Bind(out)
}
