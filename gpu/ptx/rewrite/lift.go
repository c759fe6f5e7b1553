package rewrite

import "pvdrm/gpu/ptx"

// What a thread computes from its place in the grid, from parameters and from addresses of variables is the
// same in each launch. The twin computes it before it begins or goes on, and does not save it. That
// is less to save, and where a compiler looks at what a register may hold, such a register
// has one value, as in the kernel: the software GPU reads neighbouring words of the lanes of a warp
// together if it knows the address by the number of the thread.

// lifts finds the statements that can be before all others: those that write a register that nothing else
// writes, from what is known there. So is what they read, which precedes them in the text.
func (p *pauser) lifts() {
	p.s.e.Memory(8*len(p.f.Body) + 8*len(p.f.Regs))
	p.lifted, p.wanted, p.within = map[int32]int32{}, map[int32]bool{}, map[*ptx.Var]bool{}
	for _, v := range p.inner {
		p.within[v] = true
	}
	writes := make([]int32, len(p.f.Regs))
	for _, s := range p.f.Body {
		if i, ok := s.(*ptx.Instr); ok {
			i.EachRegister(func(reg int32, write bool) {
				if write {
					writes[reg]++
				}
			})
		}
	}
	for k, s := range p.f.Body {
		p.s.e.Step()
		i, ok := s.(*ptx.Instr)
		if !ok || p.depth[k] > 0 || !liftable[i.Op] || i.Guard.Name != "" || i.Mods.Has(ptx.CC) || len(i.Args) < 2 || i.Args[0].Kind != ptx.OperandReg || writes[i.Args[0].Reg] != 1 {
			continue
		}
		if i.Op == ptx.OpLd && (i.Mods.Space != ptx.SpaceParam || i.Mods.Mode != ptx.ModeNone) {
			continue
		}
		same := true
		for n := range i.Args[1:] {
			same = same && p.constant(&i.Args[n+1])
		}
		if same {
			p.lifted[i.Args[0].Reg] = int32(k)
		}
	}
}

// liftable are operations whose result follows from their operands, which are cheap.
var liftable = map[ptx.Op]bool{
	ptx.OpMov: true, ptx.OpCvt: true, ptx.OpCvta: true, ptx.OpLd: true, ptx.OpAdd: true, ptx.OpSub: true, ptx.OpMul: true, ptx.OpMad: true, ptx.OpNeg: true,
	ptx.OpShl: true, ptx.OpShr: true, ptx.OpAnd: true, ptx.OpOr: true, ptx.OpXor: true, ptx.OpNot: true, ptx.OpMin: true, ptx.OpMax: true,
}

// constant reports whether an operand is the same in each launch, and known before the kernel begins.
func (p *pauser) constant(o *ptx.Operand) bool {
	switch o.Kind {
	case ptx.OperandImm:
		return true
	case ptx.OperandReg:
		_, ok := p.lifted[o.Reg]
		return ok && o.Comp == 0
	case ptx.OperandSpecial:
		switch o.Special {
		case ptx.TidX, ptx.TidY, ptx.TidZ, ptx.NTidX, ptx.NTidY, ptx.NTidZ, ptx.CTAIDX, ptx.CTAIDY, ptx.CTAIDZ, ptx.NCTAIDX, ptx.NCTAIDY, ptx.NCTAIDZ:
			return true
		}
	case ptx.OperandSymbol:
		v, ok := o.Ref.(*ptx.Var)
		return ok && !p.within[v]
	case ptx.OperandAddr:
		v, ok := o.Ref.(*ptx.Var)
		return ok && v.Space == ptx.SpaceParam && !p.within[v]
	}
	return false
}

// want notes that a register is to be computed before the kernel begins, if it can be.
func (p *pauser) want(reg int32) bool {
	if _, ok := p.lifted[reg]; !ok {
		return false
	}
	for list := []int32{reg}; len(list) > 0; {
		at := p.lifted[list[len(list)-1]]
		list = list[:len(list)-1]
		if p.wanted[at] {
			continue
		}
		p.s.e.Step()
		p.wanted[at] = true
		p.f.Body[at].(*ptx.Instr).EachRegister(func(r int32, write bool) {
			if !write {
				list = append(list, r)
			}
		})
	}
	return true
}

// isWanted reports whether a register is computed before the kernel begins.
func (p *pauser) isWanted(reg int32) bool {
	at, ok := p.lifted[reg]
	return ok && p.wanted[at]
}

// front is what precedes the rest of the body: what it declares and what is lifted, the way into it, and what is left
// of it.
func (p *pauser) front() (first []ptx.Stmt) {
	p.s.e.Memory(stmtBytes * len(p.wanted))
	for k, s := range p.f.Body {
		if _, ok := s.(*ptx.Var); ok && p.depth[k] == 0 {
			first = append(first, s)
		}
	}
	for k, s := range p.f.Body {
		if p.wanted[int32(k)] {
			first = append(first, s)
		}
	}
	return append(first, p.entry())
}

// inFront reports whether front has a statement.
func (p *pauser) inFront(k int32) bool {
	_, declares := p.f.Body[k].(*ptx.Var)
	return declares && p.depth[k] == 0 || p.wanted[k]
}
