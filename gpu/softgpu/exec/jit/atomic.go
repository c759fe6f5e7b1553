//go:build amd64 && linux

package jit

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
	"pvdrm/gpu/softgpu/exec/lane"
)

// Atomic operations. Where all active lanes are aligned and in pages that the worker knows, or in
// .shared, their addresses and operands go to memory, and the lanes are updated one after the other, the
// lowest first, as the interpreter does. Nothing has changed where one is not: the interpreter does it all.
// A word of global memory is updated in one step towards other processors. In .shared that takes no more
// than to be done by one goroutine, which runs all warps of the cluster.

// The part of the area that atomic operations have: addresses in the host's memory, operands and old
// values of all lanes, and the lanes that are left.
const (
	areaAddrs = x86.AreaBytes
	areaB     = areaAddrs + 32*8
	areaC     = areaB + 32*8
	areaOld   = areaC + 32*8
	areaLeft  = areaOld + 32*8
)

// What atomic operations take of the fuel: as many operations take about as long. Processors may want the
// same word of global memory.
const (
	sharedFuel = 64
	globalFuel = 512
)

// knownAtom reports whether an atomic operation is compiled.
func knownAtom(in *ir.Inst) bool {
	return in.X.Atom.Kind != ir.AtomOther && (in.Space == ir.SpaceGlobal || in.Space == ir.SpaceGeneric || in.Space == ir.SpaceShared)
}

// atomRegs are the registers of an atomic operation beside its address; NoReg: it has none.
func atomRegs(in *ir.Inst) (file ir.RegKind, b, c, d uint32) {
	file, d = ir.In32, ir.NoReg
	if in.X.Atom.Size == 8 {
		file = ir.In64
	}
	if in.X.Atom.Result {
		d = in.D
	}
	return file, in.B, in.C, d
}

// atom is an atomic operation that is being compiled.
type atom struct {
	*memoryAccess
	kind   ir.AtomKind
	global bool
	double bool // of 64 bits
	result bool // the old value is wanted
	shift  uint8
	same   bool // all lanes have the same operand, which is in rax
}

func (e *emitter) atom(pc int32, in *ir.Inst) {
	op := in.X.Atom
	file, rb, rc, rd := atomRegs(in)
	m := &memoryAccess{emitter: e, in: in, wide: true, size: int(op.Size), n: 1, file: file, whole: e.mode == allOfThem}
	t := &atom{memoryAccess: m, kind: op.Kind, global: in.Space != ir.SpaceShared, double: op.Size == 8, shift: 2,
		result: rd != ir.NoReg && !e.ends(file, rd)}
	if t.double {
		t.shift = 3
	}
	addr, b := *e.use(ir.In64, in.A, false), *e.use(file, rb, false)
	c := b
	if rc != ir.NoReg {
		c = *e.use(file, rc, false)
	}
	if t.result && !m.whole {
		e.use(file, rd, false) // what inactive lanes keep
	}
	for i := range m.s {
		m.s[i] = e.scratch()
	}
	m.off = [4]x86.Z{t0, t1, t2, t3}
	m.out, m.found = e.aside(pc), e.a.NewLabel()
	fuel := int32(sharedFuel)
	if t.global {
		fuel = globalFuel
	}
	e.a.MI(x86.SUB, true, frameAt(offFuel), fuel)
	e.a.JumpIf(x86.Negative, m.out)
	t.same = b.uniform && !t.result && t.direct() && t.kind != ir.AtomExch // which leaves the old value in rax
	update := func(t *atom) {
		t.hostAddresses(areaAddrs)
		for p := range parts(file) {
			if !t.same {
				e.a.VM(&x86.STORED, b.part(p), 0, inArea(areaB, p), x86.Arg{})
			}
			if rc != ir.NoReg {
				e.a.VM(&x86.STORED, c.part(p), 0, inArea(areaC, p), x86.Arg{})
			}
		}
		t.lanes(b.z[0])
	}
	m.windows.done = e.a.NewLabel()
	m.windows.atom = func(one memoryAccess) {
		shared := *t
		shared.memoryAccess, shared.global = &one, false
		e.a.MI(x86.ADD, true, frameAt(offFuel), globalFuel-sharedFuel)
		update(&shared)
	}
	m.offsets(pc, &addr)
	e.a.Bind(m.found)
	update(t)
	e.a.Bind(m.windows.done)
	if t.result {
		load, _ := m.moves()
		z, n := e.write(file, rd, false)
		for p := range n {
			e.a.VM(load, z[p], 0, inArea(areaOld, p), x86.Arg{Mask: e.lanes(t.double, p)})
		}
	}
}

// inArea is vector p of a part of the area.
func inArea(off, p int) x86.Mem { return x86.Mem{Base: x86.Area, Disp: int32(off + 64*p)} }

// ends reports whether the operation that is compiled is the last that mentions a register.
func (e *emitter) ends(file ir.RegKind, reg uint32) bool {
	for _, r := range e.ending {
		if r.kind == file && r.index == reg {
			return true
		}
	}
	return false
}

// unrolled is how many lanes of a warp with all lanes are updated in a round of the loop.
const unrolled = 4

// lanes updates the words of the active lanes, and charges the warp for it. Rbx is the number of a lane; rcx
// has those that are left, if the warp does not run with all.
func (t *atom) lanes(operand x86.Z) {
	a := &t.emitter.a
	next, end := a.NewLabel(), a.NewLabel()
	if t.same {
		a.ToGP(map[bool]*x86.Op{false: &x86.TOGPD, true: &x86.TOGPQ}[t.double], x86.RAX, operand)
	}
	if t.whole {
		a.MI(x86.SUB, true, frameAt(offBudget), lane.SpinCost)
		rounds := 1
		if t.direct() {
			rounds = unrolled
		}
		a.RI(x86.MOV, false, x86.RBX, 0)
		a.Bind(next)
		for i := range rounds {
			t.update(i)
		}
		a.RI(x86.ADD, false, x86.RBX, int32(rounds))
		a.RI(x86.CMP, false, x86.RBX, 32)
		a.JumpIf(x86.Below, next)
		return
	}
	if t.mode == active {
		a.RR(x86.MOV, false, x86.RCX, rMask)
	} else {
		a.KTo(x86.RCX, k5)
	}
	a.RR(x86.TEST, false, x86.RCX, x86.RCX)
	a.JumpIf(x86.Equal, end)
	a.MI(x86.SUB, true, frameAt(offBudget), lane.SpinCost)
	a.Bind(next)
	a.FirstBit(x86.RBX, x86.RCX)
	a.DropBit(x86.RCX, x86.RCX)
	if !t.direct() { // it takes rcx
		a.Store(false, inArea(areaLeft, 0), x86.RCX)
	}
	t.update(0)
	if !t.direct() {
		a.RM(x86.MOV, false, x86.RCX, inArea(areaLeft, 0))
	}
	a.RR(x86.TEST, false, x86.RCX, x86.RCX)
	a.JumpIf(x86.NotEqual, next)
	a.Bind(end)
}

// ofLane is a word of the lane in rbx, or of one so many behind it, in a part of the area.
func (t *atom) ofLane(off, i int, shift uint8) x86.Place {
	return x86.Place{Base: x86.Area, Index: x86.RBX, Shift: shift, Disp: int32(off + i<<shift)}
}

// direct reports whether one instruction does it with the operand in rax, where it leaves the old value if that
// is wanted.
func (t *atom) direct() bool {
	switch t.kind {
	case ir.AtomAdd:
		return true
	case ir.AtomAnd, ir.AtomOr, ir.AtomXor:
		return !t.result
	}
	return t.kind == ir.AtomExch && t.global
}

// alu are the operations that an instruction does.
var alu = map[ir.AtomKind]x86.Alu{ir.AtomAdd: x86.ADD, ir.AtomAnd: x86.AND, ir.AtomOr: x86.OR, ir.AtomXor: x86.XOR}

// update updates the word of a lane, whose address is in rdx then.
func (t *atom) update(i int) {
	a, word := &t.emitter.a, x86.Mem{Base: x86.RDX}
	b := t.ofLane(areaB, i, t.shift)
	a.RP(x86.MOV, true, x86.RDX, t.ofLane(areaAddrs, i, 3))
	switch {
	case t.direct():
		if !t.same {
			a.RP(x86.MOV, t.double, x86.RAX, b)
		}
		switch {
		case t.kind == ir.AtomExch:
			a.Exchange(t.double, word, x86.RAX)
		case t.result:
			a.ExchangeAdd(t.global, t.double, word, x86.RAX)
		default:
			a.ToMemory(alu[t.kind], t.global, t.double, word, x86.RAX)
		}
	case t.kind == ir.AtomCas:
		a.RP(x86.MOV, t.double, x86.RAX, b)
		a.RP(x86.MOV, t.double, x86.RCX, t.ofLane(areaC, i, t.shift))
		a.CompareExchange(t.global, t.double, word, x86.RCX)
	default:
		again := a.NewLabel()
		a.RM(x86.MOV, t.double, x86.RAX, word)
		a.Bind(again)
		t.compute(b)
		if !t.global {
			a.Store(t.double, word, x86.RCX)
			break
		}
		a.CompareExchange(true, t.double, word, x86.RCX) // leaves in rax what another has written
		a.JumpIf(x86.NotEqual, again)
	}
	if t.result {
		a.StoreTo(t.double, t.ofLane(areaOld, i, t.shift), x86.RAX)
	}
}

// compute has in rcx the new value of the old one in rax, which stays, and the operand b.
func (t *atom) compute(b x86.Place) {
	a, double := &t.emitter.a, t.double
	pick := func(c x86.Cond) { // the operand where the old value and it compare so
		a.RR(x86.MOV, double, x86.RCX, x86.RAX)
		a.RP(x86.CMP, double, x86.RAX, b)
		a.MoveIf(c, double, x86.RCX, b)
	}
	switch t.kind {
	case ir.AtomAnd, ir.AtomOr, ir.AtomXor:
		a.RP(x86.MOV, double, x86.RCX, b)
		a.RR(alu[t.kind], double, x86.RCX, x86.RAX)
	case ir.AtomExch:
		a.RP(x86.MOV, double, x86.RCX, b)
	case ir.AtomMin:
		pick(x86.Above)
	case ir.AtomMax:
		pick(x86.Below)
	case ir.AtomMinSigned:
		pick(x86.Greater)
	case ir.AtomMaxSigned:
		pick(x86.Less)
	case ir.AtomInc:
		a.RR(x86.MOV, false, x86.RCX, x86.RAX)
		a.RI(x86.ADD, false, x86.RCX, 1)
		a.RP(x86.CMP, false, x86.RAX, b)
		a.MoveIf(x86.AboveEqual, false, x86.RCX, x86.Place{Base: rTable, Index: x86.RSP, Disp: word(0).Disp})
	case ir.AtomDec:
		a.RR(x86.MOV, false, x86.RCX, x86.RAX)
		a.RI(x86.SUB, false, x86.RCX, 1)
		a.MoveIf(x86.Below, false, x86.RCX, b) // the old value is 0
		a.RP(x86.CMP, false, x86.RAX, b)
		a.MoveIf(x86.Above, false, x86.RCX, b)
	case ir.AtomAddFloat:
		t.sum(b)
	case ir.AtomAddDouble:
		t.doubleSum(b)
	}
}

// doubleSum adds numbers of 64 bits. Global memory leaves NaNs as they are, the operand's before its own.
func (t *atom) doubleSum(b x86.Place) {
	a := &t.emitter.a
	a.FromGP(&x86.FROMGPQ, t0, x86.RAX, x86.Arg{})
	a.RP(x86.MOV, true, x86.RCX, b)
	a.FromGP(&x86.FROMGPQ, t1, x86.RCX, x86.Arg{})
	a.V(&x86.ADDPD, t2, t0, t1, x86.Arg{})
	if t.global {
		for _, z := range []x86.Z{t0, t1} {
			a.VK(&x86.CMPPD, k7, z, z, x86.Arg{Imm: cmpUnordered})
			a.V(&x86.MOVQ, t2, 0, z, x86.Arg{Mask: k7})
		}
	}
	a.ToGP(&x86.TOGPQ, x86.RCX, t2)
}

// sum adds numbers of 32 bits. Global memory flushes subnormal ones.
func (t *atom) sum(b x86.Place) {
	e := t.emitter
	a := &e.a
	a.FromGP(&x86.FROMGPD, t0, x86.RAX, x86.Arg{})
	a.RP(x86.MOV, false, x86.RCX, b)
	a.FromGP(&x86.FROMGPD, t1, x86.RCX, x86.Arg{})
	if t.global {
		e.flush(t0, t0)
		e.flush(t1, t1)
	}
	a.V(&x86.ADDPS, t0, t0, t1, x86.Arg{})
	e.canonical(t0, 0)
	if t.global {
		e.flush(t0, t0)
	}
	a.ToGP(&x86.TOGPD, x86.RCX, t0)
}
