//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Accesses of .local. Its rows have a word of each lane, side by side: lanes that access the same
// address, as those of an array with the same index do, have neighbouring places in memory.

// knownLocal reports whether an access of .local is compiled. Of those of several words native code does the ones of
// one address by all lanes, and leaves others to the interpreter.
func knownLocal(in *ir.Inst) bool {
	return addressFile(in.Op) == ir.In64 && (in.Target == 4 || in.Target == 8 && in.Op < ir.OpLoads || in.Target < 4 && !stores(in.Op))
}

// rowOfLocal is an access of one address by all lanes.
func (m *memoryAccess) rowOfLocal(pc int32, addr x86.Z) {
	a := &m.emitter.a
	m.out = m.aside(pc)
	a.ToGP(&x86.TOGPQ, x86.RAX, addr)
	a.Imm64(x86.RDX, m.in.Imm)
	a.RR(x86.ADD, true, x86.RAX, x86.RDX)
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
	m.makeRoom()
	for i := range m.n {
		row := x86.Mem{Base: x86.RAX, Disp: int32(i * m.size << rowShift)}
		switch {
		case stores(m.in.Op):
			m.storeRow(row, &m.vals[i], m.file)
		default:
			m.loadRow(row, m.dst[i], m.file)
		}
	}
}

// wordsOfLocal leaves an access of several words that is not of one address by all lanes.
func (m *memoryAccess) wordsOfLocal(pc int32) {
	m.out = m.aside(pc)
	m.makeRoom()
	m.emitter.a.Jump(m.out)
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
		for odd := range 2 {
			p, low, high := 2*h+odd, t0, t1
			if odd == 1 {
				low, high = t2, t3
				e.a.V(&x86.EXTRACTI64X4, t0, 0, low, x86.Arg{Imm: 1})
				e.a.V(&x86.EXTRACTI64X4, t1, 0, high, x86.Arg{Imm: 1})
			}
			e.a.V(&x86.PMOVZXDQ, t2, 0, low, x86.Arg{})
			e.a.V(&x86.PMOVZXDQ, t3, 0, high, x86.Arg{})
			e.a.V(&x86.PSLLQ, t3, 0, t3, x86.Arg{Imm: 32})
			e.a.V(&x86.PORQ, z[p], t2, t3, x86.Arg{Mask: e.lanes(true, p)})
		}
	}
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
		e.halves(t0, a, b)
		e.a.VM(&x86.STORED, t0, 0, plus(row, 64*h), arg)
		e.a.V(&x86.PSRLQ, t0, 0, a, x86.Arg{Imm: 32})
		e.a.V(&x86.PSRLQ, t1, 0, b, x86.Arg{Imm: 32})
		e.halves(t0, t0, t1)
		e.a.VM(&x86.STORED, t0, 0, plus(row, 128+64*h), arg)
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
	a.VKB(&x86.PCMPUQ, k7, m.s[0], frameAt(offLocalEnd), x86.Arg{Imm: intGreatEq})
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
