package supervisor

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Escape makes a text of a backend fit to be shown on a terminal and to be stored in a log. What is
// not printable becomes an escape sequence as in Go's strings: control characters of both sets (C0,
// and C1 from U+0080 to U+009F), overrides and isolates of the writing direction, line and paragraph
// separators, and bytes that are not UTF-8. A backslash stays as it is, so that the text of an error
// that was escaped before is not escaped again.
func Escape(s string) string {
	clean := 0
	for clean < len(s) {
		r, n := utf8.DecodeRuneInString(s[clean:])
		if !printable(r, n) {
			break
		}
		clean += n
	}
	if clean == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:clean])
	for rest := s[clean:]; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		switch {
		case printable(r, n):
			b.WriteString(rest[:n])
		case r == utf8.RuneError && n == 1:
			b.WriteString(`\x` + hex(uint64(rest[0]), 2))
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		rest = rest[n:]
	}
	return b.String()
}

// printable reports whether a terminal shows a rune of n bytes as one character and does nothing
// else for it.
func printable(r rune, n int) bool {
	if r == utf8.RuneError && n == 1 {
		return false
	}
	return unicode.IsPrint(r)
}

// hex writes a number with so many digits at least.
func hex(v uint64, digits int) string {
	s := strconv.FormatUint(v, 16)
	return strings.Repeat("0", max(digits-len(s), 0)) + s
}

// shorten cuts a text to at most so many bytes, at a rune.
func shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
