package main

import "strings"

// contractSpecs are products that are summed. Where no rounding is written, PTX
// lets a compiler round once or twice; these fixtures say what the driver's
// compiler does, which whole programs show as well. It may exchange operands, so
// any NaN will do.
func contractSpecs() (list []spec) {
	add := func(name, t string, body ...string) {
		list = append(list, spec{name: "contract." + name + "." + t, rows: 240, out: []string{t + "~nan"},
			in: []string{edge(t), edge(t), edge(t), edge(t)}, body: body})
	}
	for _, t := range []string{"f32", "f64", "f16", "bf16", "f16x2"} {
		w := map[string]string{"f32": "%t", "f64": "%l", "f16": "%h", "bf16": "%h", "f16x2": "%t"}[t]
		m, n := w+"2", w+"3"
		add("mul-add", t, "mul."+t+" "+m+", %a, %b", "add."+t+" %x, "+m+", %c")
		add("add-mul", t, "mul."+t+" "+m+", %a, %b", "add."+t+" %x, %c, "+m)
		add("mul-sub", t, "mul."+t+" "+m+", %a, %b", "sub."+t+" %x, "+m+", %c")
		add("sub-mul", t, "mul."+t+" "+m+", %a, %b", "sub."+t+" %x, %c, "+m)
		add("two-add", t, "mul."+t+" "+m+", %a, %b", "mul."+t+" "+n+", %c, %d", "add."+t+" %x, "+m+", "+n)
		add("two-sub", t, "mul."+t+" "+m+", %a, %b", "mul."+t+" "+n+", %c, %d", "sub."+t+" %x, "+m+", "+n)
		add("two-swapped", t, "mul."+t+" "+n+", %c, %d", "mul."+t+" "+m+", %a, %b", "add."+t+" %x, "+m+", "+n)
		add("rounded-mul", t, "mul.rn."+t+" "+m+", %a, %b", "add."+t+" %x, "+m+", %c")
		add("rounded-add", t, "mul."+t+" "+m+", %a, %b", "add.rn."+t+" %x, "+m+", %c")
		add("used-twice", t, "mul."+t+" "+m+", %a, %b", "add."+t+" "+n+", "+m+", %c", "add.rn."+t+" %x, "+m+", "+n)
		add("summed-twice", t, "mul."+t+" "+m+", %a, %b", "add."+t+" "+n+", "+m+", %c", "add."+t+" "+m+", "+m+", %d", "add.rn."+t+" %x, "+m+", "+n)
		add("negated", t, "mul."+t+" "+m+", %a, %b", "neg."+t+" "+m+", "+m, "add."+t+" %x, "+m+", %c")
		add("chain", t, "mul."+t+" "+m+", %a, %b", "add."+t+" "+m+", "+m+", %c", "mul."+t+" "+m+", "+m+", %d", "sub."+t+" %x, "+m+", %a")
		add("guarded", t, "mul."+t+" "+m+", %a, %b", "mov.b"+map[string]string{"%t": "32", "%l": "64", "%h": "16"}[w]+" %x, %d",
			"and.b32 %t7, %row, 1", "setp.eq.u32 %q, %t7, 0", "@%q add."+t+" %x, "+m+", %c")
		add("next-block", t, "mul."+t+" "+m+", %a, %b", "mov.b"+map[string]string{"%t": "32", "%l": "64", "%h": "16"}[w]+" %x, %d",
			"and.b32 %t7, %row, 1", "setp.eq.u32 %q, %t7, 0", "@%q bra end", "add."+t+" %x, "+m+", %c", "end:")
	}
	for _, r := range []string{".rz", ".rp"} {
		add("mul"+r+"-add", "f32", "mul"+r+".f32 %t2, %a, %b", "add.f32 %x, %t2, %c")
		add("mul-add"+r, "f32", "mul.f32 %t2, %a, %b", "add"+r+".f32 %x, %t2, %c")
	}
	for _, ftz := range [][2]string{{".ftz", ".ftz"}, {".ftz", ""}, {"", ".ftz"}, {"", ".sat"}, {".sat", ""}, {".ftz", ".ftz.sat"}} {
		add("mul"+ftz[0]+"-add"+ftz[1], "f32", "mul"+ftz[0]+".f32 %t2, %a, %b", "add"+ftz[1]+".f32 %x, %t2, %c")
		if s := &list[len(list)-1]; strings.Contains(s.name, ".sat") {
			s.in = []string{"f32:range=-0.7,0.9", "f32:range=-0.7,0.9", "f32:range=-0.5,0.7"}
		}
	}
	return list
}
