package rewrite

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"pvdrm/gpu/ptx"
)

// A loop of one block that counts to a bound runs in strips: the twin's inner loop is the kernel's with a nearer
// bound, and a look stands between two strips. A round costs what it does in the kernel, and ptxas unrolls the inner
// loop as it does the kernel's, since it is entered at its head only.
//
//	head: is a look due?
//	back: near = the counter after so many rounds, or the bound if that is nearer
//	in:   …
//	      branch to in unless the counter has reached near
//	      branch to head unless it has reached the bound

// strip is how a loop counts.
type strip struct {
	setp, add int32 // statements that compare the counter, or a copy of it, and change it
	counter   int32 // register
	side      int   // operand of setp that counts; the other one is the bound
	step      int64
	bits      int // of what is compared
	signed    bool
	until     bool // the loop ends where the counter equals the bound, and not beyond it
	rounds    int  // between two looks at most
}

// stripped is how many instructions a strip has, about. Loops whose steps are longer than mostStep are none.
const (
	stripped = 1 << 12
	mostStep = 1 << 16
)

// strip finds out how a loop of one block counts; nil where that is not known.
func (p *pauser) strip(s *single, branch *ptx.Instr) *strip {
	x := &strip{setp: -1, add: -1}
	if branch.Guard.Name == "" {
		return nil
	}
	writers, readers := p.mentions(s, branch.Guard.Reg)
	if len(writers) != 1 || len(readers) != 1 || readers[0] != s.branch {
		return nil
	}
	x.setp = writers[0]
	i := p.f.Body[x.setp].(*ptx.Instr)
	if i.Op != ptx.OpSetp || i.Guard.Name != "" || len(i.Args) != 3 || i.Args[0].Kind != ptx.OperandReg || i.Mods.Type().Float() || !wide(i.Mods.Type()) {
		return nil
	}
	x.bits = 8 * i.Mods.Type().Size()
	for x.side = 1; x.side <= 2; x.side++ {
		if p.counts(s, x, i) && p.toward(s, x, i, branch) {
			x.rounds = max(1, min(p.o.Interval/2, stripped)/s.weight)
			return x
		}
	}
	return nil
}

// mentions returns the statements of a loop that write a register and those that read it.
func (p *pauser) mentions(s *single, reg int32) (writers, readers []int32) {
	for k := s.at; k <= s.branch; k++ {
		i, ok := p.f.Body[k].(*ptx.Instr)
		if !ok {
			continue
		}
		i.EachRegister(func(r int32, write bool) {
			switch {
			case r == reg && write:
				writers = append(writers, k)
			case r == reg:
				readers = append(readers, k)
			}
		})
	}
	return writers, readers
}

// counts reports whether one side of a comparison is a counter, or a copy of one, that changes by a constant before it
// is compared, and the other side stays.
func (p *pauser) counts(s *single, x *strip, i *ptx.Instr) bool {
	v, bound := &i.Args[x.side], &i.Args[3-x.side]
	if v.Kind != ptx.OperandReg || v.Comp != 0 || bound.Comp != 0 {
		return false
	}
	switch bound.Kind {
	case ptx.OperandImm:
	case ptx.OperandReg:
		if w, _ := p.mentions(s, bound.Reg); len(w) > 0 || 8*p.f.Regs[bound.Reg].Type.Size() != x.bits || strings.Contains(p.f.Regs[bound.Reg].Name, ".") {
			return false
		}
	default:
		return false
	}
	x.counter = v.Reg
	at, c := p.changed(s, x.counter, x.setp)
	if c != nil && (c.Op == ptx.OpMov && wide(c.Mods.Types[0]) || c.Op == ptx.OpCvt && wide(c.Mods.Types[0]) && wide(c.Mods.Types[1])) && len(c.Args) == 2 && c.Args[1].Kind == ptx.OperandReg && c.Args[1].Comp == 0 {
		x.counter = c.Args[1].Reg
		at, c = p.changed(s, x.counter, s.branch)
	}
	if c == nil || c.Op != ptx.OpAdd || c.Mods.Has(ptx.CC) || c.Mods.Has(ptx.Sat) || !wide(c.Mods.Type()) || len(c.Args) != 3 || c.Args[1].Kind != ptx.OperandReg || c.Args[1].Reg != x.counter || c.Args[2].Kind != ptx.OperandImm {
		return false
	}
	x.add, x.step = at, int64(c.Args[2].Value)
	size := p.f.Regs[x.counter].Type.Size()
	return c.Mods.Type().Size() == size && 8*size >= x.bits && x.step != 0 && x.step >= -mostStep && x.step <= mostStep && !strings.Contains(p.f.Regs[x.counter].Name, ".")
}

// changed is the only statement of a loop that writes a register, if it precedes another and has no guard.
func (p *pauser) changed(s *single, reg, before int32) (int32, *ptx.Instr) {
	w, _ := p.mentions(s, reg)
	if len(w) != 1 || w[0] >= before {
		return -1, nil
	}
	i := p.f.Body[w[0]].(*ptx.Instr)
	if i.Guard.Name != "" {
		return -1, nil
	}
	return w[0], i
}

// toward reports whether a loop goes on for as long as its counter is on the side of the bound from which it comes.
func (p *pauser) toward(s *single, x *strip, i *ptx.Instr, branch *ptx.Instr) bool {
	t := i.Mods.Type()
	x.signed = t == ptx.S32 || t == ptx.S64
	goes, less := branch.Guard.Neg == s.out, false // it goes on where the comparison holds; where the counter is less
	switch i.Mods.Cmp {
	case ptx.CmpEQ, ptx.CmpNE:
		x.until = true
		return (i.Mods.Cmp == ptx.CmpNE) == goes
	case ptx.CmpLT, ptx.CmpLE:
		less = true
	case ptx.CmpGT, ptx.CmpGE:
	default:
		return false
	}
	if t != ptx.S32 && t != ptx.S64 && t != ptx.U32 && t != ptx.U64 {
		return false
	}
	less = less == (x.side == 1) == goes
	return less == (x.step > 0)
}

// near names the bound of a strip.
func (p *pauser) near(n int) string { return "%" + p.s.prefix + "near" + strconv.Itoa(n) }

// aim is what stands before a strip: it finds its bound.
func (p *pauser) aim(n int, x *strip) *ptx.Instr {
	t := p.text()
	near, from := p.near(n), p.f.Regs[x.counter].Name
	i := p.f.Body[x.setp].(*ptx.Instr)
	bound := p.bound(x, &i.Args[3-x.side])
	if 8*p.f.Regs[x.counter].Type.Size() > x.bits {
		from = near + "_at"
		t.line("cvt.u32.u64 %s, %s", from, p.f.Regs[x.counter].Name)
	}
	far := int64(x.rounds) * x.step
	switch sign := map[bool]string{true: "s", false: "u"}[x.signed]; {
	case !x.until:
		t.line("add.s%d %s, %s, %d", x.bits, near, from, far)
		t.line("%s.%s%d %s, %s, %s", map[bool]string{true: "min", false: "max"}[far > 0], sign, x.bits, near, near, bound)
	default:
		a, b := bound, from
		if far < 0 {
			a, b = b, a
		}
		t.line("sub.s%d %s, %s, %s", x.bits, near, a, b)
		t.line("setp.gt.u%d %%:p, %s, %d", x.bits, near, max(far, -far))
		t.line("add.s%d %s, %s, %d", x.bits, near, from, far)
		t.line("selp.b%d %s, %s, %s, %%:p", x.bits, near, near, bound)
	}
	return t.stmts()
}

// bound writes the bound of a loop.
func (p *pauser) bound(x *strip, o *ptx.Operand) string {
	switch {
	case o.Kind == ptx.OperandReg:
		return p.f.Regs[o.Reg].Name
	case x.bits == 32 && x.signed:
		return strconv.Itoa(int(int32(o.Value)))
	case x.bits == 32:
		return strconv.FormatUint(uint64(uint32(o.Value)), 10)
	case x.signed:
		return strconv.FormatInt(int64(o.Value), 10)
	}
	return strconv.FormatUint(o.Value, 10)
}

// nears declares the bounds of strips.
func (p *pauser) nears(t *text) {
	for _, at := range slices.Sorted(maps.Keys(p.looks)) {
		n := p.looks[at]
		if s := p.single[at]; s != nil && s.strip != nil {
			t.line(".reg .b%d %s, %s_at", s.strip.bits, p.near(n), p.near(n))
		}
	}
}

// strips replaces statements of the loop that has a look, by their places.
func (p *pauser) strips(n int, s *single, put map[int32][]ptx.Stmt) {
	x := s.strip
	p.s.e.Memory(4 * stmtBytes)
	compare, branch := p.f.Body[x.setp].(*ptx.Instr), p.f.Body[s.branch].(*ptx.Instr)
	nearer := *compare
	nearer.Args = append([]ptx.Operand(nil), compare.Args...)
	nearer.Args[3-x.side] = ptx.Operand{Kind: ptx.OperandName, Name: p.near(n), Reg: ptx.NoReg}
	put[x.setp] = []ptx.Stmt{&nearer}
	in := *branch
	in.Args = []ptx.Operand{{Kind: ptx.OperandName, Name: p.inName(n)}}
	in.Guard.Neg = branch.Guard.Neg != s.out
	list := []ptx.Stmt{&in, compare}
	if rest := (x.rounds - p.ahead(s)) * s.weight; rest > 0 {
		t := p.text()
		not := map[bool]string{true: "!"}[branch.Guard.Neg != s.out]
		t.line("@%s%s sub.s32 %%:left, %%:left, %d", not, branch.Guard.Name, rest)
		list = append(list, t.stmts())
	}
	put[s.branch] = append(list, branch)
}

// ahead is of how many rounds a loop is charged for before it begins.
func (p *pauser) ahead(s *single) int { return min(s.times, s.strip.rounds) }

// inName is the label of the inner loop of a strip.
func (p *pauser) inName(n int) string { return p.s.prefix + "in" + strconv.Itoa(n) }
