//go:build amd64 && linux

package jit

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Accesses of .shared by all lanes whose register of the address was used by another access before it,
// with another offset, as those of a loop that is unrolled. How the lanes of a register lie in each half
// of the warp is found once; then one lane of each half shows whether they are inside and aligned. Where
// that is so for all accesses by the register that follow, it is looked at once, too. Loads of one address
// of global memory by all lanes do the same, within a page.

// A place is in the frame, where native code has it while the register does not change: its kind,
// and the register in lanes 0 and 16. The kind of lanes that follow one another is how many bytes they are apart.
const (
	placeSame = 1 << 8 // all lanes of a half have the same
	placeOne  = 1 << 9 // all lanes have the same, in a page of global memory

	placeEight     = 1 << 10 // lanes of each group of eight follow one another, and groups lie anywhere (groups.go)
	placeEightSame = 1 << 11 // lanes of each group of eight have the same

	placeApart = 1 << 12 // lanes lie anywhere, and are aligned; see againApart
)

// placeAhead bounds how far an access looks for others with its register, and maxLooked how far those of a
// function do together: from then on, few operations.
const (
	placeAhead = 192
	placeNear  = 24
	maxLooked  = 1 << 20
)

// placed is the place of a register, and the accesses by it that are known to follow: of the same size and
// alignment, with offsets from low on.
type placed struct {
	at     int // the number in Frame.places
	low    uint64
	span   int32 // of their offsets
	total  int   // bytes of an access
	align  uint8
	shared bool // they are in .shared
}

func placeAt(n int) x86.Mem { return frameAt(offPlaces + placeKind + int32(n)*placeBytes) }

// forgetPlace makes nothing known of a place.
func (e *emitter) forgetPlace(n int) {
	e.a.MI(x86.MOV, true, placeAt(n), 0)
	e.a.MI(x86.MOV, true, plus(placeAt(n), placeReach), 0)
}

// forgetPlaces forgets the places of registers that an operation writes.
func (e *emitter) forgetPlaces(in *ir.Inst) {
	if len(e.places)+len(e.kept) > 0 {
		registers(in, func(file ir.RegKind, reg uint32, write bool) {
			if write {
				delete(e.places, regRef{kind: file, index: reg})
				if p, ok := e.kept[regRef{kind: file, index: reg}]; ok {
					e.forgetPlace(p.at)
				}
			}
		})
	}
}

// follow looks for accesses of the same memory that follow, in the same block, by the same register. It
// reports whether there is one, and finds the offsets of those of the same size.
func (e *emitter) follow(pc int32, in *ir.Inst, total int) (p placed, some bool) {
	file, again, over := addressFile(in.Op), false, false
	p = placed{low: in.Imm, total: total, align: in.Align, shared: in.Space == ir.SpaceShared}
	ahead := int32(placeAhead)
	if e.looked > maxLooked {
		ahead = placeNear
	}
	for next := pc; next < min(e.end, pc+ahead) && !over; next++ {
		op := &e.code[next]
		e.looked++
		if next > pc && isAccess(op) && op.Op != ir.OpAtom && (op.Space == ir.SpaceShared) == p.shared && op.Guard == 0 && op.A == in.A && addressFile(op.Op) == file {
			some = true
			if _, _, n := accessRegs(op); int(op.Target)*n == total && op.Align == in.Align {
				p.widen(op.Imm)
			}
		}
		over = !registers(op, func(k ir.RegKind, reg uint32, write bool) {
			again = again || write && k == file && reg == in.A
		}) || again
	}
	return p, some
}

// maxSpan bounds the offsets of accesses that have a place in common.
const maxSpan = 1 << 16

// widen adds an offset, if it is near the others and as aligned as they are.
func (p *placed) widen(imm uint64) {
	low, high := min(int64(p.low), int64(imm)), max(int64(p.low)+int64(p.span), int64(imm))
	if span := uint64(high) - uint64(low); span <= maxSpan && (imm-p.low)&uint64(p.align) == 0 {
		p.low, p.span = uint64(low), int32(span)
	}
}

// has reports whether an access is one of those that are known, and how far it is from the lowest.
func (p *placed) has(in *ir.Inst, total int) (ahead int32, ok bool) {
	d := in.Imm - p.low
	return int32(d & (1<<31 - 1)), d <= uint64(p.span) && d&uint64(p.align) == 0 && total == p.total && in.Align == p.align && (in.Space == ir.SpaceShared) == p.shared
}

// inShared is an access of .shared by all lanes.
func (m *memoryAccess) inShared(pc int32, addr *value) {
	e := m.emitter
	a := &e.a
	if addr.uniform && !stores(m.in.Op) && m.n == 1 {
		m.out = e.aside(pc)
		m.oneInShared(addr.z[0])
		return
	}
	known := false
	if m.place.at = -1; !m.spreads {
		known = m.findPlace(pc, regRef{kind: addressFile(m.in.Op), index: m.in.A})
	}
	for i := range m.s {
		m.s[i] = e.scratch()
	}
	m.off = [4]x86.Z{t0, t1, t2, t3}
	m.out = e.aside(pc)
	if !stores(m.in.Op) { // nothing is written to these before it is known that no lane leaves
		for i := range m.n {
			m.dst[i], _ = e.write(m.file, m.regs[i], false)
		}
	}
	m.rows = [2]x86.R{x86.RAX, x86.RCX}
	where, scattered, moved, done := *addr, a.NewLabel(), a.NewLabel(), a.NewLabel()
	full := func() {
		m.mode = allOfThem
		m.spread(&where)
		m.offsets(pc, &where)
		m.shape(scattered)
		m.recordOf(&where, int32(m.total()))
	}
	if m.spreads {
		other := a.NewLabel()
		m.strideInShared(&where, other)
		e.later = append(e.later, func() {
			m.emitter.a.Bind(other)
			full()
			m.emitter.a.Jump(moved)
		})
		m.inRowsAt(moved, done, scattered)
		return
	}
	if known {
		m.again(full, moved, done)
	} else if !addr.uniform && m.total()%(int(m.in.Align)+1) == 0 {
		m.inRows(&where, full, moved)
	} else {
		full()
	}
	m.where = &where
	m.inRowsAt(moved, done, scattered)
}

// inRowsAt is the end of an access by all lanes, which come to moved if they follow one another, and else to scattered.
func (m *memoryAccess) inRowsAt(moved, done, scattered x86.Label) {
	e := m.emitter
	e.a.Bind(moved)
	if stores(m.in.Op) {
		m.storeRows()
	} else {
		m.loadRows()
	}
	e.a.Bind(done)
	if scattered == m.out {
		return
	}
	e.later = append(e.later, func() {
		m.emitter.a.Bind(scattered)
		m.scattered(done)
		m.emitter.a.Jump(done)
	})
}

// findPlace finds the place of the register of the address, or makes one if other accesses use it, and
// reports whether it was known.
func (m *memoryAccess) findPlace(pc int32, ref regRef) (known bool) {
	e := m.emitter
	if m.place, known = e.kept[ref]; !known || m.in.Space != ir.SpaceShared {
		m.place, known = e.places[ref]
	}
	m.ahead, m.reaches = m.place.has(m.in, m.total())
	if known {
		return true
	}
	m.place.at, m.reaches = -1, false
	if len(e.places) < maxPlaces {
		if p, some := e.follow(pc, m.in, m.total()); some {
			p.at = e.freePlace()
			e.places[ref], m.place = p, p
			m.ahead, m.reaches = p.has(m.in, m.total())
			e.forgetPlace(p.at)
		}
	}
	return false
}

// again is an access by a register that has a place. It has the addresses of the first lanes in rax and rcx at
// moved, or is done.
func (m *memoryAccess) again(full func(), moved, done x86.Label) {
	e := m.emitter
	other, all := e.a.NewLabel(), e.a.NewLabel()
	if m.reaches {
		m.inReach(int32(m.total()), other)
	} else {
		m.inPlace(int32(m.total()), 16*m.total(), other, all)
	}
	e.later = append(e.later, func() {
		a := &m.emitter.a
		a.Bind(other)
		if !stores(m.in.Op) {
			if m.reaches {
				m.inReach(placeSame, all)
			} else {
				m.inPlace(placeSame, m.total(), all, all)
			}
			m.sameInHalves()
			a.Jump(done)
		}
		a.Bind(all)
		if m.reaches && m.grouped() {
			m.againInGroups(done)
		}
		m.againApart(m.where, func() {}, done)
		full()
		a.Jump(moved)
	})
}

// againApart is an access by a register of which the lanes were apart and aligned: others by it are aligned, too, so that it
// looks only whether they are inside. Else it goes on behind.
func (m *memoryAccess) againApart(where *value, load func(), done x86.Label) {
	if !m.reaches {
		return
	}
	a, other := &m.emitter.a, m.emitter.a.NewLabel()
	a.MI(x86.CMP, true, plus(placeAt(m.place.at), placeReach), placeApart)
	a.JumpIf(x86.NotEqual, other)
	load()
	m.insideShared(where, func(int) x86.Arg { return x86.Arg{} }, false)
	m.mode = allOfThem
	m.each()
	a.Jump(done)
	a.Bind(other)
}

// recordApart writes down that the lanes of the register are apart, for againApart.
func (m *memoryAccess) recordApart() {
	if m.where != nil && m.reaches && m.in.Space == ir.SpaceShared {
		m.emitter.a.MI(x86.MOV, true, plus(placeAt(m.place.at), placeReach), placeApart)
	}
}

// inReach has the addresses of the first lanes in rax and rcx if the place has a kind, of which all accesses are
// known to be inside. Else it goes to a label.
func (m *memoryAccess) inReach(kind int32, out x86.Label) {
	a, at := &m.emitter.a, placeAt(m.place.at)
	a.MI(x86.CMP, true, plus(at, placeReach), kind)
	a.JumpIf(x86.NotEqual, out)
	for h, r := range m.rows {
		a.RM(x86.MOV, true, r, plus(at, placeHost+8*h))
		if m.ahead != 0 {
			a.RI(x86.ADD, true, r, m.ahead)
		}
	}
}

// reach looks whether all accesses by the register are inside where this one is, of which so many first lanes have
// their addresses in rbx one after the other, and each of their halves, or groups, accesses so many bytes from there.
func (m *memoryAccess) reach(kind int32, length, firsts int, first func(h int)) {
	if !m.reaches {
		return
	}
	a, at, out := &m.emitter.a, placeAt(m.place.at), m.emitter.a.NewLabel()
	a.MI(x86.MOV, true, plus(at, placeReach), 0)
	for h := range firsts {
		first(h)
		a.RI(x86.SUB, true, x86.RBX, m.ahead)
		a.Store(true, plus(at, placeHost+8*h), x86.RBX)
		a.RM(x86.SUB, true, x86.RBX, frameAt(offShared))
		a.JumpIf(x86.Below, out)
		a.RI(x86.ADD, true, x86.RBX, m.place.span+int32(length))
		a.RM(x86.CMP, true, x86.RBX, frameAt(offLimits+8)) // how many bytes there are
		a.JumpIf(x86.Above, out)
	}
	a.MI(x86.MOV, true, plus(at, placeReach), kind)
	a.Bind(out)
}

// freePlace is the number of a place that no register has.
func (e *emitter) freePlace() int {
	var taken [maxPlaces]bool
	for _, p := range e.places {
		taken[p.at] = true
	}
	for n := range taken {
		if !taken[n] {
			return n
		}
	}
	panic("exec: no place is free") // a bug of this package
}

// recordOf writes down how the lanes of the address lie, of which the first access what rax and rcx address.
func (m *memoryAccess) recordOf(addr *value, kind int32) {
	if m.place.at < 0 {
		return
	}
	a, at, op := &m.emitter.a, placeAt(m.place.at), &x86.TOGPD
	half := 1
	if m.wide {
		op, half = &x86.TOGPQ, 2
	}
	a.MI(x86.MOV, true, at, kind)
	for h := range 2 {
		a.ToGP(op, x86.RBX, addr.part(h*half))
		a.Store(true, plus(at, placeFirst+8*h), x86.RBX)
	}
	length := m.total()
	if kind != placeSame {
		length *= 16
	}
	m.reach(kind, length, len(m.rows), func(h int) { a.RR(x86.MOV, true, x86.RBX, m.rows[h]) })
}

// record is recordOf for an access that is scattered.
func (m *memoryAccess) record(kind int32) {
	if m.where != nil {
		m.recordOf(m.where, kind)
	}
}

// inRows looks at first whether the lanes of the address follow one another in each half, so that the first
// of them show whether all are inside and aligned. It goes on with full where that fails, and then to moved.
func (m *memoryAccess) inRows(addr *value, full func(), moved x86.Label) {
	a, other := &m.emitter.a, m.a.NewLabel()
	m.compareRows(addr.z)
	m.leaveUnlessRows(other)
	a.Imm64(x86.RDX, m.in.Imm)
	m.firstInside(16*m.total(), other)
	m.recordOf(addr, int32(m.total()))
	m.later = append(m.later, func() {
		m.emitter.a.Bind(other)
		full()
		m.emitter.a.Jump(moved)
	})
}

// firstInside makes addresses of the host of the first lanes in rax and rcx, of which the access's offset is
// in rdx. It goes to out where one is not aligned, or so many bytes from there are not in .shared.
func (m *memoryAccess) firstInside(length int, out x86.Label) {
	a := &m.emitter.a
	for _, r := range m.rows {
		m.offsetOf(r, length, out)
	}
	a.RM(x86.MOV, true, x86.RDX, frameAt(offShared))
	for _, r := range m.rows {
		a.RR(x86.ADD, true, r, x86.RDX)
	}
}

// inPlace has the addresses of the first lanes of both halves in rax and rcx, if the place has a kind,
// and these and what lies behind them, so many bytes, are in .shared. It goes to other for another
// kind, and to full for the rest.
func (m *memoryAccess) inPlace(kind int32, length int, other, full x86.Label) {
	a, at := &m.emitter.a, placeAt(m.place.at)
	a.MI(x86.CMP, true, at, kind)
	a.JumpIf(x86.NotEqual, other)
	a.Imm64(x86.RDX, m.in.Imm)
	for h, r := range m.rows {
		a.RM(x86.MOV, m.wide, r, plus(at, placeFirst+8*h))
	}
	m.firstInside(length, full)
}

// offsetOf makes an offset in .shared of a lane's register, of which the access's offset is in rdx. It
// goes to out where it is not aligned, or so many bytes are not inside.
func (m *memoryAccess) offsetOf(r x86.R, length int, out x86.Label) {
	a := &m.emitter.a
	a.RR(x86.ADD, m.wide, r, x86.RDX)
	a.RM(x86.SUB, m.wide, r, frameAt(offOwn))
	a.RM(x86.CMP, true, r, frameAt(offLimits+int32(bits.Len(uint(length)))*8))
	a.JumpIf(x86.AboveEqual, out)
	a.RR(x86.MOV, true, x86.RBX, r)
	a.RI(x86.AND, true, x86.RBX, int32(m.in.Align))
	a.JumpIf(x86.NotEqual, out)
}

// sameInHalves loads what each half of the warp has at rows.
func (m *memoryAccess) sameInHalves() {
	for i := range m.n {
		for p := range parts(m.file) {
			r := m.rows[p*2/parts(m.file)]
			m.emitter.a.VM(m.broadcast(), m.dst[i][p], 0, x86.Mem{Base: r, Disp: int32(i * m.size)}, x86.Arg{})
		}
	}
}

// oneInShared is a load of one address by all lanes.
func (m *memoryAccess) oneInShared(addr x86.Z) {
	a, op := &m.emitter.a, &x86.TOGPD
	if m.wide {
		op = &x86.TOGPQ
	}
	a.ToGP(op, x86.RAX, addr)
	a.Imm64(x86.RDX, m.in.Imm)
	m.offsetOf(x86.RAX, m.total(), m.out)
	a.RM(x86.ADD, true, x86.RAX, frameAt(offShared))
	z, _ := m.write(m.file, m.regs[0], true)
	a.VM(m.broadcast(), z[0], 0, x86.Mem{Base: x86.RAX}, x86.Arg{})
}
