// Package cprintf is the printf of kernels: C's conversions as CUDA has them. The
// engines of the software GPU share it; they only say how memory is read. It has
// no state.
package cprintf

import (
	"math"
	"strconv"
	"strings"
)

// Bounds of one call of vprintf by one thread.
const (
	maxFormat = 4 << 10  // bytes of the format
	maxText   = 4 << 10  // bytes of a string that %s names
	maxLine   = 16 << 10 // bytes that come out
	maxWidth  = 1 << 10  // columns and digits that a format may ask for
)

// Reader reads size bytes (1, 4 or 8) of a thread's memory at a generic address.
// It may panic, which ends the call, where there is none.
type Reader func(addr, size uint64) uint64

// text reads a string up to its zero, or to most bytes.
func (r Reader) text(addr uint64, most int) string {
	var b []byte
	for range most {
		c := byte(r(addr, 1))
		if c == 0 {
			break
		}
		b = append(b, c)
		addr++
	}
	return string(b)
}

// arguments are the variable arguments of a printf as the CUDA compiler lays
// them out: one after the other, each aligned to its size of 4 or 8 bytes.
type arguments struct {
	read Reader
	addr uint64
	n    int
}

func (a *arguments) next(size uint64) uint64 {
	a.addr = (a.addr + size - 1) &^ (size - 1)
	v := a.read(a.addr, size)
	a.addr += size
	a.n++
	return v
}

// directive is one conversion of a format.
type directive struct {
	minus, plus, space, alt, zero bool
	width, precision              int // precision -1: not given
	wide                          bool
	verb                          byte
}

// Format is C's printf with the conversions that CUDA has
// (CUDA C++ Programming Guide, "Formatted Output"): flags, width and precision,
// d i o u x X c s p f F e E g G a A and %%. It returns the text and the number of
// arguments. What is no conversion is printed as it stands.
func Format(read Reader, format, args uint64) (string, int) {
	f := read.text(format, maxFormat)
	a := arguments{read: read, addr: args}
	var out strings.Builder
	for f != "" && out.Len() < maxLine {
		i := strings.IndexByte(f, '%')
		if i < 0 {
			out.WriteString(f)
			break
		}
		out.WriteString(f[:i])
		d, n := parseDirective(f[i:], &a)
		if n == 0 {
			out.WriteByte('%')
			n = 1
		} else {
			out.WriteString(d.convert(&a))
		}
		f = f[i+n:]
	}
	s := out.String()
	return s[:min(len(s), maxLine)], a.n
}

// parseDirective reads a conversion at the start of s and returns its length, 0
// if it is none.
func parseDirective(s string, a *arguments) (d directive, n int) {
	i := 1
	at := func() byte {
		if i < len(s) {
			return s[i]
		}
		return 0
	}
flags:
	for ; ; i++ {
		switch at() {
		case '-':
			d.minus = true
		case '+':
			d.plus = true
		case ' ':
			d.space = true
		case '#':
			d.alt = true
		case '0':
			d.zero = true
		default:
			break flags
		}
	}
	number := func() int {
		if at() == '*' {
			i++
			return int(int32(a.next(4)))
		}
		v := 0
		for ; at() >= '0' && at() <= '9'; i++ {
			v = min(v*10+int(at()-'0'), maxWidth)
		}
		return v
	}
	if d.width = number(); d.width < 0 {
		d.minus, d.width = true, -d.width
	}
	d.width, d.precision = min(d.width, maxWidth), -1
	if at() == '.' {
		i++
		d.precision = min(number(), maxWidth)
	}
	for ; strings.IndexByte("hlLqjzt", at()) >= 0 && at() != 0; i++ {
		d.wide = d.wide || at() != 'h'
	}
	d.verb = at()
	if d.verb == 0 || strings.IndexByte("diouxXcspfFeEgGaA%", d.verb) < 0 {
		return d, 0
	}
	return d, i + 1
}

// convert formats the next argument.
func (d *directive) convert(a *arguments) string {
	switch d.verb {
	case '%':
		return "%"
	case 'c':
		return d.pad("", string([]byte{byte(a.next(4))}), false)
	case 's':
		most := maxText
		if d.precision >= 0 {
			most = min(most, d.precision)
		}
		p := a.next(8)
		if p == 0 {
			return d.pad("", "(null)", false)
		}
		return d.pad("", a.read.text(p, most), false)
	case 'p':
		v := a.next(8)
		if v == 0 {
			return d.pad("", "(nil)", false)
		}
		return d.pad("0x", strconv.FormatUint(v, 16), false)
	case 'd', 'i':
		v := int64(int32(0))
		if d.wide {
			v = int64(a.next(8))
		} else {
			v = int64(int32(a.next(4)))
		}
		m := uint64(v)
		if v < 0 {
			m = -m
		}
		return d.integer(d.sign(v < 0), strconv.FormatUint(m, 10))
	case 'u', 'o', 'x', 'X':
		size := uint64(4)
		if d.wide {
			size = 8
		}
		return d.unsigned(a.next(size))
	}
	return d.float(math.Float64frombits(a.next(8)))
}

func (d *directive) sign(negative bool) string {
	switch {
	case negative:
		return "-"
	case d.plus:
		return "+"
	case d.space:
		return " "
	}
	return ""
}

func (d *directive) unsigned(v uint64) string {
	prefix, digits := "", ""
	switch d.verb {
	case 'o':
		digits = strconv.FormatUint(v, 8)
		if d.alt && digits[0] != '0' {
			digits = "0" + digits
		}
	case 'x':
		digits = strconv.FormatUint(v, 16)
	case 'X':
		digits = strings.ToUpper(strconv.FormatUint(v, 16))
	default:
		digits = strconv.FormatUint(v, 10)
	}
	if d.alt && v != 0 && (d.verb == 'x' || d.verb == 'X') {
		prefix = "0" + string(d.verb)
	}
	return d.integer(prefix, digits)
}

// integer applies the precision, which is the least number of digits.
func (d *directive) integer(prefix, digits string) string {
	if d.precision == 0 && digits == "0" {
		digits = ""
	}
	if d.precision > len(digits) {
		digits = strings.Repeat("0", d.precision-len(digits)) + digits
	}
	return d.pad(prefix, digits, d.zero && d.precision < 0)
}

func (d *directive) float(v float64) string {
	upper := d.verb >= 'A' && d.verb <= 'Z'
	verb := d.verb
	if upper {
		verb += 'a' - 'A'
	}
	prefix := d.sign(math.Signbit(v))
	v = math.Abs(v)
	digits, finite := "", true
	switch {
	case math.IsNaN(v):
		digits, finite = "nan", false
	case math.IsInf(v, 0):
		digits, finite = "inf", false
	case verb == 'a':
		prefix, digits = prefix+"0x", hexFloat(v, d.precision)
	case verb == 'g':
		digits = d.shortest(v)
	default:
		p := d.precision
		if p < 0 {
			p = 6
		}
		digits = strconv.FormatFloat(v, verb, p, 64)
		if d.alt && p == 0 {
			digits = withPoint(digits)
		}
	}
	if upper {
		prefix, digits = strings.ToUpper(prefix), strings.ToUpper(digits)
	}
	return d.pad(prefix, digits, d.zero && finite)
}

// withPoint adds the decimal point that the flag # asks for.
func withPoint(digits string) string {
	if i := strings.IndexByte(digits, 'e'); i >= 0 {
		return digits[:i] + "." + digits[i:]
	}
	return digits + "."
}

// shortest is %g: %e or %f by the exponent, without zeros at the end but with #.
func (d *directive) shortest(v float64) string {
	p := d.precision
	switch {
	case p < 0:
		p = 6
	case p == 0:
		p = 1
	}
	e := strconv.FormatFloat(v, 'e', p-1, 64)
	mantissa, exponent, _ := strings.Cut(e, "e")
	x, _ := strconv.Atoi(exponent) // FormatFloat writes a number there
	tail := "e" + exponent
	if x >= -4 && x < p {
		mantissa, tail = strconv.FormatFloat(v, 'f', p-1-x, 64), ""
	}
	switch {
	case d.alt && !strings.Contains(mantissa, "."):
		mantissa += "."
	case !d.alt && strings.Contains(mantissa, "."):
		mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
	}
	return mantissa + tail
}

// hexFloat is %a without sign and 0x.
func hexFloat(v float64, precision int) string {
	s := strings.TrimPrefix(strconv.FormatFloat(v, 'x', precision, 64), "0x")
	// Go writes two digits of exponent at least, C as few as possible.
	mantissa, exponent, _ := strings.Cut(s, "p")
	x, _ := strconv.Atoi(exponent) // FormatFloat writes a number there
	if x >= 0 {
		return mantissa + "p+" + strconv.Itoa(x)
	}
	return mantissa + "p" + strconv.Itoa(x)
}

// pad brings the text to the width.
func (d *directive) pad(prefix, text string, zeros bool) string {
	n := d.width - len(prefix) - len(text)
	switch {
	case n <= 0:
		return prefix + text
	case d.minus:
		return prefix + text + strings.Repeat(" ", n)
	case zeros:
		return prefix + strings.Repeat("0", n) + text
	}
	return strings.Repeat(" ", n) + prefix + text
}
