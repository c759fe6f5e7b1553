package ptx

// coordinates reads what stands behind the comma in [texture, {x, y}].
func (p *parser) coordinates(o *Operand) bool {
	p.pos++
	if p.skip() == '[' {
		return p.unexpected("coordinates")
	}
	base := len(p.pending)
	if p.operands++; !p.operand(0) {
		return false
	}
	o.Kind, o.Elems = OperandTexel, p.take(base)
	if c := &o.Elems[0]; c.Kind == OperandVector {
		o.Elems = c.Elems
	}
	return p.expect(']')
}

// plainTexel reports whether an instruction on textures or surfaces has the operands of
// its row of the table. Those with a sampler or a depth to compare with have not: an offset is a vector
// in braces.
func (p *parser) plainTexel(args []argSpec) bool {
	l := p.lexer
	l.diags = nil
	stores := l.skip() == '['
	behind := len(args) - 2
	commas, more, braces, closed, vector := 0, 0, 0, false, false
	for inside := false; ; l.pos++ {
		switch c := l.skip(); {
		case l.atEnd() || c == ';':
			return commas <= 1 && (stores || more < behind || more == behind && (vector || !args[len(args)-1].optional))
		case closed && c == ',' && braces == 0:
			more++
			l.pos++
			vector = l.skip() == '{'
			l.pos--
		case c == '[' && !closed:
			inside = true
		case c == ']' && inside:
			inside, closed = false, true
		case c == '{':
			braces++
		case c == '}':
			braces--
		case c == ',' && inside && braces == 0:
			commas++
		}
		if braces < 0 {
			return true // no operands at all; the parser will complain
		}
	}
}

// sampling reports whether op is one on textures or surfaces.
func sampling(op Op) bool {
	switch op {
	case OpTex, OpTld4, OpTxq, OpSuld, OpSust, OpSured, OpSuq:
		return true
	}
	return false
}
