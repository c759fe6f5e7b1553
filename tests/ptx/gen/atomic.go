package main

import "strings"

// atomicSpecs are atom and red. Each thread works on a place of its own, so
// that all is determined; kernels/ has the contended ones.
func atomicSpecs() (list []spec) {
	ops := map[string][]string{
		"and": {"b32", "b64"}, "or": {"b32", "b64"}, "xor": {"b32", "b64"}, "exch": {"b32", "b64"},
		"add": {"u32", "s32", "u64", "f32", "f64"}, "inc": {"u32"}, "dec": {"u32"},
		"min": {"u32", "s32", "u64", "s64"}, "max": {"u32", "s32", "u64", "s64"},
		"add.noftz": {"f16", "f16x2", "bf16", "bf16x2"}, "cas": {"b16", "b32", "b64"},
	}
	for _, o := range []string{"and", "or", "xor", "exch", "add", "inc", "dec", "min", "max", "add.noftz", "cas"} {
		for _, t := range ops[o] {
			list = append(list, atomic("atom.global."+o+"."+t, t, "%b"))
			list = append(list, atomic("atom.shared."+o+"."+t, t, "%b"))
			if o != "exch" && o != "cas" {
				list = append(list, atomic("red.global."+o+"."+t, t, "%b"))
				list = append(list, atomic("red.shared."+o+"."+t, t, "%b"))
			}
		}
	}
	for _, q := range []string{"atom", "atom.relaxed.gpu", "atom.acquire.gpu", "atom.release.gpu", "atom.acq_rel.gpu", "atom.relaxed.cta.global",
		"atom.acq_rel.sys.global", "atom.cta.shared", "red", "red.relaxed.gpu", "red.release.gpu.global", "red.relaxed.cta.shared"} {
		list = append(list, atomic(q+".add.u32", "u32", "%b"))
	}
	return list
}

func atomic(instr, t, b string) spec {
	c := column(t)
	s := spec{name: instr, in: []string{edge(t), edge(t)}, out: []string{c, c}, rows: 480, block: 96}
	bits := bitsOf(c)
	width := map[int]string{16: "b16", 32: "b32", 64: "b64"}[bits]
	address := "%l0"
	s.body = []string{"add.u64 %l0, %to, " + map[int]string{16: "2", 32: "4", 64: "8"}[bits]}
	space := ".global"
	if strings.Contains(instr, "shared") {
		space = ".shared"
		address = "%t1"
		s.top = []string{".shared .align 8 .b8 buf[768];"}
		s.body = []string{"mov.u32 %t0, %tid.x", "mov.u32 %t1, buf", "mad.lo.u32 %t1, %t0, 8, %t1"}
	}
	s.body = append(s.body, "st"+space+"."+width+" ["+address+"], %a")
	if strings.HasPrefix(instr, "red") {
		s.body = append(s.body, "mov."+width+" %x, 0", instr+" ["+address+"], "+b)
	} else if strings.Contains(instr, "cas") {
		// The comparand equals what is there in every other row.
		s.in = append(s.in, "u32:bool")
		s.body = append(s.body, "setp.ne.u32 %p, %c, 0", "mov."+width+" %y, %a", "@%p mov."+width+" %y, %b",
			instr+" %x, ["+address+"], %y, %b")
	} else {
		s.body = append(s.body, instr+" %x, ["+address+"], "+b)
	}
	s.body = append(s.body, "ld"+space+"."+width+" %y, ["+address+"]")
	return s
}
