package main

// miscSpecs are predication and control flow in their smallest forms; kernels/
// has the larger ones.
func miscSpecs() []spec {
	in, one := []string{"u32:below=9", "u32:rand"}, []string{"u32"}
	return []spec{
		{name: "guard", in: in, out: []string{"u32", "u32"}, rows: 96, body: []string{
			"setp.lt.u32 %q, %a, 4", "mov.u32 %x, 100", "mov.u32 %y, 200", "@%q add.u32 %x, %x, %b", "@!%q add.u32 %y, %y, %b"}},
		{name: "bra", in: in, out: one, rows: 96, body: []string{
			"mov.u32 %x, 0", "mov.u32 %t0, 0", "loop:", "setp.ge.u32 %q, %t0, %a", "@%q bra end", "mad.lo.u32 %x, %x, 3, %b", "add.u32 %t0, %t0, 1",
			"bra.uni loop", "end:"}},
		{name: "brx.idx", in: in, out: one, rows: 96, body: []string{
			"targets: .branchtargets L0, L1, L2, L3;", "rem.u32 %t0, %a, 4", "mov.u32 %x, 1", "brx.idx %t0, targets", "L0:", "add.u32 %x, %x, %b", "L1:",
			"mul.lo.u32 %x, %x, 5", "bra end", "L2:", "xor.b32 %x, %b, 85", "L3:", "add.u32 %x, %x, 7", "end:"}},
		{name: "exit", in: in, out: one, rows: 96, body: []string{"mov.u32 %x, 3", "st.global.u32 [%to], 4", "setp.lt.u32 %q, %a, 3", "@%q exit"}},
		{name: "ret", in: in, out: one, rows: 96, body: []string{"mov.u32 %x, 3", "st.global.u32 [%to], 4", "setp.lt.u32 %q, %a, 3", "@%q ret"}},
		{name: "call.reg", in: in, out: one, rows: 96, top: []string{".func (.reg .u32 r) twice(.reg .u32 v, .reg .u32 w)", "{", "\tmad.lo.u32 r, v, 2, w;", "\tret;", "}"},
			target: ".version 8.5\n.target sm_90",
			body:   []string{"call.uni (%x), twice, (%a, %b)"}},
		{name: "call.param", in: in, out: one, rows: 96, top: []string{".func (.param .b32 r) twice(.param .b32 v, .param .align 8 .b8 w[16])", "{", "\t.reg .b32 %a<4>;",
			"\tld.param.b32 %a0, [v];", "\tld.param.b32 %a1, [w+8];", "\tmad.lo.u32 %a2, %a0, 2, %a1;", "\tst.param.b32 [r], %a2;", "\tret;", "}"},
			body: []string{"{", ".param .b32 result;", ".param .b32 first;", ".param .align 8 .b8 second[16];", "st.param.b32 [first], %a", "st.param.b32 [second+8], %b",
				"call (result), twice, (first, second)", "ld.param.b32 %x, [result]", "}"}},
		{name: "call.indirect", in: in, out: one, rows: 96, top: []string{
			".func (.param .b32 r) plus(.param .b32 v)", "{", "\t.reg .b32 %a<4>;", "\tld.param.b32 %a0, [v];", "\tadd.u32 %a1, %a0, 1;", "\tst.param.b32 [r], %a1;", "\tret;", "}",
			".func (.param .b32 r) times(.param .b32 v)", "{", "\t.reg .b32 %a<4>;", "\tld.param.b32 %a0, [v];", "\tmul.lo.u32 %a1, %a0, 10;", "\tst.param.b32 [r], %a1;", "\tret;", "}",
			".global .u64 table[2] = {plus, times};"},
			body: []string{"and.b32 %t0, %a, 1", "mov.u64 %l0, table", "mad.wide.u32 %l0, %t0, 8, %l0", "ld.global.u64 %l1, [%l0]", "{", ".param .b32 result;",
				".param .b32 first;", "st.param.b32 [first], %b", "proto: .callprototype (.param .b32 _) _ (.param .b32 _);",
				"call (result), %l1, (first), proto", "ld.param.b32 %x, [result]", "}"}},
	}
}
