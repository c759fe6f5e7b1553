package main

var roundings = []string{".rn", ".rz", ".rm", ".rp"}

// combine returns all concatenations of one of each list.
func combine(lists ...[]string) []string {
	out := []string{""}
	for _, l := range lists {
		var next []string
		for _, a := range out {
			for _, b := range l {
				next = append(next, a+b)
			}
		}
		out = next
	}
	return out
}

func maybe(mods ...string) []string { return append([]string{""}, mods...) }

// floatSpecs are the single and double precision instructions. The error bounds
// are those of the PTX ISA, section 9.7.3.
func floatSpecs() (list []spec) {
	add := func(instr, out string, in ...string) { list = append(list, op(instr, out, in...)) }
	f32, f64 := edge("f32"), edge("f64")
	ftz, sat := maybe(".ftz"), maybe(".sat")
	for _, i := range []string{"add", "sub", "mul"} {
		for _, m := range combine(maybe(roundings...), ftz, sat) {
			add(i+m+".f32", "f32", f32, f32)
		}
		for _, m := range maybe(roundings...) {
			add(i+m+".f64", "f64", f64, f64)
		}
	}
	for _, i := range []string{"fma", "mad"} {
		for _, m := range combine(roundings, ftz, sat) {
			add(i+m+".f32", "f32", f32, f32, f32)
		}
		for _, m := range roundings {
			add(i+m+".f64", "f64", f64, f64, f64)
		}
	}
	for _, m := range combine(roundings, ftz) {
		add("div"+m+".f32", "f32", f32, f32)
		add("rcp"+m+".f32", "f32", f32)
		add("sqrt"+m+".f32", "f32", f32)
	}
	for _, m := range roundings {
		add("div"+m+".f64", "f64", f64, f64)
		add("rcp"+m+".f64", "f64", f64)
		add("sqrt"+m+".f64", "f64", f64)
	}
	for _, m := range ftz {
		add("abs"+m+".f32", "f32", f32)
		add("neg"+m+".f32", "f32", f32)
	}
	for _, i := range []string{"min", "max"} {
		for _, m := range combine(ftz, maybe(".NaN"), maybe(".xorsign.abs")) {
			add(i+m+".f32", "f32", f32, f32)
		}
		add(i+".f64", "f64", f64, f64)
	}
	add("abs.f64", "f64", f64)
	add("neg.f64", "f64", f64)
	for _, t := range []string{"f32", "f64"} {
		add("copysign."+t, t, edge(t), edge(t))
		s := spec{name: "testp." + t, in: []string{edge(t)}, out: []string{"u32"}, body: []string{"mov.u32 %x, 0"}}
		for i, mode := range []string{"finite", "infinite", "number", "notanumber", "normal", "subnormal"} {
			s.body = append(s.body, "testp."+mode+"."+t+" %p, %a", "selp.u32 %t0, "+bit(i)+", 0, %p", "or.b32 %x, %x, %t0")
		}
		list = append(list, s)
	}
	for _, i := range []string{"add.rn", "sub.rn", "mul.rn", "div.rn", "min", "max", "fma.rn", "sqrt.rn", "rcp.rn", "rsqrt.approx", "abs", "neg"} {
		in := []string{"f64:nan", "f64:nan", "f64:nan"}
		out := "f64"
		if i == "rsqrt.approx" {
			out += "~ulp=2"
		}
		s := op(i+".f64", out, in[:operands(i)]...)
		s.name, s.rows = "nan."+s.name, 96
		if operands(i) == 3 {
			s.rows = 512
		}
		list = append(list, s)
	}
	return append(list, approximateSpecs()...)
}

// operands is the number of operands of an instruction.
func operands(instr string) int {
	switch instr {
	case "fma.rn":
		return 3
	case "sqrt.rn", "rcp.rn", "rsqrt.approx", "abs", "neg":
		return 1
	}
	return 2
}

// approximateSpecs are the instructions whose result is only bounded.
func approximateSpecs() (list []spec) {
	add := func(instr, out string, in ...string) { list = append(list, op(instr, out, in...)) }
	f32 := edge("f32")
	for _, m := range maybe(".ftz") {
		add("div.approx"+m+".f32", "f32~ulp=2", f32, f32)
		add("div.full"+m+".f32", "f32~ulp=2", f32, f32)
		add("rcp.approx"+m+".f32", "f32~ulp=1", f32)
		add("sqrt.approx"+m+".f32", "f32~rel=2^-23", f32)
		add("rsqrt.approx"+m+".f32", "f32~rel=2^-22.9", f32)
		add("lg2.approx"+m+".f32", "f32~abs=2^-22|rel=2^-22", f32)
		add("ex2.approx"+m+".f32", "f32~ulp=2", "f32:exp")
		for _, i := range []string{"sin", "cos"} {
			add(i+".approx"+m+".f32", "f32~abs=2^-20.5", "f32:trig")
			s := op(i+".approx"+m+".f32", "f32~abs=2^-14.7", "f32:range=-314,314")
			s.name += ".wide"
			list = append(list, s)
		}
	}
	add("tanh.approx.f32", "f32~rel=2^-11", f32)
	add("rcp.approx.ftz.f64", "f64~rel=2^-20", edge("f64"))
	add("rsqrt.approx.ftz.f64", "f64~rel=2^-20", edge("f64"))
	add("rsqrt.approx.f64", "f64~ulp=2", edge("f64"))
	return list
}

// halfSpecs are the half precision instructions, section 9.7.4.
func halfSpecs() (list []spec) {
	add := func(instr, out string, in ...string) { list = append(list, op(instr, out, in...)) }
	ftz, sat, rn := maybe(".ftz"), maybe(".sat"), maybe(".rn")
	for _, t := range []string{"f16", "f16x2", "bf16", "bf16x2"} {
		e, brain := edge(t), t[0] == 'b'
		arithmetic := combine(rn, ftz, sat)
		fused := combine([]string{".rn"}, ftz, maybe(".sat", ".relu"))
		signs := ftz
		if brain {
			arithmetic, fused, signs = rn, []string{".rn", ".rn.relu"}, maybe()
		}
		for _, m := range arithmetic {
			add("add"+m+"."+t, t, e, e)
			add("sub"+m+"."+t, t, e, e)
			add("mul"+m+"."+t, t, e, e)
		}
		for _, m := range fused {
			add("fma"+m+"."+t, t, e, e, e)
		}
		for _, relu := range maybe(".relu") {
			add("fma.rn.oob"+relu+"."+t, t, t+":oob", t+":oob", t+":oob")
		}
		for _, m := range signs {
			add("abs"+m+"."+t, t, e)
			add("neg"+m+"."+t, t, e)
			for _, n := range combine(maybe(".NaN"), maybe(".xorsign.abs")) {
				add("min"+m+n+"."+t, t, e, e)
				add("max"+m+n+"."+t, t, e, e)
			}
		}
		tanh, exp, ex2 := "~abs=2^-10.987", "~rel=2^-9.9|abs=2^-24", "ex2.approx."
		if brain {
			tanh, exp, ex2 = "~abs=2^-8", "~rel=2^-7", "ex2.approx.ftz."
		}
		add("tanh.approx."+t, t+tanh, e)
		add(ex2+t, t+exp, t+":exp")
	}
	return list
}

func bit(i int) string {
	const digits = "0123456789abcdef"
	return "0x" + string(digits[1<<(i%4)]) + "0000000"[:i/4]
}
