package main

import "strings"

// derivedSpecs are instructions that no GPU at hand has: engines are compared on them, and PTX's
// text says what they do.
func derivedSpecs() (list []spec) {
	const target = ".version 8.8\n.target sm_100"
	pair := "u64:rand"
	add := func(name string, in []string, instr string) {
		list = append(list, spec{name: name, in: in, out: []string{"u64"}, rows: 320, target: target, body: []string{instr}})
	}
	// Pairs of edge cases: each register is packed of two columns.
	edges := []string{"f32:edge", "f32:edge", "f32:edge"}
	for _, mods := range combine([]string{"", ".rn", ".rz", ".rm", ".rp"}, maybe(".ftz")) {
		for _, op := range []string{"add", "sub", "mul"} {
			add(op+mods+".f32x2", []string{pair, pair}, op+mods+".f32x2 %x, %a, %b")
		}
		if strings.HasPrefix(mods, ".r") {
			add("fma"+mods+".f32x2", []string{pair, pair, pair}, "fma"+mods+".f32x2 %x, %a, %b, %c")
			list = append(list, spec{name: "fma" + mods + ".f32x2.edge", in: edges, out: []string{"u64", "u64"}, rows: 384, target: target, body: []string{
				"mov.b64 %l0, {%a, %b}", "mov.b64 %l1, {%b, %c}", "mov.b64 %l2, {%c, %a}",
				"fma" + mods + ".f32x2 %x, %l0, %l1, %l2", "mul" + mods + ".f32x2 %y, %l1, %l2", "add" + mods + ".f32x2 %y, %y, %l0"}})
		}
	}
	add("mul.add.f32x2", []string{pair, pair, pair}, "mul.f32x2 %l0, %a, %b;\n\tadd.f32x2 %x, %l0, %c")
	for _, relu := range maybe(".relu") {
		for _, t := range []string{"e2m3x2", "e3m2x2"} {
			s := op("cvt.rn.satfinite"+relu+"."+t+".f32", "u16", "f32:fp8", "f32:fp8")
			s.target = target
			list = append(list, s, spec{name: "cvt.rn" + relu + ".f16x2." + t, in: []string{"u16:iota"}, out: []string{"f16x2"}, rows: 256, target: target, body: []string{
				"mul.lo.u16 %h0, %a, 0x0101", "xor.b16 %h0, %h0, 0xff00", "cvt.rn" + relu + ".f16x2." + t + " %x, %h0"}})
		}
		list = append(list, spec{name: "cvt.rn.satfinite" + relu + ".e2m1x2.f32", in: []string{"f32:fp8", "f32:fp8"}, out: []string{"u32", "f16x2"}, rows: 320, target: target,
			locals: []string{".reg .b8 %small;"}, body: []string{"cvt.rn.satfinite" + relu + ".e2m1x2.f32 %small, %a, %b", "cvt.u32.u8 %x, %small",
				"cvt.rn" + relu + ".f16x2.e2m1x2 %y, %small"}})
	}
	for _, q := range []string{"ld.global", "ld.weak.global.L1::evict_last.L2::evict_first", "ld.relaxed.gpu.global", "ld.global.nc.L2::evict_last", "ld.global.hint"} {
		for _, t := range []string{".v8.b32", ".v4.b64"} {
			list = append(list, wideMove(q, "st.global", t, target))
		}
	}
	for _, q := range []string{"st.weak.global.L2::evict_normal", "st.release.sys.global.L1::no_allocate", "st.global.hint"} {
		for _, t := range []string{".v8.f32", ".v4.u64"} {
			list = append(list, wideMove("ld.global", q, t, target))
		}
	}
	return list
}

// wideMove copies 32 bytes of each thread with a load and a store of that size.
func wideMove(load, store, t, target string) spec {
	list, n := "{%m0, %m1, %m2, %m3, %m4, %m5, %m6, %m7}", 8
	bits := "b32"
	if strings.HasPrefix(t, ".v4") {
		list, n, bits = "{%m0, %m1, %m2, %m3}", 4, "b64"
	}
	hinted := func(q string) (instr, policy string) {
		if plain, ok := strings.CutSuffix(q, ".hint"); ok {
			return plain + ".L2::cache_hint", ", %l3"
		}
		return q, ""
	}
	ld, from := hinted(load)
	st, to := hinted(store)
	name := load
	if store != "st.global" {
		name = store
	}
	return spec{name: name + t, in: []string{"u64:rand", "u64:rand", "u64:rand", "u64:rand"}, out: []string{"u64", "u64", "u64", "u64"}, rows: 64, target: target, stores: true,
		locals: []string{".reg ." + bits + " %m<" + string(rune('0'+n)) + ">;"},
		body:   []string{"createpolicy.fractional.L2::evict_first.b64 %l3, 1.0", ld + t + " " + list + ", [%from]" + from, st + t + " [%to], " + list + to}}
}
