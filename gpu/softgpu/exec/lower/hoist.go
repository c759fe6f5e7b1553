package lower

import (
	"slices"

	"pvdrm/gpu/ptx"
)

// What several registers hold at a barrier, and only one result of them is needed for behind it, is computed before the barrier: a
// warp that waits there keeps its registers in memory, and compilers put operations next to where results are used. Moved are
// operations that cannot fail, together with those that only they use, over what stands between the barrier and them: from there
// nothing else comes to them, and nothing writes what they read. On other ways than theirs nobody reads what they write.

// Bounds of what is looked at behind a barrier, and of what is moved together.
const (
	hoistAhead = 48
	hoistMost  = 4
	hoistBody  = 2000 // statements of a function
)

// hoisting looks for such operations in a function, by their statements.
type hoisting struct {
	b      *builder
	reads  []int32         // of each register, in the function
	from   map[int32][]int // by label: the branches to it; -1: others
	backs  [][2]int        // branches that lead back: from where, and to where
	moved  map[int]bool
	behind map[int][]int // by barrier: what is moved before it

	// Behind a barrier, up to the statement that is looked at:
	at      int
	written map[int32][]int // by register: the statements that write it
	used    map[int32]bool  // registers that some statement mentions
	parted  bool            // a branch or label stands between
}

// hoist finds what is moved before barriers, by the barrier's statement, in its order, and all of those.
func (b *builder) hoist() (behind map[int][]int, moved map[int]bool) {
	if b.c.timed || !b.f.Entry || len(b.f.Body) > hoistBody {
		return nil, nil
	}
	h := &hoisting{b: b, moved: map[int]bool{}, behind: map[int][]int{}}
	for n, s := range b.f.Body {
		if i, ok := s.(*ptx.Instr); ok && i.Op == ptx.OpBar && h.isBarrier(i) {
			if h.reads == nil {
				h.begin()
			}
			h.over(n)
		}
	}
	return h.behind, h.moved
}

// statement decodes an instruction, and before a barrier those that come before it.
func (b *builder) statement(n int, i *ptx.Instr) {
	b.stmt = int32(n)
	for _, early := range b.hoisted[n] {
		e := b.f.Body[early].(*ptx.Instr)
		b.line = e.Pos.Line
		b.instr(e, nil)
		b.releaseTemps()
	}
	if b.early[n] {
		return
	}
	b.line = i.Pos.Line
	if add, ok := b.adds[n]; ok {
		b.instr(i, &add)
	} else if !b.gone[n] {
		b.instr(i, nil)
	}
	b.releaseTemps()
}

// isBarrier reports whether an instruction is a barrier of the block that all threads wait at, and that gives nothing.
func (h *hoisting) isBarrier(i *ptx.Instr) bool {
	return i.Guard.Name == "" && i.Mods.Mode == ptx.ModeSync && len(i.Args) == 1
}

// begin counts reads, and finds where branches lead.
func (h *hoisting) begin() {
	body := h.b.f.Body
	h.b.spend(4*len(h.b.f.Regs) + 64*len(body)/8)
	h.reads, h.from = make([]int32, len(h.b.f.Regs)), map[int32][]int{}
	for n, s := range body {
		h.b.c.effort.Steps(4)
		i, ok := s.(*ptx.Instr)
		if !ok {
			continue
		}
		eachRead(i, func(reg int32) { h.reads[reg]++ })
		switch i.Op {
		case ptx.OpBra:
			to := i.Args[0].Target
			if h.from[to] = append(h.from[to], n); int(to) <= n {
				h.backs = append(h.backs, [2]int{n, int(to)})
			}
		case ptx.OpBrx:
			if list, ok := i.Args[1].Ref.(*ptx.Targets); ok {
				for k := range list.Labels {
					h.from[list.Labels[k].Target] = append(h.from[list.Labels[k].Target], -1)
				}
			}
		}
	}
}

// over looks at what stands behind the barrier at a statement.
func (h *hoisting) over(barrier int) {
	h.at, h.written, h.used, h.parted = barrier, map[int32][]int{}, map[int32]bool{}, false
	body := h.b.f.Body
	for n := barrier + 1; n < min(len(body), barrier+hoistAhead); n++ {
		h.b.c.effort.Steps(8)
		switch s := body[n].(type) {
		case *ptx.Label:
			if slices.ContainsFunc(h.from[int32(n)], func(from int) bool { return from <= barrier || from >= n }) {
				return // others come there, too
			}
			h.parted = true
		case *ptx.Instr:
			switch s.Op {
			case ptx.OpBar, ptx.OpBarrier, ptx.OpCall, ptx.OpBrx:
				return
			case ptx.OpBra, ptx.OpRet, ptx.OpExit:
				h.parted = true
			}
			if h.moved[n] {
				continue
			}
			if cone := h.cone(n); len(cone) != 0 && h.pays(n, cone) {
				for _, m := range cone {
					h.moved[m] = true
					i := body[m].(*ptx.Instr)
					delete(h.written, i.Args[0].Reg)
				}
				h.behind[barrier] = append(h.behind[barrier], cone...)
				continue
			}
			h.note(n, s)
		}
	}
}

// note notes what a statement that stays reads and writes.
func (h *hoisting) note(n int, i *ptx.Instr) {
	eachRead(i, func(reg int32) { h.used[reg] = true })
	eachWrite(i, func(reg int32) {
		h.used[reg] = true
		h.written[reg] = append(h.written[reg], n)
	})
}

// cone is the statement n and those behind the barrier that it needs and that nothing else does, or nil if they cannot be moved.
func (h *hoisting) cone(n int) (list []int) {
	i, ok := h.b.f.Body[n].(*ptx.Instr)
	if !ok || !h.movable(n, i) {
		return nil
	}
	reg, possible := i.Args[0].Reg, true
	if h.used[reg] || len(h.written[reg]) != 0 || h.parted && !h.isLocal(n, reg) {
		return nil
	}
	eachRead(i, func(source int32) {
		from := h.written[source]
		switch {
		case source == reg:
			possible = false
		case len(from) == 0:
		case len(from) == 1 && h.reads[source] == 1 && len(list) < hoistMost:
			more := h.coneOf(from[0], n)
			possible = possible && more != nil
			list = append(list, more...)
		default:
			possible = false
		}
	})
	if !possible || len(list) >= hoistMost {
		return nil
	}
	list = append(list, n)
	slices.Sort(list)
	return list
}

// coneOf is cone for a statement whose result only another one needs, which must follow it with no label or branch between.
func (h *hoisting) coneOf(n, by int) (list []int) {
	for _, s := range h.b.f.Body[n+1 : by] {
		if i, ok := s.(*ptx.Instr); !ok || endsFusing(i) {
			return nil
		}
	}
	i := h.b.f.Body[n].(*ptx.Instr)
	if !h.movable(n, i) {
		return nil
	}
	possible := true
	eachRead(i, func(source int32) { possible = possible && len(h.written[source]) == 0 && source != i.Args[0].Reg })
	if !possible {
		return nil
	}
	return []int{n}
}

// movable reports whether an instruction computes a value of 32 bits, whatever its operands are.
func (h *hoisting) movable(n int, i *ptx.Instr) bool {
	switch i.Op {
	case ptx.OpAdd, ptx.OpSub, ptx.OpMul, ptx.OpMad, ptx.OpFma, ptx.OpMin, ptx.OpMax, ptx.OpAnd, ptx.OpOr, ptx.OpXor, ptx.OpNeg, ptx.OpAbs:
	default:
		return false
	}
	d := &i.Args[0]
	if _, takes := h.b.adds[n]; takes || h.b.gone[n] || i.Guard.Name != "" || i.Mods.Has(ptx.CC) || d.Kind != ptx.OperandReg || d.Comp != 0 {
		return false
	}
	if h.b.f.Regs[d.Reg].Type.Size() != 4 {
		return false
	}
	for _, o := range i.Args[1:] {
		if o.Kind != ptx.OperandReg && o.Kind != ptx.OperandImm || o.Comp != 0 {
			return false
		}
	}
	for _, base := range h.b.bases { // an address that others have in its place
		if base.reg == d.Reg {
			return false
		}
	}
	return true
}

// isLocal reports whether all reads of a register stand behind a statement, before the next label or branch.
func (h *hoisting) isLocal(n int, reg int32) bool {
	count := int32(0)
	for _, s := range h.b.f.Body[n+1 : min(len(h.b.f.Body), n+1+hoistAhead)] {
		i, ok := s.(*ptx.Instr)
		if !ok || endsFusing(i) {
			break
		}
		eachRead(i, func(r int32) {
			if r == reg {
				count++
			}
		})
	}
	return count == h.reads[reg]
}

// pays reports whether fewer registers live over the barrier where a cone, of which n is the last, is before it.
func (h *hoisting) pays(n int, cone []int) bool {
	body, in, ends := h.b.f.Body, map[int32]int32{}, 0
	made := map[int32]bool{}
	for _, m := range cone {
		i := body[m].(*ptx.Instr)
		made[i.Args[0].Reg] = true
		eachRead(i, func(reg int32) { in[reg]++ })
	}
	head := h.head()
	for reg := range in {
		if !made[reg] && h.endsAt(reg, head, cone) {
			ends++
		}
	}
	return ends > 1
}

// head is the first statement of the loops that the barrier is in, or -1.
func (h *hoisting) head() int {
	head := -1
	for _, back := range h.backs {
		if back[0] > h.at && back[1] <= h.at && (head < 0 || back[1] < head) {
			head = back[1]
		}
	}
	return head
}

// endsAt reports whether nothing behind the barrier needs a register but a cone.
func (h *hoisting) endsAt(reg int32, head int, cone []int) bool {
	fresh := head < 0
	for n, s := range h.b.f.Body {
		h.b.c.effort.Steps(1)
		i, ok := s.(*ptx.Instr)
		if !ok || h.moved[n] {
			continue
		}
		if n > h.at && !slices.Contains(cone, n) {
			needs := false
			eachRead(i, func(r int32) { needs = needs || r == reg })
			if needs {
				return false
			}
		}
		if !fresh && n >= head && n <= h.at {
			eachWrite(i, func(r int32) { fresh = fresh || r == reg })
		}
	}
	return fresh
}
