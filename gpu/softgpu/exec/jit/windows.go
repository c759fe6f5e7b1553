//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// Generic addresses of .shared and .local. An access takes its addresses for those of global memory. Where the first lane's
// lies in a window of the generic space, the access goes on here: with offsets in .shared of the block, which what follows
// takes like those in a page, or with code of its own for .local, whose rows lie otherwise. All lanes are compared with the
// ends of .shared or .local, as those of accesses that name the space are; where one is elsewhere, as in .shared of
// another block, the interpreter does the access.

// windows is how an access goes on that lies in a window.
type windows struct {
	tried bool                   // there is code for it
	done  x86.Label              // the end of the access, where all is moved
	moved x86.Label              // where rows are moved, whose first addresses are in rax and rcx; 0: not known
	one   bool                   // it is a load of one address by all lanes, which has the host's address in rax at found
	atom  func(one memoryAccess) // the rest of an atomic operation in .shared, up to done; nil: it is none
}

// tryWindows has the address of the first active lane in rax, the access's offset included, and goes off if that lies in the window
// of .shared or .local. It reports false, and does nothing, for an access that cannot, or that has been here.
func (m *memoryAccess) tryWindows(addr *value) bool {
	if m.in.Space != ir.SpaceGeneric || m.windows.done == 0 || m.windows.tried {
		return false
	}
	m.windows.tried = true
	a, window, mode := &m.emitter.a, m.emitter.a.NewLabel(), m.mode
	m.firstAddress(addr)
	a.Imm64(x86.RDX, m.in.Imm)
	a.RR(x86.ADD, true, x86.RAX, x86.RDX)
	a.RR(x86.MOV, true, x86.RBX, x86.RAX)
	a.Imm64(x86.RDX, tlb.SharedBase)
	a.RR(x86.SUB, true, x86.RBX, x86.RDX)
	a.Imm64(x86.RDX, tlb.ParamBase-tlb.SharedBase)
	a.RR(x86.CMP, true, x86.RBX, x86.RDX)
	a.JumpIf(x86.Below, window)
	m.later = append(m.later, func() {
		a, local := &m.emitter.a, m.emitter.a.NewLabel()
		m.mode = mode
		a.Bind(window)
		a.Imm64(x86.RDX, tlb.LocalBase)
		a.RR(x86.CMP, true, x86.RAX, x86.RDX)
		a.JumpIf(x86.AboveEqual, local)
		one := m.inSpace(ir.SpaceShared, tlb.SharedBase)
		if m.windows.one {
			one.firstInShared()
			a.Jump(m.found)
		} else {
			one.windowOfShared(addr)
		}
		a.Bind(local)
		one = m.inSpace(ir.SpaceLocal, tlb.LocalBase)
		switch {
		case m.windows.atom != nil:
			a.Jump(m.out)
			return
		case m.windows.one:
			one.firstInLocal()
		default:
			one.windowOfLocal(addr)
		}
		a.Jump(m.windows.done)
	})
	return true
}

// inSpace is the access as one of a space whose window begins at a base.
func (m *memoryAccess) inSpace(space ir.Space, base uint64) memoryAccess {
	one, in := *m, *m.in
	in.Space, in.Imm, one.in = space, in.Imm-base, &in
	return one
}

// windowOfShared has the offsets of all lanes in .shared, and goes on where the access does with those in a page.
func (m *memoryAccess) windowOfShared(addr *value) {
	a := &m.emitter.a
	if m.windows.moved != 0 {
		other := a.NewLabel()
		if m.spreads {
			a.ToGP(&x86.TOGPQ, x86.RAX, addr.z[0])
			a.RR(x86.MOV, true, x86.RCX, x86.RAX)
			a.RI(x86.ADD, true, x86.RCX, int32(16*m.total()))
		} else {
			m.compareRows(addr.z)
			m.leaveUnlessRows(other)
		}
		a.Imm64(x86.RDX, m.in.Imm)
		m.firstInside(16*m.total(), other)
		a.Jump(m.windows.moved)
		a.Bind(other)
	}
	m.spread(addr)
	m.insideShared(addr, func(p int) x86.Arg {
		if m.whole {
			return x86.Arg{}
		}
		return x86.Arg{Mask: m.lanes(true, p), Zero: true}
	}, true)
	if m.windows.atom == nil {
		a.Jump(m.found)
		return
	}
	m.windows.atom(*m)
	a.Jump(m.windows.done)
}

// windowOfLocal is the access in .local.
func (m *memoryAccess) windowOfLocal(addr *value) {
	m.spread(addr)
	m.localOffsets(addr)
	m.half = [2]x86.Z{m.off[0], m.off[1]}
	if m.whole && m.size >= 4 {
		m.rowOrEach(m.windows.done)
		return
	}
	m.each()
}

// firstInShared makes the host's address of one in .shared, which is in rax.
func (m *memoryAccess) firstInShared() {
	a := &m.emitter.a
	a.Imm64(x86.RDX, ^tlb.SharedBase+1)
	m.offsetOf(x86.RAX, m.total(), m.out)
	a.RM(x86.ADD, true, x86.RAX, frameAt(offShared))
}

// firstInLocal loads the row of an address in .local, which is in rax.
func (m *memoryAccess) firstInLocal() {
	a := &m.emitter.a
	a.Imm64(x86.RDX, ^tlb.LocalBase+1)
	a.RR(x86.ADD, true, x86.RAX, x86.RDX)
	m.rowInside()
	m.moveWords()
}

// rowInside has the host's address of the row of an address in .local that is in rax, or leaves.
func (m *memoryAccess) rowInside() {
	a := &m.emitter.a
	a.RR(x86.MOV, true, x86.RBX, x86.RAX)
	a.RI(x86.AND, true, x86.RBX, int32(m.in.Align))
	a.JumpIf(x86.NotEqual, m.out)
	a.RM(x86.MOV, true, x86.RBX, frameAt(offLocalEnd)) // a multiple of 4
	a.RI(x86.SUB, true, x86.RBX, int32(m.total()))
	a.JumpIf(x86.Below, m.out)
	a.RR(x86.CMP, true, x86.RAX, x86.RBX)
	a.JumpIf(x86.Above, m.out)
	for range rowShift {
		a.RR(x86.ADD, true, x86.RAX, x86.RAX)
	}
	a.RM(x86.ADD, true, x86.RAX, frameAt(offLocal))
}
