//go:build amd64 && linux

package jit

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Accesses by all lanes whose addresses are known to follow one another by as much as each accesses (strides.go). The
// address of the first lane is enough to find their place, and vectors of addresses are made only where that fails.

// address is the value of the address; m.spreads says that it has its first part alone.
func (m *memoryAccess) address() value {
	e, file := m.emitter, addressFile(m.in.Op)
	o := e.operandAt(file, m.in.A)
	global := (m.in.Space == ir.SpaceGlobal || m.in.Space == ir.SpaceGeneric) && m.wide && !m.in.Neg
	if !m.whole || !global && !m.inRowOfShared() || o.same || int(o.stride) != 1+bits.TrailingZeros(uint(m.total())) || m.total()%(int(m.in.Align)+1) != 0 {
		return *e.use(file, m.in.A, false)
	}
	v := *e.first(file, m.in.A, false)
	m.spreads = v.stride != 0
	copy(v.z[1:], []x86.Z{t1, t2, t3})
	return v
}

// spread makes the parts of the address that have no vectors, in those of m.off.
func (m *memoryAccess) spread(addr *value) {
	if !m.spreads {
		return
	}
	file := addressFile(m.in.Op)
	for p := 1; p < parts(file); p++ {
		m.derive(file, addr.z[p], addr.z[0], p, addr.stride)
	}
}

// inRowOfShared reports whether an access is one of .shared that strideInShared knows.
func (m *memoryAccess) inRowOfShared() bool { return m.in.Space == ir.SpaceShared && m.size >= 4 }

// strideInShared has the host's addresses of the first lanes of both halves in rax and rcx, where what all lanes access is in
// .shared. Else it goes to a label. It compares the first lane's offset with the last at which all of that fits.
func (m *memoryAccess) strideInShared(addr *value, other x86.Label) {
	a, op := &m.emitter.a, &x86.TOGPD
	if m.wide {
		op = &x86.TOGPQ
	}
	a.ToGP(op, x86.RAX, addr.z[0])
	if imm := int64(m.in.Imm); imm == int64(int32(imm)) {
		if imm != 0 {
			a.RI(x86.ADD, m.wide, x86.RAX, int32(imm))
		}
	} else {
		a.Imm64(x86.RDX, m.in.Imm)
		a.RR(x86.ADD, m.wide, x86.RAX, x86.RDX)
	}
	a.RM(x86.SUB, m.wide, x86.RAX, frameAt(offOwn))
	a.RM(x86.CMP, true, x86.RAX, frameAt(offLimits+int32(bits.Len(uint(32*m.total())))*8))
	a.JumpIf(x86.AboveEqual, other)
	if m.in.Align != 0 {
		a.RR(x86.MOV, true, x86.RBX, x86.RAX)
		a.RI(x86.AND, true, x86.RBX, int32(m.in.Align))
		a.JumpIf(x86.NotEqual, other)
	}
	a.RM(x86.ADD, true, x86.RAX, frameAt(offShared))
	a.RR(x86.MOV, true, x86.RCX, x86.RAX)
	a.RI(x86.ADD, true, x86.RCX, int32(16*m.total()))
}

// strideInExtent has the host's addresses of the first lanes of both halves in rax and rcx, where all lanes are in the
// extent that the access found last. Else it goes to a label. The first lane's address is taken from where the extent
// begins, and compared with where the last that fits begins, so that no sum wraps around.
//
// Blocks of several rows come back to a row's next elements with the next block, too late for the processor to have seen
// where that goes on. So they are fetched into the cache here. That reads nothing that a kernel could see, nor faults: it may be
// behind the extent.
func (m *memoryAccess) strideInExtent(pc int32, addr *value, other x86.Label) {
	a, site := &m.emitter.a, m.site(pc)
	a.ToGP(&x86.TOGPQ, x86.RAX, addr.z[0])
	if imm := int64(m.in.Imm); imm == int64(int32(imm)) {
		if imm != 0 {
			a.RI(x86.ADD, true, x86.RAX, int32(imm))
		}
	} else {
		a.Imm64(x86.RDX, m.in.Imm)
		a.RR(x86.ADD, true, x86.RAX, x86.RDX)
	}
	a.RM(x86.SUB, true, x86.RAX, plus(site, siteFrom))
	a.RM(x86.MOV, true, x86.RBX, plus(site, siteExtent))
	a.RI(x86.SUB, true, x86.RBX, int32(32*m.total()))
	a.JumpIf(x86.Below, other) // empty
	a.RR(x86.CMP, true, x86.RAX, x86.RBX)
	a.JumpIf(x86.Above, other)
	if m.in.Align != 0 {
		a.RR(x86.MOV, true, x86.RBX, x86.RAX)
		a.RI(x86.AND, true, x86.RBX, int32(m.in.Align))
		a.JumpIf(x86.NotEqual, other)
	}
	a.RM(x86.ADD, true, x86.RAX, plus(site, siteHost))
	a.RR(x86.MOV, true, x86.RCX, x86.RAX)
	a.RI(x86.ADD, true, x86.RCX, int32(16*m.total()))
	if m.tiled {
		for d := 32 * m.total(); d < 64*m.total(); d += 64 {
			a.Prefetch(x86.Mem{Base: x86.RAX, Disp: int32(d)})
		}
	}
}
