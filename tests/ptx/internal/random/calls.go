package random

// callers writes functions that call others, and themselves.
func (w *writer) callers() {
	if w.lone {
		return
	}
	begin := func(name string) {
		w.line(".func (.param .b32 result) %s(.param .b32 x, .param .b64 y)\n{", name)
		w.indent = 1
		w.line(".reg .pred %%p<4>;\n.reg .b32 %%r<%d>, %%t<4>, %%n;\n.reg .b64 %%l<%d>, %%at;", perType+2, perType+2)
		for i := range perType + 2 {
			w.line("ld.param.b32 %%r%d, [x];\nld.param.b64 %%l%d, [y];", i, i)
		}
		w.line("setp.ne.u32 %%p0, %%r0, 3;\nsetp.gt.s32 %%p1, %%r0, 9;\nsetp.lt.u64 %%p2, %%l0, 5;\nsetp.lt.s64 %%p3, %%l0, 1;")
	}
	end := func() {
		w.line("st.param.b32 [result], %%r0;\nret;")
		w.indent = 0
		w.line("}")
	}
	w.integers = true
	defer func() { w.integers = false }()

	begin("looping") // lanes leave a loop apart, and some of them the function
	w.line("and.b32 %%n, %%r1, %d;\nTURN:", w.rng.IntN(8))
	w.instruction("r")
	w.callOf("helper")
	w.instruction("l")
	w.line("@%s bra OTHER;", w.predicate())
	w.callOf(w.oneOf("helper", "%at"))
	w.line("@%%p%d ret;\nOTHER:", w.rng.IntN(3))
	w.instruction("r")
	w.line("sub.u32 %%n, %%n, 1;\nsetp.ge.s32 %%p3, %%n, 0;\n@%%p3 bra TURN;")
	end()

	begin("descend") // calls itself as often as the first argument says
	w.line("st.param.b32 [result], %%r0;\nsetp.eq.u32 %%p3, %%r0, 0;\n@%%p3 ret;\nsub.u32 %%r2, %%r0, 1;\nand.b32 %%r2, %%r2, %d;", []int{3, 7, 31}[w.rng.IntN(3)])
	w.instruction("l")
	w.line("{\n.param .b32 a;\n.param .b64 b;\n.param .b32 c;\nst.param.b32 [a], %%r2;\nst.param.b64 [b], %s;", w.register("l"))
	w.line("setp.ge.u32 %%p3, %%r2, %%r0;\n@%%p3 mov.u32 %%r2, 0;\nst.param.b32 [a], %%r2;\ncall (c), descend, (a, b);\nld.param.b32 %%r3, [c];\n}\nadd.u32 %%r0, %%r0, %%r3;")
	w.instruction("r")
	end()
}

// call writes a call of one of the functions.
func (w *writer) call() {
	if w.lone {
		w.callOf("helper")
		return
	}
	w.callOf(w.oneOf("helper", "helper", "looping", "descend", "%at", "%at"))
}

// callOf writes a call of a function, or of one of two by its address.
func (w *writer) callOf(name string) {
	w.line("{\n.param .b32 a;\n.param .b64 b;\n.param .b32 c;")
	proto := ""
	switch name {
	case "%at":
		first, second := "helper", "helper"
		if !w.integers { // in the kernel, behind all functions
			first, second = w.oneOf("helper", "looping", "descend"), w.oneOf("helper", "looping", "descend")
		}
		w.line("PROTO: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);\nmov.u64 %%at, %s;\n@%s mov.u64 %%at, %s;", first, w.predicate(), second)
		proto = ", PROTO"
	}
	w.line("st.param.b32 [a], %s;\nst.param.b64 [b], %s;", w.register("r"), w.register("l"))
	w.line("call (c), %s, (a, b)%s;\nld.param.b32 %s, [c];\n}", name, proto, w.register("r"))
}
