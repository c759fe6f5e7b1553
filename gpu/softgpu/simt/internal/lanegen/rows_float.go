package main

import "fmt"

// floatRows are the floating-point operations. In the expressions of those that
// exist with .ftz, {a} stands for an operand, flushed where .ftz asks for it;
// ftz is the expression of the flushed result, the flushed plain one if empty.
func floatRows() []row {
	var rows []row
	f32x := func(op, mods, form, expr, ftz string, slow bool) {
		if ftz == "" {
			ftz = "ftz(" + expr + ")"
		}
		rows = append(rows,
			row{Keys: op + mods + ".f32", Form: form, Expr: expandOperands(expr, false), Slow: slow},
			row{Keys: op + mods + ".ftz.f32", Form: form, Expr: expandOperands(ftz, true), Slow: slow})
	}
	f32 := func(op, mods, form, expr string, slow bool) { f32x(op, mods, form, expr, "", slow) }
	withSat := func(op, mods, form, expr, ftz string, slow bool) {
		f32x(op, mods, form, expr, ftz, slow)
		n := len(rows)
		rows = append(rows,
			row{Keys: op + mods + ".sat.f32", Form: form, Expr: "sat01(" + rows[n-2].Expr + ")", Slow: slow},
			row{Keys: op + mods + ".ftz.sat.f32", Form: form, Expr: "sat01(" + rows[n-1].Expr + ")", Slow: slow})
	}

	withSat("add", "", "f=ff", "{a}+{b}", "", false)
	withSat("sub", "", "f=ff", "{a}-{b}", "", false)
	withSat("mul", "", "f=ff", "{a}*{b}", "mulFTZ({a}, {b})", false)
	withSat("fma", "", "f=fff", "fmaRound32({a}, {b}, {c}, rn)", "fmaFTZ({a}, {b}, {c}, rn)", true)
	// Sums that take in a product (see contract.go).
	withSat("fms", "", "f=fff", "fmaRound32({a}, {b}, -{c}, rn)", "fmaFTZ({a}, {b}, -{c}, rn)", true)
	withSat("fnma", "", "f=fff", "fmaRound32(-{a}, {b}, {c}, rn)", "fmaFTZ(-{a}, {b}, {c}, rn)", true)
	withSat("fnms", "", "f=fff", "fmaRound32(-{a}, {b}, -{c}, rn)", "fmaFTZ(-{a}, {b}, -{c}, rn)", true)
	doubles := map[string]string{
		"fma": "float64({a})*float64({b}) + float64({c})", "fms": "float64({a})*float64({b}) - float64({c})",
		"fnma": "float64({c}) - float64({a})*float64({b})", "fnms": "-float64({a})*float64({b}) - float64({c})",
	}
	for i := range rows {
		for op, expr := range doubles {
			switch rows[i].Keys {
			case op + ".f32":
				rows[i].Double = expandOperands(expr, false)
			case op + ".ftz.f32":
				rows[i].Double = expandOperands(expr, true)
			}
		}
	}
	f32x("div", "", "f=ff", "{a}/{b}", "divFTZ({a}, {b})", false)
	f32x("rcp", "", "f=f", "1/{a}", "divFTZ(1, {a})", false)
	f32("sqrt", "", "f=f", "float32(math.Sqrt(float64({a})))", false)
	for _, m := range []string{"rz", "rm", "rp"} {
		withSat("add", "."+m, "f=ff", "add32({a}, {b}, "+m+")", "", true)
		withSat("sub", "."+m, "f=ff", "add32({a}, -{b}, "+m+")", "", true)
		withSat("mul", "."+m, "f=ff", "mul32({a}, {b}, "+m+")", "flushTiny(float64({a})*float64({b}), "+m+")", true)
		withSat("fma", "."+m, "f=fff", "fmaRound32({a}, {b}, {c}, "+m+")", "fmaFTZ({a}, {b}, {c}, "+m+")", true)
		f32x("div", "."+m, "f=ff", "div32({a}, {b}, "+m+")", "flushTiny(quotient({a}, {b}), "+m+")", true)
		f32x("rcp", "."+m, "f=f", "div32(1, {a}, "+m+")", "flushTiny(quotient(1, {a}), "+m+")", true)
		f32("sqrt", "."+m, "f=f", "sqrt32({a}, "+m+")", true)
	}
	f32("div", ".approx", "f=ff", "divApprox({a}, {b})", false)
	f32("div", ".full", "f=ff", "{a}/{b}", false)
	f32("rcp", ".approx", "f=f", "1/{a}", false)
	f32("sqrt", ".approx", "f=f", "float32(math.Sqrt(float64({a})))", false)
	f32("rsqrt", ".approx", "f=f", "float32(1/math.Sqrt(float64({a})))", false)
	f32("sin", ".approx", "f=f", "sinApprox({a})", true)
	f32("cos", ".approx", "f=f", "cosApprox({a})", true)
	f32("lg2", ".approx", "f=f", "lg2Approx({a})", true)
	f32("ex2", ".approx", "f=f", "ex2Approx({a})", true)
	rows = append(rows, row{Keys: "tanh.approx.f32", Form: "f=f", Expr: "float32(math.Tanh(float64(a)))", Slow: true})
	f32("min", "", "f=ff", "min32({a}, {b})", false)
	f32("max", "", "f=ff", "max32({a}, {b})", false)
	for _, op := range []string{"min", "max"} {
		for _, ftz := range []string{"", ".ftz"} {
			a, b := flush("a", ftz != ""), flush("b", ftz != "")
			rows = append(rows,
				row{Keys: op + ftz + ".NaN.f32", Form: "f=ff", Expr: fmt.Sprintf("%s(%s, %s)", op, a, b)},
				row{Keys: op + ftz + ".xorsign.abs.f32", Form: "f=ff", Expr: fmt.Sprintf("xorSign(%s32(abs32(%s), abs32(%s)), %s, %s)", op, a, b, a, b), Slow: true},
				row{Keys: op + ftz + ".NaN.xorsign.abs.f32", Form: "f=ff", Expr: fmt.Sprintf("xorSign(%s(abs32(%s), abs32(%s)), %s, %s)", op, a, b, a, b), Slow: true})
		}
	}
	rows = append(rows,
		row{Keys: "neg.f32", Form: "f=f", Expr: "-a"},
		row{Keys: "neg.ftz.f32", Form: "f=f", Expr: "-ftz(a)"},
		row{Keys: "abs.f32", Form: "f=f", Expr: "abs32(a)"},
		row{Keys: "abs.ftz.f32", Form: "f=f", Expr: "abs32(ftz(a))"},
		row{Keys: "copysign.f32", Form: "w=ww", Expr: "b&(1<<31-1)|a&(1<<31)"},
	)
	rows = append(rows, doubleRows()...)
	return append(rows, halfRows()...)
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

// halfRows are f16, bf16 and their packed forms: each computes in float32 or
// float64 and rounds once (fma to odd in between).
func halfRows() []row {
	var rows []row
	for _, t := range []struct{ name, dec, enc, fma, canon, sat string }{
		{"f16", "f16to32", "f16from32", "fmaF16", "canonF16", "sat01"},
		{"bf16", "bf16to32", "bf16from32", "fmaBF16", "canonBF16", "sat01"},
	} {
		add := func(op, form, expr string) {
			rows = append(rows, row{Keys: op + "." + t.name, Form: form, Expr: expr, Slow: true})
			// The packed form computes both halves.
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
			rows[len(rows)-1].Expr = lo
			rows = append(rows, row{Keys: op + "." + t.name + "x2", Form: form, Expr: lo + "|" + hi + "<<16", Slow: true})
		}
		d := func(x string) string { return t.dec + "({" + x + "})" }
		arith := func(op, form, expr string) {
			add(op, form, t.enc+"("+expr+")")
			add(op+".sat", form, t.enc+"("+t.sat+"("+expr+"))")
			if t.name == "f16" {
				add(op+".ftz", form, "ftzF16("+t.enc+"("+ftzHalf(expr)+"))")
				add(op+".ftz.sat", form, t.enc+"("+t.sat+"(f16to32(ftzF16("+t.enc+"("+ftzHalf(expr)+")))))")
			}
		}
		arith("add", "w=ww", d("a")+"+"+d("b"))
		arith("sub", "w=ww", d("a")+"-"+d("b"))
		arith("mul", "w=ww", d("a")+"*"+d("b"))
		for _, op := range []struct{ name, a, c string }{
			{"fma", "{a}", "{c}"}, {"fms", "{a}", "({c}^0x8000)"}, {"fnma", "({a}^0x8000)", "{c}"}, {"fnms", "({a}^0x8000)", "({c}^0x8000)"},
		} {
			operands := op.a + ", {b}, " + op.c
			add(op.name, "w=www", t.fma+"("+operands+", 0)")
			add(op.name+".sat", "w=www", t.fma+"("+operands+", halfSat)")
			add(op.name+".relu", "w=www", t.fma+"("+operands+", halfRelu)")
			if op.name == "fma" {
				add("fma.oob", "w=www", t.fma+"("+operands+", halfOOB)")
				add("fma.relu.oob", "w=www", t.fma+"("+operands+", halfRelu|halfOOB)")
			}
			if t.name == "f16" {
				operands = "ftzF16(" + op.a + "), ftzF16({b}), ftzF16(" + op.c + ")"
				add(op.name+".ftz", "w=www", t.fma+"("+operands+", halfFTZ)")
				add(op.name+".ftz.sat", "w=www", t.fma+"("+operands+", halfSat|halfFTZ)")
				add(op.name+".ftz.relu", "w=www", t.fma+"("+operands+", halfRelu|halfFTZ)")
			}
		}
		add("neg", "w=w", t.canon+"({a}^0x8000)")
		add("abs", "w=w", t.canon+"({a}&0x7fff)")
		if t.name == "f16" {
			add("neg.ftz", "w=w", "canonF16(ftzF16({a})^0x8000)")
			add("abs.ftz", "w=w", "canonF16(ftzF16({a})&0x7fff)")
		}
		for _, op := range []string{"min", "max"} {
			add(op, "w=ww", t.enc+"("+op+"32("+d("a")+", "+d("b")+"))")
			add(op+".NaN", "w=ww", t.enc+"("+op+"("+d("a")+", "+d("b")+"))")
			xor := func(f, a, b string) string {
				return t.enc + "(xorSign(" + f + "(abs32(" + a + "), abs32(" + b + ")), " + a + ", " + b + "))"
			}
			add(op+".xorsign.abs", "w=ww", xor(op+"32", d("a"), d("b")))
			add(op+".NaN.xorsign.abs", "w=ww", xor(op, d("a"), d("b")))
			if t.name == "f16" {
				add(op+".ftz", "w=ww", t.enc+"("+op+"32("+ftzHalf(d("a")+", "+d("b"))+"))")
				add(op+".ftz.NaN", "w=ww", t.enc+"("+op+"("+ftzHalf(d("a")+", "+d("b"))+"))")
				add(op+".ftz.xorsign.abs", "w=ww", xor(op+"32", ftzHalf(d("a")), ftzHalf(d("b"))))
				add(op+".ftz.NaN.xorsign.abs", "w=ww", xor(op, ftzHalf(d("a")), ftzHalf(d("b"))))
			}
		}
		add("ex2.approx", "w=w", t.enc+"(ex2Approx("+d("a")+"))")
		add("tanh.approx", "w=w", t.enc+"(float32(math.Tanh(float64("+d("a")+"))))")
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
