//go:build amd64 && linux

package jit

import (
	"cmp"
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// Places that are kept. A register that one operation writes and accesses of .shared behind it use, as the address of
// a thread's element that is computed before a loop with barriers, has a place (places.go) of its own, which native code keeps
// from block to block, and while other warps run. An access finds how the lanes lie where another one has looked, without
// the register: it is loaded where that is not known. Native code forgets the place where it writes the register, Go all
// places where a warp comes from there, and where it has done operations for the warp.

// findKept finds the registers whose places are kept, and all accesses by them: registers that several accesses in other
// stretches than that of the write use, or one in a loop. A stretch is what runs without a barrier or a jump between.
func (e *emitter) findKept() {
	found := map[regRef]*keeping{}
	e.kept = map[regRef]placed{}
	e.eachInStretch(func(pc, stretch int32) {
		registers(&e.code[pc], func(file ir.RegKind, reg uint32, write bool) {
			if k := found[regRef{file, reg}]; write && k == nil {
				found[regRef{file, reg}] = &keeping{writes: 1, stretch: stretch, pc: pc}
			} else if write {
				k.writes++
			}
		})
	})
	depth := e.loops()
	e.eachInStretch(func(pc, stretch int32) {
		in := &e.code[pc]
		if !e.known(in) || !isAccess(in) || in.Op == ir.OpAtom || in.Space != ir.SpaceShared || in.Target < 4 {
			return
		}
		ref := regRef{addressFile(in.Op), in.A}
		if k := found[ref]; k != nil && k.writes == 1 && !e.constant(ref.kind, ref.index) {
			k.add(in, k.stretch != stretch, depth[pc-e.fn.Entry] > depth[k.pc-e.fn.Entry])
		}
	})
	refs := make([]regRef, 0, maxKept)
	for ref, k := range found {
		if k.uses > 1 {
			refs = append(refs, ref)
		}
	}
	slices.SortFunc(refs, func(a, b regRef) int { return cmp.Or(found[b].uses-found[a].uses, int(found[a].pc-found[b].pc)) })
	for n, ref := range refs[:min(len(refs), maxKept)] {
		p := found[ref].placed
		p.at = maxPlaces + n
		e.kept[ref] = p
	}
}

// eachInStretch calls visit with the position of each operation, and the number of its stretch.
func (e *emitter) eachInStretch(visit func(pc, stretch int32)) {
	stretch := int32(0)
	for i := range e.blocks {
		stretch++
		for pc := e.blocks[i].first; pc < e.blocks[i].last; pc++ {
			if e.code[pc].Kind == ir.KBarrier {
				stretch++
			}
			visit(pc, stretch)
		}
	}
}

// loops is in how many loops an operation is, by position from fn.Entry: between how many jumps back and their targets.
func (e *emitter) loops() []int32 {
	depth := make([]int32, e.fn.End-e.fn.Entry+1)
	for pc := e.fn.Entry; pc < e.fn.End; pc++ {
		in, back := &e.code[pc], pc+1
		switch in.Kind {
		case ir.KJump:
			back = in.Target
		case ir.KBranch, ir.KCompareBranch:
			if back = min(in.Target, in.Other); in.E != 0 {
				back = min(back, int32(in.E))
			}
		case ir.KIndexed:
			back = slices.Min(in.X.Targets)
		}
		if back <= pc {
			depth[back-e.fn.Entry]++
			depth[pc+1-e.fn.Entry]--
		}
	}
	for i := 1; i < len(depth); i++ {
		depth[i] += depth[i-1]
	}
	return depth
}

// keeping is what is known of a register whose place may be kept.
type keeping struct {
	writes   int
	pc       int32 // of the first
	stretch  int32 // where that is
	placed   placed
	accesses int
	uses     int // by accesses in other stretches; one in a loop counts as several
}

// loopUses is how many uses an access in a loop counts for.
const loopUses = 8

// add adds an access by the register.
func (k *keeping) add(in *ir.Inst, elsewhere, loop bool) {
	_, _, n := accessRegs(in)
	total := int(in.Target) * n
	if k.accesses++; k.accesses == 1 {
		k.placed = placed{low: in.Imm, total: total, align: in.Align, shared: true}
	} else if k.placed.total == total && k.placed.align == in.Align {
		k.placed.widen(in.Imm)
	}
	switch {
	case elsewhere && loop:
		k.uses += loopUses
	case elsewhere:
		k.uses++
	}
}

// byKept compiles an access of .shared by a register whose place is kept, if there is such a place.
func (m *memoryAccess) byKept(pc int32) bool {
	e, ref := m.emitter, regRef{addressFile(m.in.Op), m.in.A}
	p, ok := e.kept[ref]
	if !ok || e.masked || m.in.Space != ir.SpaceShared || m.size < 4 || !m.whole && m.n > 1 {
		return false
	}
	m.place = p
	if m.ahead, m.reaches = p.has(m.in, m.total()); !m.reaches {
		return false
	}
	where, load := m.lazily(ref)
	for i := range m.n {
		if v := e.usedBy(m, i); v != nil {
			m.vals[i] = *v
		}
	}
	for i := range m.s {
		m.s[i] = e.scratch()
	}
	m.off = [4]x86.Z{t0, t1, t2, t3}
	m.rows = [2]x86.R{x86.RAX, x86.RCX}
	if m.whole {
		m.wholeByKept(pc, &where, load)
	} else {
		m.someByKept(pc, &where, load)
	}
	return true
}

// usedBy is the value of element i that an access stores, or that lanes keep into which it loads nothing; else nil.
func (e *emitter) usedBy(m *memoryAccess, i int) *value {
	if stores(m.in.Op) || !m.whole {
		return e.use(m.file, m.regs[i], false)
	}
	return nil
}

// lazily is the value of the address, which load brings into vector registers where it is in memory only.
func (m *memoryAccess) lazily(ref regRef) (where value, load func()) {
	e := m.emitter
	if firstPart(e.at(ref.kind, ref.index)) != noZ {
		where = *e.use(ref.kind, ref.index, false)
		for p := range parts(ref.kind) { // what looks how lanes lie wants all
			where.z[p] = where.part(p)
		}
		return where, func() {}
	}
	where = inMemoryOnly
	for p := range parts(ref.kind) {
		where.z[p] = e.scratch()
	}
	z := where.z
	return where, func() {
		for p := range parts(ref.kind) {
			e.a.VM(&x86.LOADD, z[p], 0, home(ref.kind, ref.index, p), x86.Arg{})
		}
	}
}

// wholeByKept is the rest of byKept for all lanes.
func (m *memoryAccess) wholeByKept(pc int32, where *value, load func()) {
	e := m.emitter
	m.out = e.aside(pc)
	if !stores(m.in.Op) { // nothing is written to these before it is known that no lane leaves
		m.makeRoom()
	}
	scattered, moved, done, other := e.a.NewLabel(), e.a.NewLabel(), e.a.NewLabel(), e.a.NewLabel()
	full := func() {
		m.mode = allOfThem
		m.offsets(pc, where)
		m.shape(scattered)
		m.recordOf(where, int32(m.total()))
	}
	m.inReach(int32(m.total()), other)
	e.later = append(e.later, func() {
		m.emitter.a.Bind(other)
		m.notInReach(where, load, full, moved, done)
	})
	m.where = where
	m.inRowsAt(moved, done, scattered)
}

// notInReach is an access by all lanes where not all accesses by the register are known to be inside: this one may be.
func (m *memoryAccess) notInReach(where *value, load, full func(), moved, done x86.Label) {
	a := &m.emitter.a
	same, unknown := a.NewLabel(), a.NewLabel()
	m.inPlace(int32(m.total()), 16*m.total(), same, unknown)
	a.Jump(moved)
	a.Bind(same)
	if !stores(m.in.Op) {
		m.inPlace(placeSame, m.total(), unknown, unknown)
		m.sameInHalves()
		a.Jump(done)
	}
	a.Bind(unknown)
	if m.grouped() {
		m.againInGroups(done)
	}
	m.againApart(where, load, done)
	load()
	if m.total()%(int(m.in.Align)+1) == 0 {
		m.inRows(where, full, moved)
	} else {
		full()
	}
	a.Jump(moved)
}

// someByKept is the rest of byKept for lanes that a guard lets run.
func (m *memoryAccess) someByKept(pc int32, where *value, load func()) {
	e := m.emitter
	m.makeRoom()
	m.out, m.found = e.aside(pc), e.a.NewLabel()
	slow, scattered, done := e.a.NewLabel(), e.a.NewLabel(), e.a.NewLabel()
	m.inReach(int32(m.total()), slow)
	m.moveSome()
	e.a.Jump(done)
	e.a.Bind(slow)
	load()
	m.offsets(pc, where)
	e.a.Bind(m.found)
	m.someLanes(false, scattered, done)
}
