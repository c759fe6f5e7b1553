//go:build amd64 && linux

package jit

import "pvdrm/gpu/softgpu/exec/jit/internal/x86"

// scattered is the access of lanes that are not in rows: of one address for each
// half, or any.
func (m *memoryAccess) scattered(done x86.Label) {
	a := &m.emitter.a
	if !stores(m.in.Op) {
		differ := m.emitter.a.NewLabel()
		sub, or, count := &x86.PSUBD, &x86.PORD, 2
		if m.wide {
			sub, or, count = &x86.PSUBQ, &x86.PORQ, 4
		}
		for p := range count {
			first := m.s[p*2/count]
			if p == 0 {
				a.V(sub, m.s[2], m.off[p], first, x86.Arg{})
				continue
			}
			a.V(sub, m.s[3], m.off[p], first, x86.Arg{})
			a.V(or, m.s[2], m.s[2], m.s[3], x86.Arg{})
		}
		a.VK(&x86.PTESTMD, k7, m.s[2], m.s[2], x86.Arg{})
		a.KK(&x86.KORTESTD, k7, 0, k7)
		a.JumpIf(x86.NotEqual, differ)
		for i := range m.n {
			for p := range parts(m.file) {
				r := m.rows[p*2/parts(m.file)]
				a.VM(m.broadcast(), m.dst[i][p], 0, x86.Mem{Base: r, Disp: int32(i * m.size)}, x86.Arg{})
			}
		}
		a.Jump(done)
		a.Bind(differ)
	}
	m.mode = allOfThem // this code is made later than the operation
	m.each()
}

// each gathers or scatters the lanes one by one.
func (m *memoryAccess) each() {
	a := &m.emitter.a
	groups, wide := 2, false // lanes that one instruction moves
	if m.wide && (m.whole || m.size == 8) {
		groups, wide = 4, true
	}
	half := m.half
	if m.whole {
		half = [2]x86.Z{m.off[0], m.off[1]}
	}
	lanes := func(g int) {
		switch m.mode {
		case allOfThem:
			a.KFrom(k7, rMask)
		case active:
			a.KShift(&x86.KSHIFTRD, k7, kActive, firstLane(wide, g))
		default:
			a.KShift(&x86.KSHIFTRD, k7, k5, firstLane(wide, g))
		}
	}
	for i := range m.n {
		disp := int32(i * m.size)
		for g := range groups {
			lanes(g)
			switch {
			case stores(m.in.Op) && m.size == 8:
				a.Lanes(&x86.PSCATTERQQ, m.vals[i].part(g), x86.RDX, m.off[g], disp, k7)
			case stores(m.in.Op) && wide:
				z := m.vals[i].part(g / 2)
				if g%2 != 0 {
					a.V(&x86.EXTRACTI64X4, z, 0, m.s[3], x86.Arg{Imm: 1})
					z = m.s[3]
				}
				a.Lanes(&x86.PSCATTERQD, z, x86.RDX, m.off[g], disp, k7)
			case stores(m.in.Op):
				a.Lanes(&x86.PSCATTERDD, m.vals[i].part(g), x86.RDX, half[g], disp, k7)
			case m.size == 8:
				a.Lanes(&x86.PGATHERQQ, m.dst[i][g], x86.RDX, m.off[g], disp, k7)
			case !wide:
				a.Lanes(&x86.PGATHERDD, m.dst[i][g], x86.RDX, half[g], disp, k7)
			default:
				a.Lanes(&x86.PGATHERQD, m.s[g%2], x86.RDX, m.off[g], disp, k7)
				if g%2 != 0 {
					a.V(&x86.INSERTI64X4, m.s[0], m.s[0], m.s[1], x86.Arg{Imm: 1})
					a.V(&x86.MOVD, m.dst[i][g/2], 0, m.s[0], x86.Arg{Mask: m.lanes(false, g/2)})
				}
			}
		}
	}
}
