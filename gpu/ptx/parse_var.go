package ptx

// typeByName are the types that a declaration may name.
var typeByName = func() map[string]Type {
	m := make(map[string]Type, numTypes)
	for t := TypeNone + 1; t < numTypes; t++ {
		m[typeNames[t]] = t
	}
	return m
}()

// spec reads what stands between the state space and the name of a variable.
func (p *parser) spec(v *Var) bool {
	for p.skip() == '.' {
		at := p.here()
		word := p.directiveWord()
		if t, ok := typeByName[word]; ok {
			if v.Type != TypeNone {
				return p.fail(at, "second type .%s", word)
			}
			v.Type = t
			continue
		}
		switch word {
		case "align":
			n, ok := p.integer("alignment", 1, 1<<20)
			if !ok {
				return false
			}
			if n&(n-1) != 0 {
				return p.fail(at, "alignment %d is not a power of two", n)
			}
			if v.Ptr != nil {
				v.Ptr.Align = uint32(n)
			} else {
				v.Align = uint32(n)
			}
		case "v2", "v4", "v8":
			v.Vec = word[1] - '0'
		case "ptr":
			p.effort.Memory(16)
			v.Ptr = &Ptr{}
		case "const", "global", "local", "shared":
			if v.Ptr == nil {
				return p.fail(at, "second state space .%s", word)
			}
			v.Ptr.Space = varSpaces[word]
		case "attribute":
			if !p.attribute(v) {
				return false
			}
		default:
			return p.fail(at, "unknown type or attribute .%s", Clip(word))
		}
	}
	if v.Type == TypeNone {
		return p.unexpected("type")
	}
	return true
}

func (p *parser) attribute(v *Var) bool {
	if !p.expect('(') || p.skip() != '.' {
		return p.unexpected("attribute")
	}
	at := p.here()
	if word := p.directiveWord(); word != "managed" {
		return p.fail(at, "attribute .%s is not supported", Clip(word))
	}
	v.Managed = true
	return p.expect(')')
}

// vars reads a declaration from behind the state space to the semicolon and
// hands over each of its variables.
func (p *parser) vars(at Pos, linkage Linkage, space Space, add func(*Var)) bool {
	shape := Var{Linkage: linkage, Space: space}
	if !p.spec(&shape) {
		return false
	}
	for {
		p.effort.Memory(variableBytes)
		v := new(Var)
		*v = shape
		p.skip()
		v.Pos = p.here()
		if !p.declarator(v) {
			return false
		}
		if p.accept('=') {
			p.skip()
			v.Init = new(Init)
			if !p.init(v.Init, 0) {
				return false
			}
		}
		add(v)
		if !p.accept(',') {
			return p.expect(';')
		}
	}
}

// declarator reads a name with its range or dimensions.
func (p *parser) declarator(v *Var) bool {
	if p.variables++; p.variables > MaxVariables {
		p.fail(v.Pos, "more than %d variables", MaxVariables)
		p.stop = true
		return false
	}
	var ok bool
	if v.Name, ok = p.ident("name"); !ok {
		return false
	}
	if p.src[p.pos] == '<' {
		p.pos++
		n, ok := p.integer("number of registers", 1, 1<<31-1)
		v.Range = uint32(n)
		return ok && p.expect('>')
	}
	for p.accept('[') {
		v.Array = true
		if len(v.Dims) == MaxDims {
			return p.fail(v.Pos, "more than %d dimensions", MaxDims)
		}
		if p.accept(']') {
			if len(v.Dims) > 0 {
				return p.fail(v.Pos, "only the first dimension of %s may be left open", Clip(v.Name))
			}
			p.effort.Memory(listFactor * 8)
			v.Dims = append(v.Dims, 0)
			continue
		}
		n, ok := p.integer("array size", 0, MaxVarBytes)
		if !ok || !p.expect(']') {
			return false
		}
		p.effort.Memory(listFactor * 8)
		v.Dims = append(v.Dims, int64(n))
	}
	return true
}

// init reads an initialiser.
func (p *parser) init(n *Init, depth int) bool {
	if p.initialisers++; p.initialisers > MaxInitialiser {
		p.fail(p.here(), "more than %d initialisers", MaxInitialiser)
		p.stop = true
		return false
	}
	c := p.skip()
	if v, ok := p.decimal(); ok {
		n.Bits = v
		return true
	}
	switch {
	case c == '{':
		return p.initList(n, depth)
	case class[c]&chStart != 0:
		return p.initAddr(n, 0)
	}
	at := p.here()
	v, ok := p.constant()
	if !ok {
		return false
	}
	n.Kind, n.Bits = [...]InitKind{ImmInt: InitInt, ImmF32: InitF32, ImmF64: InitF64}[v.kind], v.bits
	if p.skip() != '(' {
		return true
	}
	// 0xFF00(symbol)
	if n.Kind != InitInt || n.Bits == 0 {
		return p.fail(at, "mask of an address must be an integer other than 0")
	}
	p.pos++
	return p.initAddr(n, n.Bits) && p.expect(')')
}

func (p *parser) initList(n *Init, depth int) bool {
	at := p.here()
	if depth >= MaxNesting {
		return p.fail(at, "initialiser nested too deeply")
	}
	p.pos++
	p.effort.Memory(initExtBytes)
	n.Kind, n.Ext = InitList, &InitExt{Pos: at}
	if p.accept('}') {
		return true
	}
	values := p.countValues()
	p.effort.Memory(values * initBytes)
	n.Ext.List = make([]Init, 0, values)
	for {
		n.Ext.List = append(n.Ext.List, Init{})
		if !p.init(&n.Ext.List[len(n.Ext.List)-1], depth+1) {
			return false
		}
		if !p.accept(',') {
			return p.expect('}')
		}
	}
}

// countValues counts the values of the list of initialisers that begins here, so that it
// is allocated once. Commas in comments count too. It reads the list as often as lists are
// nested in it.
func (p *parser) countValues() int {
	n, depth := 1, 0
	for at := p.pos; at < len(p.src) && n < MaxInitialiser; at++ {
		switch p.src[at] {
		case '{':
			depth++
		case '}':
			if depth--; depth < 0 {
				p.effort.Steps((at - p.pos) / 16)
				return n
			}
		case ',':
			if depth == 0 {
				n++
			}
		}
	}
	return n
}

// initAddr reads symbol+offset or generic(symbol)+offset.
func (p *parser) initAddr(n *Init, mask uint64) bool {
	p.skip()
	p.effort.Memory(initExtBytes)
	e := &InitExt{Pos: p.here(), Mask: mask}
	var ok bool
	if e.Name, ok = p.ident("name of a variable"); !ok {
		return false
	}
	if e.Name == "generic" && p.accept('(') {
		e.Generic = true
		if e.Name, ok = p.ident("name of a variable"); !ok || !p.expect(')') {
			return false
		}
	}
	*n = Init{Kind: InitAddr, Ext: e}
	n.Bits, ok = p.offset()
	return ok
}

// offset reads an optional +constant or -constant.
func (p *parser) offset() (uint64, bool) {
	c := p.skip()
	if c != '+' && c != '-' {
		return 0, true
	}
	p.pos++
	p.skip()
	at := p.here()
	n, ok := p.constant()
	if !ok {
		return 0, false
	}
	if n.kind != ImmInt {
		return 0, p.fail(at, "offset must be an integer")
	}
	if c == '-' {
		return -n.bits, true
	}
	return n.bits, true
}
