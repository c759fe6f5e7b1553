package main

import (
	"cmp"
	"fmt"
	"slices"
)

// singles are operations of f32, each with its .ftz form. In their expressions {a} stands for
// an operand, flushed where .ftz asks for it; ftz is the expression of the flushed result.
type singles []row

func (s *singles) flushed(op, mods, form, expr, ftz string, slow bool) {
	*s = append(*s,
		row{Keys: op + mods + ".f32", Form: form, Expr: expandOperands(expr, false), Slow: slow},
		row{Keys: op + mods + ".ftz.f32", Form: form, Expr: expandOperands(ftz, true), Slow: slow})
}

// plain adds an operation whose flushed result is the plain one, flushed.
func (s *singles) plain(op, mods, form, expr string, slow bool) {
	s.flushed(op, mods, form, expr, "ftz("+expr+")", slow)
}

// saturated adds an operation that exists with .sat too. ftz is empty if the flushed result
// is the plain one, flushed.
func (s *singles) saturated(op, mods, form, expr, ftz string, slow bool) {
	s.flushed(op, mods, form, expr, cmp.Or(ftz, "ftz("+expr+")"), slow)
	n := len(*s)
	*s = append(*s,
		row{Keys: op + mods + ".sat.f32", Form: form, Expr: "sat01(" + (*s)[n-2].Expr + ")", Slow: slow},
		row{Keys: op + mods + ".ftz.sat.f32", Form: form, Expr: "sat01(" + (*s)[n-1].Expr + ")", Slow: slow})
}

// nearest adds the arithmetic that rounds to nearest.
func (s *singles) nearest() {
	s.saturated("add", "", "f=ff", "{a}+{b}", "", false)
	s.saturated("sub", "", "f=ff", "{a}-{b}", "", false)
	s.saturated("mul", "", "f=ff", "{a}*{b}", "mulFTZ({a}, {b})", false)
	s.saturated("fma", "", "f=fff", "fmaRound32({a}, {b}, {c}, rn)", "fmaFTZ({a}, {b}, {c}, rn)", true)
	// Sums that take in a product (see contract.go).
	s.saturated("fms", "", "f=fff", "fmaRound32({a}, {b}, -{c}, rn)", "fmaFTZ({a}, {b}, -{c}, rn)", true)
	s.saturated("fnma", "", "f=fff", "fmaRound32(-{a}, {b}, {c}, rn)", "fmaFTZ(-{a}, {b}, {c}, rn)", true)
	s.saturated("fnms", "", "f=fff", "fmaRound32(-{a}, {b}, -{c}, rn)", "fmaFTZ(-{a}, {b}, -{c}, rn)", true)
	doubles := map[string]string{
		"fma": "float64({a})*float64({b}) + float64({c})", "fms": "float64({a})*float64({b}) - float64({c})",
		"fnma": "float64({c}) - float64({a})*float64({b})", "fnms": "-float64({a})*float64({b}) - float64({c})",
	}
	for i := range *s {
		r := &(*s)[i]
		for op, expr := range doubles {
			switch r.Keys {
			case op + ".f32":
				r.Double = expandOperands(expr, false)
			case op + ".ftz.f32":
				r.Double = expandOperands(expr, true)
			}
		}
	}
	s.flushed("div", "", "f=ff", "{a}/{b}", "divFTZ({a}, {b})", false)
	s.flushed("rcp", "", "f=f", "1/{a}", "divFTZ(1, {a})", false)
	s.plain("sqrt", "", "f=f", "float32(math.Sqrt(float64({a})))", false)
}

// directed adds the arithmetic that rounds otherwise.
func (s *singles) directed() {
	for _, m := range []string{"rz", "rm", "rp"} {
		s.saturated("add", "."+m, "f=ff", "add32({a}, {b}, "+m+")", "", true)
		s.saturated("sub", "."+m, "f=ff", "add32({a}, -{b}, "+m+")", "", true)
		s.saturated("mul", "."+m, "f=ff", "mul32({a}, {b}, "+m+")", "flushTiny(float64({a})*float64({b}), "+m+")", true)
		s.saturated("fma", "."+m, "f=fff", "fmaRound32({a}, {b}, {c}, "+m+")", "fmaFTZ({a}, {b}, {c}, "+m+")", true)
		s.flushed("div", "."+m, "f=ff", "div32({a}, {b}, "+m+")", "flushTiny(quotient({a}, {b}), "+m+")", true)
		s.flushed("rcp", "."+m, "f=f", "div32(1, {a}, "+m+")", "flushTiny(quotient(1, {a}), "+m+")", true)
		s.plain("sqrt", "."+m, "f=f", "sqrt32({a}, "+m+")", true)
	}
}

// approximate adds the operations that need not round correctly.
func (s *singles) approximate() {
	s.plain("div", ".approx", "f=ff", "divApprox({a}, {b})", false)
	s.plain("div", ".full", "f=ff", "{a}/{b}", false)
	s.plain("rcp", ".approx", "f=f", "1/{a}", false)
	s.plain("sqrt", ".approx", "f=f", "float32(math.Sqrt(float64({a})))", false)
	s.plain("rsqrt", ".approx", "f=f", "float32(1/math.Sqrt(float64({a})))", false)
	s.plain("sin", ".approx", "f=f", "sinApprox({a})", true)
	s.plain("cos", ".approx", "f=f", "cosApprox({a})", true)
	s.plain("lg2", ".approx", "f=f", "lg2Approx({a})", true)
	s.plain("ex2", ".approx", "f=f", "ex2Approx({a})", true)
	*s = append(*s, row{Keys: "tanh.approx.f32", Form: "f=f", Expr: "float32(math.Tanh(float64(a)))", Slow: true})
}

// extremes adds the minima and maxima.
func (s *singles) extremes() {
	s.plain("min", "", "f=ff", "min32({a}, {b})", false)
	s.plain("max", "", "f=ff", "max32({a}, {b})", false)
	for _, op := range []string{"min", "max"} {
		for _, ftz := range []string{"", ".ftz"} {
			a, b := flush("a", ftz != ""), flush("b", ftz != "")
			*s = append(*s,
				row{Keys: op + ftz + ".NaN.f32", Form: "f=ff", Expr: fmt.Sprintf("%s(%s, %s)", op, a, b)},
				row{Keys: op + ftz + ".xorsign.abs.f32", Form: "f=ff", Expr: fmt.Sprintf("xorSign(%s32(abs32(%s), abs32(%s)), %s, %s)", op, a, b, a, b), Slow: true},
				row{Keys: op + ftz + ".NaN.xorsign.abs.f32", Form: "f=ff", Expr: fmt.Sprintf("xorSign(%s(abs32(%s), abs32(%s)), %s, %s)", op, a, b, a, b), Slow: true})
		}
	}
}

// signRows are the operations of f32 on the sign.
var signRows = []row{
	{Keys: "neg.f32", Form: "f=f", Expr: "-a"},
	{Keys: "neg.ftz.f32", Form: "f=f", Expr: "-ftz(a)"},
	{Keys: "abs.f32", Form: "f=f", Expr: "abs32(a)"},
	{Keys: "abs.ftz.f32", Form: "f=f", Expr: "abs32(ftz(a))"},
	{Keys: "copysign.f32", Form: "w=ww", Expr: "b&(1<<31-1)|a&(1<<31)"},
}

// floatRows are the floating-point operations.
func floatRows() []row {
	var s singles
	s.nearest()
	s.directed()
	s.approximate()
	s.extremes()
	return slices.Concat(s, signRows, doubleRows(), halfRows())
}

// expandOperands replaces {a} by a or by a flushed.
func expandOperands(expr string, ftz bool) string {
	out := ""
	for i := 0; i < len(expr); i++ {
		if expr[i] == '{' {
			out += flush(expr[i+1:i+2], ftz)
			i += 2
			continue
		}
		out += expr[i : i+1]
	}
	return out
}

func flush(x string, ftz bool) string {
	if ftz {
		return "ftz(" + x + ")"
	}
	return x
}

func doubleRows() []row {
	rows := []row{
		{Keys: "add.f64", Form: "g=gg", Expr: "fix64(a+b, a, b)"},
		{Keys: "sub.f64", Form: "g=gg", Expr: "fix64(a-b, a, b)"},
		{Keys: "mul.f64", Form: "g=gg", Expr: "fix64(a*b, a, b)"},
		{Keys: "fma.f64", Form: "g=ggg", Expr: "fixFMA(math.FMA(a, b, c), a, b, c)", Slow: true},
		{Keys: "fms.f64", Form: "g=ggg", Expr: "fixFMA(math.FMA(a, b, -c), a, b, c)", Slow: true},
		{Keys: "fnma.f64", Form: "g=ggg", Expr: "fixFMA(math.FMA(-a, b, c), a, b, c)", Slow: true},
		{Keys: "fnms.f64", Form: "g=ggg", Expr: "fixFMA(math.FMA(-a, b, -c), a, b, c)", Slow: true},
		{Keys: "div.f64", Form: "g=gg", Expr: "a/b"},
		{Keys: "rcp.f64", Form: "g=g", Expr: "1/a"},
		{Keys: "sqrt.f64", Form: "g=g", Expr: "math.Sqrt(a)"},
		{Keys: "rsqrt.approx.f64", Form: "g=g", Expr: "rsqrt64(a)", Slow: true},
		{Keys: "rcp.approx.ftz.f64", Form: "g=g", Expr: "rcpApprox64(a)", Slow: true},
		{Keys: "rsqrt.approx.ftz.f64", Form: "g=g", Expr: "rsqrtApprox64(a)", Slow: true},
		{Keys: "min.f64", Form: "g=gg", Expr: "min64(a, b)"},
		{Keys: "max.f64", Form: "g=gg", Expr: "max64(a, b)"},
		{Keys: "neg.f64", Form: "q=q", Expr: "neg64(a)"},
		{Keys: "abs.f64", Form: "q=q", Expr: "abs64(a)"},
		{Keys: "copysign.f64", Form: "q=qq", Expr: "b&(1<<63-1)|a&(1<<63)"},
	}
	for _, m := range []string{"rz", "rm", "rp"} {
		rows = append(rows,
			row{Keys: "add." + m + ".f64", Form: "g=gg", Expr: "add64(a, b, " + m + ")", Slow: true},
			row{Keys: "sub." + m + ".f64", Form: "g=gg", Expr: "sub64(a, b, " + m + ")", Slow: true},
			row{Keys: "mul." + m + ".f64", Form: "g=gg", Expr: "mul64(a, b, " + m + ")", Slow: true},
			row{Keys: "fma." + m + ".f64", Form: "g=ggg", Expr: "fma64(a, b, c, " + m + ")", Slow: true},
			row{Keys: "div." + m + ".f64", Form: "g=gg", Expr: "div64(a, b, " + m + ")", Slow: true},
			row{Keys: "rcp." + m + ".f64", Form: "g=g", Expr: "div64(1, a, " + m + ")", Slow: true},
			row{Keys: "sqrt." + m + ".f64", Form: "g=g", Expr: "sqrt64(a, " + m + ")", Slow: true})
	}
	return rows
}

// halves are operations of f16 or bf16 and their packed forms: each computes in float32 or
// float64 and rounds once (fma to odd in between).
type halves struct {
	name            string
	from            string // widens to float32
	enc, fma, canon string
	rows            []row
}

// dec is the float32 of an operand.
func (h *halves) dec(x string) string { return h.from + "({" + x + "})" }

// add adds an operation, whose packed form computes both halves.
func (h *halves) add(op, form, expr string) {
	lo, hi := "", ""
	for i := 0; i < len(expr); i++ {
		if expr[i] == '{' {
			lo += "(" + expr[i+1:i+2] + "&0xffff)"
			hi += "(" + expr[i+1:i+2] + ">>16)"
			i += 2
			continue
		}
		lo += expr[i : i+1]
		hi += expr[i : i+1]
	}
	h.rows = append(h.rows,
		row{Keys: op + "." + h.name, Form: form, Expr: lo, Slow: true},
		row{Keys: op + "." + h.name + "x2", Form: form, Expr: lo + "|" + hi + "<<16", Slow: true})
}

// arith adds an operation that exists with .sat, and with .ftz for f16.
func (h *halves) arith(op, form, expr string) {
	h.add(op, form, h.enc+"("+expr+")")
	h.add(op+".sat", form, h.enc+"(sat01("+expr+"))")
	if h.name == "f16" {
		h.add(op+".ftz", form, "ftzF16("+h.enc+"("+ftzHalf(expr)+"))")
		h.add(op+".ftz.sat", form, h.enc+"(sat01(f16to32(ftzF16("+h.enc+"("+ftzHalf(expr)+")))))")
	}
}

// sum adds fma or one of its kin; a and c are its operands, perhaps negated.
func (h *halves) sum(name, a, c string) {
	operands := a + ", {b}, " + c
	h.add(name, "w=www", h.fma+"("+operands+", 0)")
	h.add(name+".sat", "w=www", h.fma+"("+operands+", halfSat)")
	h.add(name+".relu", "w=www", h.fma+"("+operands+", halfRelu)")
	if name == "fma" {
		h.add("fma.oob", "w=www", h.fma+"("+operands+", halfOOB)")
		h.add("fma.relu.oob", "w=www", h.fma+"("+operands+", halfRelu|halfOOB)")
	}
	if h.name == "f16" {
		operands = "ftzF16(" + a + "), ftzF16({b}), ftzF16(" + c + ")"
		h.add(name+".ftz", "w=www", h.fma+"("+operands+", halfFTZ)")
		h.add(name+".ftz.sat", "w=www", h.fma+"("+operands+", halfSat|halfFTZ)")
		h.add(name+".ftz.relu", "w=www", h.fma+"("+operands+", halfRelu|halfFTZ)")
	}
}

// signs adds neg and abs.
func (h *halves) signs() {
	h.add("neg", "w=w", h.canon+"({a}^0x8000)")
	h.add("abs", "w=w", h.canon+"({a}&0x7fff)")
	if h.name == "f16" {
		h.add("neg.ftz", "w=w", "canonF16(ftzF16({a})^0x8000)")
		h.add("abs.ftz", "w=w", "canonF16(ftzF16({a})&0x7fff)")
	}
}

// extremes adds the minima and maxima.
func (h *halves) extremes() {
	for _, op := range []string{"min", "max"} {
		h.add(op, "w=ww", h.enc+"("+op+"32("+h.dec("a")+", "+h.dec("b")+"))")
		h.add(op+".NaN", "w=ww", h.enc+"("+op+"("+h.dec("a")+", "+h.dec("b")+"))")
		xor := func(f, a, b string) string {
			return h.enc + "(xorSign(" + f + "(abs32(" + a + "), abs32(" + b + ")), " + a + ", " + b + "))"
		}
		h.add(op+".xorsign.abs", "w=ww", xor(op+"32", h.dec("a"), h.dec("b")))
		h.add(op+".NaN.xorsign.abs", "w=ww", xor(op, h.dec("a"), h.dec("b")))
		if h.name == "f16" {
			h.add(op+".ftz", "w=ww", h.enc+"("+op+"32("+ftzHalf(h.dec("a")+", "+h.dec("b"))+"))")
			h.add(op+".ftz.NaN", "w=ww", h.enc+"("+op+"("+ftzHalf(h.dec("a")+", "+h.dec("b"))+"))")
			h.add(op+".ftz.xorsign.abs", "w=ww", xor(op+"32", ftzHalf(h.dec("a")), ftzHalf(h.dec("b"))))
			h.add(op+".ftz.NaN.xorsign.abs", "w=ww", xor(op, ftzHalf(h.dec("a")), ftzHalf(h.dec("b"))))
		}
	}
}

func halfRows() []row {
	var rows []row
	for _, h := range []halves{
		{name: "f16", from: "f16to32", enc: "f16from32", fma: "fmaF16", canon: "canonF16"},
		{name: "bf16", from: "bf16to32", enc: "bf16from32", fma: "fmaBF16", canon: "canonBF16"},
	} {
		h.arith("add", "w=ww", h.dec("a")+"+"+h.dec("b"))
		h.arith("sub", "w=ww", h.dec("a")+"-"+h.dec("b"))
		h.arith("mul", "w=ww", h.dec("a")+"*"+h.dec("b"))
		h.sum("fma", "{a}", "{c}")
		h.sum("fms", "{a}", "({c}^0x8000)")
		h.sum("fnma", "({a}^0x8000)", "{c}")
		h.sum("fnms", "({a}^0x8000)", "({c}^0x8000)")
		h.signs()
		h.extremes()
		h.add("ex2.approx", "w=w", h.enc+"(ex2Approx("+h.dec("a")+"))")
		h.add("tanh.approx", "w=w", h.enc+"(float32(math.Tanh(float64("+h.dec("a")+"))))")
		rows = append(rows, h.rows...)
	}
	return append(rows,
		row{Keys: "ex2.approx.ftz.bf16", Form: "w=w", Expr: "bf16from32(ftz(ex2Approx(ftz(bf16to32(a & 0xffff)))))", Slow: true},
		row{Keys: "ex2.approx.ftz.bf16x2", Form: "w=w", Expr: "bf16from32(ftz(ex2Approx(ftz(bf16to32(a & 0xffff)))))|bf16from32(ftz(ex2Approx(ftz(bf16to32(a >> 16)))))<<16", Slow: true},
	)
}

// ftzHalf flushes the operands of an f16 expression.
func ftzHalf(expr string) string {
	out := ""
	for i := 0; i < len(expr); i++ {
		if expr[i] == '{' {
			out += "ftzF16({" + expr[i+1:i+2] + "})"
			i += 2
			continue
		}
		out += expr[i : i+1]
	}
	return out
}
