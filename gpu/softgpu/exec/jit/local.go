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
	return addressFile(in.Op) == ir.In64 && (in.Op < ir.OpLoads || in.Target >= 4)
}

// rowOfLocal is an access of one address by all lanes.
func (m *memoryAccess) rowOfLocal(pc int32, addr x86.Z) {
	a := &m.emitter.a
	m.out = m.aside(pc)
	a.ToGP(&x86.TOGPQ, x86.RAX, addr)
	a.Imm64(x86.RDX, m.in.Imm)
	a.RR(x86.ADD, true, x86.RAX, x86.RDX)
	m.rowInside()
	m.makeRoom()
	m.moveWords()
}

// wordsOfLocal is an access of several words by lanes that may have different addresses.
func (m *memoryAccess) wordsOfLocal(pc int32, addr *value) {
	e := m.emitter
	for i := range m.s {
		m.s[i] = e.scratch()
	}
	m.off = [4]x86.Z{t0, t1, t2, t3}
	m.out = e.aside(pc)
	m.localOffsets(addr)
	m.half = [2]x86.Z{m.off[0], m.off[1]}
	m.makeRoom()
	if !m.whole {
		m.each()
		return
	}
	done := e.a.NewLabel()
	m.rowOrEach(done)
	e.a.Bind(done)
}

// rowOrEach is the rest of an access by all lanes, which have offsets of 32 bits: those that have the same address access a
// row of words. It may end at a label.
func (m *memoryAccess) rowOrEach(done x86.Label) {
	a, apart := &m.emitter.a, m.emitter.a.NewLabel()
	a.V(&x86.BROADCASTD, m.s[0], 0, m.half[0], x86.Arg{})
	a.V(&x86.PSUBD, m.s[1], m.half[0], m.s[0], x86.Arg{})
	a.VM(&x86.PXORD, m.s[1], m.s[1], constant(offStep32+2*64), x86.Arg{})
	a.V(&x86.PSUBD, m.s[2], m.half[1], m.half[0], x86.Arg{})
	a.VB(&x86.PXORD, m.s[2], m.s[2], word(64), x86.Arg{})
	a.V(&x86.PORD, m.s[2], m.s[2], m.s[1], x86.Arg{})
	m.leaveUnlessRows(apart)
	a.ToGP(&x86.TOGPD, x86.RAX, m.half[0])
	a.RR(x86.ADD, true, x86.RAX, x86.RDX)
	m.moveWords()
	m.later = append(m.later, func() {
		m.emitter.a.Bind(apart)
		m.mode = allOfThem
		m.each()
		m.emitter.a.Jump(done)
	})
}

// moveWords moves the rows from rax on.
func (m *memoryAccess) moveWords() {
	for i := range m.n {
		row := x86.Mem{Base: x86.RAX, Disp: int32(i * m.size << rowShift)}
		if stores(m.in.Op) {
			m.storeRow(row, &m.vals[i], m.file)
		} else {
			m.loadRow(row, m.dst[i], m.file)
		}
	}
}

// doubleOfLocal moves the two words of an element of half h of the warp, so many bytes from their rows. Each lane has its own.
func (m *memoryAccess) doubleOfLocal(i, h int, disp int32) {
	e := m.emitter
	if stores(m.in.Op) {
		v := &m.vals[i]
		e.words(v.part(2*h), v.part(2*h+1), m.s[0], m.s[1])
		for n, z := range m.s[:2] {
			m.chosen(false, h)
			e.a.Lanes(&x86.PSCATTERDD, z, x86.RDX, m.half[h], disp+int32(n*rowBytes), k7)
		}
		return
	}
	for n, z := range m.s[:2] {
		m.chosen(false, h)
		e.a.Lanes(&x86.PGATHERDD, z, x86.RDX, m.half[h], disp+int32(n*rowBytes), k7)
	}
	e.fromWords(m.dst[i], h, [2]x86.Z{m.s[0], m.s[1]}, [2]x86.Z{m.s[2], m.s[3]})
}

// storeSmall stores less than a word of each lane: the lane's word, which no other lane accesses, is read and written.
func (m *memoryAccess) storeSmall() {
	a, mask := &m.emitter.a, uint32(0xff)
	if m.size == 2 {
		mask = 0xffff
	}
	for h, off := range m.half {
		a.VB(&x86.PANDD, m.s[0], off, word(3), x86.Arg{})
		a.V(&x86.PXORD, off, off, m.s[0], x86.Arg{})
		a.V(&x86.PSLLD, m.s[0], 0, m.s[0], x86.Arg{Imm: 3})
		m.chosen(false, h)
		a.Lanes(&x86.PGATHERDD, m.s[1], x86.RDX, off, 0, k7)
		a.V(&x86.PSLLVD, m.s[2], m.vals[0].part(h), m.s[0], x86.Arg{})
		a.VM(&x86.BROADCASTD, m.s[3], 0, word(mask), x86.Arg{})
		a.V(&x86.PSLLVD, m.s[3], m.s[3], m.s[0], x86.Arg{})
		a.V(&x86.PTERNLOGD, m.s[3], m.s[2], m.s[1], x86.Arg{Imm: choose})
		m.chosen(false, h)
		a.Lanes(&x86.PSCATTERDD, m.s[3], x86.RDX, off, 0, k7)
	}
}

// loadRow loads a row of words, or two of which a register has both halves.
func (e *emitter) loadRow(row x86.Mem, z [4]x86.Z, file ir.RegKind) {
	if file == ir.In32 {
		for p := range 2 {
			e.a.VM(&x86.LOADD, z[p], 0, plus(row, 64*p), x86.Arg{Mask: e.lanes(false, p)})
		}
		return
	}
	for h := range 2 {
		e.a.VM(&x86.LOADD, t0, 0, plus(row, 64*h), x86.Arg{})
		e.a.VM(&x86.LOADD, t1, 0, plus(row, 128+64*h), x86.Arg{})
		e.fromWords(z, h, [2]x86.Z{t0, t1}, [2]x86.Z{t2, t3})
	}
}

// fromWords makes half h of a register of 64 bits of its lower and its upper words. It has two more registers.
func (e *emitter) fromWords(z [4]x86.Z, h int, words, t [2]x86.Z) {
	for odd := range 2 {
		p, from := 2*h+odd, words
		if odd == 1 {
			from = t
			for n := range t {
				e.a.V(&x86.EXTRACTI64X4, words[n], 0, t[n], x86.Arg{Imm: 1})
			}
		}
		for n := range t {
			e.a.V(&x86.PMOVZXDQ, t[n], 0, from[n], x86.Arg{})
		}
		e.a.V(&x86.PSLLQ, t[1], 0, t[1], x86.Arg{Imm: 32})
		e.a.V(&x86.PORQ, z[p], t[0], t[1], x86.Arg{Mask: e.lanes(true, p)})
	}
}

// words is the inverse for the vectors a and b, whose lanes follow one another. It changes t2 and t3.
func (e *emitter) words(a, b, low, high x86.Z) {
	e.halves(low, a, b)
	e.a.V(&x86.PSRLQ, t2, 0, a, x86.Arg{Imm: 32})
	e.a.V(&x86.PSRLQ, t3, 0, b, x86.Arg{Imm: 32})
	e.a.V(&x86.PMOVQD, t2, 0, t2, x86.Arg{})
	e.a.V(&x86.PMOVQD, t3, 0, t3, x86.Arg{})
	e.a.V(&x86.INSERTI64X4, high, t2, t3, x86.Arg{Imm: 1})
}

// storeRow is the inverse of loadRow.
func (e *emitter) storeRow(row x86.Mem, v *value, file ir.RegKind) {
	for h := range 2 {
		arg := x86.Arg{Mask: e.lanes(false, h)}
		if file == ir.In32 {
			e.a.VM(&x86.STORED, v.part(h), 0, plus(row, 64*h), arg)
			continue
		}
		a, b := v.part(2*h), v.part(2*h+1)
		e.words(a, b, t0, t1)
		e.a.VM(&x86.STORED, t0, 0, plus(row, 64*h), arg)
		e.a.VM(&x86.STORED, t1, 0, plus(row, 128+64*h), arg)
	}
}

// Rows of the frame have places that are known, below what the function asks for.

func (e *emitter) loadFrame(in *ir.Inst) {
	file := ir.In32
	if in.C == 8 {
		file = ir.In64
	}
	z, _ := e.write(file, in.D, false)
	e.a.RM(x86.MOV, true, x86.RAX, frameAt(offRows))
	e.loadRow(x86.Mem{Base: x86.RAX, Disp: int32(in.Imm) * rowBytes}, z, file)
}

func (e *emitter) storeFrame(in *ir.Inst) {
	file := ir.In32
	if in.C == 8 {
		file = ir.In64
	}
	v := *e.use(file, in.D, false)
	e.a.RM(x86.MOV, true, x86.RAX, frameAt(offRows))
	e.storeRow(x86.Mem{Base: x86.RAX, Disp: int32(in.Imm) * rowBytes}, &v, file)
}

// rowBytes is the size of a row, and maxRows up to which of a frame native code accesses.
const (
	rowBytes = 4 * 32
	maxRows  = 1 << 20
)

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
	if more := m.total() - 4; more > 0 {
		a.RM(x86.MOV, true, x86.RAX, frameAt(offLocalEnd))
		a.RI(x86.SUB, true, x86.RAX, int32(more))
		a.JumpIf(x86.Below, m.out)
		a.FromGP(&x86.FROMGPQ, m.s[2], x86.RAX, x86.Arg{})
		a.VK(&x86.PCMPUQ, k7, m.s[0], m.s[2], x86.Arg{Imm: intGreatEq})
	} else {
		a.VKB(&x86.PCMPUQ, k7, m.s[0], frameAt(offLocalEnd), x86.Arg{Imm: intGreatEq})
	}
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
