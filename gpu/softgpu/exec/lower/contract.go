package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/table"
)

// A product that is only used by additions and subtractions becomes part of
// them: without rounding modifiers both may be one fma (section 9.7.3), and
// NVIDIA's compiler makes it one, so results are those of its hardware.

// fused is the multiplication that an addition takes in.
type fused struct {
	mul    *ptx.Instr
	neg    bool // the product is negated
	factor int  // operand of the addition that is the product: 1 or 2
}

// product is a register that holds a product nobody else has asked for yet.
type product struct {
	stmt  int
	neg   bool
	stale bool        // an operand has another value now
	via   []int       // statements that negate it on its way to this register
	adds  map[int]int // additions that use it: the operand, by statement
}

// contraction is what contract finds.
type contraction struct {
	b        *builder
	mentions []int          // of each register, in the whole function
	seen     map[int32]int  // mentions of each register in this block
	exposed  map[int32]bool // registers that this block reads before it writes them
	products map[int32]*product
	factors  map[int32][]*product // the products of which a register is an operand
	dead     []*product           // products that nothing can use any more
	adds     map[int]fused
	gone     map[int]bool // statements that are not needed any more
}

// contract finds the additions that take in products, by statement, and the
// statements that they replace. It looks at one basic block at a time.
func (b *builder) contract() (adds map[int]fused, gone map[int]bool) {
	if !b.multiplies() {
		return nil, nil
	}
	b.spend((8 + 2*ir.MapFactor*24) * len(b.f.Regs))
	c := &contraction{b: b, adds: map[int]fused{}, gone: map[int]bool{}}
	c.count()
	c.begin()
	for n, s := range b.f.Body {
		b.c.effort.Steps(4)
		switch s := s.(type) {
		case *ptx.Label:
			c.end()
			c.begin()
		case *ptx.Instr:
			c.instr(n, s)
			if endsFusing(s) {
				c.end()
				c.begin()
			}
		}
	}
	c.end()
	c.settle()
	return c.adds, c.gone
}

// multiplies reports whether there is anything to do.
func (b *builder) multiplies() bool {
	for _, s := range b.f.Body {
		if i, ok := s.(*ptx.Instr); ok && i.Op == ptx.OpMul && contractible(i, ptx.OpMul) {
			return true
		}
	}
	return false
}

func (c *contraction) begin() {
	c.seen, c.exposed, c.products = map[int32]int{}, map[int32]bool{}, map[int32]*product{}
	c.factors = map[int32][]*product{}
}

// end settles what is left of a block: a product that other blocks might use stays.
func (c *contraction) end() {
	for r, p := range c.products {
		if c.local(r) {
			c.dead = append(c.dead, p)
		}
	}
}

// local reports whether no other block, nor this one when it is run again, can
// see the value of a register.
func (c *contraction) local(r int32) bool { return !c.exposed[r] && c.seen[r] == c.mentions[r] }

// settle decides which additions take in which products. Of two products the
// first operand is taken; a product must be taken in by all that use it.
func (c *contraction) settle() {
	wins := map[int]*product{}
	for _, p := range c.dead {
		for n, k := range p.adds {
			if k == 1 || wins[n] == nil {
				wins[n] = p
			}
		}
	}
	for _, p := range c.dead {
		all := len(p.adds) > 0
		for n := range p.adds {
			all = all && wins[n] == p
		}
		if !all {
			continue
		}
		for n, k := range p.adds {
			c.adds[n] = fused{mul: c.b.f.Body[p.stmt].(*ptx.Instr), neg: p.neg, factor: k}
		}
		c.gone[p.stmt] = true
		for _, n := range p.via {
			c.gone[n] = true
		}
	}
}

// instr follows one instruction.
func (c *contraction) instr(n int, i *ptx.Instr) {
	if i.Guard.Name != "" {
		c.read(i.Guard.Reg)
	}
	negated := c.reads(n, i)
	if i.Call != nil {
		for k := range i.Call.Results {
			eachRegister(&i.Call.Results[k], c.write)
		}
		return
	}
	if len(i.Args) == 0 || !writes(i) {
		return
	}
	if i.Guard.Name != "" {
		// Lanes that the guard leaves out keep what is there.
		eachRegister(&i.Args[0], c.keep)
	}
	eachRegister(&i.Args[0], c.write)
	r := i.Args[0].Reg
	switch {
	case negated != nil:
		negated.neg = !negated.neg
		negated.via = append(negated.via, n)
		c.products[r] = negated
	case i.Guard.Name == "" && contractible(i, ptx.OpMul) && !i.Mods.Has(ptx.Sat):
		c.b.spend(productBytes)
		p := &product{stmt: n, adds: map[int]int{}}
		c.products[r] = p
		for k := 1; k <= 2; k++ {
			if o := &i.Args[k]; o.Kind == ptx.OperandReg {
				c.factors[o.Reg] = append(c.factors[o.Reg], p)
			}
		}
	}
}

// reads follows the operands that i reads. It returns the product that i
// negates, if it does only that.
func (c *contraction) reads(n int, i *ptx.Instr) (negated *product) {
	from := 0
	if writes(i) {
		from = 1
	}
	adds := contractible(i, ptx.OpAdd) || contractible(i, ptx.OpSub)
	for k := from; k < len(i.Args); k++ {
		o := &i.Args[k]
		p := c.products[o.Reg]
		if p != nil && p.stale {
			p = nil
		}
		switch {
		case o.Kind == ptx.OperandReg && p != nil && adds && fits(c.b.f.Body[p.stmt].(*ptx.Instr), i) && !p.uses(n):
			c.seen[o.Reg]++
			p.adds[n] = k
		case o.Kind == ptx.OperandReg && p != nil && i.Guard.Name == "" && contractible(i, ptx.OpNeg) && len(p.adds) == 0 &&
			fits(c.b.f.Body[p.stmt].(*ptx.Instr), i) && (o.Reg == i.Args[0].Reg || c.mentions[o.Reg] == 2):
			c.seen[o.Reg]++
			delete(c.products, o.Reg)
			negated = p
		default:
			eachRegister(o, c.read)
		}
	}
	if i.Call != nil {
		for k := range i.Call.Args {
			eachRegister(&i.Call.Args[k], c.read)
		}
		eachRegister(&i.Call.Callee, c.read)
	}
	return negated
}

// uses reports whether addition n already uses the product, as its other operand.
func (p *product) uses(n int) bool {
	_, ok := p.adds[n]
	return ok
}

// read notes a use that no fma can take in: the product stays.
func (c *contraction) read(r int32) {
	c.keep(r)
	c.seen[r]++
}

// keep makes a register keep its value.
func (c *contraction) keep(r int32) {
	if c.seen[r] == 0 {
		c.exposed[r] = true
	}
	delete(c.products, r)
}

// write notes that register r gets another value: a product in it is dead, and
// one of which it is an operand can only be taken in by what came before.
func (c *contraction) write(r int32) {
	if p := c.products[r]; p != nil {
		delete(c.products, r)
		c.dead = append(c.dead, p)
	}
	for _, p := range c.factors[r] {
		p.stale = true
	}
	delete(c.factors, r)
	c.seen[r]++
}

// count counts the mentions of each register.
func (c *contraction) count() {
	c.mentions = make([]int, len(c.b.f.Regs))
	add := func(r int32) { c.mentions[r]++ }
	for _, s := range c.b.f.Body {
		i, ok := s.(*ptx.Instr)
		if !ok {
			continue
		}
		if i.Guard.Name != "" {
			add(i.Guard.Reg)
		}
		for k := range i.Args {
			eachRegister(&i.Args[k], add)
		}
		if i.Call != nil {
			for k := range i.Call.Args {
				eachRegister(&i.Call.Args[k], add)
			}
			for k := range i.Call.Results {
				eachRegister(&i.Call.Results[k], add)
			}
			eachRegister(&i.Call.Callee, add)
		}
	}
}

// eachRegister visits the registers of an operand.
func eachRegister(o *ptx.Operand, visit func(int32)) {
	for k := range o.Elems {
		eachRegister(&o.Elems[k], visit)
	}
	if (o.Kind == ptx.OperandReg || o.Kind == ptx.OperandAddr || o.Kind == ptx.OperandTexel) && o.Reg >= 0 {
		visit(o.Reg)
	}
}

// writes reports whether the first operand of i is its result.
func writes(i *ptx.Instr) bool {
	switch i.Op {
	case ptx.OpSt, ptx.OpRed, ptx.OpBra, ptx.OpBrx, ptx.OpPrefetch, ptx.OpPrefetchu, ptx.OpNanosleep, ptx.OpStackrestore, ptx.OpSust, ptx.OpSured, ptx.OpStmatrix,
		ptx.OpCp, ptx.OpSetmaxnreg, ptx.OpTensormap, ptx.OpFence:
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

// endsFusing reports control flow, over which nothing is fused.
func endsFusing(i *ptx.Instr) bool {
	switch i.Op {
	case ptx.OpBra, ptx.OpBrx, ptx.OpRet, ptx.OpExit, ptx.OpCall, ptx.OpTrap:
		return true
	}
	return false
}

// contractible reports whether i is op on floating point without a rounding modifier. Pairs of
// f32 stay as they are: PTX does not demand it, and no GPU has shown what becomes of them.
func contractible(i *ptx.Instr, op ptx.Op) bool {
	return i.Op == op && i.Mods.Round == ptx.RoundNone && i.Mods.Type().Float() && i.Mods.Type() != ptx.F32x2 && i.Args[0].Kind == ptx.OperandReg
}

// fits reports whether two instructions compute with the same numbers.
func fits(mul, add *ptx.Instr) bool {
	return mul.Mods.Type() == add.Mods.Type() && (mul.Mods.Has(ptx.FTZ) == add.Mods.Has(ptx.FTZ) || add.Op == ptx.OpNeg && !add.Mods.Has(ptx.FTZ))
}

// fma decodes an addition or subtraction with the product that it takes in.
func (b *builder) fma(i *ptx.Instr, f *fused) {
	negProduct, negSum := f.neg, false
	if i.Op == ptx.OpSub {
		if f.factor == 1 {
			negSum = true
		} else {
			negProduct = !negProduct
		}
	}
	op := map[[2]bool]string{{false, false}: "fma", {false, true}: "fms", {true, false}: "fnma", {true, true}: "fnms"}[[2]bool{negProduct, negSum}]
	key := op
	if i.Mods.Has(ptx.FTZ) {
		key += ".ftz"
	}
	if i.Mods.Has(ptx.Sat) {
		key += ".sat"
	}
	args := []ptx.Operand{f.mul.Args[1], f.mul.Args[2], i.Args[3-f.factor]}
	b.row(i, table.Lanes[key+"."+i.Mods.Type().String()], &i.Args[0], args)
}
