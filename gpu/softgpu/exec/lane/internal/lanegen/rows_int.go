package main

import (
	"fmt"
	"slices"
	"strings"
)

// intType is an integer type of the instruction set.
type intType struct {
	Name   string // "s32"
	Bits   int
	Signed bool
}

func intOf(bits int, signed bool) intType {
	name := fmt.Sprintf("u%d", bits)
	if signed {
		name = fmt.Sprintf("s%d", bits)
	}
	return intType{Name: name, Bits: bits, Signed: signed}
}

// Letter is the form letter of a register that holds the type.
func (t intType) Letter() string {
	if t.Bits == 64 {
		return "q"
	}
	return "w"
}

// As is an expression for a register's value as the Go type that computes like t.
func (t intType) As(x string) string {
	if t.Signed {
		if t.Bits < 32 {
			return fmt.Sprintf("int32(int%d(%s))", t.Bits, x)
		}
		return fmt.Sprintf("int%d(%s)", t.Bits, x)
	}
	return x
}

// Back makes a register value of an expression of the type that As gives.
func (t intType) Back(expr string) string {
	switch {
	case t.Bits < 32:
		return fmt.Sprintf("uint32(uint%d(%s))", t.Bits, expr)
	case t.Signed:
		return fmt.Sprintf("uint%d(%s)", t.Bits, expr)
	}
	return expr
}

var (
	u8, s8   = intOf(8, false), intOf(8, true)
	u16, s16 = intOf(16, false), intOf(16, true)
	u32, s32 = intOf(32, false), intOf(32, true)
	u64, s64 = intOf(64, false), intOf(64, true)

	intTypes = []intType{u16, s16, u32, s32, u64, s64}
)

// form repeats the letter of t for the result and n operands.
func form(t intType, n int) string {
	return t.Letter() + "=" + strings.Repeat(t.Letter(), n)
}

// sameForSigns are the operations that are the same for signed and unsigned.
func sameForSigns() (rows []row) {
	for _, t := range []intType{u16, u32, u64} {
		keys := func(op string) string {
			return fmt.Sprintf("%[1]s.u%[2]d %[1]s.s%[2]d %[1]s.b%[2]d", op, t.Bits)
		}
		for _, o := range []struct{ op, expr string }{
			{"add", "a+b"}, {"sub", "a-b"}, {"mul.lo", "a*b"}, {"and", "a&b"}, {"or", "a|b"}, {"xor", "a^b"},
		} {
			rows = append(rows, row{Keys: keys(o.op), Form: form(t, 2), Expr: t.Back(o.expr)})
		}
		rows = append(rows,
			row{Keys: keys("mad.lo"), Form: form(t, 3), Expr: t.Back("a*b+c")},
			row{Keys: keys("not"), Form: form(t, 1), Expr: t.Back("^a")},
			row{Keys: keys("neg"), Form: form(t, 1), Expr: t.Back("-a")},
			row{Keys: fmt.Sprintf("cnot.b%d", t.Bits), Form: form(t, 1), Expr: fmt.Sprintf("uint%d(bit(a==0))", max(t.Bits, 32))},
			row{Keys: fmt.Sprintf("shl.b%d", t.Bits), Form: t.Letter() + "=" + t.Letter() + "w", Expr: t.Back("a<<b")},
		)
	}
	for _, x := range []string{"32", "64"} {
		l := map[string]string{"32": "w", "64": "q"}[x]
		rows = append(rows,
			row{Keys: "mov." + x, Form: l + "=" + l, Expr: "a"},
			row{Keys: "selp." + x, Form: l + "=" + l + l + "p", Expr: "pick" + x + "(a, b, c)"},
			row{Keys: "slct." + x + ".s32", Form: l + "=" + l + l + "w", Expr: "pick" + x + "(a, b, ^c>>31)"},
			row{Keys: "slct." + x + ".f32", Form: l + "=" + l + l + "f", Expr: "pick" + x + "(a, b, bit(c >= 0))"},
			row{Keys: "slct.ftz." + x + ".f32", Form: l + "=" + l + l + "f", Expr: "pick" + x + "(a, b, bit(ftz(c) >= 0))"},
			row{Keys: "popc.b" + x, Form: "w=" + l, Expr: "uint32(bits.OnesCount" + x + "(a))"},
			row{Keys: "clz.b" + x, Form: "w=" + l, Expr: "uint32(bits.LeadingZeros" + x + "(a))"},
			row{Keys: "brev.b" + x, Form: l + "=" + l, Expr: "bits.Reverse" + x + "(a)"},
			row{Keys: "bfe.u" + x, Form: l + "=" + l + "ww", Expr: "bfeU" + x + "(a, b, c)"},
			row{Keys: "bfe.s" + x, Form: l + "=" + l + "ww", Expr: "bfeS" + x + "(a, b, c)", Slow: true},
			row{Keys: "bfi.b" + x, Form: l + "=" + l + l + "ww", Expr: "bfi" + x + "(a, b, c, e)", Slow: true},
			row{Keys: "bfind.u" + x, Form: "w=" + l, Expr: "uint32(bits.Len" + x + "(a)-1)"},
			row{Keys: "bfind.s" + x, Form: "w=" + l, Expr: "uint32(bits.Len" + x + "(a^uint" + x + "(int" + x + "(a)>>(" + x + "-1)))-1)"},
			row{Keys: "bfind.shiftamt.u" + x, Form: "w=" + l, Expr: "shiftAmount(uint32(bits.Len" + x + "(a)-1), " + x + ")"},
			row{Keys: "bfind.shiftamt.s" + x, Form: "w=" + l, Expr: "shiftAmount(uint32(bits.Len" + x + "(a^uint" + x + "(int" + x + "(a)>>(" + x + "-1)))-1), " + x + ")"},
		)
	}
	return rows
}

func integerRows() []row {
	rows := sameForSigns()
	for _, t := range intTypes {
		rows = append(rows, ofType(t)...)
	}
	return slices.Concat(rows, products24(), dotProducts(), packedExtremes(), bitRows)
}

// ofType are the operations whose results depend on the sign of a type.
func ofType(t intType) []row {
	a, b, c := t.As("a"), t.As("b"), t.As("c")
	l := t.Letter()
	shr := []string{"shr." + t.Name}
	if !t.Signed {
		shr = append(shr, fmt.Sprintf("shr.b%d", t.Bits))
	}
	sign := "U"
	if t.Signed {
		sign = "S"
	}
	rows := []row{
		{Keys: "min." + t.Name, Form: form(t, 2), Expr: t.Back("min(" + a + ", " + b + ")")},
		{Keys: "max." + t.Name, Form: form(t, 2), Expr: t.Back("max(" + a + ", " + b + ")")},
		{Keys: strings.Join(shr, " "), Form: l + "=" + l + "w", Expr: t.Back("(" + a + ">>b)")},
		{Keys: "sad." + t.Name, Form: form(t, 3), Expr: t.Back("max(" + a + ", " + b + ")-min(" + a + ", " + b + ")+" + c)},
		{Keys: "div." + t.Name, Form: form(t, 2), Expr: fmt.Sprintf("div%s%d(a, b)", sign, t.Bits), Slow: true},
		{Keys: "rem." + t.Name, Form: form(t, 2), Expr: fmt.Sprintf("rem%s%d(a, b)", sign, t.Bits), Slow: true},
		{Keys: "mul.hi." + t.Name, Form: form(t, 2), Expr: fmt.Sprintf("mulHi%s%d(a, b)", sign, t.Bits)},
		{Keys: "mad.hi." + t.Name, Form: form(t, 3), Expr: t.Back(fmt.Sprintf("mulHi%s%d(a, b)+c", sign, t.Bits))},
	}
	if t.Signed {
		rows = append(rows, row{Keys: "abs." + t.Name, Form: form(t, 1), Expr: t.Back("absInt(" + a + ")")})
	}
	return append(rows, wideProducts(t)...)
}

// wideProducts are the multiplications of a type whose results are larger, and the sums
// with saturation.
func wideProducts(t intType) []row {
	a, b := t.As("a"), t.As("b")
	switch {
	case t.Bits == 16:
		return []row{
			{Keys: "mul.wide." + t.Name, Form: "w=ww", Expr: "uint32(" + a + "*" + b + ")"},
			{Keys: "mad.wide." + t.Name, Form: "w=www", Expr: "uint32(" + a + "*" + b + ")+c"},
		}
	case t.Bits == 32 && t.Signed:
		return []row{
			{Keys: "mul.wide.s32", Form: "q=ww", Expr: "uint64(int64(int32(a))*int64(int32(b)))"},
			{Keys: "mad.wide.s32", Form: "q=wwq", Expr: "uint64(int64(int32(a))*int64(int32(b)))+c"},
			{Keys: "add.sat.s32", Form: "w=ww", Expr: "satS32(int64(int32(a))+int64(int32(b)))"},
			{Keys: "sub.sat.s32", Form: "w=ww", Expr: "satS32(int64(int32(a))-int64(int32(b)))"},
			{Keys: "mad.hi.sat.s32", Form: "w=www", Expr: "satS32(int64(int32(mulHiS32(a, b)))+int64(int32(c)))"},
		}
	case t.Bits == 32:
		return []row{
			{Keys: "mul.wide.u32", Form: "q=ww", Expr: "uint64(a)*uint64(b)"},
			{Keys: "mad.wide.u32", Form: "q=wwq", Expr: "uint64(a)*uint64(b)+c"},
		}
	}
	return nil
}

// products24 are the multiplications of the lower 24 bits.
func products24() (rows []row) {
	for _, t := range []intType{u32, s32} {
		a, b := "ext24U(a)", "ext24U(b)"
		if t.Signed {
			a, b = "ext24S(a)", "ext24S(b)"
		}
		rows = append(rows,
			row{Keys: "mul24.lo." + t.Name, Form: "w=ww", Expr: "uint32(" + a + "*" + b + ")"},
			row{Keys: "mul24.hi." + t.Name, Form: "w=ww", Expr: "uint32(" + a + "*" + b + ">>16)"},
			row{Keys: "mad24.lo." + t.Name, Form: "w=www", Expr: "uint32(" + a + "*" + b + ")+c"},
			row{Keys: "mad24.hi." + t.Name, Form: "w=www", Expr: "uint32(" + a + "*" + b + ">>16)+c"},
		)
	}
	return append(rows, row{Keys: "mad24.hi.sat.s32", Form: "w=www", Expr: "satS32(int64(int32(ext24S(a)*ext24S(b)>>16))+int64(int32(c)))"})
}

// dotProducts are the dot products of vectors in registers, and the modes of prmt.
func dotProducts() (rows []row) {
	for _, p := range []string{"u32.u32", "u32.s32", "s32.u32", "s32.s32"} {
		sa, sb := p[0] == 's', p[4] == 's'
		rows = append(rows,
			row{Keys: "dp4a." + p, Form: "w=www", Expr: fmt.Sprintf("dp4a(a, b, c, %v, %v)", sa, sb), Slow: true},
			row{Keys: "dp2a.lo." + p, Form: "w=www", Expr: fmt.Sprintf("dp2a(a, b, c, %v, %v)", sa, sb), Slow: true},
			row{Keys: "dp2a.hi." + p, Form: "w=www", Expr: fmt.Sprintf("dp2a(a, b>>16, c, %v, %v)", sa, sb), Slow: true},
		)
	}
	for _, m := range []string{"f4e", "b4e", "rc8", "ecl", "ecr", "rc16"} {
		rows = append(rows, row{Keys: "prmt." + m + ".b32", Form: "w=www", Expr: "prmt(a, b, prmt" + strings.ToUpper(m) + "(c))", Slow: true})
	}
	return rows
}

// packedExtremes are the minima and maxima of packed halves, and those with .relu.
func packedExtremes() (rows []row) {
	for _, op := range []string{"min", "max"} {
		rows = append(rows,
			row{Keys: op + ".relu.s32", Form: "w=ww", Expr: "uint32(max(" + op + "(int32(a), int32(b)), 0))"},
			row{Keys: op + ".u16x2", Form: "w=ww", Expr: op + "(a&0xffff, b&0xffff)|" + op + "(a>>16, b>>16)<<16"},
			row{Keys: op + ".s16x2", Form: "w=ww", Expr: "pack16(" + op + "(int16(a), int16(b)), " + op + "(int16(a>>16), int16(b>>16)))"},
			row{Keys: op + ".relu.s16x2", Form: "w=ww", Expr: "pack16(max(" + op + "(int16(a), int16(b)), 0), max(" + op + "(int16(a>>16), int16(b>>16)), 0))"})
	}
	return rows
}

// bitRows are the operations on bits, and the packing and unpacking of vectors by mov.
var bitRows = []row{
	{Keys: "add.u16x2 add.s16x2", Form: "w=ww", Expr: "(a+b)&0xffff|(a>>16+b>>16)<<16"},
	{Keys: "prmt.b32", Form: "w=www", Expr: "prmt(a, b, c)", Slow: true},
	{Keys: "lop3.b32", Form: "w=www", Expr: "lop3(a, b, c, in.Imm)", Slow: true},
	{Keys: "shf.l.wrap.b32", Form: "w=www", Expr: "uint32((uint64(b)<<32|uint64(a))<<(c&31)>>32)"},
	{Keys: "shf.l.clamp.b32", Form: "w=www", Expr: "uint32((uint64(b)<<32|uint64(a))<<min(c, 32)>>32)"},
	{Keys: "shf.r.wrap.b32", Form: "w=www", Expr: "uint32((uint64(b)<<32|uint64(a))>>(c&31))"},
	{Keys: "shf.r.clamp.b32", Form: "w=www", Expr: "uint32((uint64(b)<<32|uint64(a))>>min(c, 32))"},
	{Keys: "fns.b32", Form: "w=www", Expr: "fns(a, b, int32(c))", Slow: true},
	{Keys: "bmsk.clamp.b32", Form: "w=ww", Expr: "bmskClamp(a, b)", Slow: true},
	{Keys: "bmsk.wrap.b32", Form: "w=ww", Expr: "bmskClamp(a&31, b&31)", Slow: true},
	{Keys: "szext.clamp.u32", Form: "w=ww", Expr: "zext(a, b)", Slow: true},
	{Keys: "szext.wrap.u32", Form: "w=ww", Expr: "zext(a, b&31)", Slow: true},
	{Keys: "szext.clamp.s32", Form: "w=ww", Expr: "sext(a, b)", Slow: true},
	{Keys: "szext.wrap.s32", Form: "w=ww", Expr: "sext(a, b&31)", Slow: true},

	// Vectors.
	{Keys: "pack.b32", Form: "w=ww", Expr: "a&0xffff|b<<16"},
	{Keys: "pack.b64", Form: "q=ww", Expr: "uint64(a)|uint64(b)<<32"},
	{Keys: "pack4.b64", Form: "q=wwww", Expr: "uint64(a&0xffff)|uint64(b&0xffff)<<16|uint64(c&0xffff)<<32|uint64(e)<<48"},
	{Keys: "pack4.b32", Form: "w=wwww", Expr: "a&0xff|b&0xff<<8|c&0xff<<16|e<<24"},
	{Keys: "pack.b16", Form: "w=ww", Expr: "a&0xff|b&0xff<<8"},
	{Keys: "field.b32", Form: "w=w", Expr: "a>>(in.Imm&31)&uint32(in.Imm>>32)"},
	{Keys: "field.b64", Form: "w=q", Expr: "uint32(a>>(in.Imm&63))&uint32(in.Imm>>32)"},
}
