package main

import "fmt"

// compareRows are the comparisons of setp and set, and the tests of testp.
func compareRows() []row {
	var rows []row
	ops := []struct{ name, op string }{{"eq", "=="}, {"ne", "!="}, {"lt", "<"}, {"le", "<="}, {"gt", ">"}, {"ge", ">="}}
	unsigned := map[string]string{"lt": "lo", "le": "ls", "gt": "hi", "ge": "hs"}
	for _, t := range intTypes {
		for _, o := range ops {
			equality := o.name == "eq" || o.name == "ne"
			if t.Signed && equality {
				continue // the same as unsigned
			}
			keys := o.name + "." + t.Name
			if equality {
				keys += fmt.Sprintf(" %s.s%d %s.b%d", o.name, t.Bits, o.name, t.Bits)
			} else if !t.Signed {
				keys += " " + unsigned[o.name] + "." + t.Name
			}
			a, b := t.As("a"), t.As("b")
			rows = append(rows, row{Keys: keys, Form: "?=" + t.Letter() + t.Letter(), Expr: a + o.op + b})
		}
	}
	for _, t := range []struct{ name, letter, dec string }{
		{name: "f32", letter: "f", dec: "%s"},
		{name: "ftz.f32", letter: "f", dec: "ftz(%s)"},
		{name: "f64", letter: "g", dec: "%s"},
		{name: "f16", letter: "w", dec: "f16to32(%s&0xffff)"},
		{name: "ftz.f16", letter: "w", dec: "f16to32(ftzF16(%s&0xffff))"},
		{name: "bf16", letter: "w", dec: "bf16to32(%s&0xffff)"},
	} {
		a, b := fmt.Sprintf(t.dec, "a"), fmt.Sprintf(t.dec, "b")
		slow := t.letter == "w"
		form := "?=" + t.letter + t.letter
		ordered := map[string]string{"eq": "!=", "ne": "==", "lt": ">=", "le": ">", "gt": "<=", "ge": "<"}
		for _, o := range ops {
			expr := a + o.op + b
			if o.name == "ne" { // false for NaN
				expr = a + "<" + b + "||" + a + ">" + b
			}
			unordered := "!(" + a + ordered[o.name] + b + ")"
			if o.name == "eq" {
				unordered = "!(" + a + "<" + b + "||" + a + ">" + b + ")"
			}
			rows = append(rows,
				row{Keys: o.name + "." + t.name, Form: form, Expr: expr, Slow: slow},
				row{Keys: o.name + "u." + t.name, Form: form, Expr: unordered, Slow: slow})
		}
		rows = append(rows,
			row{Keys: "num." + t.name, Form: form, Expr: a + "==" + a + "&&" + b + "==" + b, Slow: slow},
			row{Keys: "nan." + t.name, Form: form, Expr: a + "!=" + a + "||" + b + "!=" + b, Slow: slow})
	}
	for _, t := range []struct {
		name, form     string
		sign, inf, min string
	}{
		{name: "f32", form: "?=w", sign: "(1<<31-1)", inf: "0x7f800000", min: "0x00800000"},
		{name: "f64", form: "?=q", sign: "(1<<63-1)", inf: "0x7ff0000000000000", min: "0x0010000000000000"},
	} {
		m := "a&" + t.sign
		for _, o := range []struct{ name, expr string }{
			{"finite", m + "<" + t.inf}, {"infinite", m + "==" + t.inf}, {"number", m + "<=" + t.inf}, {"notanumber", m + ">" + t.inf},
			{"normal", "(" + m + "==0||" + m + ">=" + t.min + ")&&" + m + "<" + t.inf}, {"subnormal", m + "<" + t.min + "&&" + m + "!=0"},
		} {
			rows = append(rows, row{Keys: "testp." + o.name + "." + t.name, Form: t.form, Expr: o.expr})
		}
	}
	return rows
}
