package ptx

import (
	"slices"
	"strings"
)

// Effects returns what a kernel or function of a module that Verify accepted does to memory.
func (m *Module) Effects(f *Func) *Effects {
	s := &effectScan{bytes: m.AddressSize / 8, pure: map[*Func]*Effects{}}
	return s.function(f)
}

// maxPointers bounds what the analysis tells apart: bits of origins but for the first two.
const maxPointers = 64*len(origins{}) - 2

// effectRounds bounds the passes over a body. Addresses settle in a few where the text is in the
// order in which it runs; a text in which they do not has unknown addresses.
const effectRounds = 24

// maxCallDepth bounds the functions that are looked into.
const maxCallDepth = 16

// origins is what a value may have been computed from: bit 0 for the thread's or block's own
// memory, bit 1 for what is not known, and the others for bases.
type origins [4]uint64

var ownMemory, unknownMemory = origins{1}, origins{2}

func (o *origins) add(p origins) (changed bool) {
	for i := range o {
		changed = changed || p[i]&^o[i] != 0
		o[i] |= p[i]
	}
	return changed
}

// effectScan finds the effects of a function and of those that it calls.
type effectScan struct {
	bytes int // of an address
	pure  map[*Func]*Effects
	depth int
}

// bodyScan is the state for one body.
type bodyScan struct {
	*effectScan
	f        *Func
	e        *Effects
	from     []origins // of the registers
	accesses map[accessKey]struct{}
	sources  []bool // registers that something reads
	settled  bool
}

type accessKey struct {
	of                    origins
	read, written, atomic bool
}

// function finds the effects of a function. One that calls itself has unknown ones.
func (s *effectScan) function(f *Func) *Effects {
	if e := s.pure[f]; e != nil {
		return e
	}
	s.pure[f] = &Effects{External: true} // while it is looked at
	b := &bodyScan{effectScan: s, f: f, e: &Effects{}, from: make([]origins, len(f.Regs)), sources: make([]bool, len(f.Regs)), accesses: map[accessKey]struct{}{}}
	s.depth++
	if s.depth > maxCallDepth || !f.Defined {
		b.e.External = true
	} else {
		b.scan()
	}
	s.depth--
	b.finish()
	s.pure[f] = b.e
	return b.e
}

// scan follows addresses until they settle, and then notes what is accessed.
func (b *bodyScan) scan() {
	for range effectRounds {
		changed := false
		for _, x := range b.f.Body {
			if i, ok := x.(*Instr); ok && b.follow(i) {
				changed = true
			}
		}
		if !changed {
			b.settled = true
			break
		}
	}
	for _, x := range b.f.Body {
		if i, ok := x.(*Instr); ok {
			b.reads(i)
		}
	}
	for _, x := range b.f.Body {
		if i, ok := x.(*Instr); ok {
			b.note(i)
		}
	}
}

// carries reports whether a register may hold an address.
func (b *bodyScan) carries(reg int32) bool {
	t := b.f.Regs[reg].Type
	return t.Size() >= b.bytes && !t.Float() && t != Pred
}

// give adds origins to the registers of a destination.
func (b *bodyScan) give(o *Operand, from origins) (changed bool) {
	switch o.Kind {
	case OperandReg:
		if b.carries(o.Reg) {
			changed = b.from[o.Reg].add(from)
		}
	case OperandVector, OperandPair:
		for k := range o.Elems {
			changed = b.give(&o.Elems[k], from) || changed
		}
	}
	return changed
}

// taken returns the origins of a source or an address.
func (b *bodyScan) taken(o *Operand) (from origins) {
	if v, ok := o.Ref.(*Var); ok {
		from = b.variable(v)
	} else if (o.Kind == OperandReg || o.Kind == OperandAddr || o.Kind == OperandTexel) && o.Reg != NoReg {
		from = b.from[o.Reg]
	}
	for k := range o.Elems {
		from.add(b.taken(&o.Elems[k]))
	}
	return from
}

// variable returns the origins of the address of a variable.
func (b *bodyScan) variable(v *Var) origins {
	if v.Space == SpaceGlobal {
		return b.base(Pointer{Var: v})
	}
	return ownMemory // constants, too: no kernel writes them
}

// base returns the bit of a base.
func (b *bodyScan) base(x Pointer) (from origins) {
	n := slices.Index(b.e.Pointers, x)
	if n < 0 {
		if len(b.e.Pointers) == maxPointers {
			return unknownMemory
		}
		n, b.e.Pointers = len(b.e.Pointers), append(b.e.Pointers, x)
	}
	from[(n+2)/64] = 1 << ((n + 2) % 64)
	return from
}

// follow computes the origins of what an instruction writes to registers.
func (b *bodyScan) follow(i *Instr) (changed bool) {
	switch i.Op {
	case OpCall:
		for k := range i.Call.Results {
			changed = b.give(&i.Call.Results[k], unknownMemory) || changed
		}
		return changed
	case OpLd, OpLdu:
		return b.load(i)
	case OpAtom:
		return len(i.Args) > 0 && b.give(&i.Args[0], unknownMemory)
	case OpAlloca, OpMapa:
		return len(i.Args) > 0 && b.give(&i.Args[0], ownMemory)
	case OpRaw:
		return false // its registers are not known: an address that it makes has no origin
	}
	var from origins
	for k := range i.Args {
		if !b.isDestination(i, k) {
			from.add(b.taken(&i.Args[k]))
		}
	}
	for k := range i.Args {
		if b.isDestination(i, k) {
			changed = b.give(&i.Args[k], from) || changed
		}
	}
	return changed
}

// isDestination reports whether an instruction writes operand n.
func (b *bodyScan) isDestination(i *Instr, n int) bool {
	if i.Form == nil || n >= len(i.Form.args) {
		return false
	}
	switch i.Form.args[n].kind {
	case argDst, argDstPair, argPreds, argMovDst, argFragmentDst:
		return true
	}
	return false
}

// load follows ld: a parameter may be a pointer, and what comes from memory may be any.
func (b *bodyScan) load(i *Instr) (changed bool) {
	d, at := &i.Args[0], &i.Args[1]
	size := i.Mods.Types[0].Size()
	p, _ := at.Ref.(*Var)
	n := -1
	if p != nil && b.f.Entry {
		n = slices.Index(b.f.Params, p)
	}
	if n < 0 || size != b.bytes || b.f.Params[n].Type.Opaque() {
		if size < b.bytes {
			return false
		}
		return b.give(d, unknownMemory)
	}
	list := []Operand{*d}
	if d.Kind == OperandVector {
		list = d.Elems
	}
	for k := range list {
		changed = b.give(&list[k], b.base(Pointer{Param: n, Offset: at.Value + uint64(k*size)})) || changed
	}
	return changed
}

// reads notes which registers an instruction reads.
func (b *bodyScan) reads(i *Instr) {
	var see func(o *Operand)
	see = func(o *Operand) {
		switch o.Kind {
		case OperandReg, OperandAddr, OperandTexel:
			if o.Reg != NoReg {
				b.sources[o.Reg] = true
			}
		case OperandSpecial:
			b.special(o.Special)
		}
		for k := range o.Elems {
			see(&o.Elems[k])
		}
	}
	for k := range i.Args {
		if !b.isDestination(i, k) {
			see(&i.Args[k])
		}
	}
	if i.Call != nil {
		for k := range i.Call.Args {
			see(&i.Call.Args[k])
		}
	}
	if i.Guard.Name != "" {
		b.sources[i.Guard.Reg] = true
	}
}

// special notes what a special register tells.
func (b *bodyScan) special(s Special) {
	switch {
	case s >= Clock && s <= GlobalTimerHi, s >= PM0 && s <= PM7x64, s == SMID, s == WarpID, s == GridID:
		b.e.Timed = true
	case s == EnvReg0+1, s == EnvReg0+2: // where cooperative groups find their barrier
		b.e.GridSync = true
	}
}

// access notes an access to memory at an operand.
func (b *bodyScan) access(i *Instr, n int, read, written, atomic bool) {
	if n >= len(i.Args) {
		b.anywhere(read, written, atomic)
		return
	}
	switch i.AddressSpace(n) {
	case SpaceGlobal, SpaceGeneric:
	default:
		return
	}
	from := b.taken(&i.Args[n])
	if from == ownMemory {
		return
	}
	from[0] &^= ownMemory[0]
	if !b.settled || from[0]&unknownMemory[0] != 0 {
		from = origins{}
	}
	if i.Mods.Order == OrderVolatile || i.Mods.Scope == ScopeSys || i.Mods.Has(MMIO) {
		b.e.System = true
	}
	b.accesses[accessKey{of: from, read: read, written: written, atomic: atomic}] = struct{}{}
}

// anywhere notes an access to an object that is not known.
func (b *bodyScan) anywhere(read, written, atomic bool) {
	b.accesses[accessKey{read: read, written: written, atomic: atomic}] = struct{}{}
}

// note notes what an instruction does to memory.
func (b *bodyScan) note(i *Instr) {
	switch i.Op {
	case OpCall:
		b.call(i.Call)
	case OpLd, OpLdu:
		b.access(i, 1, true, false, false)
	case OpSt, OpDiscard, OpTensormap:
		b.access(i, 0, false, true, false)
	case OpAtom:
		b.access(i, 1, true, true, true)
		if o := &i.Args[0]; o.Kind != OperandSink && (o.Kind != OperandReg || b.sources[o.Reg]) {
			b.e.Races = true
		}
	case OpRed:
		b.access(i, 0, true, true, true)
	case OpCp:
		b.copies(i)
	case OpWmma:
		switch i.Mods.Mode {
		case ModeLoad:
			b.access(i, 1, true, false, false)
		case ModeStore:
			b.access(i, 0, false, true, false)
		}
	case OpTex, OpTld4, OpSuld:
		b.anywhere(true, false, false)
	case OpSust:
		b.anywhere(false, true, false)
	case OpSured:
		b.anywhere(true, true, true)
	case OpRaw:
		b.anywhere(true, true, true)
	case OpLdmatrix, OpStmatrix, OpMbarrier, OpPrefetch, OpPrefetchu, OpApplypriority, OpFence, OpTxq, OpSuq, OpIsspacep:
		// Shared memory, or nothing that changes.
	default:
		b.other(i)
	}
}

// other notes an instruction that has no case of its own, in case it has an address.
func (b *bodyScan) other(i *Instr) {
	if i.Form == nil {
		return
	}
	for n := range i.Form.args {
		switch i.Form.args[n].kind {
		case argAddr, argTensor, argTexel, argObject:
			b.anywhere(true, true, true)
		}
	}
}

// copies notes what an asynchronous copy does.
func (b *bodyScan) copies(i *Instr) {
	m := &i.Mods
	switch {
	case len(i.Args) < 2 || m.HasWord(Prefetched) || m.Mode != ModeNone:
	case m.HasWord(Tensor) && m.Space == SpaceGlobal:
		b.anywhere(m.HasWord(Reduced), true, m.HasWord(Reduced))
	case m.HasWord(Tensor):
		b.anywhere(true, false, false)
	case m.HasWord(FromShared):
		b.access(i, 0, m.HasWord(Reduced), true, m.HasWord(Reduced))
	default:
		b.access(i, 1, true, false, false)
	}
}

// call notes a call.
func (b *bodyScan) call(c *Call) {
	f, direct := c.Callee.Ref.(*Func)
	if !direct || c.Callee.Kind != OperandSymbol {
		b.e.External = true
		return
	}
	if f.Def == nil {
		b.foreign(f.Name)
		return
	}
	e := b.function(f.Def)
	b.e.Calls = b.e.Calls || len(e.Accesses) > 0
	b.e.Prints, b.e.Heap = b.e.Prints || e.Prints, b.e.Heap || e.Heap
	b.e.External, b.e.GridSync = b.e.External || e.External, b.e.GridSync || e.GridSync
	b.e.System, b.e.Timed = b.e.System || e.System, b.e.Timed || e.Timed
	b.e.Races, b.e.Calls = b.e.Races || e.Races, b.e.Calls || e.Calls
	for _, a := range e.Accesses {
		b.anywhere(a.Read, a.Written, a.Atomic) // its arguments are not followed
	}
}

// foreign notes the call of a function that the driver has.
func (b *bodyScan) foreign(name string) {
	switch {
	case name == "vprintf":
		b.e.Prints = true
	case name == "malloc" || name == "free":
		b.e.Heap = true
	case name == "__assertfail": // the context ends with it
	case strings.HasPrefix(name, "cudaCG"):
		b.e.GridSync = true
	default:
		b.e.External = true
	}
}

// finish lists the accesses, in an order that does not change from run to run.
func (b *bodyScan) finish() {
	for k := range b.accesses {
		a := Access{Read: k.read, Written: k.written, Atomic: k.atomic}
		for n := range b.e.Pointers {
			if k.of[(n+2)/64]>>((n+2)%64)&1 != 0 {
				a.Of = append(a.Of, n)
			}
		}
		b.e.Accesses = append(b.e.Accesses, a)
	}
	slices.SortFunc(b.e.Accesses, func(x, y Access) int {
		if c := slices.Compare(x.Of, y.Of); c != 0 {
			return c
		}
		return x.rank() - y.rank()
	})
}

// rank orders the accesses of the same bases.
func (a *Access) rank() (n int) {
	for i, has := range []bool{a.Read, a.Written, a.Atomic} {
		if has {
			n |= 1 << i
		}
	}
	return n
}
