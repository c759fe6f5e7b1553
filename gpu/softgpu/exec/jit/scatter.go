//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// scattered is the access of lanes that are not in rows: of one address for each
// half, or any.
func (m *memoryAccess) scattered(done x86.Label) {
	a := &m.emitter.a
	if m.size < 4 {
		if m.wide {
			m.narrow()
		} else {
			m.half = [2]x86.Z{m.off[0], m.off[1]}
		}
		m.mode = allOfThem
		m.small()
		return
	}
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
		m.record(placeSame)
		m.sameInHalves()
		a.Jump(done)
		a.Bind(differ)
		if m.grouped() {
			m.inGroups(done)
		}
	}
	m.recordApart()
	m.mode = allOfThem // this code is made later than the operation
	m.each()
}

// small gathers lanes of less than 32 bits: the words that they lie in, which are in the
// page, too, and have 8 bytes there.
func (m *memoryAccess) small() {
	a := &m.emitter.a
	switch {
	case stores(m.in.Op) && m.in.Space == ir.SpaceLocal:
		m.storeSmall()
		return
	case stores(m.in.Op):
		m.storeBytes()
		return
	}
	for g, off := range m.half {
		m.chosen(false, g)
		a.VB(&x86.PANDD, m.s[0], off, word(3), x86.Arg{})
		a.V(&x86.PXORD, m.s[1], off, m.s[0], x86.Arg{})
		a.V(&x86.PSLLD, m.s[0], 0, m.s[0], x86.Arg{Imm: 3})
		word32 := off // not needed any more
		a.Lanes(&x86.PGATHERDD, word32, x86.RDX, m.s[1], 0, k7)
		a.V(&x86.PSRLVD, word32, word32, m.s[0], x86.Arg{})
		mask := uint32(0xff)
		if m.size == 2 {
			mask = 0xffff
		}
		a.VB(&x86.PANDD, m.dst[0][g], word32, word(mask), x86.Arg{Mask: m.lanes(false, g)})
	}
}

// lanesApart goes off for lanes in several pages.
func (m *memoryAccess) lanesApart(mode maskMode, done x86.Label) {
	apart, one := m.emitter.a.NewLabel(), *m
	one.apart = true
	m.emitter.a.RR(x86.TEST, true, x86.RDX, x86.RDX)
	m.emitter.a.JumpIf(x86.Equal, apart)
	m.later = append(m.later, func() {
		m.emitter.a.Bind(apart)
		one.mode = mode
		one.each()
		one.emitter.a.Jump(done)
	})
}

// chosen has the lanes of group g that are to move in k7.
func (m *memoryAccess) chosen(wide bool, g int) {
	a := &m.emitter.a
	switch m.mode {
	case allOfThem:
		a.KFrom(k7, rMask)
	case active:
		a.KShift(&x86.KSHIFTRD, k7, kActive, firstLane(wide, g))
	default:
		a.KShift(&x86.KSHIFTRD, k7, k5, firstLane(wide, g))
	}
}

// each gathers or scatters the lanes one by one.
func (m *memoryAccess) each() {
	a := &m.emitter.a
	if m.size < 4 {
		m.small()
		return
	}
	groups, wide := 2, false // lanes that one instruction moves
	if m.wide && (m.whole || m.apart) || m.size == 8 {
		groups, wide = 4, true
	}
	half := m.half
	if m.whole {
		half = [2]x86.Z{m.off[0], m.off[1]}
	}
	for i := range m.n {
		disp := int32(i * m.size)
		if m.in.Space == ir.SpaceLocal {
			disp <<= rowShift
		}
		for g := range groups {
			m.chosen(wide, g)
			switch {
			case m.size == 8 && m.in.Space == ir.SpaceLocal:
				if g%2 == 0 {
					m.doubleOfLocal(i, g/2, disp)
				}
			case m.size == 8 && !m.wide:
				m.doubleAt(i, g, disp)
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

// doubleAt moves 8 lanes of 8 bytes by offsets of 32 bits.
func (m *memoryAccess) doubleAt(i, g int, disp int32) {
	a := &m.emitter.a
	index := m.half[g/2]
	if m.whole {
		index = m.off[g/2]
	}
	if g%2 != 0 {
		a.V(&x86.EXTRACTI64X4, index, 0, m.s[3], x86.Arg{Imm: 1})
		index = m.s[3]
	}
	if stores(m.in.Op) {
		a.Lanes(&x86.PSCATTERDQ, m.vals[i].part(g), x86.RDX, index, disp, k7)
		return
	}
	a.Lanes(&x86.PGATHERDQ, m.dst[i][g], x86.RDX, index, disp, k7)
}
