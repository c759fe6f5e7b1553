package lower

import (
	"slices"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
)

// Addresses that differ by a number that is known become offsets of one register. Compilers that unroll loops
// compute each address of an array in .shared from the thread's place by itself, since the sums have 32 bits and might
// wrap around; what threads' places are below shows that they do not. The accesses then say for native
// code what they have in common (package jit, places.go), and additions fall away.

// rebased is what an access has as its base register instead, and what its offset becomes more.
type rebased struct {
	reg int32
	add uint64
}

// Bounds: terms of a sum, and values that are told apart in a function.
const (
	maxTerms = 4
	maxAtoms = 1 << 16
)

// term is a factor of a value that is not a sum itself.
type term struct {
	atom   int32
	factor uint64
}

// sum is what a register holds, extended with zeros to 64 bits: terms by their atoms, and a number, modulo 2 to
// the 64. Unused terms are zero, so that sums can be compared.
type sum struct {
	terms [maxTerms]term
	add   uint64
}

// value is a sum, and bounds for it as an integer. Where low is above high none are known.
type value struct {
	sum
	low, high int64
}

// base is the value without its number, by which accesses find one another.
func (v value) base() [maxTerms]term { return v.terms }

// held is what a register holds since a label: that of an epoch, or always, where it is written once and where the
// function begins.
type held struct {
	value
	epoch int32
}

const always = -1

// rebasing follows the values of registers through one function.
type rebasing struct {
	b      *builder
	atoms  int32
	writes []uint8 // of each register, up to 2
	reads  []int32
	values []held
	epoch  int32         // counts labels
	bytes  int           // of memory
	known  map[any]value // special registers and variables
	at     map[[maxTerms]term]int32
	first  bool // no label or branch came yet
	found  map[*ptx.Operand]rebased
	gone   map[int]bool
}

// rebase finds the accesses whose base register another one can stand for, by the operands, and adds the
// statements to gone that nothing needs any more then.
func (b *builder) rebase(gone map[int]bool) (map[*ptx.Operand]rebased, map[int]bool) {
	if b.c.timed || len(b.f.Body) == 0 { // modelled time counts operations as they are written
		return nil, gone
	}
	r := &rebasing{b: b, writes: make([]uint8, len(b.f.Regs)), reads: make([]int32, len(b.f.Regs)), values: make([]held, len(b.f.Regs)),
		known: map[any]value{}, found: map[*ptx.Operand]rebased{}, gone: gone, first: true}
	r.take((5 + ir.WeightOf[held]()) * len(b.f.Regs))
	defer func() { b.c.effort.Free(r.bytes) }() // before the function is decoded
	r.count()
	r.begin()
	for n, s := range b.f.Body {
		b.c.effort.Steps(6)
		switch s := s.(type) {
		case *ptx.Label:
			r.first = false
			r.begin()
		case *ptx.Instr:
			if !gone[n] {
				r.instr(s)
			}
			r.first = r.first && !endsFusing(s)
		}
		if r.atoms > maxAtoms {
			break
		}
	}
	if len(r.found) > 0 && b.f.Entry { // a function may read what it returns
		r.sweep()
	}
	return r.found, r.gone
}

// begin forgets what lanes that come from elsewhere do not share.
func (r *rebasing) begin() {
	r.epoch++
	r.at = map[[maxTerms]term]int32{}
}

// take counts memory.
func (r *rebasing) take(bytes int) {
	r.b.c.effort.Memory(bytes)
	r.bytes += bytes
}

// count counts reads and writes of each register.
func (r *rebasing) count() {
	for _, s := range r.b.f.Body {
		if i, ok := s.(*ptx.Instr); ok {
			eachRead(i, func(reg int32) { r.reads[reg]++ })
			eachWrite(i, func(reg int32) { r.writes[reg] = min(r.writes[reg]+1, 2) })
		}
	}
}

// eachRead visits the registers that an instruction reads, and eachWrite those that it writes.
func eachRead(i *ptx.Instr, visit func(int32)) {
	if i.Guard.Name != "" {
		visit(i.Guard.Reg)
	}
	from := 0
	if len(i.Args) > 0 && writes(i) {
		from = 1
	}
	for k := from; k < len(i.Args); k++ {
		eachRegister(&i.Args[k], visit)
	}
	if i.Call != nil {
		for k := range i.Call.Args {
			eachRegister(&i.Call.Args[k], visit)
		}
		eachRegister(&i.Call.Callee, visit)
	}
}

func eachWrite(i *ptx.Instr, visit func(int32)) {
	if len(i.Args) > 0 && writes(i) {
		eachRegister(&i.Args[0], visit)
	}
	if i.Call != nil {
		for k := range i.Call.Results {
			eachRegister(&i.Call.Results[k], visit)
		}
	}
}

// instr follows one instruction.
func (r *rebasing) instr(i *ptx.Instr) {
	switch i.Op {
	case ptx.OpLd:
		r.access(&i.Args[1])
	case ptx.OpSt:
		r.access(&i.Args[0])
	}
	v, ok := value{}, false
	if i.Guard.Name == "" {
		v, ok = r.result(i)
	}
	eachWrite(i, func(reg int32) {
		switch {
		case !ok:
			r.values[reg] = held{value: r.unknown(r.b.f.Regs[reg].Type.Size()), epoch: r.epoch}
		case r.first && r.writes[reg] == 1:
			r.values[reg] = held{value: v, epoch: always}
		default:
			r.values[reg] = held{value: v, epoch: r.epoch}
		}
	})
}

// access looks for a register that the base of an address can be replaced by.
func (r *rebasing) access(o *ptx.Operand) {
	if o.Kind != ptx.OperandAddr || o.Reg < 0 || r.b.f.Regs[o.Reg].Type.Size() != 8 {
		return
	}
	v := r.read(o.Reg)
	other, ok := r.at[v.base()]
	if !ok || r.read(other).base() != v.base() {
		r.take(ir.MapFactor * (ir.WeightOf[[maxTerms]term]() + 8))
		r.at[v.base()] = o.Reg
		return
	}
	if other != o.Reg {
		r.b.spend(ir.MapFactor * 32)
		r.found[o] = rebased{reg: other, add: v.add - r.read(other).add}
		r.reads[other]++
		r.reads[o.Reg]--
	}
}

// unknown is a value of so many bytes of which nothing is known.
func (r *rebasing) unknown(size int) value {
	v := r.atom(1, 0)
	if size < 8 {
		v.low, v.high = 0, 1<<(8*size)-1
	}
	return v
}

// atom is a new value between two bounds.
func (r *rebasing) atom(low, high int64) value {
	r.atoms++
	return value{sum: sum{terms: [maxTerms]term{{atom: r.atoms, factor: 1}}}, low: low, high: high}
}

// read is the value of a register.
func (r *rebasing) read(reg int32) value {
	h := &r.values[reg]
	if h.epoch != r.epoch && h.epoch != always {
		*h = held{value: r.unknown(r.b.f.Regs[reg].Type.Size()), epoch: r.epoch}
	}
	return h.value
}

// operand is the value of an operand of type t.
func (r *rebasing) operand(o *ptx.Operand, t ptx.Type) (value, bool) {
	switch o.Kind {
	case ptx.OperandReg:
		if r.b.f.Regs[o.Reg].Type.Size() != t.Size() || o.Comp != 0 {
			return value{}, false
		}
		return r.read(o.Reg), true
	case ptx.OperandImm:
		x := o.Imm(t)
		if t.Size() == 4 {
			x = uint64(int64(int32(x))) // an addition of a negative number is a subtraction
		}
		return value{sum: sum{add: x}, low: int64(x), high: int64(x)}.bound(), true
	case ptx.OperandSpecial:
		limit, ok := specialLimits[o.Special]
		if !ok || t.Size() != 4 {
			return value{}, false
		}
		return r.same(o.Special, 0, limit), true
	case ptx.OperandSymbol:
		if v, ok := o.Ref.(*ptx.Var); ok && v.Space == ptx.SpaceShared {
			base := r.same(v, 1, 0)
			base.add += o.Value
			return base, true
		}
	}
	return value{}, false
}

// same is the value that a special register or a variable has at all times.
func (r *rebasing) same(what any, low, high int64) value {
	v, ok := r.known[what]
	if !ok {
		v = r.atom(low, high)
		r.known[what] = v
	}
	return v
}

// specialLimits are the largest values of special registers that do not change.
var specialLimits = map[ptx.Special]int64{
	ptx.TidX: 1<<16 - 1, ptx.TidY: 1<<16 - 1, ptx.TidZ: 1<<16 - 1, ptx.LaneID: 31,
	ptx.NTidX: 1 << 16, ptx.NTidY: 1 << 16, ptx.NTidZ: 1 << 16,
	ptx.CTAIDX: 1<<32 - 1, ptx.CTAIDY: 1<<32 - 1, ptx.CTAIDZ: 1<<32 - 1,
}

// result is the value of the result of an instruction, if it is a sum.
func (r *rebasing) result(i *ptx.Instr) (v value, ok bool) {
	if !removable(i) || i.Mods.Has(ptx.Sat) {
		return v, false
	}
	t := i.Mods.Type()
	to := t
	if i.Op == ptx.OpCvt {
		t = i.Mods.Types[1]
	}
	if i.Mods.Mode == ptx.ModeWide {
		to = map[ptx.Type]ptx.Type{ptx.U32: ptx.U64, ptx.S32: ptx.S64}[t]
	}
	if !isWord(t) || !isWord(to) || r.b.f.Regs[i.Args[0].Reg].Type.Size() != to.Size() {
		return v, false
	}
	var args [3]value
	for k := 1; k < len(i.Args); k++ {
		at := t
		if k == 3 {
			at = to
		}
		if args[k-1], ok = r.operand(&i.Args[k], at); !ok {
			return v, false
		}
	}
	signed := t.Signed() && t.Size() == 4
	switch {
	case i.Op == ptx.OpMov, i.Op == ptx.OpCvta && t == ptx.U64 && i.Mods.Space == ptx.SpaceGlobal, i.Op == ptx.OpCvt && to.Size() == t.Size():
		v, ok = args[0], true
	case i.Op == ptx.OpCvt && to.Size() == 8:
		v, ok = args[0].extended(signed)
	case i.Op == ptx.OpAdd:
		v, ok = args[0].plus(args[1], 1)
	case i.Op == ptx.OpSub:
		v, ok = args[0].plus(args[1], ^uint64(0))
	case i.Op == ptx.OpShl && i.Args[2].Kind == ptx.OperandImm && i.Args[2].Value < 32:
		v, ok = args[0].times(1 << i.Args[2].Value)
	case i.Op == ptx.OpMul || i.Op == ptx.OpMad:
		v, ok = product2(i, args, signed, to)
	default:
		return v, false
	}
	if ok && to.Size() == 4 && (v.low > v.high || v.low < 0 || v.high > 1<<32-1) {
		return v, false // it may have wrapped around
	}
	return v, ok
}

// isWord reports whether a type is an integer of 32 or 64 bits.
func isWord(t ptx.Type) bool {
	return !t.Float() && !t.Opaque() && (t.Size() == 4 || t.Size() == 8) && t != ptx.U16x2 && t != ptx.S16x2
}

// product2 is a multiplication by a number, and what mad adds.
func product2(i *ptx.Instr, args [3]value, signed bool, to ptx.Type) (v value, ok bool) {
	x, by := args[0], args[1]
	if i.Args[1].Kind == ptx.OperandImm {
		x, by = by, x
	} else if i.Args[2].Kind != ptx.OperandImm {
		return v, false
	}
	switch i.Mods.Mode {
	case ptx.ModeWide:
		if x, ok = x.extended(signed); !ok {
			return v, false
		}
		if !signed {
			by.add = uint64(uint32(by.add))
		}
	case ptx.ModeLo:
	default:
		return v, false
	}
	if v, ok = x.times(by.add); ok && i.Op == ptx.OpMad {
		v, ok = v.plus(args[2], 1)
	}
	return v, ok
}

// extended is a value of 32 bits as one of 64. With its sign it is the same only where it has none.
func (v value) extended(signed bool) (value, bool) {
	return v, v.low >= 0 && v.high <= 1<<32-1 && v.low <= v.high && (!signed || v.high < 1<<31)
}

// maxBound is up to where bounds are kept, and maxFactor what they are multiplied by.
const (
	maxBound  = 1 << 40
	maxFactor = 1 << 20
)

// bound drops bounds that are too large.
func (v value) bound() value {
	if v.low > v.high || v.low < -maxBound || v.high > maxBound {
		v.low, v.high = 1, 0
	}
	return v
}

// times is a value, multiplied by a number.
func (v value) times(n uint64) (value, bool) {
	for k := range v.terms {
		if v.terms[k].factor *= n; v.terms[k].factor == 0 {
			v.terms[k].atom = 0
		}
	}
	v.sort()
	v.add *= n
	if n > maxFactor || v.low > v.high || v.low < -maxBound || v.high > maxBound {
		v.low, v.high = 1, 0
		return v, true
	}
	v.low, v.high = v.low*int64(n), v.high*int64(n)
	return v.bound(), true
}

// plus adds another value, multiplied by 1 or -1. It reports false where there are too many terms.
func (v value) plus(w value, sign uint64) (value, bool) {
	for _, t := range w.terms {
		if t.factor == 0 {
			continue
		}
		at := slices.IndexFunc(v.terms[:], func(have term) bool { return have.atom == t.atom && have.factor != 0 })
		if at < 0 {
			if at = slices.IndexFunc(v.terms[:], func(have term) bool { return have.factor == 0 }); at < 0 {
				return v, false
			}
			v.terms[at].atom = t.atom
		}
		if v.terms[at].factor += sign * t.factor; v.terms[at].factor == 0 {
			v.terms[at].atom = 0
		}
	}
	v.sort()
	v.add += sign * w.add
	known := v.low <= v.high && w.low <= w.high
	if sign == 1 {
		v.low, v.high = v.low+w.low, v.high+w.high
	} else {
		v.low, v.high = v.low-w.high, v.high-w.low
	}
	if !known {
		v.low, v.high = 1, 0
	}
	return v.bound(), true
}

// sort puts the terms in the order of their atoms, unused ones last.
func (v *value) sort() {
	slices.SortFunc(v.terms[:], func(a, b term) int {
		switch {
		case a.factor == 0 && b.factor == 0:
			return 0
		case a.factor == 0:
			return 1
		case b.factor == 0:
			return -1
		}
		return int(a.atom) - int(b.atom)
	})
}

// sweep finds the statements whose results nothing reads any more.
func (r *rebasing) sweep() {
	if r.gone == nil {
		r.gone = map[int]bool{}
	}
	defs := map[int32][]int{}
	for n, s := range r.b.f.Body {
		if i, ok := s.(*ptx.Instr); ok && !r.gone[n] && removable(i) {
			reg := i.Args[0].Reg
			defs[reg] = append(defs[reg], n)
		}
	}
	r.b.spend(ir.MapFactor * 32 * len(defs))
	var work []int32
	drop := func(reg int32) {
		if r.reads[reg] == 0 {
			work = append(work, reg)
		}
	}
	for o := range r.found {
		drop(o.Reg)
	}
	for len(work) > 0 {
		reg := work[len(work)-1]
		work = work[:len(work)-1]
		for _, n := range defs[reg] {
			r.b.c.effort.Step()
			r.gone[n] = true
			eachRead(r.b.f.Body[n].(*ptx.Instr), func(read int32) {
				r.reads[read]--
				drop(read)
			})
		}
		delete(defs, reg)
	}
}

// removable reports whether an instruction does nothing but compute an integer.
func removable(i *ptx.Instr) bool {
	switch i.Op {
	case ptx.OpMov, ptx.OpAdd, ptx.OpSub, ptx.OpShl, ptx.OpMul, ptx.OpMad, ptx.OpCvt, ptx.OpCvta:
		return len(i.Args) >= 2 && len(i.Args) <= 4 && i.Args[0].Kind == ptx.OperandReg && isWord(i.Mods.Type()) && !i.Mods.Has(ptx.CC)
	}
	return false
}
