package main

import "strings"

var (
	ints      = []string{"u16", "s16", "u32", "s32", "u64", "s64"}
	wideInts  = []string{"u32", "s32", "u64", "s64"}
	untyped   = []string{"b16", "b32", "b64"}
	signed    = []string{"s16", "s32", "s64"}
	doubled   = map[string]string{"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
	widePairs = []string{"u16", "s16", "u32", "s32"}
)

// column is the column type for an instruction type: .b32 is u32.
func column(t string) string {
	if digits, ok := strings.CutPrefix(t, "b"); ok && digits[0] != 'f' {
		return "u" + digits
	}
	return t
}

func edge(t string) string { return column(t) + ":edge" }

// intSpecs are the integer instructions.
func intSpecs() (list []spec) {
	add := func(instr, out string, in ...string) { list = append(list, op(instr, out, in...)) }
	for _, t := range ints {
		for _, i := range []string{"add.", "sub.", "mul.lo.", "mul.hi.", "div.", "rem.", "min.", "max."} {
			add(i+t, t, edge(t), edge(t))
		}
		for _, i := range []string{"mad.lo.", "mad.hi.", "sad."} {
			add(i+t, t, edge(t), edge(t), edge(t))
		}
	}
	for _, t := range widePairs {
		add("mul.wide."+t, doubled[t], edge(t), edge(t))
		add("mad.wide."+t, doubled[t], edge(t), edge(t), edge(doubled[t]))
	}
	for _, t := range signed {
		add("abs."+t, t, edge(t))
		add("neg."+t, t, edge(t))
	}
	for _, t := range []string{"u32", "s32"} {
		for _, half := range []string{".lo.", ".hi."} {
			add("mul24"+half+t, t, edge(t), edge(t))
			add("mad24"+half+t, t, edge(t), edge(t), edge(t))
		}
	}
	for _, i := range []string{"add.sat.s32", "sub.sat.s32"} {
		add(i, "s32", edge("s32"), edge("s32"))
	}
	for _, i := range []string{"mad.hi.sat.s32", "mad24.hi.sat.s32"} {
		add(i, "s32", edge("s32"), edge("s32"), edge("s32"))
	}
	// Two halves at once; the noise gives what the edge cases of 32 bits have not.
	for _, t := range []string{"u16x2", "s16x2"} {
		for _, i := range []string{"add.", "min.", "max."} {
			add(i+t, "u32", edge("u32"), "u32:rand")
		}
	}
	for _, i := range []string{"min.relu.", "max.relu."} {
		add(i+"s32", "s32", edge("s32"), edge("s32"))
		add(i+"s16x2", "u32", "u32:rand", edge("u32"))
	}
	return append(list, bitSpecs()...)
}

// bitSpecs are the integer instructions that work on bits and bytes.
func bitSpecs() (list []spec) {
	add := func(instr, out string, in ...string) { list = append(list, op(instr, out, in...)) }
	for _, t := range []string{"b32", "b64"} {
		for _, i := range []string{"popc.", "clz."} {
			add(i+t, "u32", edge(t))
		}
		add("brev."+t, column(t), edge(t))
		add("bfi."+t, column(t), edge(t), edge(t), "u32:shift", "u32:shift")
	}
	for _, t := range wideInts {
		add("bfind."+t, "u32", edge(t))
		add("bfind.shiftamt."+t, "u32", edge(t))
		s := op("bfe."+t, t, edge(t), "u32:shift", "u32:shift")
		s.rows = 640
		list = append(list, s)
	}
	add("fns.b32", "u32", edge("u32"), "u32:below=32", "s32:range=-34,34")
	for _, mode := range []string{".clamp", ".wrap"} {
		add("szext"+mode+".u32", "u32", edge("u32"), "u32:shift")
		add("szext"+mode+".s32", "s32", edge("s32"), "u32:shift")
		add("bmsk"+mode+".b32", "u32", "u32:shift", "u32:shift")
	}
	for _, a := range []string{"u32", "s32"} {
		for _, b := range []string{"u32", "s32"} {
			for _, i := range []string{"dp4a.", "dp2a.lo.", "dp2a.hi."} {
				add(i+a+"."+b, "u32", "u32:rand", "u32:edge", "u32:edge")
			}
		}
	}
	return list
}

// carrySpecs are additions, subtractions and products in several words.
func carrySpecs() (list []spec) {
	for _, t := range wideInts {
		four := []string{edge(t), edge(t), edge(t), edge(t)}
		three := []string{t, t, t}
		for _, i := range []string{"add", "sub"} {
			list = append(list, spec{name: i + "c.chain." + t, in: four, out: three, body: []string{
				i + ".cc." + t + " %x, %a, %c", i + "c.cc." + t + " %y, %b, %d", i + "c." + t + " %z, %a, %d"}})
		}
		for _, m := range []string{"lo", "hi"} {
			list = append(list, spec{name: "madc." + m + ".chain." + t, in: four, out: three, body: []string{
				"mad." + m + ".cc." + t + " %x, %a, %b, %c", "madc." + m + ".cc." + t + " %y, %b, %c, %d",
				"madc." + m + "." + t + " %z, %a, %d, %b"}})
		}
		// The carry of one kind feeds the others: 128 by 64 bit products do so.
		list = append(list, spec{name: "madc.product." + t, in: four, out: []string{t, t, t, t}, body: []string{
			"mul.lo." + t + " %x, %a, %c", "mul.hi." + t + " %y, %a, %c", "mad.lo.cc." + t + " %y, %b, %c, %y",
			"madc.hi.cc." + t + " %z, %b, %c, %d", "addc." + t + " %w, %a, 0"}})
	}
	return list
}

// logicSpecs are the logic and shift instructions.
func logicSpecs() (list []spec) {
	add := func(instr, out string, in ...string) { list = append(list, op(instr, out, in...)) }
	for _, i := range []string{"and.", "or.", "xor."} {
		for _, t := range untyped {
			add(i+t, column(t), edge(t), edge(t))
		}
		list = append(list, spec{name: i + "pred", in: []string{"u32:bool", "u32:bool"}, out: []string{"u32"}, body: []string{
			"setp.ne.u32 %p, %a, 0", "setp.ne.u32 %q, %b, 0", i + "pred %r, %p, %q", "selp.u32 %x, 1, 0, %r"}})
	}
	list = append(list, spec{name: "not.pred", in: []string{"u32:bool"}, out: []string{"u32"}, body: []string{
		"setp.ne.u32 %p, %a, 0", "not.pred %r, %p", "selp.u32 %x, 1, 0, %r"}})
	for _, t := range untyped {
		add("not."+t, column(t), edge(t))
		add("cnot."+t, column(t), edge(t))
		add("shl."+t, column(t), edge(t), "u32:shift")
	}
	for _, t := range append(untyped, ints...) {
		add("shr."+t, column(t), edge(t), "u32:shift")
	}
	for _, i := range []string{"shf.l.clamp.b32", "shf.l.wrap.b32", "shf.r.clamp.b32", "shf.r.wrap.b32"} {
		add(i, "u32", edge("u32"), "u32:rand", "u32:shift")
	}
	three := []string{edge("u32"), edge("u32"), edge("u32")}
	for _, group := range [][]string{{"0x00", "0x01", "0x1e", "0x2a"}, {"0x47", "0x69", "0x80", "0x96"}, {"0xca", "0xd8", "0xe8", "0xfe"}} {
		s := spec{name: "lop3.b32." + group[0], in: three, out: []string{"u32", "u32", "u32", "u32"}}
		for i, lut := range group {
			s.body = append(s.body, "lop3.b32 "+outNames[i]+", %a, %b, %c, "+lut)
		}
		list = append(list, s)
	}
	for _, i := range []string{"or", "and"} {
		list = append(list, spec{name: "lop3." + i + ".b32", in: append(three, "u32:bool"), out: []string{"u32", "u32", "u32"}, body: []string{
			"setp.ne.u32 %q, %d, 0", "lop3." + i + ".b32 %x|%p, %a, %b, %c, 0x1e, %q", "selp.u32 %y, 1, 0, %p",
			"lop3." + i + ".b32 _|%r, %a, %b, %c, 0x80, !%q", "selp.u32 %z, 1, 0, %r"}})
	}
	for _, mode := range []string{"", ".f4e", ".b4e", ".rc8", ".ecl", ".ecr", ".rc16"} {
		add("prmt.b32"+mode, "u32", "u32:rand", "u32:edge", "u32:rand")
	}
	return list
}
