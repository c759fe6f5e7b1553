//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Accesses of .local. Its rows have a word of each lane, side by side: lanes that access the same
// address, as those of an array with the same index do, have neighbouring places in memory.

// knownLocal reports whether an access of .local is compiled.
func knownLocal(in *ir.Inst) bool {
	return addressFile(in.Op) == ir.In64 && in.Op < ir.OpLoads && (in.Target == 4 || in.Target < 4 && !stores(in.Op))
}

// rowOfLocal is an access of one address by all lanes.
func (m *memoryAccess) rowOfLocal(pc int32, addr x86.Z) {
	a := &m.emitter.a
	m.out = m.aside(pc)
	a.ToGP(&x86.TOGPQ, x86.RAX, addr)
	a.Imm64(x86.RDX, m.in.Imm)
	a.RR(x86.ADD, true, x86.RAX, x86.RDX)
	a.RM(x86.CMP, true, x86.RAX, frameAt(offLocalEnd))
	a.JumpIf(x86.AboveEqual, m.out)
	a.RR(x86.MOV, true, x86.RBX, x86.RAX)
	a.RI(x86.AND, true, x86.RBX, int32(m.in.Align))
	a.JumpIf(x86.NotEqual, m.out)
	for range rowShift {
		a.RR(x86.ADD, true, x86.RAX, x86.RAX)
	}
	a.RM(x86.ADD, true, x86.RAX, frameAt(offLocal))
	load, store := m.moves()
	if !stores(m.in.Op) {
		m.dst[0], _ = m.write(m.file, m.regs[0], false)
	}
	for p := range parts(m.file) {
		row := x86.Mem{Base: x86.RAX, Disp: int32(64 * p)}
		if stores(m.in.Op) {
			a.VM(store, m.vals[0].part(p), 0, row, x86.Arg{})
		} else {
			a.VM(load, m.dst[0][p], 0, row, x86.Arg{})
		}
	}
}

// localOffsets is offsets for .local: addresses become offsets of 32 bits from its first row.
func (m *memoryAccess) localOffsets(addr *value) {
	a := &m.emitter.a
	a.Imm64(x86.RAX, m.in.Imm)
	a.FromGP(&x86.FROMGPQ, m.s[0], x86.RAX, x86.Arg{})
	for p := range 4 {
		arg := x86.Arg{}
		if !m.whole {
			arg = x86.Arg{Mask: m.lanes(true, p), Zero: true}
		}
		a.V(&x86.PADDQ, m.off[p], addr.part(p), m.s[0], arg)
	}
	a.V(&x86.PMAXUQ, m.s[0], m.off[0], m.off[1], x86.Arg{})
	a.V(&x86.PORQ, m.s[1], m.off[0], m.off[1], x86.Arg{})
	a.V(&x86.PMAXUQ, m.s[0], m.s[0], m.off[2], x86.Arg{})
	a.V(&x86.PMAXUQ, m.s[0], m.s[0], m.off[3], x86.Arg{})
	a.V(&x86.PTERNLOGQ, m.s[1], m.off[2], m.off[3], x86.Arg{Imm: or3})
	a.VKB(&x86.PCMPUQ, k7, m.s[0], frameAt(offLocalEnd), x86.Arg{Imm: intGreatEq})
	a.RI(x86.MOV, true, x86.RAX, int32(m.in.Align))
	a.FromGP(&x86.FROMGPQ, m.s[0], x86.RAX, x86.Arg{})
	a.VK(&x86.PTESTMQ, k6, m.s[1], m.s[0], x86.Arg{})
	a.KK(&x86.KORD, k6, k6, k7)
	a.KK(&x86.KORTESTD, k6, 0, k6)
	a.JumpIf(x86.NotEqual, m.out)
	m.narrow()
	for h, z := range m.half {
		a.VB(&x86.PANDD, m.s[0], z, word(3), x86.Arg{}) // of an access of less than a word
		a.V(&x86.PXORD, z, z, m.s[0], x86.Arg{})
		a.V(&x86.PSLLD, z, 0, z, x86.Arg{Imm: rowShift})
		a.V(&x86.PORD, z, z, m.s[0], x86.Arg{})
		a.VM(&x86.LOADD, m.s[0], 0, constant(offLanes+int32(64*h)), x86.Arg{})
		a.V(&x86.PSLLD, m.s[0], 0, m.s[0], x86.Arg{Imm: 2})
		a.V(&x86.PORD, m.off[h], z, m.s[0], x86.Arg{})
	}
	m.wide = false
	a.RM(x86.MOV, true, x86.RDX, frameAt(offLocal))
}
