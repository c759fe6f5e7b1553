package ref

import "pvdrm/gpu/ptx"

// Without rounding modifiers, a product that only sums use may become part of
// them: mul and add (or sub) are then one fma, rounded once (section 9.7.3).
// NVIDIA's compiler does this within a basic block, so the interpreter does it too.
// The rule, found by comparing with an H200 (fixtures tests/ptx/op/contract.*):
//
//   - the product is made without a predicate, and nothing but sums of its type
//     sees it, each as one of its two operands; a neg on the way is allowed;
//   - where a sum uses it, the factors still have the values that they had;
//   - of two products in one sum, the first operand is the one that is taken in;
//   - a product that any of its sums does not take in stays as it is.

// sum is an addition or subtraction that takes in a product.
type sum struct {
	mul     *ptx.Instr
	negated bool
	operand int // of the sum: 1 or 2
}

// candidate is a product that could be taken in by all that use it.
type candidate struct {
	mul     int // statement
	negated bool
	negs    []int       // statements that negate it
	sums    map[int]int // operand by statement
}

// contract fills in fn.sums, and fn.gone: the statements that they replace.
func (fn *function) contract() {
	body := fn.f.Body
	fn.sums, fn.gone = make([]*sum, len(body)), make([]bool, len(body))
	c := newContractor(fn.f)
	for start := 0; start < len(body); {
		end := blockEnd(body, start)
		var found []*candidate
		first := map[int]*candidate{} // the candidate that a sum prefers
		for n := start; n < end; n++ {
			p := c.follow(start, n, end)
			if p == nil {
				continue
			}
			found = append(found, p)
			for s, operand := range p.sums {
				if operand == 1 || first[s] == nil {
					first[s] = p
				}
			}
		}
		for _, p := range found {
			fn.take(p, first)
		}
		start = end
	}
}

// take enters a candidate if all its sums prefer it.
func (fn *function) take(p *candidate, first map[int]*candidate) {
	for s := range p.sums {
		if first[s] != p {
			return
		}
	}
	for s, operand := range p.sums {
		fn.sums[s] = &sum{fn.f.Body[p.mul].(*ptx.Instr), p.negated, operand}
	}
	fn.gone[p.mul] = true
	for _, n := range p.negs {
		fn.gone[n] = true
	}
}

// blockEnd is the end of the basic block that starts at start.
func blockEnd(body []ptx.Stmt, start int) int {
	for n := start; n < len(body); n++ {
		switch s := body[n].(type) {
		case *ptx.Label:
			if n > start {
				return n
			}
		case *ptx.Instr:
			switch s.Op {
			case ptx.OpBra, ptx.OpBrx, ptx.OpRet, ptx.OpExit, ptx.OpCall, ptx.OpTrap:
				return n + 1
			}
		}
	}
	return len(body)
}

// mention is one place where an instruction names a register.
type mention struct {
	reg    int32
	arg    int  // index in Instr.Args, or -1
	plain  bool // it is an operand for itself, neither in a vector nor in an address
	result bool // the instruction writes it
	whole  bool // and does so for sure: not under a predicate
}

// contractor knows the mentions of registers in a function.
type contractor struct {
	body     []ptx.Stmt
	mentions [][]mention // by statement, in the order in which they happen
	total    map[int32]int
}

func newContractor(f *ptx.Func) *contractor {
	c := &contractor{body: f.Body, mentions: make([][]mention, len(f.Body)), total: map[int32]int{}}
	for n, s := range f.Body {
		if i, ok := s.(*ptx.Instr); ok {
			c.mentions[n] = mentionsOf(i)
			for _, m := range c.mentions[n] {
				c.total[m.reg]++
			}
		}
	}
	return c
}

// mentionsOf lists what i reads and then what it writes.
func mentionsOf(i *ptx.Instr) (list []mention) {
	var visit func(o *ptx.Operand, m mention)
	visit = func(o *ptx.Operand, m mention) {
		for k := range o.Elems {
			visit(&o.Elems[k], mention{arg: m.arg, result: m.result, whole: m.whole})
		}
		if (o.Kind == ptx.OperandReg || o.Kind == ptx.OperandAddr || o.Kind == ptx.OperandTexel) && o.Reg >= 0 {
			m.reg, m.plain = o.Reg, m.plain && o.Kind == ptx.OperandReg
			list = append(list, m)
		}
	}
	guarded := i.Guard.Name != ""
	if guarded {
		list = append(list, mention{reg: i.Guard.Reg, arg: -1})
	}
	result := hasResult(i)
	for k := range i.Args {
		if k > 0 || !result {
			visit(&i.Args[k], mention{arg: k, plain: true})
		}
	}
	if i.Call != nil {
		visit(&i.Call.Callee, mention{arg: -1})
		for k := range i.Call.Args {
			visit(&i.Call.Args[k], mention{arg: -1})
		}
		for k := range i.Call.Results {
			visit(&i.Call.Results[k], mention{arg: -1, result: true, whole: !guarded})
		}
	}
	if result && len(i.Args) > 0 {
		visit(&i.Args[0], mention{result: true, whole: !guarded})
	}
	return list
}

// hasResult reports whether the first operand is what an instruction writes.
func hasResult(i *ptx.Instr) bool {
	switch i.Op {
	case ptx.OpTensormap, ptx.OpFence: // whose addresses come first
		return false
	case ptx.OpSt, ptx.OpRed, ptx.OpBra, ptx.OpBrx, ptx.OpPrefetch, ptx.OpPrefetchu, ptx.OpNanosleep, ptx.OpStackrestore,
		ptx.OpSust, ptx.OpStmatrix, ptx.OpCp, ptx.OpSetmaxnreg, ptx.OpApplypriority, ptx.OpDiscard, ptx.OpPmevent:
		return false
	case ptx.OpBar, ptx.OpBarrier:
		return i.Mods.Mode == ptx.ModeRed
	case ptx.OpMbarrier:
		return i.Args[0].Kind != ptx.OperandAddr
	case ptx.OpWmma:
		return i.Mods.Mode != ptx.ModeStore
	}
	return true
}

// unrounded reports whether s is op on floating point, without a rounding
// modifier, with a register as its result.
func unrounded(s ptx.Stmt, op ptx.Op) bool {
	i, ok := s.(*ptx.Instr)
	return ok && i.Op == op && i.Mods.Round == ptx.RoundNone && i.Mods.Type().Float() && i.Mods.Type() != ptx.F32x2 && i.Args[0].Kind == ptx.OperandReg
}

// follow follows the product that statement n makes to the last that sees it. It
// returns nil if n makes none or something else than sums needs it.
func (c *contractor) follow(start, n, end int) *candidate {
	if !unrounded(c.body[n], ptx.OpMul) {
		return nil
	}
	mul := c.body[n].(*ptx.Instr)
	if mul.Guard.Name != "" || mul.Mods.Has(ptx.Sat) {
		return nil
	}
	p := &candidate{mul: n, sums: map[int]int{}}
	reg, stale := mul.Args[0].Reg, false
	for at := n + 1; at < end; at++ {
		i, _ := c.body[at].(*ptx.Instr)
		moved := int32(ptx.NoReg)
		for _, m := range c.mentions[at] {
			switch {
			case m.reg != reg || moved != ptx.NoReg:
			case m.result && m.whole:
				return p.used() // it has another value from here on
			case stale || !m.plain:
				return nil
			default:
				_, twice := p.sums[at]
				switch {
				case c.isSumOf(mul, i) && !twice:
					p.sums[at] = m.arg
				case c.isNegOf(mul, i) && len(p.sums) == 0 && (i.Args[0].Reg == reg || c.total[reg] == 2):
					p.negated = !p.negated
					p.negs = append(p.negs, at)
					moved = i.Args[0].Reg
				default:
					return nil
				}
			}
			isFactor := m.reg == mul.Args[1].Reg || m.reg == mul.Args[2].Reg // constants have none
			stale = stale || m.result && isFactor
		}
		if moved != ptx.NoReg {
			reg = moved
		}
	}
	if !c.private(reg, start, end) {
		return nil
	}
	return p.used()
}

// used is p, or nil if no sum uses it.
func (p *candidate) used() *candidate {
	if len(p.sums) == 0 {
		return nil
	}
	return p
}

// isSumOf reports whether i adds or subtracts numbers like those that mul makes.
func (c *contractor) isSumOf(mul, i *ptx.Instr) bool {
	return (unrounded(i, ptx.OpAdd) || unrounded(i, ptx.OpSub)) && i.Mods.Type() == mul.Mods.Type() && i.Mods.Has(ptx.FTZ) == mul.Mods.Has(ptx.FTZ)
}

func (c *contractor) isNegOf(mul, i *ptx.Instr) bool {
	return unrounded(i, ptx.OpNeg) && i.Guard.Name == "" && i.Mods.Type() == mul.Mods.Type() && (!i.Mods.Has(ptx.FTZ) || mul.Mods.Has(ptx.FTZ))
}

// private reports whether no other block, nor this one when it is run again,
// sees the value that a register has at the end of a block.
func (c *contractor) private(reg int32, start, end int) bool {
	count := 0
	for n := start; n < end; n++ {
		for _, m := range c.mentions[n] {
			if m.reg != reg {
				continue
			}
			if count == 0 && !m.whole {
				return false
			}
			count++
		}
	}
	return count == c.total[reg]
}
