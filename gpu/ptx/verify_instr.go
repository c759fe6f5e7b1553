package ptx

// compatible reports whether a register of type r may stand where an
// instruction has type t (section 9.4). With relaxed it may be wider.
func compatible(t, r Type, relaxed bool) bool {
	switch {
	case t == r:
		return true
	case t == Pred || r == Pred || t == TypeNone || r == TypeNone || r == B128:
		return false
	case t.Size() == r.Size():
		return t.Untyped() || r.Untyped() || !t.Float() && !r.Float()
	case !relaxed || r.Size() < t.Size():
		return false
	case t.Untyped():
		return true
	case t.Float():
		return r.Untyped()
	}
	return !r.Float()
}

func (v *verifier) instr(i *Instr) {
	if i.Guard.Name != "" {
		l, ok := v.find(i.Guard.Name)
		switch {
		case !ok:
			v.fail(i.Pos, "unknown symbol '%s'%s", Clip(i.Guard.Name), suggest(i.Guard.Name))
		case l.reg < 0 || v.f.Regs[l.reg].Type != Pred:
			v.fail(i.Pos, "'%s' is not a predicate", Clip(i.Guard.Name))
		}
		i.Guard.Reg = l.reg
	} else {
		i.Guard.Reg = NoReg
	}
	if i.Form == nil || i.Form.Op != i.Op {
		if i.Form = v.table.find(i.Op, &i.Mods); i.Form == nil {
			v.fail(i.Pos, "instruction '%s' does not exist with these modifiers", i.Op)
			return
		}
	}
	switch i.Op {
	case OpRaw:
		return
	case OpCall:
		v.call(i)
		return
	}
	f := i.Form
	if i.Op == OpCvta && i.Mods.Types[0].Bits() != v.m.AddressSize && !(i.Mods.Types[0] == U32 && v.m.narrow(i.Mods.Space)) {
		v.fail(i.Pos, "instruction '%s' does not fit the address size of %d", i.Name(), v.m.AddressSize)
		return
	}
	if n := len(i.Args); n < f.need || n > len(f.args) {
		v.fail(i.Pos, "arguments mismatch for instruction '%s': %d operands, expected %s", i.Name(), n, f.Syntax())
		return
	}
	if i.Mods.Vec > 0 && int(i.Mods.Vec)*i.Mods.Types[0].Size() > 16 && !f.Derived {
		v.fail(i.Pos, "vector of '%s' is wider than 16 bytes", i.Name())
		return
	}
	optional := len(i.Args) - f.need // so many optional operands are there
	arg := 0
	for k := range f.args {
		a := &f.args[k]
		if a.optional {
			if optional == 0 {
				continue
			}
			optional--
		}
		if !v.operand(i, a, &i.Args[arg], arg) {
			return // one complaint for each instruction
		}
		arg++
	}
	switch {
	case i.Op.Video():
		v.video(i)
	case i.Op == OpWgmma:
		v.group(i)
	case i.Mods.Sparse():
		v.sparse(i)
	}
}

// mismatch complains about an operand.
func (v *verifier) mismatch(i *Instr, o *Operand, n int, format string, args ...any) bool {
	at := o.Pos
	if at == (Pos{}) {
		at = i.Pos
	}
	args = append([]any{i.Name(), n + 1}, args...)
	return v.fail(at, "arguments mismatch for instruction '%s': operand %d "+format, args...)
}

// operand resolves and checks operand n.
func (v *verifier) operand(i *Instr, a *argSpec, o *Operand, n int) bool {
	t := a.resolve(&i.Mods)
	dst := a.kind == argDst || a.kind == argDstPair || a.kind == argPreds || a.kind == argMovDst || a.kind == argFragmentDst
	if o.Neg && (t != Pred || dst) {
		return v.mismatch(i, o, n, "cannot be negated")
	}
	switch a.kind {
	case argAddr:
		return v.address(i, o, n)
	case argSink:
		return o.Kind == OperandSink || v.mismatch(i, o, n, "must be _")
	case argObject:
		return v.object(i, o, n)
	case argTexel:
		return v.texel(i, o, n)
	case argTensor:
		return v.tensor(i, o, n)
	case argOffsets:
		return v.offsets(i, o, n, t)
	case argGradient:
		return v.gradient(i, o, n, t)
	case argFragment, argFragmentDst:
		return v.fragment(i, a, o, n, dst)
	case argImm:
		return v.constant(i, a, o, n)
	case argLabel, argTargets:
		return v.target(i, a, o, n)
	case argPreds, argDstPair:
		if o.Kind == OperandPair {
			return v.pair(i, a, o, n, t)
		}
	}
	if o.Kind == OperandSink {
		if a.sink || a.kind == argPreds {
			return true
		}
		return v.mismatch(i, o, n, "cannot be _")
	}
	if !v.resolve(i, o, n) {
		return false
	}
	if o.Kind == OperandVector && len(o.Elems) == 1 && i.Mods.Vec == 0 && (i.Op == OpSuld || i.Op == OpSust || i.Op == OpSured) {
		return v.elems(i, o, n, t, dst, true) // as nvcc writes it
	}
	if a.relaxed && i.Mods.Vec > 0 {
		if o.Kind != OperandVector || len(o.Elems) != int(i.Mods.Vec) {
			return v.mismatch(i, o, n, "must be a vector of %d elements", i.Mods.Vec)
		}
		return v.elems(i, o, n, t, dst, i.Op == OpLd || i.Op == OpLdu || i.Op == OpSt || i.Op == OpSuld || i.Op == OpSust || i.Op == OpSured)
	}
	if o.Kind == OperandVector && (a.kind == argMovSrc || a.kind == argMovDst) {
		return v.pack(i, o, n, t, dst)
	}
	if (i.Op == OpBar || i.Op == OpBarrier) && !v.barrier(i, a, o, n) {
		return false
	}
	if !v.selected(i, a, o, n) {
		return false
	}
	return v.scalar(i, a, o, n, t, dst)
}

// scalar checks a single value that is already resolved.
func (v *verifier) scalar(i *Instr, a *argSpec, o *Operand, n int, t Type, dst bool) bool {
	switch o.Kind {
	case OperandReg:
		if r := v.f.Regs[o.Reg].Type; !compatible(t, r, a.relaxed) && (a.ref != refAddr || !compatible(U32, r, false)) {
			return v.mismatch(i, o, n, "'%s' is .%s, expected .%s", Clip(o.Name), r, t)
		}
		return true
	case OperandVector:
		return v.mismatch(i, o, n, "cannot be a vector")
	}
	if dst {
		return v.mismatch(i, o, n, "must be a register")
	}
	switch o.Kind {
	case OperandImm:
		if !immFits(o.ImmKind, t) || t == B128 && int64(o.Value) < 0 { // of which the upper half is not written
			return v.mismatch(i, o, n, "cannot be this constant, expected .%s", t)
		}
		return true
	case OperandSpecial:
		if i.Op != OpMov && i.Op != OpCvt {
			return v.mismatch(i, o, n, "cannot be a special register; move it to a register first")
		}
		if !o.Special.fits(t, a.relaxed) {
			return v.mismatch(i, o, n, "%s is .%s, expected .%s", o.Special, o.Special.Type(), t)
		}
		return true
	case OperandSymbol:
		if a.kind != argMovSrc && a.kind != argPtr {
			return v.mismatch(i, o, n, "cannot be the address of '%s'", Clip(o.Name))
		}
		if t.Float() || t.Bits() != 32 && t.Bits() != 64 {
			return v.mismatch(i, o, n, "is the address of '%s' and does not fit in .%s", Clip(o.Name), t)
		}
		return true
	}
	return v.mismatch(i, o, n, "is of the wrong kind")
}

// immFits reports whether a constant may stand where an instruction has type t.
func immFits(k ImmKind, t Type) bool {
	switch {
	case k == ImmInt:
		return !t.Float()
	case t == F32 || t == F64:
		return true
	}
	return k == ImmF32 && t == B32 || k == ImmF64 && t == B64
}

// resolve gives a named operand its kind and meaning.
func (v *verifier) resolve(i *Instr, o *Operand, n int) bool {
	switch o.Kind {
	case OperandName, OperandReg, OperandSymbol:
	case OperandVector:
		if o.Name == "" {
			for e := range o.Elems {
				if o.Elems[e].Kind != OperandSink && !v.resolve(i, &o.Elems[e], n) {
					return false
				}
			}
			return true
		}
	default:
		return true
	}
	l, ok := v.find(o.Name)
	if !ok {
		d := v.module(o.Name)
		if d == nil || o.Comp != 0 {
			return v.fail(o.Pos, "unknown symbol '%s'%s", Clip(o.Name), suggest(o.Name))
		}
		o.Kind, o.Ref, o.Reg = OperandSymbol, d, NoReg
		return true
	}
	switch {
	case l.v != nil && o.Comp == 0:
		o.Kind, o.Ref, o.Reg = OperandSymbol, l.v, NoReg
		return true
	case l.v != nil || o.Comp > l.vec:
		return v.mismatch(i, o, n, "'%s' has no such element", Clip(o.Name))
	case o.Value != 0:
		return v.mismatch(i, o, n, "'%s' is a register; an offset is only allowed in an address", Clip(o.Name))
	case l.vec > 0 && o.Comp == 0:
		elems := make([]Operand, l.vec)
		for e := range elems {
			elems[e] = Operand{Kind: OperandReg, Name: o.Name, Comp: uint8(e) + 1, Reg: l.reg + int32(e), Target: -1, Pos: o.Pos}
		}
		o.Kind, o.Elems = OperandVector, elems
		return true
	}
	o.Kind, o.Reg, o.Ref = OperandReg, l.reg, nil
	if o.Comp > 0 {
		o.Reg += int32(o.Comp) - 1
	}
	return true
}

// elems checks the elements of a vector that is loaded or stored.
func (v *verifier) elems(i *Instr, o *Operand, n int, t Type, dst, relaxed bool) bool {
	spec := argSpec{relaxed: relaxed}
	for e := range o.Elems {
		x := &o.Elems[e]
		if x.Kind == OperandSink {
			if !dst {
				return v.mismatch(i, x, n, "cannot be _")
			}
			continue
		}
		if !v.scalar(i, &spec, x, n, t, dst) {
			return false
		}
	}
	return true
}

// pack checks the vector of a mov that packs or unpacks.
func (v *verifier) pack(i *Instr, o *Operand, n int, t Type, dst bool) bool {
	count := len(o.Elems)
	if !t.Untyped() || count != 2 && count != 4 && (count != 8 || t == B128) || t.Bits()%count != 0 {
		return v.mismatch(i, o, n, "cannot be a vector of %d elements", count)
	}
	part := Type(TypeNone)
	switch t.Bits() / count {
	case 8:
		part = B8
	case 16:
		part = B16
	case 32:
		part = B32
	case 64:
		part = B64
	default:
		return v.mismatch(i, o, n, "cannot be a vector of %d elements", count)
	}
	return v.elems(i, o, n, part, dst, false)
}

// pair checks d|p and p|q.
func (v *verifier) pair(i *Instr, a *argSpec, o *Operand, n int, t Type) bool {
	if len(o.Elems) != 2 {
		return v.mismatch(i, o, n, "is not a pair")
	}
	for e, want := range [2]Type{t, Pred} {
		x := &o.Elems[e]
		if x.Kind == OperandSink && (e == 1 || a.sink || a.kind == argPreds) {
			continue
		}
		if x.Neg {
			return v.mismatch(i, x, n, "cannot be negated")
		}
		spec := argSpec{}
		if !v.resolve(i, x, n) || !v.scalar(i, &spec, x, n, want, true) {
			return false
		}
	}
	return true
}

// constantRange bounds the constants that some instructions take.
func constantRange(i *Instr, name string) (lo, hi uint64) {
	switch {
	case name == "lut":
		return 0, 255
	case i.Op == OpPmevent && i.Mods.Has(Mask):
		return 0, 0xffff
	case i.Op == OpPmevent:
		return 0, 15
	case name == "ord":
		return 0, 4
	case name == "value":
		return 0, 15
	case name == "size" && (i.Op == OpTensormap || i.Op == OpFence):
		return 128, 128
	case name == "align":
		return 1, 1 << 15
	case name == "groups":
		return 0, 1<<31 - 1
	case name == "transA" || name == "transB":
		return 0, 1
	case name == "registers":
		return 24, 256
	case name == "bytes" && i.Mods.Cache == CacheCG:
		return 16, 16
	case name == "bytes":
		return 4, 16
	}
	return 0, 1<<64 - 1
}

// barrier checks the constants of bar and barrier.
func (v *verifier) barrier(i *Instr, a *argSpec, o *Operand, n int) bool {
	switch {
	case o.Kind != OperandImm:
	case a.name == "a" && o.Value > 15:
		return v.mismatch(i, o, n, "is barrier %d; they are numbered from 0 to 15", o.Value)
	case a.name == "b" && o.Value%32 != 0:
		return v.mismatch(i, o, n, "must be a multiple of the warp size")
	}
	return true
}

func (v *verifier) constant(i *Instr, a *argSpec, o *Operand, n int) bool {
	lo, hi := constantRange(i, a.name)
	if o.Kind != OperandImm || o.ImmKind != ImmInt {
		return v.mismatch(i, o, n, "must be an integer constant")
	}
	if a.name == "factorA" || a.name == "factorB" {
		if x := int64(o.Value); x != 1 && x != -1 {
			return v.mismatch(i, o, n, "must be 1 or -1")
		}
		return true
	}
	if o.Value < lo || o.Value > hi {
		return v.mismatch(i, o, n, "must be from %d to %d", lo, hi)
	}
	if a.name == "bytes" && o.Value&(o.Value-1) != 0 || a.name == "registers" && o.Value%8 != 0 {
		return v.mismatch(i, o, n, "must be a power of two, or a multiple of 8 registers")
	}
	return true
}

// target checks a label or the name of a list of labels.
func (v *verifier) target(i *Instr, a *argSpec, o *Operand, n int) bool {
	if o.Kind != OperandName && o.Kind != OperandLabel || o.Value != 0 || o.Comp != 0 {
		return v.mismatch(i, o, n, "must be a label")
	}
	if a.kind == argTargets {
		t, ok := v.list(o.Name).(*Targets)
		if !ok || t.Call {
			return v.fail(o.Pos, "unknown list of branch targets '%s'", Clip(o.Name))
		}
		o.Kind, o.Ref = OperandLabel, t
		return true
	}
	at, ok := v.label(o.Name)
	if !ok {
		return v.fail(o.Pos, "unknown label '%s'", Clip(o.Name))
	}
	o.Kind, o.Target = OperandLabel, at
	return true
}

// address resolves and checks [base+offset].
func (v *verifier) address(i *Instr, o *Operand, n int) bool {
	if o.Kind != OperandAddr {
		return v.mismatch(i, o, n, "must be an address in brackets")
	}
	o.Reg, o.Ref = NoReg, nil
	space := i.AddressSpace(n)
	if o.Name == "" {
		if space != SpaceLocal {
			return v.mismatch(i, o, n, "is a constant address, which is only allowed in .local")
		}
		return true
	}
	l, ok := v.find(o.Name)
	if ok && l.v == nil {
		if l.vec > 0 {
			return v.mismatch(i, o, n, "'%s' is a vector and no address", Clip(o.Name))
		}
		t := v.f.Regs[l.reg].Type
		if t.Float() || t == Pred || t.Size() < 4 {
			return v.mismatch(i, o, n, "'%s' is .%s and no address", Clip(o.Name), t)
		}
		if s := space; t.Size() == 4 && v.m.AddressSize == 64 && (s == SpaceGlobal || s == SpaceGeneric) && !v.m.narrow(s) {
			return v.mismatch(i, o, n, "'%s' has 32 bits, an address here 64", Clip(o.Name))
		}
		o.Reg = l.reg
		return true
	}
	d, ok := v.variable(o, l, ok)
	if !ok {
		return false
	}
	if !inSpace(space, d.Space) {
		return v.mismatch(i, o, n, "'%s' is in .%s, not in .%s", Clip(o.Name), d.Space, space)
	}
	if i.Op == OpSt && l.input {
		return v.mismatch(i, o, n, "'%s' is an input parameter and cannot be written", Clip(o.Name))
	}
	o.Ref = d
	return true
}

// inSpace reports whether an instruction on state space s may name a variable in space d.
func inSpace(s, d Space) bool {
	switch s {
	case SpaceGeneric:
		return d == SpaceGlobal || d == SpaceShared || d == SpaceLocal
	case SpaceSharedCTA, SpaceSharedCluster:
		s = SpaceShared
	case SpaceParamEntry, SpaceParamFunc:
		s = SpaceParam
	}
	return s == d
}

// find returns the row that expresses m, or nil.
func (t *table) find(op Op, m *Mods) *Form {
	if op >= numOps {
		return nil
	}
	for _, f := range t.byOp[op] {
		if _, ok := f.appendMods(nil, m); ok {
			return f
		}
	}
	return nil
}
