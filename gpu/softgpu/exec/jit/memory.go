//go:build amd64 && linux

package jit

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Loads and stores of a whole warp. Addresses become offsets in a page of which
// the worker knows the memory (a site), or in .shared; where not all active lanes
// are aligned and inside, the interpreter does the access. Offsets that follow one
// another in each half of the warp, as those of a row do, or are all the same
// there, are moved as vectors, all others gathered or scattered.

// addressFile is the register file of an access's address.
func addressFile(op ir.Opcode) ir.RegKind {
	switch op {
	case ir.OpLoadWide, ir.OpStoreWide, ir.OpLoadsWide, ir.OpStoresWide, ir.OpAtom:
		return ir.In64
	}
	return ir.In32
}

// accessRegs are the registers that an access moves.
func accessRegs(in *ir.Inst) (file ir.RegKind, regs [4]uint32, n int) {
	if in.Op < ir.OpLoads {
		file = ir.In32
		if in.Target == 8 {
			file = ir.In64
		}
		return file, [4]uint32{in.D}, 1
	}
	regs, n = ir.Elements(in)
	file = ir.In32
	if in.Target == 8 {
		file = ir.In64
	}
	return file, regs, n
}

// knownAccess reports whether an access is compiled; operations of other kinds are.
func knownAccess(in *ir.Inst) bool {
	switch {
	case in.Op == ir.OpSpin:
		return true
	case in.Op == ir.OpLoadFrame || in.Op == ir.OpStoreFrame:
		return in.Imm < maxRows
	case !isAccess(in):
		return true
	}
	size := in.Target
	wide := addressFile(in.Op) == ir.In64
	switch {
	case in.Op == ir.OpAtom:
		return knownAtom(in)
	case in.Space == ir.SpaceLocal:
		return knownLocal(in)
	case in.Space != ir.SpaceGlobal && in.Space != ir.SpaceGeneric && in.Space != ir.SpaceShared:
		return false
	case in.Space == ir.SpaceGeneric && !wide || in.Space == ir.SpaceGlobal && !wide:
		return false
	case in.Op >= ir.OpLoads:
		return size == 4 || size == 8 && in.E == ir.NoReg
	}
	return size <= 8
}

// memoryAccess is an access that is being compiled.
type memoryAccess struct {
	*emitter
	in      *ir.Inst
	wide    bool // the address is in a 64-bit register
	size    int  // of an element, in bytes
	n       int  // elements
	file    ir.RegKind
	regs    [4]uint32
	vals    [4]value  // of a store
	s       [4]x86.Z  // scratch
	off     [4]x86.Z  // offsets in the page: two vectors, or four of 64 bits
	out     x86.Label // to the interpreter
	half    [2]x86.Z  // the same of 32 bits, where not all lanes run
	rows    [2]x86.R  // address of the first lane of each half
	dst     [4][4]x86.Z
	whole   bool      // all lanes
	found   x86.Label // where offsets, and the address of the page, are known
	where   *value    // of the address, for record
	place   placed    // of the address; at is -1: none
	ahead   int32     // how far it is from the lowest access by the register
	reaches bool      // it is one of those that the place is known to have
	both    bool      // it is two loads, of words that lie beside each other (beside.go)
	spreads bool      // the address has its first part alone, and the lanes follow one another (strided.go)
	apart   bool      // of lanes in several pages: offsets are addresses, and have 64 bits
	windows windows   // of .shared and .local, where a generic address may lie
}

func (e *emitter) access(pc int32, in *ir.Inst) {
	m := &memoryAccess{emitter: e, in: in, wide: addressFile(in.Op) == ir.In64, size: int(in.Target), whole: e.mode == allOfThem}
	if m.file, m.regs, m.n = accessRegs(in); m.byKept(pc) {
		return
	}
	if second, ok := e.beside(pc, in); ok {
		m.accessBeside(pc, second)
		return
	}
	addr := m.address()
	if stores(in.Op) {
		for i := range m.n {
			m.vals[i] = *e.use(m.file, m.regs[i], false)
		}
	} else if !m.whole {
		for i := range m.n {
			e.use(m.file, m.regs[i], false) // what inactive lanes keep
		}
	}
	if m.whole && addr.uniform && m.size >= 4 && in.Space == ir.SpaceLocal {
		m.rowOfLocal(pc, addr.z[0])
		return
	}
	if in.Space == ir.SpaceLocal && m.total() > 4 {
		m.wordsOfLocal(pc, &addr)
		return
	}
	if !stores(in.Op) && m.whole && addr.uniform && m.wide && m.n == 1 && m.size >= 4 && in.Space != ir.SpaceShared && in.Space != ir.SpaceLocal {
		m.scalar(pc, addr.z[0])
		return
	}
	if m.whole && in.Space == ir.SpaceShared && m.size >= 4 {
		m.inShared(pc, &addr)
		return
	}
	for i := range m.s {
		m.s[i] = e.scratch()
	}
	m.off = [4]x86.Z{t0, t1, t2, t3}
	isWhole := in.Neg && in.Space != ir.SpaceShared
	var loaded [4][4]x86.Z
	if isWhole {
		loaded = m.roomForArea()
	}
	m.leavesAside(pc)
	if isWhole {
		m.atOnce(pc, &addr, loaded)
		return
	}
	scattered, done := e.a.NewLabel(), e.a.NewLabel()
	if m.whole {
		m.allLanes(pc, &addr, scattered, done)
		return
	}
	m.windows.done = done
	m.offsets(pc, &addr)
	e.a.Bind(m.found)
	m.someLanes(addr.uniform, scattered, done)
}

// leavesAside makes the exit of an access, and room for what a load loads, to which nothing is written before it is known
// that no lane leaves. Where not all lanes run, the room holds what the others keep, which is moved there if lanes had the same:
// the exit comes after that, since it saves registers from where they are when it is made.
func (m *memoryAccess) leavesAside(pc int32) {
	if !m.whole {
		m.makeRoom()
	}
	m.out, m.found = m.emitter.aside(pc), m.emitter.a.NewLabel()
	if m.whole {
		m.makeRoom()
	}
}

// makeRoom makes room for what a load loads.
func (m *memoryAccess) makeRoom() {
	if !stores(m.in.Op) {
		for i := range m.n {
			m.dst[i], _ = m.emitter.write(m.file, m.regs[i], false)
		}
	}
}

// allLanes is the rest of an access of a warp that runs with all lanes. Nothing is written to what makeRoom has
// made room for before it is known that no lane leaves.
func (m *memoryAccess) allLanes(pc int32, addr *value, scattered, done x86.Label) {
	e, where, moved := m.emitter, *addr, m.a.NewLabel()
	m.rows, m.windows.done = [2]x86.R{x86.RAX, x86.RCX}, done
	full := func() {
		m.mode = allOfThem
		m.offsets(pc, &where)
		m.emitter.a.Bind(m.found)
		m.shape(scattered)
	}
	if m.in.Space != ir.SpaceLocal && m.in.Space != ir.SpaceShared && !addr.uniform {
		other := e.a.NewLabel()
		if m.spreads {
			m.strideInExtent(pc, addr, other)
		} else {
			m.rowsInExtent(pc, addr, other)
		}
		if m.total()%(int(m.in.Align)+1) == 0 {
			m.windows.moved = moved
		}
		e.later = append(e.later, func() {
			m.emitter.a.Bind(other)
			m.mode = allOfThem
			m.tryWindows(&where)
			full()
			m.emitter.a.Jump(moved)
		})
	} else {
		full()
	}
	m.inRowsAt(moved, done, scattered)
}

// moves are the instructions that load and store a vector of elements.
func (m *memoryAccess) moves() (load, store *x86.Op) {
	switch m.size {
	case 1:
		return &x86.PMOVZXBD, &x86.PMOVDB
	case 2:
		return &x86.PMOVZXWD, &x86.PMOVDW
	case 8:
		return &x86.LOADQ, &x86.STOREQ
	}
	return &x86.LOADD, &x86.STORED
}

// scratch is a vector register for this operation.
func (e *emitter) scratch() x86.Z {
	z := e.take(ir.InMemory, 0, 0)
	return z
}

func (m *memoryAccess) site(pc int32) x86.Mem {
	return x86.Mem{Base: rSites, Disp: (ownSites + int32(m.sites[pc-m.fn.Entry])) * siteBytes}
}

// plus is a memory operand some bytes further.
func plus(m x86.Mem, n int) x86.Mem { return x86.Mem{Base: m.Base, Disp: m.Disp + int32(n)} }

// number of bytes that one lane accesses.
func (m *memoryAccess) total() int { return m.size * m.n }

// offsets computes the offset of each lane in its page, 0 for lanes that are not
// active, leaves if one is not inside or not aligned, and has the address of the page
// in rdx.
func (m *memoryAccess) offsets(pc int32, addr *value) {
	if m.in.Space == ir.SpaceLocal {
		m.localOffsets(addr)
		return
	}
	arg := func(p int) x86.Arg {
		if m.whole {
			return x86.Arg{}
		}
		return x86.Arg{Mask: m.lanes(m.wide, p), Zero: true}
	}
	if m.in.Space == ir.SpaceShared {
		m.insideShared(addr, arg, true)
		return
	}
	m.extentOffsets(pc, addr, arg)
}

// insideShared computes the offset of each lane in .shared, leaves if one is not inside, or if it is to look for that,
// not aligned, and has the address of .shared in rdx.
func (m *memoryAccess) insideShared(addr *value, arg func(p int) x86.Arg, aligned bool) {
	a, count := &m.emitter.a, 2
	add, most, cmp, or, ternary, test, fromGP := &x86.PADDD, &x86.PMAXUD, &x86.PCMPUD, &x86.PORD, &x86.PTERNLOGD, &x86.PTESTMD, &x86.FROMGPD
	if m.wide {
		count = 4
		add, most, cmp, or, ternary, test, fromGP = &x86.PADDQ, &x86.PMAXUQ, &x86.PCMPUQ, &x86.PORQ, &x86.PTERNLOGQ, &x86.PTESTMQ, &x86.FROMGPQ
	}
	a.Imm64(x86.RAX, m.in.Imm)
	a.RM(x86.SUB, true, x86.RAX, frameAt(offOwn))
	a.FromGP(fromGP, m.s[0], x86.RAX, x86.Arg{})
	for p := range count {
		a.V(add, m.off[p], addr.part(p), m.s[0], arg(p))
	}
	a.V(most, m.s[0], m.off[0], m.off[1], x86.Arg{})
	if m.wide {
		a.V(most, m.s[0], m.s[0], m.off[2], x86.Arg{})
		a.V(most, m.s[0], m.s[0], m.off[3], x86.Arg{})
	}
	a.VKB(cmp, k7, m.s[0], frameAt(offLimits+int32(bits.Len(uint(m.total())))*8), x86.Arg{Imm: intGreatEq})
	if aligned {
		a.V(or, m.s[1], m.off[0], m.off[1], x86.Arg{})
		if m.wide {
			a.V(ternary, m.s[1], m.off[2], m.off[3], x86.Arg{Imm: or3})
		}
		a.RI(x86.MOV, true, x86.RAX, int32(m.in.Align))
		a.FromGP(fromGP, m.s[0], x86.RAX, x86.Arg{})
		a.VK(test, k6, m.s[1], m.s[0], x86.Arg{})
		a.KK(&x86.KORD, k7, k6, k7)
	}
	a.KK(&x86.KORTESTD, k7, 0, k7)
	a.JumpIf(x86.NotEqual, m.out)
	a.RM(x86.MOV, true, x86.RDX, frameAt(offShared))
}

// or3 is the table of a|b|c, orXor that of a|(b^c).
const (
	or3   = 0xfe
	orXor = 0xf6
)

func (m *memoryAccess) broadcast() *x86.Op {
	if m.size == 8 {
		return &x86.BROADCASTQ
	}
	return &x86.BROADCASTD
}

// shape goes to scattered unless the lanes of each half access neighbouring
// places. The places of their first lanes are in rax and rcx.
func (m *memoryAccess) shape(scattered x86.Label) {
	a := &m.emitter.a
	m.compareRows(m.off)
	a.RR(x86.ADD, true, x86.RAX, x86.RDX)
	a.RR(x86.ADD, true, x86.RCX, x86.RDX)
	m.leaveUnlessRows(scattered)
}

// leaveUnlessRows goes to a label where compareRows has found a difference.
func (m *memoryAccess) leaveUnlessRows(out x86.Label) {
	a := &m.emitter.a
	a.VK(&x86.PTESTMD, k7, m.s[2], m.s[2], x86.Arg{})
	a.KK(&x86.KORTESTD, k7, 0, k7)
	a.JumpIf(x86.NotEqual, out)
}

// compareRows has in s[2] in what the lanes of z differ from ones that follow one another in each half, and
// the first lanes of the halves in rax and rcx.
func (m *memoryAccess) compareRows(z [4]x86.Z) {
	a := &m.emitter.a
	step := bits.TrailingZeros(uint(m.total()))
	if !m.wide {
		at := constant(offStep32 + int32(step)*64)
		a.V(&x86.BROADCASTD, m.s[0], 0, z[0], x86.Arg{})
		a.V(&x86.BROADCASTD, m.s[1], 0, z[1], x86.Arg{})
		a.V(&x86.PSUBD, m.s[2], z[0], m.s[0], x86.Arg{})
		a.VM(&x86.PXORD, m.s[2], m.s[2], at, x86.Arg{})
		a.V(&x86.PSUBD, m.s[3], z[1], m.s[1], x86.Arg{})
		a.VM(&x86.PTERNLOGD, m.s[2], m.s[3], at, x86.Arg{Imm: orXor})
		a.ToGP(&x86.TOGPD, x86.RAX, z[0])
		a.ToGP(&x86.TOGPD, x86.RCX, z[1])
		return
	}
	at := constant(offStep64 + int32(step)*128)
	a.V(&x86.BROADCASTQ, m.s[0], 0, z[0], x86.Arg{})
	a.V(&x86.BROADCASTQ, m.s[1], 0, z[2], x86.Arg{})
	a.V(&x86.PSUBQ, m.s[2], z[0], m.s[0], x86.Arg{})
	a.VM(&x86.PXORQ, m.s[2], m.s[2], at, x86.Arg{})
	a.V(&x86.PSUBQ, m.s[3], z[1], m.s[0], x86.Arg{})
	a.VM(&x86.PTERNLOGQ, m.s[2], m.s[3], plus(at, 64), x86.Arg{Imm: orXor})
	a.V(&x86.PSUBQ, m.s[3], z[2], m.s[1], x86.Arg{})
	a.VM(&x86.PTERNLOGQ, m.s[2], m.s[3], at, x86.Arg{Imm: orXor})
	a.V(&x86.PSUBQ, m.s[3], z[3], m.s[1], x86.Arg{})
	a.VM(&x86.PTERNLOGQ, m.s[2], m.s[3], plus(at, 64), x86.Arg{Imm: orXor})
	a.ToGP(&x86.TOGPQ, x86.RAX, z[0])
	a.ToGP(&x86.TOGPQ, x86.RCX, z[2])
}

// loadRows loads what lies at rows, a half of the warp at each.
func (m *memoryAccess) loadRows() {
	for h, r := range m.rows {
		m.loadHalf(h, func(i int) x86.Mem { return x86.Mem{Base: r, Disp: int32(64 * i)} })
	}
}

// loadHalf loads half h of the warp, whose lanes follow one another in vectors.
func (m *memoryAccess) loadHalf(h int, at func(i int) x86.Mem) {
	a := &m.emitter.a
	switch {
	case m.size == 8 && m.n == 2:
		m.loadDoubles(h, at)
	case m.size == 8:
		a.VM(&x86.LOADQ, m.dst[0][2*h], 0, at(0), x86.Arg{})
		a.VM(&x86.LOADQ, m.dst[0][2*h+1], 0, at(1), x86.Arg{})
	case m.n == 1:
		load, _ := m.moves()
		a.VM(load, m.dst[0][h], 0, at(0), x86.Arg{})
	case m.pairs:
		m.loadElements(h, at)
	case m.n == 2:
		a.VM(&x86.LOADD, m.s[0], 0, at(0), x86.Arg{})
		for i := range 2 {
			a.VM(&x86.LOADD, m.s[1], 0, constant(offEvery2+int32(64*i)), x86.Arg{})
			a.VM(&x86.PERMI2D, m.s[1], m.s[0], at(1), x86.Arg{})
			a.V(&x86.MOVD, m.dst[i][h], 0, m.s[1], x86.Arg{})
		}
	default:
		// Elements 0 and 1 of 8 lanes each, then 2 and 3.
		a.VM(&x86.LOADD, m.s[0], 0, at(0), x86.Arg{})
		a.VM(&x86.LOADD, m.s[1], 0, at(2), x86.Arg{})
		for i := range 2 {
			a.VM(&x86.LOADD, m.s[2], 0, constant(offEvery4+int32(64*i)), x86.Arg{})
			a.V(&x86.MOVD, m.s[3], 0, m.s[2], x86.Arg{})
			a.VM(&x86.PERMI2D, m.s[2], m.s[0], at(1), x86.Arg{})
			a.VM(&x86.PERMI2D, m.s[3], m.s[1], at(3), x86.Arg{})
			a.V(&x86.SHUFI64X2, m.dst[2*i][h], m.s[2], m.s[3], x86.Arg{Imm: 0x44})
			a.V(&x86.SHUFI64X2, m.dst[2*i+1][h], m.s[2], m.s[3], x86.Arg{Imm: 0xee})
		}
	}
}

// storeRows is the inverse of loadRows. The second half comes later, since where
// lanes write the same place, the highest wins.
func (m *memoryAccess) storeRows() {
	for h, r := range m.rows {
		m.storeHalf(h, func(i int) x86.Mem { return x86.Mem{Base: r, Disp: int32(64 * i)} })
	}
}
