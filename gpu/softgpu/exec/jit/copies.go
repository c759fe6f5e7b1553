//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Accesses that go lane by lane: vectors that are one access each, parts of words whose lanes lie anywhere, and cp.async.
// Addresses in the host's memory are checked for all lanes first, as those of other accesses are, and written to the
// area, where a loop finds them by the numbers of lanes.

// areaRows has 16 bytes for each lane, in the place of two operands of atomic operations.
const areaRows = areaB

// areaZeros are 16 bytes.
const areaZeros = areaLeft + 16

// hostAddresses writes the addresses of all lanes to the area: of the offsets in m.off from rdx on.
func (m *memoryAccess) hostAddresses(to int) {
	a := &m.emitter.a
	a.FromGP(&x86.FROMGPQ, m.s[0], x86.RDX, x86.Arg{})
	for p, off := range m.off {
		a.V(&x86.PADDQ, off, off, m.s[0], x86.Arg{})
		a.VM(&x86.STOREQ, off, 0, inArea(to, p), x86.Arg{})
	}
}

// eachLane makes code for each lane of the operation, the lowest first. Its number is in rbx, which the code may change,
// as it may all but rcx.
func (e *emitter) eachLane(body func()) {
	if e.mode == guarded {
		e.a.KTo(x86.RCX, k5)
	} else {
		e.a.RR(x86.MOV, false, x86.RCX, rMask)
	}
	next, end := e.a.NewLabel(), e.a.NewLabel()
	e.a.RR(x86.TEST, false, x86.RCX, x86.RCX)
	e.a.JumpIf(x86.Equal, end)
	e.a.Bind(next)
	e.a.FirstBit(x86.RBX, x86.RCX)
	body()
	e.a.DropBit(x86.RCX, x86.RCX)
	e.a.JumpIf(x86.NotEqual, next)
	e.a.Bind(end)
}

// ofLane is what the lane in rbx has in a part of the area with so many bytes for each.
func ofLane(off int, shift uint8) x86.Place {
	return x86.Place{Base: x86.Area, Index: x86.RBX, Shift: shift, Disp: int32(off)}
}

// spin makes the turn of the warp shorter, if a lane runs.
func (e *emitter) spin(in *ir.Inst) {
	none := e.a.NewLabel()
	if e.mode == guarded {
		e.a.KTo(x86.RAX, k5)
		e.a.RR(x86.TEST, false, x86.RAX, x86.RAX)
		e.a.JumpIf(x86.Equal, none)
	}
	e.a.MI(x86.SUB, true, frameAt(offBudget), int32(in.Imm))
	e.a.Bind(none)
}

// atOnce is a vector load or store of global memory of which each lane's is one access, as lane.WholeFuncs have it.
// What the area has is loaded where roomForArea says.
func (m *memoryAccess) atOnce(pc int32, addr *value, loaded [4][4]x86.Z) {
	e := m.emitter
	a, row := &e.a, x86.Mem{Base: x86.RAX}
	m.windows.done = a.NewLabel()
	m.offsets(pc, addr)
	a.Bind(m.found)
	m.hostAddresses(areaAddrs)
	m.rows = [2]x86.R{x86.RAX, x86.RCX}
	if stores(m.in.Op) {
		m.rowsInArea()
		m.storeRows()
	}
	e.eachLane(func() {
		a.RP(x86.MOV, true, x86.RDX, ofLane(areaAddrs, 3))
		host := x86.Mem{Base: x86.RDX}
		if m.total() == 16 {
			a.RR(x86.ADD, true, x86.RBX, x86.RBX)
		}
		a.Lea(x86.RAX, ofLane(areaRows, 3))
		switch {
		case m.total() == 16 && stores(m.in.Op):
			a.Copy(&x86.LOADX, &x86.STOREXA, host, row, t0)
		case m.total() == 16:
			a.Copy(&x86.LOADXA, &x86.STOREX, row, host, t0)
		case stores(m.in.Op):
			a.RM(x86.MOV, true, x86.RAX, row)
			a.Store(true, host, x86.RAX)
		default:
			a.RM(x86.MOV, true, x86.RDX, host)
			a.Store(true, row, x86.RDX)
		}
	})
	if !stores(m.in.Op) {
		m.rowsInArea()
		m.loadFromArea(loaded)
	}
	a.Bind(m.windows.done)
}

// rowsInArea makes the rows of the two halves of the warp those in the area.
func (m *memoryAccess) rowsInArea() {
	for h, r := range m.rows {
		m.emitter.a.RR(x86.MOV, true, r, x86.Area)
		m.emitter.a.RI(x86.ADD, true, r, int32(areaRows+h*16*m.total()))
	}
}

// roomForArea makes room for what the area has of all lanes, where not all run. It does so before the access looks where its
// lanes are, so that all its ways have the same registers.
func (m *memoryAccess) roomForArea() (loaded [4][4]x86.Z) {
	if m.whole || stores(m.in.Op) {
		return loaded
	}
	for i := range m.n {
		for p := range parts(m.file) {
			loaded[i][p] = m.scratch()
		}
	}
	return loaded
}

// loadFromArea loads what lanes have in the area.
func (m *memoryAccess) loadFromArea(loaded [4][4]x86.Z) {
	if m.whole {
		m.loadRows()
		return
	}
	e, room := m.emitter, m.dst
	m.dst = loaded
	m.loadRows()
	m.dst = room
	for i := range m.n {
		for p := range parts(m.file) {
			move := &x86.MOVD
			if m.file == ir.In64 {
				move = &x86.MOVQ
			}
			e.a.V(move, m.dst[i][p], 0, loaded[i][p], x86.Arg{Mask: e.lanes(m.file == ir.In64, p)})
		}
	}
}

// storeBytes stores parts of words of lanes that lie anywhere, which are at offsets of 32 bits from rdx on.
func (m *memoryAccess) storeBytes() {
	e := m.emitter
	a := &e.a
	for h, off := range m.half {
		a.VM(&x86.STORED, off, 0, inArea(areaAddrs, h), x86.Arg{})
		a.VM(&x86.STORED, m.vals[0].part(h), 0, inArea(areaB, h), x86.Arg{})
	}
	e.eachLane(func() {
		a.RP(x86.MOV, false, x86.RAX, ofLane(areaAddrs, 2))
		a.RP(x86.MOV, false, x86.RBX, ofLane(areaB, 2))
		a.RR(x86.ADD, true, x86.RAX, x86.RDX)
		a.StorePart(m.size, x86.Mem{Base: x86.RAX}, x86.RBX)
	})
}

// copyAsync compiles cp.async, as lane.CopyAsync does it. Lanes of which the source has nothing copy zeros; where it has
// less than what is copied, the function does it.
func (e *emitter) copyAsync(pc int32, in *ir.Inst) {
	op, mode := in.X.Copy, e.mode
	align := uint8(op.Size - 1)
	size, n := int(min(op.Size, 8)), int(max(op.Size/8, 1))
	from := &memoryAccess{emitter: e, wide: true, size: size, n: n, whole: mode == allOfThem && op.Source == ir.NoReg,
		in: &ir.Inst{Op: ir.OpLoadsWide, Space: ir.SpaceGlobal, Imm: op.Offset, Align: align, Target: int32(size)}}
	to := &memoryAccess{emitter: e, wide: true, size: size, n: n, whole: mode == allOfThem,
		in: &ir.Inst{Op: ir.OpStoresWide, Space: ir.SpaceShared, Imm: in.Imm, Align: align, Target: int32(size)}}
	dst, src := *e.use(ir.In64, in.A, false), *e.use(ir.In64, in.B, false)
	var bytes value
	if op.Source != ir.NoReg {
		bytes = *e.use(ir.In32, op.Source, false)
	}
	for i := range from.s {
		from.s[i] = e.scratch()
	}
	from.off = [4]x86.Z{t0, t1, t2, t3}
	from.out, from.found = e.aside(pc), e.a.NewLabel()
	to.s, to.off, to.out = from.s, from.off, from.out
	ready := e.a.NewLabel()
	if op.Source != ir.NoReg {
		from.whatIsThere(pc, &bytes, ready)
	}
	from.offsets(pc, &src)
	e.a.Bind(from.found)
	if op.Source == ir.NoReg {
		from.hostAddresses(areaAddrs)
	} else {
		from.addressesOrZeros()
		e.a.Bind(ready)
		e.choose(in) // what is there had the mask of the guard
	}
	e.mode = mode
	to.offsets(pc, &dst)
	to.hostAddresses(areaOld)
	e.eachLane(func() {
		e.a.RP(x86.MOV, true, x86.RAX, ofLane(areaOld, 3))
		e.a.RP(x86.MOV, true, x86.RDX, ofLane(areaAddrs, 3))
		if op.Size == 16 {
			e.a.Copy(&x86.LOADX, &x86.STOREX, x86.Mem{Base: x86.RAX}, x86.Mem{Base: x86.RDX}, t0)
			return
		}
		e.a.RM(x86.MOV, op.Size == 8, x86.RDX, x86.Mem{Base: x86.RDX})
		e.a.Store(op.Size == 8, x86.Mem{Base: x86.RAX}, x86.RDX)
	})
}

// whatIsThere makes the lanes that copy something those of the operation. It goes to ready if there are none, and has the
// operation done where a lane copies less than all.
func (m *memoryAccess) whatIsThere(pc int32, bytes *value, ready x86.Label) {
	e := m.emitter
	a := &e.a
	compare := func(to x86.R, z x86.Z, imm uint8) {
		a.VK(&x86.PCMPUD, k7, bytes.part(0), z, x86.Arg{Imm: imm})
		a.VK(&x86.PCMPUD, k6, bytes.part(1), z, x86.Arg{Imm: imm})
		a.KK(&x86.KUNPCKWD, k7, k6, k7)
		a.KTo(to, k7)
	}
	if e.mode == guarded {
		a.KTo(x86.RCX, k5)
	} else {
		a.RR(x86.MOV, false, x86.RCX, rMask)
	}
	e.broadcast32(m.s[0], uint32(m.total()))
	a.V(&x86.PXORD, m.s[1], m.s[1], m.s[1], x86.Arg{})
	compare(x86.RDX, m.s[1], intEqual)
	compare(x86.RAX, m.s[0], intGreatEq)
	a.RR(x86.AND, false, x86.RAX, x86.RCX)
	a.RR(x86.OR, false, x86.RDX, x86.RAX)
	a.RR(x86.AND, false, x86.RDX, x86.RCX)
	a.RR(x86.CMP, false, x86.RDX, x86.RCX)
	a.JumpIf(x86.NotEqual, e.asideHelp(pc))
	a.KFrom(k5, x86.RAX)
	e.mode = guarded
	for n := range 2 {
		a.MI(x86.MOV, true, x86.Mem{Base: x86.Area, Disp: int32(areaZeros + 8*n)}, 0)
	}
	a.RR(x86.TEST, false, x86.RAX, x86.RAX)
	none := a.NewLabel()
	a.JumpIf(x86.Equal, none)
	e.later = append(e.later, func() {
		a := &m.emitter.a
		a.Bind(none)
		m.zeros(m.s[2])
		for p := range m.off {
			a.VM(&x86.STOREQ, m.s[2], 0, inArea(areaAddrs, p), x86.Arg{})
		}
		a.Jump(ready)
	})
}

// zeros gives all lanes the address of zeros.
func (m *memoryAccess) zeros(z x86.Z) {
	a := &m.emitter.a
	a.RR(x86.MOV, true, x86.RAX, x86.Area)
	a.RI(x86.ADD, true, x86.RAX, areaZeros)
	a.FromGP(&x86.FROMGPQ, z, x86.RAX, x86.Arg{})
}

// addressesOrZeros is hostAddresses for lanes of which others copy zeros.
func (m *memoryAccess) addressesOrZeros() {
	a := &m.emitter.a
	a.FromGP(&x86.FROMGPQ, m.s[0], x86.RDX, x86.Arg{})
	m.zeros(m.s[2])
	for p, off := range m.off {
		a.V(&x86.MOVQ, m.s[1], 0, m.s[2], x86.Arg{})
		a.V(&x86.PADDQ, m.s[1], off, m.s[0], x86.Arg{Mask: m.lanes(true, p)})
		a.VM(&x86.STOREQ, m.s[1], 0, inArea(areaAddrs, p), x86.Arg{})
	}
}
