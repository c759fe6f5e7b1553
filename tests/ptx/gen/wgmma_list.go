package main

import "strings"

// groups are the wgmma of every type and size.
func groups() (list []group) {
	add := func(g group) { list = append(list, g) }
	both := func(g group) {
		add(g)
		g.memory, g.blocks, g.kind = true, 2, ""
		add(g)
	}
	floats := []group{{k: 16, d: "f32", a: "f16", b: "f16"}, {k: 16, d: "f16", a: "f16", b: "f16"}, {k: 16, d: "f32", a: "bf16", b: "bf16"},
		{k: 8, d: "f32", a: "tf32", b: "tf32"}}
	for _, g := range floats {
		g.n = 8
		both(g)
		g.mask, g.kind, g.blocks = 0xbfffbfff, "small", 6
		add(g)
		g.mask = 0
		for _, scales := range []string{", 1, -1", ", -1, 1", ", -1, -1"} {
			g.scales, g.kind, g.blocks = scales, "scale"+strings.ReplaceAll(strings.ReplaceAll(scales, ", ", "."), "-", "n"), 1
			if g.k == 16 {
				g.scales += ", 0"
			}
			add(g)
		}
		g.scales, g.kind, g.zero, g.blocks = "", "zero", true, 2
		add(g)
		g.zero, g.hash, g.kind, g.n = false, true, "", 256
		both(g)
	}
	for n := 16; n < 256; n += 8 {
		add(group{n: n, k: 16, d: "f32", a: "f16", b: "f16", hash: true, blocks: 1})
		if n%32 == 0 {
			add(group{n: n, k: 16, d: "f16", a: "f16", b: "f16", hash: true, blocks: 1})
			add(group{n: n, k: 32, d: "s32", a: "s8", b: "u8", hash: true, blocks: 1})
		}
	}
	bytes := []string{"e4m3", "e5m2"}
	for _, d := range []string{"f32", "f16"} {
		for _, a := range bytes {
			for _, b := range bytes {
				g := group{n: 8, k: 32, d: d, a: a, b: b, mask: 0xbfbfbfbf}
				both(g)
				g.mask, g.kind, g.blocks = 0, "wide", 6
				add(g)
				g.mask, g.kind = 0x9f9f9fbf, "small"
				add(g)
				g.kind, g.sums = "near", map[string]string{"f32": "f32:range=-4,4", "f16": "f16x2:range=-4,4"}[d]
				add(g)
				g.mask, g.sums, g.hash, g.kind, g.n, g.blocks = 0xbfbfbfbf, "", true, "", 256, 1
				add(g)
			}
		}
		g := group{n: 8, k: 32, d: d, a: "e4m3", b: "e5m2", mask: 0xbfbfbfbf, scales: ", -1, 1", kind: "scale.n1.1", blocks: 1}
		add(g)
		g.scales, g.kind, g.zero, g.blocks = "", "zero", true, 2
		add(g)
	}
	for _, sat := range []bool{false, true} {
		for _, a := range []string{"s8", "u8"} {
			for _, b := range []string{"s8", "u8"} {
				g := group{n: 8, k: 32, d: "s32", a: a, b: b, sat: sat, blocks: 1, sums: "u32:edge"}
				both(g)
				g.zero, g.kind, g.blocks = true, "zero", 2
				add(g)
				g.zero, g.kind, g.n, g.hash, g.blocks = false, "", 256, true, 1
				add(g)
			}
		}
	}
	for _, n := range []int{8, 24, 48, 256} {
		g := group{n: n, k: 256, d: "s32", a: "b1", b: "b1", tail: ".and.popc", blocks: 1, hash: n > 8}
		both(g)
		if n == 8 {
			g.zero, g.kind, g.blocks = true, "zero", 2
			add(g)
		}
	}
	return append(list, sparseGroups()...)
}

// sparseGroups are the wgmma.sp.
func sparseGroups() (list []group) {
	add := func(g group, selectors int) {
		g.sparse = true
		for _, g.n = range []int{8, 112, 256} {
			for _, g.memory = range []bool{false, true} {
				g.hash, g.blocks = g.n > 8, 1
				if g.n > 8 && g.memory {
					continue
				}
				for g.selector = range selectors {
					list = append(list, g)
				}
			}
		}
	}
	for _, d := range []string{"f32", "f16"} {
		add(group{k: 32, d: d, a: "f16", b: "f16"}, 2)
		for _, a := range []string{"e4m3", "e5m2"} {
			for _, b := range []string{"e4m3", "e5m2"} {
				add(group{k: 64, d: d, a: a, b: b, mask: 0xbfbfbfbf}, 1)
			}
		}
	}
	add(group{k: 32, d: "f32", a: "bf16", b: "bf16"}, 2)
	add(group{k: 16, d: "f32", a: "tf32", b: "tf32"}, 2)
	for _, sat := range []bool{false, true} {
		for _, a := range []string{"s8", "u8"} {
			for _, b := range []string{"s8", "u8"} {
				add(group{k: 64, d: "s32", a: a, b: b, sat: sat, sums: "u32:edge"}, 1)
			}
		}
	}
	return list
}

// groupSources returns the text of the fixtures of wgmma by name.
func groupSources() map[string]string {
	files := map[string]string{}
	for _, g := range groups() {
		if _, twice := files[g.name()]; twice {
			panic("two fixtures are named " + g.name())
		}
		files[g.name()] = g.text()
	}
	return files
}
