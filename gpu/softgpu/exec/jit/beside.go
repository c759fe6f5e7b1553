//go:build amd64 && linux

package jit

import (
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Loads of two words that lie beside each other, by the same register, with nothing but computations and other loads between
// them: the first and the last element of a row of a sparse matrix, or two turns of a loop as one. A gather takes an element at a time,
// whether it has 4 or 8 bytes, so lanes that lie apart load both at once, where the first of the loads stands.
//
// Native code is not entered between the two: a warp that is interpreted at the first load comes back behind the second.
// Where the bytes of a lane do not lie in the extent that the access found last, the interpreter does both loads.

// besideAhead bounds how far the second load may be.
const besideAhead = 48

// early are loads that are done before they stand in the code.
type early struct {
	done   []int32 // their positions, in the block that is compiled
	closed int32   // the last of them: native code is entered behind it
}

// mayJoin reports whether an operation is a load of a word that may be done with another one.
func mayJoin(in *ir.Inst) bool {
	return in.Op == ir.OpLoadWide && in.Target == 4 && in.Guard == 0 && (in.Space == ir.SpaceGlobal || in.Space == ir.SpaceGeneric)
}

// beside finds a load behind pc of a word beside the one that is loaded there.
func (e *emitter) beside(pc int32, in *ir.Inst) (second int32, ok bool) {
	if !e.masked || !mayJoin(in) || e.constant(ir.In64, in.A) || e.at(ir.In64, in.A).uniform || e.looked > maxLooked {
		return 0, false
	}
	var touched []uint32 // registers of 32 bits that lie between
	for second = pc + 1; second < min(e.end, pc+besideAhead); second++ {
		op := &e.code[second]
		e.looked++
		behind := second+1 < e.end && e.code[second+1].Op == ir.OpSpin // an order among loads
		if mayJoin(op) && op.A == in.A && op.Align == in.Align && op.Space == in.Space && op.D != in.D && (op.Imm-in.Imm == 4 || in.Imm-op.Imm == 4) &&
			!behind && !slices.Contains(touched, op.D) && !slices.Contains(e.early.done, second) {
			return second, true
		}
		if !e.computes(op) {
			return 0, false
		}
		moved := false
		registers(op, func(file ir.RegKind, reg uint32, write bool) {
			if file == ir.In32 {
				touched = append(touched, reg)
			}
			moved = moved || write && file == ir.In64 && reg == in.A
		})
		if moved {
			return 0, false
		}
	}
	return 0, false
}

// computes reports whether an operation changes nothing but registers, and no lane waits for others there.
func (e *emitter) computes(in *ir.Inst) bool {
	if !e.known(in) || e.helped(in) {
		return false
	}
	switch in.Kind {
	case ir.KLane32, ir.KLane64, ir.KCompare:
		return in.Op >= ir.OpRow
	case ir.KMasked:
		return isAccess(in) && in.Op != ir.OpAtom && !stores(in.Op)
	}
	return false
}

// accessBeside compiles a load, and one of the word beside it.
func (m *memoryAccess) accessBeside(pc, second int32) {
	e := m.emitter
	one, other := *m.in, &e.code[second]
	m.regs = [4]uint32{one.D, other.D}
	if other.Imm+4 == one.Imm {
		one.Imm, m.regs = other.Imm, [4]uint32{other.D, one.D}
	}
	m.in, m.n, m.both = &one, 2, true
	e.early.done, e.early.closed = append(e.early.done, second), max(e.early.closed, second)
	addr := *e.use(ir.In64, one.A, false)
	for i := range m.n {
		e.use(m.file, m.regs[i], false) // what inactive lanes keep
	}
	for i := range m.s {
		m.s[i] = e.scratch()
	}
	m.off = [4]x86.Z{t0, t1, t2, t3}
	m.leavesAside(pc)
	scattered, done, mode := e.a.NewLabel(), e.a.NewLabel(), e.mode
	m.windows.done = done
	m.offsets(pc, &addr)
	e.a.Bind(m.found)
	m.narrow()
	m.some(scattered)
	e.a.Bind(done)
	e.forgetPlaces(other)
	e.later = append(e.later, func() {
		e.a.Bind(scattered)
		e.mode = mode
		m.eachBeside()
		e.a.Jump(done)
	})
}

// eachBeside gathers both words of each lane.
func (m *memoryAccess) eachBeside() {
	a := &m.emitter.a
	for h, index := range m.half {
		for g := range 2 {
			m.chosen(true, 2*h+g)
			if g == 1 {
				a.V(&x86.EXTRACTI64X4, index, 0, t0, x86.Arg{Imm: 1})
				index = t0
			}
			a.Lanes(&x86.PGATHERDQ, m.s[g], x86.RDX, index, 0, k7)
		}
		for i := range m.n {
			if m.pairs {
				a.V(&x86.EVERY2, t1, m.s[0], m.s[1], x86.Arg{Imm: uint8(i)})
			} else {
				a.VM(&x86.LOADD, t1, 0, constant(offEvery2+int32(64*i)), x86.Arg{})
				a.V(&x86.PERMI2D, t1, m.s[0], m.s[1], x86.Arg{})
			}
			a.V(&x86.MOVD, m.dst[i][h], 0, t1, x86.Arg{Mask: m.lanes(false, h)})
		}
	}
}
