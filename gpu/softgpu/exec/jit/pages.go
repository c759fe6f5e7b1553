//go:build amd64 && linux

package jit

import "pvdrm/gpu/softgpu/exec/jit/internal/x86"

// anotherPage is where an access goes that is not in the page that it found last. It begins again
// with the page of its first active lane if the worker's table has that one, else it leaves. It
// leaves, too, where this lane is in the page that it has: others are not, or are not aligned.
// The access begins here.
func (m *memoryAccess) anotherPage(pc int32, addr *value) x86.Label {
	again, other, mode, where := m.a.NewLabel(), m.a.NewLabel(), m.mode, *addr
	m.a.Bind(again)
	m.later = append(m.later, func() {
		a := &m.emitter.a
		m.mode = mode
		a.Bind(other)
		m.firstAddress(&where)
		a.Imm64(x86.RDX, m.in.Imm)
		a.RR(x86.ADD, true, x86.RAX, x86.RDX)
		site, entry := m.site(pc), x86.Mem{Base: x86.RDX}
		if stores(m.in.Op) {
			entry.Disp = tableSites * siteBytes
		}
		a.RR(x86.MOV, true, x86.RDX, x86.RAX)
		a.RM(x86.SUB, true, x86.RDX, plus(site, siteBase))
		a.RM(x86.AND, true, x86.RDX, plus(site, siteOutside))
		a.JumpIf(x86.Equal, m.out)
		a.RR(x86.MOV, true, x86.RDX, x86.RAX)
		a.RM(x86.MOV, true, x86.RCX, plus(site, siteShift))
		a.ShiftByCL(x86.RDX)
		a.RI(x86.AND, true, x86.RDX, (tableSites-1)*siteBytes)
		a.RR(x86.ADD, true, x86.RDX, rSites)
		a.RM(x86.SUB, true, x86.RAX, plus(entry, siteBase))
		a.RM(x86.AND, true, x86.RAX, plus(entry, siteOutside))
		a.JumpIf(x86.NotEqual, m.out)
		a.RM(x86.MOV, true, x86.RAX, plus(entry, sitePage))
		a.RR(x86.TEST, true, x86.RAX, x86.RAX)
		a.JumpIf(x86.Equal, m.out)
		a.Store(true, plus(site, sitePage), x86.RAX)
		for _, part := range []int{siteBase, siteOutside, siteShift} {
			a.RM(x86.MOV, true, x86.RAX, plus(entry, part))
			a.Store(true, plus(site, part), x86.RAX)
		}
		a.Jump(again)
	})
	return other
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
