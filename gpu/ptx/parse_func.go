package ptx

// function reads a kernel or function from behind .entry or .func.
func (p *parser) function(at Pos, linkage Linkage, entry bool) bool {
	f := &Func{Linkage: linkage, Entry: entry}
	ok := true
	if !entry && p.skip() == '(' {
		if f.Results, ok = p.params(); !ok {
			return false
		}
	}
	p.skip()
	f.Pos = p.here()
	if f.Name, ok = p.ident("name of a function"); !ok {
		return false
	}
	if p.skip() == '(' {
		if f.Params, ok = p.params(); !ok {
			return false
		}
	}
	if !p.tuning(f) {
		return false
	}
	switch p.skip() {
	case ';':
		p.pos++
	case '{':
		p.pos++
		f.Defined = true
		switch {
		case p.declarations:
			p.passBody(f)
		case p.unit:
			p.unitBody(f)
		default:
			p.body(f)
		}
	case '.': // old compilers wrote no ';' behind a prototype: the next directive ends it
	default:
		return p.unexpected("';' or '{'")
	}
	return p.add(f)
}

// params reads a list of parameters in parentheses.
func (p *parser) params() ([]*Var, bool) {
	var list []*Var
	p.pos++ // the parenthesis
	if p.accept(')') {
		return nil, true
	}
	for {
		p.skip()
		at := p.here()
		word := p.directiveWord()
		if word != "param" && word != "reg" {
			return nil, p.fail(at, "parameter must begin with .param or .reg")
		}
		p.effort.Memory(variableBytes)
		v := &Var{Space: varSpaces[word]}
		if !p.spec(v) {
			return nil, false
		}
		p.skip()
		v.Pos = p.here()
		if !p.declarator(v) {
			return nil, false
		}
		if v.Range != 0 {
			return nil, p.fail(v.Pos, "parameter cannot be a range")
		}
		list = append(list, v)
		if !p.accept(',') {
			return list, p.expect(')')
		}
	}
}

// ends are the directives that begin something else, which ends a prototype without a ';'.
var ends = map[string]bool{"entry": true, "func": true, "visible": true, "extern": true, "weak": true, "common": true,
	"global": true, "const": true, "shared": true, "local": true, "file": true, "section": true, "alias": true}

// tuning reads the directives between the header of a function and its body.
func (p *parser) tuning(f *Func) bool {
	for p.skip() == '.' {
		at := p.here()
		start := p.pos
		word := p.directiveWord()
		if ends[word] {
			p.pos = start
			return true
		}
		ok := true
		switch word {
		case "maxntid":
			f.MaxNTid, ok = p.dims()
		case "reqntid":
			f.ReqNTid, ok = p.dims()
		case "minnctapersm":
			f.MinNCTA, ok = p.uint32(word)
		case "maxnctapersm":
			f.MaxNCTA, ok = p.uint32(word)
		case "maxnreg":
			f.MaxNReg, ok = p.uint32(word)
		case "noreturn":
			f.NoReturn = true
		case "pragma":
			var g *Pragma
			if g, ok = p.pragma(at); ok {
				f.Pragmas = append(f.Pragmas, g.Text...)
			}
		case "reqnctapercluster":
			f.Cluster.Required, ok = p.dims()
		case "maxclusterrank":
			f.Cluster.MaxRank, ok = p.uint32(word)
		case "explicitcluster":
			f.Cluster.Explicit = true
		case "abi_preserve", "abi_preserve_control":
			if _, ok = p.uint32(word); ok {
				ok = p.otherTuning(f, at, start)
			}
		case "blocksareclusters", "unified":
			ok = p.otherTuning(f, at, start)
		default:
			if !p.declarations && !p.unit || word == "" {
				return p.fail(at, "unknown directive .%s of a function", Clip(word))
			}
			if p.pass(".;{"); p.unit {
				ok = p.otherTuning(f, at, start)
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

func (p *parser) otherTuning(f *Func, at Pos, start int) bool {
	if len(f.OtherTuning) == 16 {
		return p.fail(at, "too many directives")
	}
	f.OtherTuning = append(f.OtherTuning, normalise(p.src[start:p.pos]))
	return true
}

func (p *parser) uint32(what string) (uint32, bool) {
	n, ok := p.integer("."+what, 1, 1<<32-1)
	return uint32(n), ok
}

// dims reads one to three sizes of a block.
func (p *parser) dims() ([3]uint32, bool) {
	d := [3]uint32{1, 1, 1}
	for i := range d {
		n, ok := p.integer("size of a block", 1, 1<<31-1)
		if !ok {
			return d, false
		}
		d[i] = uint32(n)
		if i == 2 || !p.accept(',') {
			break
		}
	}
	return d, true
}

// body reads the statements of a function up to and with the closing brace.
func (p *parser) body(f *Func) {
	depth := 0
	add := func(s Stmt) {
		if _, ok := s.(*Instr); !ok { // those are counted by the slab
			p.effort.Memory(statementBytes)
		}
		f.Body = Append(p.effort, f.Body, interfaceBytes, s)
	}
	for !p.stop {
		c := p.skip()
		if p.statements++; p.statements > MaxStatements {
			p.fail(p.here(), "more than %d statements", MaxStatements)
			p.stop = true
			return
		}
		ok := true
		switch {
		case c == '{':
			at := p.here()
			p.pos++
			if depth++; depth > MaxScopes {
				p.fail(at, "braces nested too deeply")
				p.stop = true
				return
			}
			add(&Scope{Pos: at, Open: true})
		case c == '}':
			at := p.here()
			p.pos++
			if depth == 0 {
				f.End = at
				return
			}
			depth--
			add(&Scope{Pos: at})
		case c == ';':
			p.pos++
			p.statements--
		case c == '.':
			ok = p.bodyDirective(add)
		case c == '@' || class[c]&chStart != 0:
			ok = p.statement(add)
		case p.atEnd():
			p.fail(p.here(), "function %s is not closed: '}' expected", Clip(f.Name))
			return
		default:
			ok = p.unexpected("instruction")
		}
		if !ok {
			p.resync()
		}
	}
}

// passBody passes over a body up to and with the closing brace.
func (p *parser) passBody(f *Func) {
	for depth := 0; ; {
		switch p.pass("{}") {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				f.End = p.here()
				p.pos++
				return
			}
			depth--
		default:
			p.fail(p.here(), "function %s is not closed: '}' expected", Clip(f.Name))
			return
		}
		p.pos++
	}
}

// bodyDirective reads a directive inside a body.
func (p *parser) bodyDirective(add func(Stmt)) bool {
	at := p.here()
	word := p.directiveWord()
	if space, ok := varSpaces[word]; ok {
		return p.vars(at, LinkNone, space, func(v *Var) { add(v) })
	}
	switch word {
	case "pragma":
		g, ok := p.pragma(at)
		if ok {
			add(g)
		}
		return ok
	case "loc":
		l, ok := p.loc(at)
		if ok {
			add(l)
		}
		return ok
	case "":
		return p.unexpected("directive")
	}
	return p.fail(at, "unknown or unsupported directive .%s", Clip(word))
}

// labelled reads what follows "name:", a list, a prototype or nothing.
func (p *parser) labelled(at Pos, name string, add func(Stmt)) bool {
	if p.skip() == '.' {
		save := p.lexer
		switch word := p.directiveWord(); word {
		case "branchtargets", "calltargets":
			t := &Targets{Pos: at, Name: name, Call: word == "calltargets"}
			if !p.targets(t) {
				return false
			}
			add(t)
			return true
		case "callprototype":
			proto := &Prototype{Pos: at, Name: name}
			if !p.prototype(proto) {
				return false
			}
			add(proto)
			return true
		}
		p.lexer = save
	}
	add(&Label{Pos: at, Name: name})
	return true
}

func (p *parser) targets(t *Targets) bool {
	for {
		p.skip()
		ref := LabelRef{Pos: p.here(), Target: -1}
		var ok bool
		if ref.Name, ok = p.ident("name"); !ok {
			return false
		}
		if p.operands++; p.operands > MaxOperands {
			p.stop = true
			return p.fail(ref.Pos, "more than %d operands", MaxOperands)
		}
		t.Labels = Append(p.effort, t.Labels, labelRefBytes, ref)
		if !p.accept(',') {
			return p.expect(';')
		}
	}
}

func (p *parser) prototype(t *Prototype) bool {
	var ok bool
	if p.skip() == '(' {
		if t.Results, ok = p.params(); !ok {
			return false
		}
	}
	at := p.here()
	if name := p.name(); name == "" {
		return p.unexpected("_")
	} else if name != "_" {
		return p.fail(at, "the name in a prototype must be _")
	}
	if p.skip() == '(' {
		if t.Params, ok = p.params(); !ok {
			return false
		}
	}
	if p.skip() == '.' {
		at := p.here()
		if word := p.directiveWord(); word != "noreturn" {
			return p.fail(at, "unknown directive .%s of a prototype", Clip(word))
		}
		t.NoReturn = true
	}
	return p.expect(';')
}
