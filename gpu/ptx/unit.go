package ptx

import "strings"

// LoadUnit parses a source that is to be linked with others (section 11.6), and verifies its
// directives at module scope. The bodies of functions are checked for syntax and kept as text, in
// Func.Text, so that nothing is lost of what this package does not know: instructions that are
// unknown are passed over.
func LoadUnit(e *Effort, file string, src []byte) (m *Module, err error) {
	defer e.Catch(&err)
	p := newParser(e)
	p.unit = true
	return p.load(file, src)
}

// SameSignature reports whether two declarations of a function take the same arguments and return
// the same results.
func SameSignature(a, b *Func) bool {
	return a.Entry == b.Entry && sameShapes(a.Params, b.Params) && sameShapes(a.Results, b.Results)
}

// unitBody checks the syntax of a body, and keeps its text.
func (p *parser) unitBody(f *Func) {
	start := p.pos
	p.body(f)
	f.Body = nil
	if p.pos > start {
		f.Text = p.src[start : p.pos-1]
	}
}

// unknown passes over an instruction of a unit that the table does not have.
func (p *parser) unknown(i *Instr, start, diagnostics int) bool {
	p.diags, p.stop = p.diags[:diagnostics], false
	i.Op = OpRaw
	return p.raw(i, start)
}

// Names are what RewriteBody asks about the names in a body.
type Names interface {
	// Name gets each name that stands where an operand, a label or a declaration does, and
	// returns what is to stand there.
	Name(name string) string
	// Range gets the prefix of each range of registers that is declared, and returns what is to
	// stand there.
	Range(prefix string) string
}

// RewriteBody copies the text of a body, as LoadUnit kept it, with other names and without .loc
// directives. Names of instructions, directives and modifiers are no names in this sense.
func RewriteBody(e *Effort, text string, names Names) string {
	b := bodyText{parser: parser{lexer: lexer{line: 1, effort: e, src: text + "\n\x00"}}, names: names}
	e.Memory(3 * len(text))
	b.out.Grow(len(text) + len(text)/16)
	for b.skip() != 0 || !b.atEnd() {
		b.statement()
	}
	b.copied(len(text), len(text), "")
	return b.out.String()
}

// bodyText copies a body.
type bodyText struct {
	parser
	names Names
	out   strings.Builder
	done  int // what of the text is copied
}

// copied copies the text up to start, and replaces that up to end.
func (b *bodyText) copied(start, end int, by string) {
	if start >= b.done {
		b.out.WriteString(b.src[b.done:start])
		b.out.WriteString(by)
		b.done = end
	}
}

// statement copies one brace, label, directive or instruction.
func (b *bodyText) statement() {
	b.effort.Step()
	switch c := b.src[b.pos]; {
	case c == '@':
		b.pos++
		b.accept('!')
		b.skip()
		b.identifier()
		if b.skip() != 0 && class[b.src[b.pos]]&chStart != 0 {
			b.instruction()
		}
	case c == '.':
		start, at := b.pos, b.here()
		if b.directiveWord() != "loc" {
			b.operands()
			return
		}
		if _, ok := b.loc(at); ok {
			b.copied(start, b.pos, "")
		}
	case class[c]&chStart != 0:
		if !b.label() {
			b.instruction()
		}
	default:
		b.pos++
	}
}

// label copies a label, if one begins here.
func (b *bodyText) label() bool {
	save := b.lexer
	start := b.pos
	name := b.name()
	end := b.pos
	if b.skip() != ':' || b.src[b.pos+1] == ':' {
		b.lexer = save
		return false
	}
	b.pos++
	b.copied(start, end, b.names.Name(name))
	return true
}

// instruction copies an instruction: its name with the modifiers, and its operands.
func (b *bodyText) instruction() {
	b.pos = b.opcodeEnd(b.pos + 1)
	b.operands()
}

// operands copies what follows the name of an instruction or directive, with the semicolon.
func (b *bodyText) operands() {
	for {
		switch c := b.skip(); {
		case b.atEnd():
			return
		case c == ';':
			b.pos++
			return
		case c == '.':
			if b.directiveWord() == "" {
				b.pos++
			}
		case c == '"':
			if _, ok := b.quoted(); !ok {
				b.pos++
			}
		case class[c]&chDigit != 0:
			for class[b.src[b.pos]]&chName != 0 {
				b.pos++
			}
		case class[c]&chStart != 0:
			b.identifier()
		default:
			b.pos++
		}
		b.effort.Step()
	}
}

// identifier copies a name, if one begins here.
func (b *bodyText) identifier() {
	start := b.pos
	name := b.name()
	switch {
	case name == "":
	case b.src[b.pos] == '<':
		b.copied(start, b.pos, b.names.Range(name))
	default:
		b.copied(start, b.pos, b.names.Name(name))
	}
}
