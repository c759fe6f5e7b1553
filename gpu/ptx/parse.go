package ptx

import (
	"strings"

	"pvdrm/gpu"
)

// Parse reads a module. Names in operands are not resolved yet: that is what
// Verify does. The error is a *gpu.BuildError with at most MaxDiagnostics
// complaints. Directives keep their order; comments and blanks are dropped.
func Parse(file string, src []byte) (*Module, error) {
	return newParser(nil).parse(file, src)
}

func newParser(e *Effort) *parser {
	return &parser{lexer: lexer{line: 1, effort: e}, table: theTable(), names: map[string]opcode{}}
}

func (p *parser) parse(file string, src []byte) (*Module, error) {
	// Drivers are handed C strings; the zero byte at the end is not source.
	for len(src) > 0 && src[len(src)-1] == 0 {
		src = src[:len(src)-1]
	}
	p.file = file
	if len(src) > MaxSource {
		p.fail(Pos{1, 1}, "source of %d bytes is longer than %d", len(src), MaxSource)
		return nil, &gpu.BuildError{Diagnostics: p.diags}
	}
	p.effort.Memory(len(src) + 2)
	var b strings.Builder
	b.Grow(len(src) + 2)
	b.Write(src)
	b.WriteString("\n\x00")
	p.src = b.String()
	p.m = &Module{File: file}
	p.module()
	if len(p.diags) > 0 {
		return nil, &gpu.BuildError{Diagnostics: p.diags}
	}
	return p.m, nil
}

// Load parses and verifies a source. Which of its instructions a device runs, the engine of
// the device says.
func Load(file string, src []byte) (*Module, error) { return LoadWithin(nil, file, src) }

// LoadWithin does what Load does, within an effort. The error may also be the effort's: the
// cause with which its context ended, or gpu.ErrTooLarge. The effort counts the memory of the
// module and the memory that was needed to make it.
func LoadWithin(e *Effort, file string, src []byte) (m *Module, err error) {
	defer e.Catch(&err)
	return newParser(e).load(file, src)
}

// LoadDeclarations parses and verifies the directives at module scope, as LoadWithin does, and
// passes over the bodies of functions, which stay empty: a device that has a compiler of its own
// needs names, parameters and variables only, and its compiler knows instructions that this
// package does not.
func LoadDeclarations(e *Effort, file string, src []byte) (m *Module, err error) {
	defer e.Catch(&err)
	p := newParser(e)
	p.declarations = true
	return p.load(file, src)
}

func (p *parser) load(file string, src []byte) (*Module, error) {
	m, err := p.parse(file, src)
	if err != nil {
		return nil, err
	}
	if err := verify(p.effort, m); err != nil {
		return nil, err
	}
	return m, nil
}

// parser builds the module. It checks its counts against the limits.
type parser struct {
	lexer
	table *table
	m     *Module
	names map[string]opcode // instruction names with modifiers that were met

	declarations bool // pass over bodies, and over directives of functions that are unknown
	unit         bool // keep both as text
	parts        bool // operands may name parts of registers

	statements, operands, variables, initialisers int

	// Instructions and operands are cut from larger pieces.
	instrs  []Instr
	slab    []Operand
	pending []Operand // operands of the instruction that is being read
}

func (p *parser) module() {
	for !p.stop {
		p.skip()
		if p.atEnd() {
			break
		}
		if len(p.m.Directives) >= MaxDirectives {
			p.fail(p.here(), "more than %d directives", MaxDirectives)
			return
		}
		if !p.topLevel() {
			p.resync()
			p.accept('}')
		}
	}
	switch {
	case len(p.diags) > 0:
	case p.m.Version[0] == 0:
		p.fail(Pos{1, 1}, ".version directive missing; the module must begin with one")
	case p.m.Target == "":
		p.fail(Pos{1, 1}, ".target directive missing; it names the architecture, such as sm_70")
	}
}

func (p *parser) add(d Directive) bool {
	p.effort.Memory(directiveBytes)
	p.m.Directives = append(p.m.Directives, d)
	return true
}

// topLevel reads one directive at module scope.
func (p *parser) topLevel() bool {
	if p.accept(';') {
		return true
	}
	at := p.here()
	linkage, seen := LinkNone, false
	for {
		wordAt := at
		if seen {
			p.skip()
			wordAt = p.here()
		}
		word := p.directiveWord()
		if word == "" {
			return p.unexpected("directive")
		}
		if p.m.Version[0] == 0 && word != "version" {
			return p.fail(wordAt, ".version must be the first directive, not .%s", word)
		}
		if l, ok := linkages[word]; ok {
			if linkage != LinkNone {
				return p.fail(wordAt, "second linkage directive .%s", word)
			}
			linkage, seen = l, true
			continue
		}
		if space, ok := varSpaces[word]; ok {
			return p.vars(at, linkage, space, func(v *Var) { p.add(v) })
		}
		switch word {
		case "entry", "func":
			return p.function(at, linkage, word == "entry")
		case "tex": // .tex .u64 name, which .global .texref name replaced in PTX 1.5
			return p.vars(at, linkage, SpaceGlobal, func(v *Var) {
				v.Type = TexRef
				p.add(v)
			})
		}
		if seen {
			return p.fail(wordAt, "a variable or function must follow the linkage, not .%s", word)
		}
		return p.directive(at, word)
	}
}

var linkages = map[string]Linkage{"visible": LinkVisible, "extern": LinkExtern, "weak": LinkWeak, "common": LinkCommon}

var varSpaces = map[string]Space{"reg": SpaceReg, "const": SpaceConst, "global": SpaceGlobal, "local": SpaceLocal,
	"param": SpaceParam, "shared": SpaceShared}

// directive reads a directive that declares nothing executable.
func (p *parser) directive(at Pos, word string) bool {
	switch word {
	case "version":
		return p.version(at)
	case "target":
		return p.target()
	case "address_size":
		n, ok := p.integer("address size", 32, 64)
		if ok && n != 32 && n != 64 {
			return p.fail(at, "address size must be 32 or 64")
		}
		p.m.AddressSize, p.m.Unsized = int(n), false
		return ok
	case "pragma":
		g, ok := p.pragma(at)
		return ok && p.add(g)
	case "file":
		f, ok := p.fileDirective(at)
		return ok && p.add(f)
	case "loc":
		// At module scope it says nothing.
		_, ok := p.loc(at)
		return ok
	case "alias":
		name, ok := p.ident("name of a function")
		if !ok || !p.expect(',') {
			return false
		}
		target, ok := p.ident("name of a function")
		return ok && p.expect(';') && p.add(&Alias{at, name, target})
	case "section":
		s, ok := p.section(at)
		return ok && p.add(s)
	}
	return p.fail(at, "unknown or unsupported directive .%s", Clip(word))
}

func (p *parser) version(at Pos) bool {
	p.skip()
	if p.m.Version[0] != 0 {
		return p.fail(at, "second .version directive")
	}
	start := p.pos
	n, seen := [2]int{}, [2]bool{}
	for i := 0; p.pos-start < 8; p.pos++ {
		c := p.src[p.pos]
		switch {
		case class[c]&chDigit != 0:
			n[i], seen[i] = n[i]*10+int(c-'0'), true
			continue
		case c == '.' && i == 0:
			i = 1
			continue
		}
		break
	}
	if !seen[0] || !seen[1] || n[0] == 0 || class[p.src[p.pos]]&chOpcode != 0 {
		return p.fail(at, ".version needs a number such as 6.3")
	}
	p.m.Version = n
	p.m.AddressSize, p.m.Unsized = 64, true
	return true
}

func before(version [2]int, major, minor int) bool {
	return version[0] < major || version[0] == major && version[1] < minor
}

// narrow reports whether an address in the state space may have 32 bits where others have 64. That
// holds in modules that do not say the size of their addresses: such an address is one of the lowest
// 4 GiB (section 6.4.1: it is zero-extended).
func (m *Module) narrow(s Space) bool {
	return m.Unsized && (s == SpaceGlobal || s == SpaceGeneric || s == SpaceConst)
}

func (p *parser) target() bool {
	for {
		p.skip()
		at := p.here()
		name, ok := p.ident("target such as sm_70")
		if !ok {
			return false
		}
		switch {
		case strings.HasPrefix(name, "sm_") || strings.HasPrefix(name, "compute_"):
			if p.m.Target != "" {
				return p.fail(at, "second target %s", name)
			}
			p.m.Target, p.m.TargetPos = name, at
		case len(p.m.TargetOpts) < 8:
			p.m.TargetOpts = append(p.m.TargetOpts, name)
		default:
			return p.fail(at, "too many target options")
		}
		if !p.accept(',') {
			return true
		}
	}
}

func (p *parser) pragma(at Pos) (*Pragma, bool) {
	g := &Pragma{Pos: at}
	for {
		s, ok := p.quoted()
		if !ok {
			return nil, false
		}
		if p.operands++; p.operands > MaxOperands {
			return nil, p.fail(at, "more than %d operands", MaxOperands)
		}
		p.effort.Memory(listFactor * stringBytes)
		g.Text = append(g.Text, s)
		if !p.accept(',') {
			return g, p.expect(';')
		}
	}
}

func (p *parser) fileDirective(at Pos) (*File, bool) {
	const max32, max64 = 1<<32 - 1, 1<<64 - 1
	index, ok := p.integer("file number", 0, max32)
	if !ok {
		return nil, false
	}
	f := &File{Pos: at, Index: uint32(index)}
	if f.Name, ok = p.quoted(); !ok || !p.accept(',') {
		return f, ok
	}
	f.HasTime = true
	if f.Time, ok = p.integer("time", 0, max64); !ok || !p.expect(',') {
		return nil, false
	}
	f.Bytes, ok = p.integer("file size", 0, max64)
	return f, ok
}

func (p *parser) loc(at Pos) (*Loc, bool) {
	l := &Loc{Pos: at}
	var ok bool
	if l.File, l.Line, l.Col, ok = p.locNumbers(); !ok || p.skip() != ',' {
		return l, ok
	}
	// The rest names the function that was inlined, and where: it is kept as text.
	start := p.pos + 1
	for p.accept(',') {
		p.skip()
		wordAt := p.here()
		switch p.name() {
		case "function_name":
			if _, ok := p.ident("label"); !ok {
				return nil, false
			}
			if p.accept('+') {
				if _, ok := p.integer("offset", 0, 1<<32-1); !ok {
					return nil, false
				}
			}
		case "inlined_at":
			if _, _, _, ok := p.locNumbers(); !ok {
				return nil, false
			}
		default:
			return nil, p.fail(wordAt, "function_name or inlined_at expected")
		}
	}
	p.effort.Memory(2 * (p.pos - start))
	l.Inline = normalise(p.src[start:p.pos])
	return l, true
}

func (p *parser) locNumbers() (file, line, col uint32, ok bool) {
	var n [3]uint64
	for i := range n {
		if n[i], ok = p.integer("number of .loc", 0, 1<<32-1); !ok {
			return
		}
	}
	return uint32(n[0]), uint32(n[1]), uint32(n[2]), true
}

// section keeps the text between the braces.
func (p *parser) section(at Pos) (*Section, bool) {
	p.skip()
	s := &Section{Pos: at}
	if p.src[p.pos] == '.' {
		s.Name = "." + p.directiveWord()
	} else {
		s.Name = p.name()
	}
	if s.Name == "" || s.Name == "." {
		return nil, p.unexpected("name of a section")
	}
	if !p.expect('{') {
		return nil, false
	}
	start := p.pos
	for {
		c := p.skip()
		switch {
		case p.atEnd():
			return nil, p.fail(at, "section not closed")
		case c == '"':
			if _, ok := p.quoted(); !ok {
				return nil, false
			}
		case c == '{':
			return nil, p.fail(p.here(), "brace inside a section")
		case c == '}':
			s.Text = p.src[start:p.pos]
			p.pos++
			return s, true
		default:
			p.pos++
		}
	}
}

// normalise drops comments from text and makes all blanks single.
func normalise(text string) string {
	l := lexer{src: text + "\n\x00"}
	var b strings.Builder
	for {
		before := l.pos
		c := l.skip()
		if l.atEnd() {
			return b.String()
		}
		if l.pos > before && b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteByte(c)
		l.pos++
	}
}
