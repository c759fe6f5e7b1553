//go:build amd64 && linux

package jit

import "pvdrm/gpu/softgpu/exec/jit/internal/x86"

// rowsInExtent has the host's addresses of the first lanes of both halves in rax and rcx, where the lanes of the
// address follow one another in each half, all in the extent that the access found last. Else it goes to a label.
func (m *memoryAccess) rowsInExtent(pc int32, addr *value, other x86.Label) {
	a, site := &m.emitter.a, m.site(pc)
	m.compareRows(addr.z)
	m.leaveUnlessRows(other)
	a.Imm64(x86.RDX, m.in.Imm)
	a.RM(x86.SUB, true, x86.RDX, plus(site, siteFrom))
	a.RM(x86.MOV, true, x86.RBX, plus(site, siteExtent))
	a.RI(x86.SUB, true, x86.RBX, int32(16*m.total()))
	a.JumpIf(x86.Below, other) // empty
	for _, r := range m.rows {
		a.RR(x86.ADD, true, r, x86.RDX)
		a.RR(x86.CMP, true, r, x86.RBX)
		a.JumpIf(x86.Above, other)
	}
	if m.in.Align != 0 {
		a.RR(x86.MOV, true, x86.RBX, x86.RAX)
		a.RR(x86.OR, true, x86.RBX, x86.RCX)
		a.RI(x86.AND, true, x86.RBX, int32(m.in.Align))
		a.JumpIf(x86.NotEqual, other)
	}
	a.RM(x86.MOV, true, x86.RDX, plus(site, siteHost))
	for _, r := range m.rows {
		a.RR(x86.ADD, true, r, x86.RDX)
	}
}

// extentOffsets is offsets for global memory: from the extent that the access found last, of which the host's
// address is in rdx then. Where one lane is beyond its end, or not aligned, that shows in a difference.
func (m *memoryAccess) extentOffsets(pc int32, addr *value, arg func(p int) x86.Arg) {
	a, align := &m.emitter.a, int32(m.in.Align)
	site, other := m.site(pc), m.anotherPage(pc, addr)
	m.spread(addr)
	a.RM(x86.MOV, true, x86.RAX, plus(site, siteFrom))
	a.Imm64(x86.RDX, m.in.Imm)
	a.RR(x86.SUB, true, x86.RAX, x86.RDX)
	a.FromGP(&x86.FROMGPQ, m.s[0], x86.RAX, x86.Arg{})
	for p := range m.off {
		a.V(&x86.PSUBQ, m.off[p], addr.part(p), m.s[0], arg(p))
	}
	// The last offset is a multiple of the alignment, so that the distance to it is where the offset is.
	a.RM(x86.MOV, true, x86.RAX, plus(site, siteExtent))
	a.RI(x86.SUB, true, x86.RAX, int32(m.total()))
	a.JumpIf(x86.Below, other) // empty
	a.RI(x86.AND, true, x86.RAX, ^align)
	a.FromGP(&x86.FROMGPQ, m.s[0], x86.RAX, x86.Arg{})
	a.V(&x86.PSUBQ, m.s[1], m.s[0], m.off[0], x86.Arg{})
	a.V(&x86.PSUBQ, m.s[2], m.s[0], m.off[1], x86.Arg{})
	a.V(&x86.PSUBQ, m.s[3], m.s[0], m.off[2], x86.Arg{})
	a.V(&x86.PTERNLOGQ, m.s[1], m.s[2], m.s[3], x86.Arg{Imm: or3})
	a.V(&x86.PSUBQ, m.s[2], m.s[0], m.off[3], x86.Arg{})
	a.V(&x86.PTERNLOGQ, m.s[1], m.s[2], m.off[0], x86.Arg{Imm: or3})
	a.V(&x86.PTERNLOGQ, m.s[1], m.off[1], m.off[2], x86.Arg{Imm: or3})
	a.V(&x86.PORQ, m.s[1], m.s[1], m.off[3], x86.Arg{})
	a.Imm64(x86.RAX, 1<<63|uint64(align))
	a.FromGP(&x86.FROMGPQ, m.s[0], x86.RAX, x86.Arg{})
	a.VK(&x86.PTESTMQ, k7, m.s[1], m.s[0], x86.Arg{})
	a.KK(&x86.KORTESTD, k7, 0, k7)
	a.JumpIf(x86.NotEqual, other)
	a.RM(x86.MOV, true, x86.RDX, plus(site, siteHost))
}

// anotherPage is where an access goes that is not in the page that it found last. It begins again
// with the page of its first active lane if the worker's table has that one, else it leaves. Where
// this lane is in the page that it has, others are not, or are not aligned: then it goes on with
// the pages of all lanes, unless it is of one address. The access begins here.
func (m *memoryAccess) anotherPage(pc int32, addr *value) x86.Label {
	again, other, mode, where := m.a.NewLabel(), m.a.NewLabel(), m.mode, *addr
	m.a.Bind(again)
	m.later = append(m.later, func() {
		a := &m.emitter.a
		m.mode = mode
		a.Bind(other)
		if !m.tryWindows(&where) {
			m.firstAddress(&where)
			a.Imm64(x86.RDX, m.in.Imm)
			a.RR(x86.ADD, true, x86.RAX, x86.RDX)
		}
		site, entry := m.site(pc), x86.Mem{Base: x86.RDX}
		if stores(m.in.Op) {
			entry.Disp = tableSites * siteBytes
		}
		several := m.out
		if m.size >= 4 && !where.uniform && !m.both {
			several = a.NewLabel()
		}
		a.RR(x86.MOV, true, x86.RDX, x86.RAX)
		a.RM(x86.MOV, true, x86.RCX, plus(site, siteTag)) // of which a shift takes the low bits
		a.ShiftByCL(x86.RDX)
		a.RI(x86.AND, true, x86.RDX, (tableSites-1)*siteBytes)
		a.RR(x86.ADD, true, x86.RDX, rSites)
		elsewhere, changed := a.NewLabel(), a.NewLabel()
		a.RR(x86.MOV, true, x86.RBX, x86.RAX)
		a.RM(x86.SUB, true, x86.RBX, plus(entry, siteFrom))
		a.RM(x86.CMP, true, x86.RBX, plus(entry, siteExtent))
		a.JumpIf(x86.AboveEqual, elsewhere)
		for _, part := range []int{siteFrom, siteExtent} { // the extent may have grown since
			a.RM(x86.MOV, true, x86.RBX, plus(entry, part))
			a.RM(x86.CMP, true, x86.RBX, plus(site, part))
			a.JumpIf(x86.NotEqual, changed)
		}
		a.Jump(several)
		a.Bind(elsewhere)
		a.RM(x86.SUB, true, x86.RAX, plus(site, siteFrom))
		a.RM(x86.CMP, true, x86.RAX, plus(site, siteExtent))
		a.JumpIf(x86.Below, several)
		a.Jump(m.out)
		a.Bind(changed)
		for _, part := range []int{siteFrom, siteExtent, siteHost, siteTag} {
			a.RM(x86.MOV, true, x86.RAX, plus(entry, part))
			a.Store(true, plus(site, part), x86.RAX)
		}
		a.Jump(again)
		if several != m.out {
			a.Bind(several)
			m.severalPages(&where)
		}
	})
	return other
}

// severalPages finds the page of each active lane in the worker's table, and has the addresses of
// what they access in m.off, with 0 for that of the page in rdx; lanes that are not active have 0.
// It tries the sizes that pages have, one after the other, and leaves if the table does not have the
// page of a lane, or if a lane is not aligned.
func (m *memoryAccess) severalPages(addr *value) {
	a := &m.emitter.a
	m.spread(addr)
	a.Imm64(x86.RAX, m.in.Imm)
	a.FromGP(&x86.FROMGPQ, m.s[0], x86.RAX, x86.Arg{})
	for p, off := range m.off {
		arg := x86.Arg{Mask: m.lanes(true, p), Zero: m.mode != allOfThem}
		a.V(&x86.PADDQ, off, addr.part(p), m.s[0], arg)
	}
	a.V(&x86.PORQ, m.s[0], m.off[0], m.off[1], x86.Arg{})
	a.V(&x86.PTERNLOGQ, m.s[0], m.off[2], m.off[3], x86.Arg{Imm: or3})
	a.RI(x86.MOV, true, x86.RAX, int32(m.in.Align))
	a.FromGP(&x86.FROMGPQ, m.s[1], x86.RAX, x86.Arg{})
	a.VK(&x86.PTESTMQ, k7, m.s[0], m.s[1], x86.Arg{})
	a.KK(&x86.KORTESTD, k7, 0, k7)
	a.JumpIf(x86.NotEqual, m.out)
	a.FromGP(&x86.FROMGPQ, m.s[0], x86.RAX, x86.Arg{}) // anything: its lanes are counted
	for p := range m.off {
		a.VK(&x86.PCMPQ, k7, m.s[0], m.s[0], x86.Arg{Mask: m.lanes(true, p), Imm: intEqual})
		a.KStore(m.left(p), k7)
	}
	next := a.NewLabel()
	a.RM(x86.MOV, true, x86.RCX, frameAt(offSizes))
	a.Bind(next)
	a.RM(x86.MOV, true, x86.RAX, x86.Mem{Base: x86.RCX})
	a.RR(x86.TEST, true, x86.RAX, x86.RAX)
	a.JumpIf(x86.Equal, m.out)
	for p := range m.off {
		m.pagesOfSize(p)
	}
	a.RI(x86.ADD, true, x86.RCX, sizeBytes)
	a.RM(x86.MOV, false, x86.RAX, m.left(0))
	for p := 1; p < 4; p++ {
		a.RM(x86.OR, false, x86.RAX, m.left(p))
	}
	a.RR(x86.TEST, false, x86.RAX, x86.RAX)
	a.JumpIf(x86.NotEqual, next)
	a.RI(x86.MOV, true, x86.RDX, 0)
	a.Jump(m.found)
}

// left is where the lanes of group p are whose pages are still to be found.
func (m *memoryAccess) left(p int) x86.Mem { return frameAt(offLeft + 4*int32(p)) }

// pagesOfSize makes addresses of the host of those of group p that lie in pages of the size at rcx.
func (m *memoryAccess) pagesOfSize(p int) {
	a, off, table := &m.emitter.a, m.off[p], int32(0)
	if stores(m.in.Op) {
		table = tableSites * siteBytes
	}
	index, base, tag, page := m.s[0], m.s[1], m.s[2], m.s[3]
	less, whole := x86.Mem{Base: x86.RCX}, x86.Mem{Base: x86.RCX, Disp: 8}
	a.VB(&x86.PSRLVQ, index, off, whole, x86.Arg{})
	a.VB(&x86.PSLLVQ, base, index, whole, x86.Arg{})
	a.V(&x86.PSLLQ, index, 0, index, x86.Arg{Imm: siteBits})
	a.VB(&x86.PANDQ, index, index, double((tableSites-1)<<siteBits), x86.Arg{})
	a.KLoad(k7, m.left(p))
	a.Lanes(&x86.PGATHERQQ, tag, rSites, index, table+int32(siteTag), k7)
	a.VB(&x86.PORQ, page, base, less, x86.Arg{}) // the tag that is wanted
	a.KLoad(k7, m.left(p))
	a.VK(&x86.PCMPQ, k6, tag, page, x86.Arg{Mask: k7, Imm: intEqual})
	a.KK(&x86.KANDND, k7, k6, k7)
	a.KStore(m.left(p), k7)
	a.V(&x86.PSUBQ, off, off, base, x86.Arg{Mask: k6})
	a.KK(&x86.KORD, k7, k6, k6)
	a.Lanes(&x86.PGATHERQQ, page, rSites, index, table+int32(sitePage), k7)
	a.V(&x86.PADDQ, off, off, page, x86.Arg{Mask: k6})
}

// firstAddress has the address of the first active lane in rax, before its offset.
func (m *memoryAccess) firstAddress(addr *value) {
	a := &m.emitter.a
	if m.mode == allOfThem {
		a.ToGP(&x86.TOGPQ, x86.RAX, addr.part(0))
		return
	}
	for p := 3; p >= 0; p-- { // a part without active lanes leaves the lane of those behind it
		a.V(&x86.PCOMPRESSQ, addr.part(p), 0, t0, x86.Arg{Mask: m.lanes(true, p)})
	}
	a.ToGP(&x86.TOGPQ, x86.RAX, t0)
}
