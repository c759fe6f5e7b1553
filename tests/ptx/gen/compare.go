package main

import "strings"

var (
	equalities  = []string{"eq", "ne"}
	comparisons = []string{"eq", "ne", "lt", "le", "gt", "ge"}
	unsignedToo = []string{"eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs"}
	floatsToo   = []string{"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"}
	halves      = []string{"f16", "bf16", "f16x2", "bf16x2"}
	booleans    = []string{".and", ".or", ".xor"}
)

// comparisonsOf returns the comparison operators that a type has.
func comparisonsOf(t string) []string {
	switch {
	case strings.Contains(t, "f"):
		return floatsToo
	case t[0] == 'b':
		return equalities
	case t[0] == 'u':
		return unsignedToo
	}
	return comparisons
}

// collect appends code that sets bit i of %x when %p holds, and of %y when %q does.
func collect(body []string, i int, both bool) []string {
	body = append(body, "selp.u32 %t0, "+bit(i)+", 0, %p", "or.b32 %x, %x, %t0")
	if both {
		body = append(body, "selp.u32 %t0, "+bit(i)+", 0, %q", "or.b32 %y, %y, %t0")
	}
	return body
}

// compareSpecs are set and setp. Each has all comparisons of a type, one bit of
// the output for each, in the order of the lists above.
func compareSpecs() (list []spec) {
	all := append(append([]string{"f32", "f64"}, untyped...), ints...)
	for _, t := range append(all, halves...) {
		for _, ftz := range ftzOf(t) {
			pair := strings.HasSuffix(t, "x2")
			s := spec{name: "setp" + ftz + "." + t, in: []string{edge(t), edge(t)}, out: []string{"u32", "u32"},
				body: []string{"mov.u32 %x, 0", "mov.u32 %y, 0"}}
			for i, c := range comparisonsOf(t) {
				dst := "%p"
				if pair || i%2 == 0 && !isHalf(t) {
					dst = "%p|%q"
				} else {
					s.body = append(s.body, "mov.pred %q, 0")
				}
				s.body = append(s.body, "setp."+c+ftz+"."+t+" "+dst+", %a, %b")
				s.body = collect(s.body, i, true)
			}
			list = append(list, s)
		}
	}
	for _, t := range append(all, halves...) {
		s := spec{name: "setp.bool." + t, in: []string{edge(t), edge(t), "u32:bool"}, out: []string{"u32", "u32"},
			body: []string{"mov.u32 %x, 0", "mov.u32 %y, 0", "setp.ne.u32 %r, %c, 0"}, rows: 240}
		ops := comparisonsOf(t)
		for i, b := range booleans {
			for j, c := range []string{"%r", "!%r"} {
				dst := "%p|%q"
				if isHalf(t) {
					dst = "%p"
				}
				s.body = append(s.body, "setp."+ops[(i*2+j)%len(ops)]+b+"."+t+" "+dst+", %a, %b, "+c)
				s.body = collect(s.body, i*2+j, !isHalf(t))
			}
		}
		list = append(list, s)
	}
	return append(list, setSpecs()...)
}

// isHalf reports whether setp of t has one result only.
func isHalf(t string) bool { return t == "f16" || t == "bf16" }

func ftzOf(t string) []string {
	if t == "f32" || t == "f16" || t == "f16x2" {
		return []string{"", ".ftz"}
	}
	return []string{""}
}

// setSpecs are set. The results of full width are checked to be all ones (1.0)
// or zero, and packed like those of setp.
func setSpecs() (list []spec) {
	sources := append(append([]string{"f32", "f64"}, untyped...), ints...)
	for _, d := range []string{"u32", "s32", "f32"} {
		truth := "0xffffffff"
		if d == "f32" {
			truth = "0x3f800000"
		}
		for _, t := range sources {
			for _, ftz := range ftzOf(t) {
				if ftz != "" {
					// Packed, the driver's compiler would simplify it and forget .ftz.
					list = append(list, rawSet(d, t, ftz))
					continue
				}
				s := spec{name: "set." + d + "." + t, in: []string{edge(t), edge(t)}, out: []string{"u32", "u32"},
					body: []string{"mov.u32 %x, 0", "mov.u32 %y, 0"}}
				for i, c := range comparisonsOf(t) {
					s.body = append(s.body, "set."+c+"."+d+"."+t+" %t1, %a, %b",
						"setp.eq.u32 %p, %t1, "+truth, "setp.eq.u32 %q, %t1, 0")
					s.body = collect(s.body, i, true)
				}
				list = append(list, s)
			}
			s := spec{name: "set.bool." + d + "." + t, in: []string{edge(t), edge(t), "u32:bool"}, out: []string{"u32", "u32", "u32"},
				body: []string{"setp.ne.u32 %r, %c, 0"}, rows: 160}
			ops := comparisonsOf(t)
			for i, b := range booleans {
				not := ""
				if i == 1 {
					not = "!"
				}
				s.body = append(s.body, "set."+ops[i*2%len(ops)]+b+"."+d+"."+t+" "+outNames[i]+", %a, %b, "+not+"%r")
			}
			list = append(list, s)
		}
	}
	return append(list, halfSetSpecs()...)
}

func halfSetSpecs() (list []spec) {
	results := map[string][]string{
		"f16": {"f16", "u16", "s16", "u32", "s32"}, "bf16": {"bf16", "u16", "s16", "u32", "s32"},
		"f16x2": {"f16x2", "u32", "s32"}, "bf16x2": {"bf16x2", "u32", "s32"}, "f32": {"f16", "bf16"},
	}
	for _, t := range append([]string{"f32"}, halves...) {
		for _, d := range results[t] {
			for _, ftz := range ftzOf(t) {
				if d == "bf16" {
					ftz = ""
				}
				list = append(list, rawSet(d, t, ftz))
				if d == "bf16" {
					break
				}
			}
		}
	}
	return list
}

// rawSet stores the results of four comparisons as they are.
func rawSet(d, t, ftz string) spec {
	s := spec{name: "set" + ftz + "." + d + "." + t, in: []string{edge(t), edge(t), "u32:bool"}, out: []string{d, d, d, d},
		body: []string{"setp.ne.u32 %r, %c, 0"}}
	for i, c := range []string{"lt", "neu", "num"} {
		s.body = append(s.body, "set."+c+ftz+"."+d+"."+t+" "+outNames[i]+", %a, %b")
	}
	s.body = append(s.body, "set.ge.xor"+ftz+"."+d+"."+t+" %w, %a, %b, %r")
	return s
}

// selectSpecs are selp and slct.
func selectSpecs() (list []spec) {
	for _, t := range append(append([]string{"f32", "f64"}, untyped...), ints...) {
		list = append(list, spec{name: "selp." + t, in: []string{edge(t), edge(t), "u32:bool"}, out: []string{column(t)}, rows: 96,
			body: []string{"setp.ne.u32 %p, %c, 0", "selp." + t + " %x, %a, %b, %p"}})
		for _, c := range []string{"s32", "f32"} {
			for _, ftz := range ftzOf(c) {
				s := op("slct"+ftz+"."+t+"."+c, column(t), column(t)+":rand", column(t)+":rand", edge(c))
				s.rows = 64
				list = append(list, s)
			}
		}
	}
	return list
}
