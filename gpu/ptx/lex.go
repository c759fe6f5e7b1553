package ptx

import (
	"fmt"
	"strings"

	"pvdrm/gpu"
)

// Character classes.
const (
	chSpace  = 1 << iota // blank, tab, return; not the newline
	chStart              // may begin a name
	chName               // may continue a name
	chDigit              // 0-9
	chOpcode             // may continue an instruction with its modifiers
)

var class = func() (t [256]uint8) {
	for c := range t {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '_', c == '$':
			t[c] = chStart | chName | chOpcode
		case c == '%':
			t[c] = chStart | chOpcode
		case c >= '0' && c <= '9':
			t[c] = chName | chDigit | chOpcode
		case c == ' ', c == '\t', c == '\r', c == '\f', c == '\v':
			t[c] = chSpace
		case c == '.':
			t[c] = chOpcode
		}
	}
	return t
}()

// lexer walks over the source. Names that it returns are parts of src. The
// source ends with a newline and a zero byte, so that looking at the byte after
// one that is not zero needs no check.
type lexer struct {
	effort    *Effort
	file      string
	src       string // source + "\n\x00"
	pos       int
	line      int32
	lineStart int // offset of the first byte of the line
	diags     []gpu.Diagnostic
	stop      bool // there are too many diagnostics
}

func (l *lexer) here() Pos { return Pos{l.line, int32(l.pos-l.lineStart) + 1} }

func (l *lexer) atEnd() bool { return l.pos >= len(l.src)-1 }

// fail records a complaint and returns false.
func (l *lexer) fail(at Pos, format string, args ...any) bool {
	if l.stop {
		return false
	}
	l.diags = append(l.diags, gpu.Diagnostic{File: l.file, Line: int(at.Line), Col: int(at.Col),
		Message: "error: " + fmt.Sprintf(format, args...)})
	if len(l.diags) >= MaxDiagnostics {
		l.stop = true
	}
	return false
}

// skip passes blanks and comments and returns the byte that follows, 0 at the end.
func (l *lexer) skip() byte {
	for {
		c := l.src[l.pos]
		switch {
		case class[c]&chSpace != 0:
			l.pos++
		case c == '\n' && l.pos < len(l.src)-2:
			l.pos++
			l.line++
			l.lineStart = l.pos
			l.effort.Step()
		case c == '\n':
			l.pos++ // the one that was added
			return 0
		case c == '/' && l.src[l.pos+1] == '/':
			for l.src[l.pos] != '\n' {
				l.pos++
			}
		case c == '/' && l.src[l.pos+1] == '*':
			l.skipBlock()
		default:
			return c
		}
	}
}

// skipBlock passes a /* comment */.
func (l *lexer) skipBlock() {
	start := l.here()
	for l.pos += 2; l.pos < len(l.src)-2; l.pos++ {
		switch l.src[l.pos] {
		case '\n':
			l.line++
			l.lineStart = l.pos + 1
			l.effort.Step()
		case '*':
			if l.src[l.pos+1] == '/' {
				l.pos += 2
				return
			}
		}
	}
	l.fail(start, "comment not closed")
}

// accept passes c and the blanks before it if it comes next.
func (l *lexer) accept(c byte) bool {
	if l.skip() != c || l.atEnd() {
		return false
	}
	l.pos++
	return true
}

// expect demands c.
func (l *lexer) expect(c byte) bool {
	if l.accept(c) {
		return true
	}
	return l.unexpected(fmt.Sprintf("'%c'", c))
}

// unexpected complains about what comes next.
func (l *lexer) unexpected(want string) bool {
	l.skip()
	return l.fail(l.here(), "syntax error near %s: %s expected", l.nearby(), want)
}

// nearby returns the next token, quoted, for messages.
func (l *lexer) nearby() string {
	if l.atEnd() {
		return "end of file"
	}
	end := l.pos
	for end < len(l.src)-2 && end-l.pos < 40 && class[l.src[end]]&chOpcode != 0 {
		end++
	}
	if end == l.pos {
		end++
	}
	return fmt.Sprintf("%q", l.src[l.pos:end])
}

// name reads a name, "" if there is none. A single "_" is a name here.
func (l *lexer) name() string {
	c := l.skip()
	if class[c]&chStart == 0 {
		return ""
	}
	start := l.pos
	p := start + 1
	for class[l.src[p]]&chName != 0 {
		p++
	}
	l.pos = p
	return l.src[start:p]
}

// ident demands a name.
func (l *lexer) ident(what string) (string, bool) {
	l.skip()
	at := l.here()
	s := l.name()
	switch {
	case s == "" || s == "%":
		return "", l.unexpected(what)
	case len(s) > maxName:
		return "", l.fail(at, "name longer than %d bytes", maxName)
	}
	return s, true
}

// directiveWord reads a word that begins with a dot and returns it without the
// dot, or "" if there is none.
func (l *lexer) directiveWord() string {
	if l.skip() != '.' || class[l.src[l.pos+1]]&chStart == 0 {
		return ""
	}
	start := l.pos + 1
	p := start
	for class[l.src[p]]&chName != 0 || l.src[p] == ':' && l.src[p+1] == ':' || l.src[p] == ':' && l.src[p-1] == ':' {
		p++
	}
	l.pos = p
	return l.src[start:p]
}

// quoted reads a string literal and returns the text between the quotes.
func (l *lexer) quoted() (string, bool) {
	if l.skip() != '"' {
		return "", l.unexpected("string")
	}
	at := l.here()
	start := l.pos + 1
	for p := start; l.src[p] != '\n' && p < len(l.src)-2; p++ {
		switch l.src[p] {
		case '\\':
			if l.src[p+1] != '\n' {
				p++
			}
		case '"':
			l.pos = p + 1
			return l.src[start:p], true
		}
	}
	return "", l.fail(at, "string not closed")
}

// pass passes over text up to one of the bytes, which it returns, 0 at the end. Bytes in
// comments and strings do not count.
func (l *lexer) pass(until string) byte {
	for {
		c := l.skip()
		switch {
		case l.atEnd() || l.stop:
			return 0
		case strings.IndexByte(until, c) >= 0:
			return c
		case c == '"':
			if _, ok := l.quoted(); ok {
				continue
			}
		}
		l.effort.Step()
		l.pos++
	}
}

// resync passes the rest of a statement that is wrong: up to and with the next
// semicolon, or up to the brace that closes what surrounds the statement.
func (l *lexer) resync() {
	depth := 0
	for {
		c := l.skip()
		if l.atEnd() || l.stop {
			return
		}
		switch c {
		case '"':
			if _, ok := l.quoted(); ok {
				continue
			}
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return
			}
			depth--
		case ';':
			if depth == 0 {
				l.pos++
				return
			}
		}
		l.pos++
	}
}
