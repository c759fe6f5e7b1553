package ptx

import (
	"math"
	"math/bits"
	"strconv"
)

// number is the value of a constant expression. ImmF32 stands alone: the manual
// excludes 0f numbers from expressions.
type number struct {
	kind     ImmKind
	unsigned bool // of an integer
	bits     uint64
}

func (n number) float() float64 {
	switch {
	case n.kind == ImmF64:
		return math.Float64frombits(n.bits)
	case n.unsigned:
		return float64(n.bits)
	}
	return float64(int64(n.bits))
}

// warpSize is the name of the constant that PTX predefines.
const warpSize = "WARP_SZ"

// warpSize reports whether that name comes next.
func (l *lexer) warpSize() bool {
	end := l.pos + len(warpSize)
	return end < len(l.src) && l.src[l.pos:end] == warpSize && class[l.src[end]]&chName == 0
}

// decimal is the way most numbers are written: it reads one, and reports
// whether it is all of the expression.
func (l *lexer) decimal() (uint64, bool) {
	p := l.pos
	neg := l.src[p] == '-'
	if neg {
		p++
	}
	start := p
	var v uint64
	for ; class[l.src[p]]&chDigit != 0 && p-start < 18; p++ {
		v = v*10 + uint64(l.src[p]-'0')
	}
	if p == start || l.src[start] == '0' && p-start > 1 {
		return 0, false
	}
	switch l.src[p] {
	case ',', ';', ']', '}', ')', '>', '\n':
	default:
		return 0, false
	}
	l.pos = p
	if neg {
		v = -v
	}
	return v, true
}

// constant reads a constant expression (section 4.5). Its value is folded.
func (l *lexer) constant() (number, bool) {
	l.skip()
	if v, ok := l.decimal(); ok {
		return number{bits: v}, true
	}
	return l.ternary(0)
}

// integer reads a constant expression that must be an integer from lo to hi.
func (l *lexer) integer(what string, lo, hi uint64) (uint64, bool) {
	l.skip()
	at := l.here()
	n, ok := l.constant()
	if !ok {
		return 0, false
	}
	if n.kind != ImmInt || n.bits < lo || n.bits > hi {
		return 0, l.fail(at, "%s must be an integer from %d to %d", what, lo, hi)
	}
	return n.bits, true
}

func (l *lexer) ternary(depth int) (number, bool) {
	n, ok := l.binary(1, depth)
	if !ok || l.skip() != '?' {
		return n, ok
	}
	l.pos++
	a, ok := l.ternary(depth + 1)
	if !ok || !l.expect(':') {
		return n, false
	}
	b, ok := l.ternary(depth + 1)
	if n.bits == 0 {
		a = b
	}
	return a, ok
}

// operators by precedence, weakest first; longer spellings before shorter ones.
var operators = []struct {
	text string
	prec int
}{
	{"||", 1}, {"&&", 2}, {"==", 6}, {"!=", 6}, {"<=", 7}, {">=", 7}, {"<<", 8}, {">>", 8},
	{"|", 3}, {"^", 4}, {"&", 5}, {"<", 7}, {">", 7}, {"+", 9}, {"-", 9}, {"*", 10}, {"/", 10}, {"%", 10},
}

// operator returns the operator that comes next without passing it.
func (l *lexer) operator() (string, int) {
	l.skip()
	for i := range operators {
		o := &operators[i]
		if l.src[l.pos] == o.text[0] && (len(o.text) == 1 || l.src[l.pos+1] == o.text[1]) {
			return o.text, o.prec
		}
	}
	return "", 0
}

func (l *lexer) binary(prec, depth int) (number, bool) {
	a, ok := l.unary(depth)
	for ok {
		at := l.here()
		op, p := l.operator()
		if op == "" || p < prec {
			return a, true
		}
		// A register may follow what looks like a remainder.
		if op == "%" && class[l.src[l.pos+1]]&chStart != 0 {
			return a, true
		}
		l.pos += len(op)
		var b number
		if b, ok = l.binary(p+1, depth+1); ok {
			a, ok = l.apply(at, op, a, b)
		}
	}
	return a, false
}

func boolean(b bool) number {
	if b {
		return number{bits: 1}
	}
	return number{}
}

func (l *lexer) apply(at Pos, op string, a, b number) (number, bool) {
	if a.kind == ImmF32 || b.kind == ImmF32 {
		return a, l.fail(at, "operator %s is not allowed with 0f numbers", op)
	}
	if a.kind != ImmInt || b.kind != ImmInt {
		return l.applyFloat(at, op, a.float(), b.float())
	}
	u := a.unsigned || b.unsigned
	r := number{unsigned: u}
	x, y := a.bits, b.bits
	less := int64(x) < int64(y)
	if u {
		less = x < y
	}
	switch op {
	case "+":
		r.bits = x + y
	case "-":
		r.bits = x - y
	case "*":
		r.bits = x * y
	case "/", "%":
		switch {
		case y == 0:
			return r, l.fail(at, "division by zero in constant expression")
		case u && op == "/":
			r.bits = x / y
		case u:
			r.bits = x % y
		case op == "/":
			r.bits = uint64(int64(x) / int64(y))
		default:
			r.bits = uint64(int64(x) % int64(y))
		}
	case "<<":
		r = number{unsigned: a.unsigned, bits: x << y}
	case ">>":
		r = number{unsigned: a.unsigned, bits: x >> y}
		if !a.unsigned {
			r.bits = uint64(int64(x) >> y)
		}
	case "&":
		r.bits = x & y
	case "|":
		r.bits = x | y
	case "^":
		r.bits = x ^ y
	case "<":
		return boolean(less), true
	case ">=":
		return boolean(!less), true
	case "==":
		return boolean(x == y), true
	case "!=":
		return boolean(x != y), true
	case ">":
		return boolean(!less && x != y), true
	case "<=":
		return boolean(less || x == y), true
	case "&&":
		return boolean(x != 0 && y != 0), true
	case "||":
		return boolean(x != 0 || y != 0), true
	}
	return r, true
}

func (l *lexer) applyFloat(at Pos, op string, x, y float64) (number, bool) {
	var r float64
	switch op {
	case "+":
		r = x + y
	case "-":
		r = x - y
	case "*":
		r = x * y
	case "/":
		r = x / y
	case "<":
		return boolean(x < y), true
	case "<=":
		return boolean(x <= y), true
	case ">":
		return boolean(x > y), true
	case ">=":
		return boolean(x >= y), true
	case "==":
		return boolean(x == y), true
	case "!=":
		return boolean(x != y), true
	default:
		return number{}, l.fail(at, "operator %s needs integers", op)
	}
	return number{kind: ImmF64, bits: math.Float64bits(r)}, true
}

func (l *lexer) unary(depth int) (number, bool) {
	c := l.skip()
	at := l.here()
	if depth > MaxNesting {
		return number{}, l.fail(at, "expression nested too deeply")
	}
	switch c {
	case '+', '-', '~', '!':
		l.pos++
		n, ok := l.unary(depth + 1)
		if !ok {
			return n, false
		}
		return l.applyUnary(at, c, n)
	case '(':
		l.pos++
		if l.skip() == '.' {
			return l.cast(depth)
		}
		n, ok := l.ternary(depth + 1)
		return n, ok && l.expect(')')
	}
	switch {
	case class[c]&chDigit != 0:
		return l.literal()
	case c == '.' && class[l.src[l.pos+1]]&chDigit != 0:
		return l.fraction(at)
	case l.warpSize():
		l.pos += len(warpSize)
		return number{bits: 32}, true
	}
	return number{}, l.unexpected("constant")
}

// cast reads the rest of (.s64)x and (.u64)x.
func (l *lexer) cast(depth int) (number, bool) {
	at := l.here()
	t := l.directiveWord()
	if t != "s64" && t != "u64" {
		return number{}, l.fail(at, "only casts to .s64 and .u64 exist")
	}
	if !l.expect(')') {
		return number{}, false
	}
	n, ok := l.unary(depth + 1)
	if ok && n.kind != ImmInt {
		return n, l.fail(at, "cast needs an integer")
	}
	n.unsigned = t == "u64"
	return n, ok
}

func (l *lexer) applyUnary(at Pos, c byte, n number) (number, bool) {
	switch {
	case c == '+':
	case c == '-' && n.kind == ImmInt:
		n.bits = -n.bits
	case n.kind == ImmF32:
		return n, l.fail(at, "operator %c is not allowed with 0f numbers", c)
	case c == '-':
		n.bits ^= 1 << 63
	case n.kind != ImmInt:
		return n, l.fail(at, "operator %c needs an integer", c)
	case c == '~':
		n.bits = ^n.bits
	default:
		n = boolean(n.bits == 0)
	}
	return n, true
}

// literal reads a number that begins with a digit.
func (l *lexer) literal() (number, bool) {
	at := l.here()
	start := l.pos
	p := start
	for class[l.src[p]]&chName != 0 {
		p++
	}
	text := l.src[start:p]
	if len(text) > 2 && text[0] == '0' {
		kind, digits := ImmF32, 8
		switch text[1] {
		case 'd', 'D':
			kind, digits = ImmF64, 16
			fallthrough
		case 'f', 'F':
			l.pos = p
			v, err := strconv.ParseUint(text[2:], 16, 64)
			if err != nil || len(text) != 2+digits {
				return number{}, l.fail(at, "%q needs %d hexadecimal digits", Clip(text), digits)
			}
			return number{kind: kind, bits: v}, true
		}
	}
	hex := len(text) > 1 && (text[1] == 'x' || text[1] == 'X')
	if l.src[p] == '.' || !hex && (text[len(text)-1]|0x20 == 'e' && (l.src[p] == '-' || l.src[p] == '+')) || !hex && exponent(text) {
		return l.fraction(at)
	}
	l.pos = p
	return l.intLiteral(at, text)
}

// exponent reports whether text is a decimal number with an exponent, as in 1e5.
func exponent(text string) bool {
	for i := 1; i < len(text); i++ {
		if text[i]|0x20 == 'e' {
			return true
		}
		if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return false
}

func (l *lexer) intLiteral(at Pos, text string) (number, bool) {
	var n number
	digits := text
	if last := len(digits) - 1; last > 0 && digits[last] == 'U' {
		n.unsigned = true
		digits = digits[:last]
	}
	base := 10
	if len(digits) > 1 && digits[0] == '0' {
		switch digits[1] {
		case 'x', 'X':
			base, digits = 16, digits[2:]
		case 'b', 'B':
			base, digits = 2, digits[2:]
		default:
			base, digits = 8, digits[1:]
		}
	}
	v, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return n, l.fail(at, "%q is not a number of at most 64 bits", Clip(text))
	}
	n.bits = v
	n.unsigned = n.unsigned || bits.Len64(v) == 64
	return n, true
}

// fraction reads a decimal number with a point or an exponent.
func (l *lexer) fraction(at Pos) (number, bool) {
	start, p := l.pos, l.pos
	for {
		c := l.src[p]
		if class[c]&chDigit != 0 || c == '.' || c|0x20 == 'e' ||
			(c == '-' || c == '+') && p > start && l.src[p-1]|0x20 == 'e' {
			p++
			continue
		}
		break
	}
	l.pos = p
	text := l.src[start:p]
	if len(text) > 512 {
		return number{}, l.fail(at, "number longer than 512 digits")
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(v, 0) || v != v {
		return number{}, l.fail(at, "%q is not a number", Clip(text))
	}
	return number{kind: ImmF64, bits: math.Float64bits(v)}, true
}

// Clip shortens text for messages.
func Clip(text string) string {
	if len(text) > 40 {
		return text[:40] + "…"
	}
	return text
}
