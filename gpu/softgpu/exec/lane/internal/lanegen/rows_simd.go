package main

import "strings"

// vector is how a row is computed with SIMD: several lanes by one expression.
type vector struct {
	// Expr gives the vector of the result from vectors of the operands, which
	// have the names they have in row.Expr. Of a comparison it is the mask.
	Expr string
	// Not inverts the mask.
	Not bool
	// Hard, if not empty, is a function that finds the lanes of a result that
	// Expr may have wrong. Where there is one, the portable function computes
	// the row; so it should be rare.
	Hard string
	// Lanes is how many lanes a vector has; 0 stands for as many as fit the
	// widest register of the row.
	Lanes int
}

// vectors are the rows that have one, by the first key of the row. They need
// AVX2 and FMA. The functions in them are those of package vector.
func vectors() map[string]vector {
	v := map[string]vector{}
	vectorIntegers(v)
	vectorFloats(v)
	vectorCompares(v)
	vectorConversions(v)
	return v
}

func vectorIntegers(v map[string]vector) {
	for _, t := range []struct{ bits, ones, zero, mul, shift string }{
		{bits: "32", ones: "onesW8()", zero: "archsimd.Uint32x8{}", mul: "a.Mul(b)", shift: "b"},
		{bits: "64", ones: "onesQ4()", zero: "archsimd.Uint64x4{}", mul: "mulQ4(a, b)", shift: "b.ExtendToUint64()"},
	} {
		for op, expr := range map[string]string{
			"add.u": "a.Add(b)", "sub.u": "a.Sub(b)", "and.u": "a.And(b)", "or.u": "a.Or(b)", "xor.u": "a.Xor(b)",
			"not.u": "a.Xor(" + t.ones + ")", "neg.u": t.zero + ".Sub(a)", "mov.": "a", "selp.": "a.Merge(b, c)",
			"mul.lo.u": t.mul, "mad.lo.u": t.mul + ".Add(c)",
			"shl.b": "a.ShiftLeft(" + t.shift + ")", "shr.u": "a.ShiftRight(" + t.shift + ")",
		} {
			v[op+t.bits] = vector{Expr: expr}
		}
	}
	for key, expr := range map[string]string{
		"shr.s32": "a.AsInt32x8().ShiftRight(b.AsInt32x8()).AsUint32x8()", "shr.s64": "sarQ4(a, b.ExtendToUint64())",
		"min.u32": "a.Min(b)", "max.u32": "a.Max(b)",
		"min.s32": "a.AsInt32x8().Min(b.AsInt32x8()).AsUint32x8()", "max.s32": "a.AsInt32x8().Max(b.AsInt32x8()).AsUint32x8()",
		"min.u64": "a.Merge(b, a.Less(b))", "max.u64": "a.Merge(b, a.Greater(b))",
		"min.s64": "a.Merge(b, a.AsInt64x4().Less(b.AsInt64x4()))", "max.s64": "a.Merge(b, a.AsInt64x4().Greater(b.AsInt64x4()))",
		"abs.s32":    "a.AsInt32x8().Abs().AsUint32x8()",
		"mul.hi.u32": "mulHiUW8(a, b)", "mad.hi.u32": "mulHiUW8(a, b).Add(c)",
		"mul.hi.s32": "mulHiSW8(a, b)", "mad.hi.s32": "mulHiSW8(a, b).Add(c)",
		"mul.wide.u32": "mulWideU(a, b)", "mad.wide.u32": "mulWideU(a, b).Add(c)",
		"mul.wide.s32": "mulWideS(a, b)", "mad.wide.s32": "mulWideS(a, b).Add(c)",
		"bfe.u32":        "bfeUW8(a, b, c)",
		"shf.l.wrap.b32": "shfLW8(a, b, c.And(allW8(31)))", "shf.l.clamp.b32": "shfLW8(a, b, c.Min(allW8(32)))",
		"shf.r.wrap.b32": "shfRW8(a, b, c.And(allW8(31)))", "shf.r.clamp.b32": "shfRW8(a, b, c.Min(allW8(32)))",
		"lop3.b32":  "lop3W8(a, b, c, in.Imm)",
		"pack.b64":  "a.ExtendToUint64().Or(b.ExtendToUint64().ShiftAllLeft(32))",
		"field.b32": "a.ShiftAllRight(in.Imm & 31).And(allW8(uint32(in.Imm >> 32)))",
		"field.b64": "lowQ4(a.ShiftAllRight(in.Imm & 63).And(allQ4(in.Imm >> 32)))",
	} {
		v[key] = vector{Expr: expr}
	}
}

func vectorFloats(v map[string]vector) {
	// The operands of the .ftz form are flushed, and so is its result: where
	// that needs more than the rounded result, Hard says so.
	both := func(op, expr, hard string, sat bool) {
		flushed := strings.NewReplacer("{", "ftzF8(", "}", ")").Replace(expr)
		plain := strings.NewReplacer("{", "", "}", "").Replace(expr)
		v[op+".f32"] = vector{Expr: plain}
		v[op+".ftz.f32"] = vector{Expr: "ftzF8(" + flushed + ")", Hard: hard}
		if sat {
			v[op+".sat.f32"] = vector{Expr: "satF8(" + plain + ")"}
			v[op+".ftz.sat.f32"] = vector{Expr: "satF8(ftzF8(" + flushed + "))", Hard: hard}
		}
	}
	const tiny = "isMinNormalF8"
	both("add", "{a}.Add({b})", "", true)
	both("sub", "{a}.Sub({b})", "", true)
	both("mul", "{a}.Mul({b})", tiny, true)
	both("fma", "{a}.MulAdd({b}, {c})", tiny, true)
	both("fms", "{a}.MulAdd({b}, negF8({c}))", tiny, true)
	both("fnma", "negF8({a}).MulAdd({b}, {c})", tiny, true)
	both("fnms", "negF8({a}).MulAdd({b}, negF8({c}))", tiny, true)
	both("div", "{a}.Div({b})", tiny, false)
	both("rcp", "allF8(1).Div({a})", tiny, false)
	both("div.full", "{a}.Div({b})", "", false)
	both("div.approx", "divApproxF8({a}, {b})", "", false)
	both("rcp.approx", "allF8(1).Div({a})", "", false)
	both("sqrt", "{a}.Sqrt()", "", false)
	both("sqrt.approx", "{a}.Sqrt()", "", false)
	both("min", "minF8({a}, {b})", "", false)
	both("max", "maxF8({a}, {b})", "", false)
	v["rsqrt.approx.f32"] = vector{Expr: "rsqrtF4(a)", Lanes: 4}
	v["neg.f32"] = vector{Expr: "negF8(a)"}
	v["neg.ftz.f32"] = vector{Expr: "negF8(ftzF8(a))"}
	v["abs.f32"] = vector{Expr: "absF8(a)"}
	v["abs.ftz.f32"] = vector{Expr: "absF8(ftzF8(a))"}

	// Of doubles a NaN has a value.
	for op, expr := range map[string]string{
		"add": "a.Add(b)", "sub": "a.Sub(b)", "mul": "a.Mul(b)", "fma": "a.MulAdd(b, c)", "fms": "a.MulAdd(b, negG4(c))",
		"fnma": "negG4(a).MulAdd(b, c)", "fnms": "negG4(a).MulAdd(b, negG4(c))",
		"div": "a.Div(b)", "rcp": "allG4(1).Div(a)", "sqrt": "a.Sqrt()", "min": "minG4(a, b)", "max": "maxG4(a, b)",
	} {
		v[op+".f64"] = vector{Expr: expr, Hard: "isNaNG4"}
	}
	v["neg.f64"] = vector{Expr: "signQ4(a, a.Xor(allQ4(1<<63)))"}
	v["abs.f64"] = vector{Expr: "signQ4(a, a.AndNot(allQ4(1<<63)))"}
}

func vectorCompares(v map[string]vector) {
	// An unordered comparison is the complement of the opposite ordered one.
	for name, o := range map[string]struct{ method, unordered string }{
		"eq": {"Equal", "ne"}, "lt": {"Less", "ge"}, "le": {"LessEqual", "gt"}, "gt": {"Greater", "le"}, "ge": {"GreaterEqual", "lt"},
	} {
		for _, t := range []struct{ name, of string }{
			{"u32", "{}"}, {"u64", "{}"}, {"s32", "{}.AsInt32x8()"}, {"s64", "{}.AsInt64x4()"},
			{"f32", "{}"}, {"ftz.f32", "ftzF8({})"}, {"f64", "{}"},
		} {
			a, b := strings.ReplaceAll(t.of, "{}", "a"), strings.ReplaceAll(t.of, "{}", "b")
			expr := a + "." + o.method + "(" + b + ")"
			if name != "eq" || t.name[0] != 's' {
				v[name+"."+t.name] = vector{Expr: expr}
			}
			if strings.HasSuffix(t.name, "f32") || t.name == "f64" {
				v[o.unordered+"u."+t.name] = vector{Expr: expr, Not: true}
			} else if name == "eq" && t.name[0] == 'u' {
				v["ne."+t.name] = vector{Expr: expr, Not: true}
			}
		}
	}
	for _, t := range []struct{ name, of string }{{"f32", "{}"}, {"ftz.f32", "ftzF8({})"}, {"f64", "{}"}} {
		a, b := strings.ReplaceAll(t.of, "{}", "a"), strings.ReplaceAll(t.of, "{}", "b")
		differ := a + ".Less(" + b + ").Or(" + a + ".Greater(" + b + "))"
		numbers := a + ".Equal(" + a + ").And(" + b + ".Equal(" + b + "))"
		v["ne."+t.name] = vector{Expr: differ}
		v["equ."+t.name] = vector{Expr: differ, Not: true}
		v["num."+t.name] = vector{Expr: numbers}
		v["nan."+t.name] = vector{Expr: numbers, Not: true}
	}
}

func vectorConversions(v map[string]vector) {
	for _, d := range []string{"u", "s"} {
		v["cvt."+d+"64.u32"] = vector{Expr: "a.ExtendToUint64()"}
		v["cvt."+d+"64.s32"] = vector{Expr: "a.AsInt32x4().ExtendToInt64().AsUint64x4()"}
		for _, s := range []string{"u", "s"} {
			v["cvt."+d+"32."+s+"64"] = vector{Expr: "lowQ4(a)"}
			v["cvt."+d+"32."+s+"32"] = vector{Expr: "a"}
			v["cvt."+d+"64."+s+"64"] = vector{Expr: "a"}
		}
	}
	v["cvt.rn.f32.s32"] = vector{Expr: "a.AsInt32x8().ConvertToFloat32()"}
	v["cvt.rn.f32.u32"] = vector{Expr: "floatUW8(a)"}
	v["cvt.rn.f64.s32"] = vector{Expr: "a.AsInt32x4().ConvertToFloat64()"}
	v["cvt.rzi.s32.f32"] = vector{Expr: "truncF8(a)"}
	v["cvt.rzi.ftz.s32.f32"] = vector{Expr: "truncF8(a)"} // what is flushed is truncated to 0 as well
	v["cvt.f64.f32"] = vector{Expr: "a.ConvertToFloat64()"}
	v["cvt.rn.f32.f64"] = vector{Expr: "a.ConvertToFloat32().AsUint32x4()"}
	v["cvt.sat.f32.f32"] = vector{Expr: "satF8(a)"}
}
