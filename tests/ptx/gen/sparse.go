package main

import "strings"

// metadata makes %e of random bits: valid codes of four bits.
func (p *product) metadata(line func(string, ...any)) {
	codes, choices := uint64(0xe4edc984), 7 // two of four elements, in order
	switch {
	case strings.Contains(p.types, "tf32"):
		codes, choices = 0xe4, 1
	case p.unsorted:
		codes, choices = 0x19e4b73621edc984, 15
	}
	line("\t.reg .b32 %%e, %%code, %%random;\n\t.reg .b64 %%codes;\n\tmov.u32 %%e, 0;")
	line("\tld.param.u64 %%at, [e];\n\tmad.wide.u32 %%at, %%row, 4, %%at;\n\tld.global.b32 %%random, [%%at];")
	for n := range 8 {
		line("\tshr.u32 %%code, %%random, %d;\n\tand.b32 %%code, %%code, %d;\n\tshl.b32 %%code, %%code, 2;", 4*n, choices)
		line("\tmov.u64 %%codes, 0x%x;\n\tshr.u64 %%codes, %%codes, %%code;\n\tcvt.u32.u64 %%code, %%codes;", codes)
		line("\tand.b32 %%code, %%code, 15;\n\tshl.b32 %%code, %%code, %d;\n\tor.b32 %%e, %%e, %%code;", 4*n)
	}
}

// sparseProducts are the mma.sp of every shape and selector.
func sparseProducts() (list []product) {
	add := func(p product, selectors int) {
		for n := range selectors {
			p.selector = n
			for _, p.sparse = range []string{"sp", "sp::ordered_metadata"} {
				list = append(list, p)
			}
			if n == 0 && !strings.Contains(p.types, "tf32") {
				p.sparse, p.unsorted = "sp", true
				list = append(list, p)
				p.unsorted = false
			}
		}
	}
	for _, t := range []string{"f32.f16.f16.f32", "f16.f16.f16.f16", "f32.bf16.bf16.f32"} {
		sums := 4
		if t[:3] == "f16" {
			sums = 2
		}
		add(product{shape: "m16n8k16", types: t, a: 2, b: 2, c: sums, d: sums}, 4)
		add(product{shape: "m16n8k32", types: t, a: 4, b: 4, c: sums, d: sums}, 2)
	}
	add(product{shape: "m16n8k8", types: "f32.tf32.tf32.f32", a: 2, b: 2, c: 4, d: 4}, 4)
	add(product{shape: "m16n8k16", types: "f32.tf32.tf32.f32", a: 4, b: 4, c: 4, d: 4}, 2)
	for _, e := range []string{"e4m3.e4m3", "e4m3.e5m2", "e5m2.e4m3", "e5m2.e5m2"} {
		add(product{shape: "m16n8k64", types: "f32." + e + ".f32", a: 4, b: 4, c: 4, d: 4, mask: 0xbfbfbfbf}, 1)
	}
	for _, sat := range []bool{false, true} {
		for _, t := range []string{"s32.s8.s8.s32", "s32.u8.u8.s32", "s32.s8.u8.s32", "s32.u8.s8.s32"} {
			small := strings.ReplaceAll(t, "8", "4")
			selectors := 2
			if sat {
				selectors = 1
			}
			add(product{shape: "m16n8k32", types: t, sat: sat, a: 2, b: 2, c: 4, d: 4}, selectors)
			add(product{shape: "m16n8k64", types: t, sat: sat, a: 4, b: 4, c: 4, d: 4}, 1)
			add(product{shape: "m16n8k64", types: small, sat: sat, a: 2, b: 2, c: 4, d: 4}, selectors)
			add(product{shape: "m16n8k128", types: small, sat: sat, a: 4, b: 4, c: 4, d: 4}, 1)
		}
	}
	return list
}
