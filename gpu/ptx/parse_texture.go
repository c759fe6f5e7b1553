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
// its row of the table, so many of them behind the texture. Those with a sampler, an
// offset or a depth to compare with have not.
func (p *parser) plainTexel(behind int) bool {
	l := p.lexer
	l.diags = nil
	stores := l.skip() == '['
	commas, more, braces, closed := 0, 0, 0, false
	for inside := false; ; l.pos++ {
		switch c := l.skip(); {
		case l.atEnd() || c == ';':
			return commas <= 1 && (stores || more <= behind)
		case closed && c == ',' && braces == 0:
			more++
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
