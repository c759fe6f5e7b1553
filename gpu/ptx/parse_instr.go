package ptx

import "strings"

// opcode is what an instruction's name with all its modifiers stands for.
type opcode struct {
	op   Op
	mods Mods
	form *Form
}

// maxNames bounds how many spellings of instructions one parser remembers.
const maxNames = 4096

// statement reads a label or an instruction.
func (p *parser) statement(add func(Stmt)) bool {
	at := p.here()
	var guard Guard
	if p.src[p.pos] == '@' {
		p.pos++
		if p.skip() == '!' {
			guard.Neg = true
			p.pos++
		}
		var ok bool
		if guard.Name, ok = p.ident("predicate"); !ok {
			return false
		}
		p.skip()
	}
	guard.Reg = NoReg
	opAt := p.here()
	start := p.pos
	end := start
	for class[p.src[end]]&chName != 0 || end == start && p.src[end] == '%' {
		end++
	}
	if end == start {
		return p.unexpected("instruction")
	}
	if p.src[end] != '.' && guard.Name == "" {
		p.pos = end
		if p.skip() == ':' && p.src[p.pos+1] != ':' {
			name := p.src[start:end]
			if len(name) > maxName {
				return p.fail(at, "name longer than %d bytes", maxName)
			}
			p.pos++
			return p.labelled(at, name, add)
		}
	}
	i := p.newInstr()
	i.Pos, i.Guard = at, guard
	p.pos = end
	if !p.opcode(i, opAt, start) {
		return false
	}
	add(i)
	return true
}

func (p *parser) newInstr() *Instr {
	if len(p.instrs) == 0 {
		p.effort.Memory(instrsPerSlab * instrBytes)
		p.instrs = make([]Instr, instrsPerSlab)
	}
	i := &p.instrs[0]
	p.instrs = p.instrs[1:]
	return i
}

// opcode reads the modifiers and operands of an instruction whose name begins
// at start and ends at the present position.
func (p *parser) opcode(i *Instr, at Pos, start int) bool {
	nameEnd := p.pos
	end := p.opcodeEnd(nameEnd)
	text := p.src[start:end]
	p.pos = end
	// Modifiers may stand apart: "ld.global .v4 .f32".
	for p.skip() == '.' {
		if len(text) > maxName {
			return p.fail(at, "name longer than %d bytes", maxName)
		}
		word := p.directiveWord()
		if word == "" {
			return p.unexpected("modifier")
		}
		text += "." + word
	}
	o, known := p.names[text]
	if !known {
		var ok bool
		diagnostics := len(p.diags)
		if o, ok = p.lookup(at, text, nameEnd-start); !ok {
			return p.unit && p.unknown(i, start, diagnostics)
		}
		if len(p.names) < maxNames {
			p.effort.Memory(len(text) + opcodeBytes)
			p.names[text] = o
		}
	}
	i.Op, i.Mods, i.Form = o.op, o.mods, o.form
	if sampling(i.Op) && !p.plainTexel(i.Form.args) {
		i.Op, i.Mods, i.Form = OpRaw, Mods{}, p.table.raw[o.op.String()][0]
	}
	switch i.Op {
	case OpCall:
		return p.call(i)
	case OpRaw:
		return p.raw(i, start)
	}
	if len(i.Form.args) == 0 || p.skip() == ';' {
		return p.expect(';')
	}
	base := len(p.pending)
	p.parts = i.Op.Video()
	ok := p.operandList()
	p.parts = false
	i.Args = p.take(base)
	return ok && p.expect(';')
}

// opcodeEnd is where an instruction's name with the modifiers that join it ends, from at on.
func (p *parser) opcodeEnd(at int) int {
	for class[p.src[at]]&chOpcode != 0 || p.src[at] == ':' && (p.src[at+1] == ':' || p.src[at-1] == ':') {
		at++
	}
	return at
}

// lookup finds the row of the table for an instruction's name with modifiers.
func (p *parser) lookup(at Pos, text string, nameLen int) (opcode, bool) {
	name, words := text[:nameLen], text[nameLen:]
	op, ok := p.table.byName[name]
	for _, f := range p.table.raw[name] {
		if ok && f.Name == name {
			continue // for what no other row has
		}
		if text == f.Name || strings.HasPrefix(text, f.Name) && text[len(f.Name)] == '.' {
			return opcode{op: OpRaw, form: f}, true
		}
	}
	if !ok {
		return opcode{}, p.fail(at, "unknown instruction '%s'", Clip(name))
	}
	var closest *Form
	bad, badLen, why := "", 0, ""
	for _, f := range p.table.byOp[op] {
		m, rest, word, ok := f.parseMods(words)
		if ok && f.check != nil {
			if why = f.check(&m); why != "" {
				continue
			}
		}
		if ok {
			return opcode{op, m, f}, true
		}
		// Blame the modifier up to which the best row came.
		if closest == nil || rest < badLen || rest == badLen && bad != "" && word == "" {
			closest, bad, badLen = f, word, rest
		}
	}
	for _, f := range p.table.raw[name] {
		if f.Name == name {
			return opcode{op: OpRaw, form: f}, true
		}
	}
	switch {
	case why != "":
		return opcode{}, p.fail(at, "illegal modifiers of instruction '%s': %s", Clip(text), why)
	case bad == "" && op == OpMad && strings.HasSuffix(words, ".f32") && before(p.m.Version, 3, 2) && !strings.HasPrefix(words, ".rn"):
		// 9.7.3, mad: ptxas did not ask for a rounding before PTX 3.2, and took .rn.
		return p.lookup(at, name+".rn"+words, nameLen)
	case bad == "":
		return opcode{}, p.fail(at, "modifier missing in instruction '%s', expected %s", Clip(text), closest.Syntax())
	}
	return opcode{}, p.fail(at, "illegal modifier '.%s' for instruction '%s'", Clip(bad), Clip(text))
}

// raw keeps the text of an instruction that the table knows by name only.
func (p *parser) raw(i *Instr, start int) bool {
	for depth := 0; ; {
		c := p.skip()
		switch {
		case p.atEnd():
			return p.unexpected("';'")
		case c == '{':
			depth++
			p.pos++
		case c == '}' && depth > 0:
			depth--
			p.pos++
		case c == '}' || c == ';' && depth > 0:
			return p.unexpected("operand")
		case c == ';':
			p.effort.Memory(2 * (p.pos - start))
			i.Raw = normalise(p.src[start:p.pos])
			p.pos++
			return true
		case c == '"':
			return p.unexpected("operand")
		default:
			p.pos++
		}
	}
}

// operandList reads operands separated by commas onto the pending ones.
func (p *parser) operandList() bool {
	for {
		if p.operands++; p.operands > MaxOperands {
			p.stop = true
			return p.fail(p.here(), "more than %d operands", MaxOperands)
		}
		if !p.operand(0) {
			return false
		}
		if p.skip() != ',' {
			return true
		}
		p.pos++
	}
}

// take moves the pending operands from base on into the slab.
func (p *parser) take(base int) []Operand {
	n := len(p.pending) - base
	if n == 0 {
		return nil
	}
	if len(p.slab) < n {
		p.effort.Memory(max(operandsPerSlab, n) * operandBytes)
		p.slab = make([]Operand, max(operandsPerSlab, n))
	}
	list := p.slab[:n:n]
	p.slab = p.slab[n:]
	copy(list, p.pending[base:])
	p.pending = p.pending[:base]
	return list
}

// operand reads one operand onto the pending ones.
func (p *parser) operand(depth int) bool {
	c := p.skip()
	at := p.here()
	o := Operand{Pos: at, Reg: NoReg, Target: -1}
	switch {
	case class[c]&chStart != 0 && !p.warpSize():
		o.Name = p.name()
		if !p.named(&o) {
			return false
		}
	case c == '[':
		p.pos++
		o.Kind = OperandAddr
		if !p.address(&o, depth) {
			return false
		}
	case c == '{':
		p.pos++
		if depth > 0 {
			return p.fail(at, "vector inside a vector")
		}
		base := len(p.pending)
		if !p.vector() {
			p.pending = p.pending[:base]
			return false
		}
		o.Kind, o.Elems = OperandVector, p.take(base)
	case c == '!' && class[p.src[p.pos+1]]&chStart != 0:
		p.pos++
		o.Neg = true
		var ok bool
		if o.Name, ok = p.ident("predicate"); !ok {
			return false
		}
		o.Kind = OperandName
	case c == '-' && p.parts && p.minus():
		o.Name, o.Minus = p.name(), true
		if !p.named(&o) {
			return false
		}
	case c != 0 && (class[c]&chDigit != 0 || strings.IndexByte("-+(~!.W", c) >= 0):
		n, ok := p.constant()
		if !ok {
			return false
		}
		o.Kind, o.ImmKind, o.Value = OperandImm, n.kind, n.bits
	default:
		return p.unexpected("operand")
	}
	if p.skip() == '|' {
		p.pos++
		return p.pair(o, depth)
	}
	p.pending = Append(p.effort, p.pending, operandBytes, o)
	return true
}

// pair reads the second half of p|q.
func (p *parser) pair(first Operand, depth int) bool {
	if depth > 0 {
		return p.fail(first.Pos, "pair inside a vector or pair")
	}
	base := len(p.pending)
	p.pending = append(p.pending, first)
	if !p.operand(depth + 1) {
		p.pending = p.pending[:base]
		return false
	}
	p.operands += 2
	elems := p.take(base)
	p.pending = append(p.pending, Operand{Kind: OperandPair, Pos: first.Pos, Reg: NoReg, Target: -1, Elems: elems})
	return true
}

// maxVector is how many registers d of a wgmma has at most. No other vector is as long.
const maxVector = maxGroupColumns / 2

// vector reads the elements behind a brace.
func (p *parser) vector() bool {
	for n := 0; ; n++ {
		if n == maxVector {
			return p.fail(p.here(), "vector of more than %d elements", maxVector)
		}
		p.operands++
		if !p.operand(1) {
			return false
		}
		if p.skip() != ',' {
			return p.expect('}')
		}
		p.pos++
	}
}

// named completes an operand that begins with a name.
func (p *parser) named(o *Operand) bool {
	o.Kind = OperandName
	name := o.Name
	switch {
	case name == "_":
		o.Kind, o.Name = OperandSink, ""
		return true
	case name == "%" || len(name) > maxName:
		return p.fail(o.Pos, "illegal name")
	}
	if p.src[p.pos] == '.' {
		return p.component(o)
	}
	if mayBeSpecial(name) {
		if s, ok := specialByName[name]; ok {
			o.Kind, o.Special, o.Name = OperandSpecial, s, ""
			return true
		}
	}
	c := p.skip()
	if c == '+' || c == '-' {
		var ok bool
		o.Value, ok = p.offset()
		return ok
	}
	return true
}

// mayBeSpecial excludes most names of registers that compilers choose.
func mayBeSpecial(name string) bool {
	return len(name) >= 4 && name[0] == '%' && class[name[1]]&chDigit == 0 && class[name[2]]&chDigit == 0
}

// component reads the .x behind a register of vector type or a special register.
func (p *parser) component(o *Operand) bool {
	p.pos++
	at := p.here()
	c := p.name()
	if s, ok := parseSelector(c); ok && p.parts {
		o.Sel = s
		return true
	}
	i := strings.IndexByte("xyzwrgba", (c + "\x00")[0])
	if len(c) != 1 || i < 0 {
		return p.fail(at, "element .x, .y, .z or .w expected after %s", Clip(o.Name))
	}
	o.Comp = uint8(i%4) + 1
	if !mayBeSpecial(o.Name) {
		return true
	}
	if s, ok := specialByName[o.Name+".x"]; ok {
		if o.Comp == 4 {
			return p.fail(o.Pos, "special register %s has no element .%s", o.Name, c)
		}
		*o = Operand{Kind: OperandSpecial, Special: s + Special(o.Comp-1), Pos: o.Pos, Reg: NoReg, Target: -1}
	}
	return true
}

// address reads what stands behind an opening bracket; coordinates may be there unless it
// stands in a vector.
func (p *parser) address(o *Operand, depth int) bool {
	c := p.skip()
	if class[c]&chStart != 0 {
		var ok bool
		if o.Name, ok = p.ident("register or variable"); !ok {
			return false
		}
		if c := p.skip(); c == '+' || c == '-' {
			if o.Value, ok = p.offset(); !ok {
				return false
			}
		}
		if depth == 0 && p.skip() == ',' {
			return p.coordinates(o)
		}
		return p.expect(']')
	}
	at := p.here()
	n, ok := p.constant()
	if !ok {
		return false
	}
	if n.kind != ImmInt {
		return p.fail(at, "address must be an integer")
	}
	o.Value = n.bits
	return p.expect(']')
}

// call reads the operands of a call.
func (p *parser) call(i *Instr) bool {
	p.effort.Memory(callBytes)
	c := new(Call)
	i.Call = c
	c.Via = Operand{Reg: NoReg, Target: -1}
	ok := true
	if p.skip() == '(' {
		if c.Results, ok = p.callList(); !ok || !p.expect(',') {
			return false
		}
	}
	base := len(p.pending)
	p.skip()
	if !p.operand(1) {
		return false
	}
	c.Callee = p.pending[base]
	p.pending = p.pending[:base]
	if !p.accept(',') {
		return p.expect(';')
	}
	if p.skip() == '(' {
		if c.Args, ok = p.callList(); !ok {
			return false
		}
		if !p.accept(',') {
			return p.expect(';')
		}
	}
	if !p.operand(1) {
		return false
	}
	c.Via = p.pending[base]
	p.pending = p.pending[:base]
	return p.expect(';')
}

// callList reads operands in parentheses.
func (p *parser) callList() ([]Operand, bool) {
	p.pos++
	if p.accept(')') {
		return nil, true
	}
	base := len(p.pending)
	ok := p.operandList()
	list := p.take(base)
	return list, ok && p.expect(')')
}
