package main

import (
	"fmt"
	"strings"
)

// product is an mma, whose fragments come from memory register by register.
type product struct {
	shape, types string // such as "m16n8k16" and "f32.f16.f16.f32"
	layouts      string // "" is row.col
	tail         string // of bits: ".xor.popc"
	sat          bool
	a, b, c, d   int // registers
	mask         uint32

	sparse   string // "" or "sp" and "sp::ordered_metadata"
	unsorted bool   // metadata names the later of two elements first, too
	selector int
}

// columnOf is the column of a fixture that makes registers with elements of a type.
func columnOf(element string) string {
	switch element {
	case "f16", "bf16":
		return element + "x2:edge"
	case "tf32", "f32":
		return "f32:edge"
	case "f64":
		return "f64:edge"
	}
	return "u32:rand"
}

// outOf is the column of registers with results of a type.
func outOf(element string) string {
	switch element {
	case "f16":
		return "u32"
	case "f32", "f64":
		return "u" + element[1:]
	}
	return "s32"
}

// warps is how many warps run a product, each on its own numbers.
const warps = 4

func (p *product) name() string {
	name := "mma.sync." + p.shape
	if p.sparse != "" {
		name = "mma." + strings.Replace(p.sparse, "::", ".", 1) + "." + p.shape
	}
	name += "." + p.types + p.tail
	if p.layouts != "" {
		name += "." + p.layouts
	}
	if p.sat {
		name += ".satfinite"
	}
	if p.unsorted {
		name += ".unsorted"
	}
	if p.selector > 0 {
		name += fmt.Sprintf(".f%d", p.selector)
	}
	return name
}

// text is the source of the fixture.
func (p *product) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	types := strings.Split(p.types, ".")
	for _, list := range []struct {
		name    string
		count   int
		element string
	}{{name: "a", count: p.a, element: types[1]}, {name: "b", count: p.b, element: types[2]}, {name: "c", count: p.c, element: types[3]}} {
		line("//! in %s %d%s", list.name, 32*warps, strings.Repeat(" "+columnOf(list.element), list.count))
	}
	meta, metaParam := "", ""
	if p.sparse != "" {
		line("//! in e %d u32:rand", 32*warps)
		meta, metaParam = " e", ", .param .u64 e"
	}
	line("//! out d %d%s", 32*warps, strings.Repeat(" "+outOf(types[0]), p.d))
	line("//! run k grid 1 block %d args a b c d%s", 32*warps, meta)
	line(".version 8.7\n.target sm_90\n.address_size 64\n")
	line(".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d%s)\n{", metaParam)
	line("\t.reg .b32 %%row;\n\t.reg .b64 %%at;")
	lists := map[string]string{}
	width := func(element string) int {
		if element == "f64" {
			return 64
		}
		return 32
	}
	declare := func(name string, count, bits int) {
		var regs []string
		for n := range count {
			regs = append(regs, fmt.Sprintf("%%%s%d", name, n))
		}
		lists[name] = "{" + strings.Join(regs, ", ") + "}"
		line("\t.reg .b%d %s;", bits, strings.Join(regs, ", "))
	}
	line("\tmov.u32 %%row, %%tid.x;")
	for n, name := range []string{"a", "b", "c"} {
		count, bits := []int{p.a, p.b, p.c}[n], width(types[n+1])
		declare(name, count, bits)
		line("\tld.param.u64 %%at, [%s];\n\tmad.wide.u32 %%at, %%row, %d, %%at;", name, count*bits/8)
		for k := range count {
			line("\tld.global.b%d %%%s%d, [%%at+%d];", bits, name, k, k*bits/8)
			if p.mask != 0 && n < 2 {
				line("\tand.b32 %%%s%d, %%%s%d, 0x%x;", name, k, name, k, p.mask)
			}
		}
	}
	bits := width(types[0])
	declare("d", p.d, bits)
	layouts := p.layouts
	if layouts == "" {
		layouts = "row.col"
	}
	sat := ""
	if p.sat {
		sat = ".satfinite"
	}
	kind, tail := "mma", ""
	if p.sparse != "" {
		kind, tail = "mma."+p.sparse, fmt.Sprintf(", %%e, %d", p.selector)
		p.metadata(line)
	}
	line("\t%s.sync.aligned.%s.%s%s.%s%s %s, %s, %s, %s%s;", kind, p.shape, layouts, sat, p.types, p.tail, lists["d"], lists["a"], lists["b"], lists["c"], tail)
	line("\tld.param.u64 %%at, [d];\n\tmad.wide.u32 %%at, %%row, %d, %%at;", p.d*bits/8)
	for k := range p.d {
		line("\tst.global.b%d [%%at+%d], %%d%d;", bits, k*bits/8, k)
	}
	line("\tret;\n}")
	return b.String()
}

// products are the mma of every shape.
func products() (list []product) {
	for _, layouts := range []string{"row.row", "row.col", "col.row", "col.col"} {
		list = append(list, product{shape: "m8n8k4", types: "f32.f16.f16.f32", layouts: layouts, a: 2, b: 2, c: 8, d: 8})
	}
	list = append(list,
		product{shape: "m8n8k4", types: "f16.f16.f16.f16", layouts: "row.col", a: 2, b: 2, c: 4, d: 4},
		product{shape: "m8n8k4", types: "f32.f16.f16.f16", layouts: "col.row", a: 2, b: 2, c: 4, d: 8},
		product{shape: "m8n8k4", types: "f64.f64.f64.f64", a: 1, b: 1, c: 2, d: 2},
		product{shape: "m16n8k4", types: "f64.f64.f64.f64", a: 2, b: 1, c: 4, d: 4},
		product{shape: "m16n8k8", types: "f64.f64.f64.f64", a: 4, b: 2, c: 4, d: 4},
		product{shape: "m16n8k16", types: "f64.f64.f64.f64", a: 8, b: 4, c: 4, d: 4},
		product{shape: "m16n8k4", types: "f32.tf32.tf32.f32", a: 2, b: 1, c: 4, d: 4},
		product{shape: "m16n8k8", types: "f32.tf32.tf32.f32", a: 4, b: 2, c: 4, d: 4},
		product{shape: "m16n8k8", types: "f32.bf16.bf16.f32", a: 2, b: 1, c: 4, d: 4},
		product{shape: "m16n8k16", types: "f32.bf16.bf16.f32", a: 4, b: 2, c: 4, d: 4},
		product{shape: "m16n8k8", types: "f32.f16.f16.f32", a: 2, b: 1, c: 4, d: 4},
		product{shape: "m16n8k16", types: "f32.f16.f16.f32", a: 4, b: 2, c: 4, d: 4},
		product{shape: "m16n8k8", types: "f16.f16.f16.f16", a: 2, b: 1, c: 2, d: 2},
		product{shape: "m16n8k16", types: "f16.f16.f16.f16", a: 4, b: 2, c: 2, d: 2})
	for _, e := range [][2]string{{"e4m3", "e4m3"}, {"e4m3", "e5m2"}, {"e5m2", "e4m3"}, {"e5m2", "e5m2"}} {
		p := product{shape: "m16n8k32", types: "f32." + e[0] + "." + e[1] + ".f32", a: 4, b: 2, c: 4, d: 4, mask: 0xbfbfbfbf}
		q := product{shape: "m16n8k16", types: "f16." + e[0] + "." + e[1] + ".f16", a: 2, b: 1, c: 2, d: 2, mask: 0x9f9f9fbf}
		list = append(list, p, q,
			product{shape: "m16n8k16", types: p.types, a: 2, b: 1, c: 4, d: 4, mask: p.mask},
			product{shape: "m16n8k32", types: q.types, a: 4, b: 2, c: 2, d: 2, mask: q.mask})
	}
	for _, sat := range []bool{false, true} {
		for n, t := range [][2]string{{"s8", "s8"}, {"u8", "u8"}, {"s8", "u8"}, {"u8", "s8"}} {
			mixed := "s32." + t[0] + "." + t[1] + ".s32"
			small := strings.ReplaceAll(mixed, "8", "4")
			list = append(list, product{shape: "m16n8k32", types: mixed, sat: sat, a: 4, b: 2, c: 4, d: 4},
				product{shape: "m16n8k64", types: small, sat: sat, a: 4, b: 2, c: 4, d: 4})
			if n == 0 {
				list = append(list, product{shape: "m8n8k16", types: mixed, sat: sat, a: 1, b: 1, c: 2, d: 2},
					product{shape: "m16n8k16", types: mixed, sat: sat, a: 2, b: 1, c: 4, d: 4},
					product{shape: "m8n8k32", types: small, sat: sat, a: 1, b: 1, c: 2, d: 2},
					product{shape: "m16n8k32", types: small, sat: sat, a: 2, b: 1, c: 4, d: 4})
			}
		}
	}
	for _, op := range []string{".xor.popc", ".and.popc"} {
		list = append(list, product{shape: "m8n8k128", types: "s32.b1.b1.s32", tail: op, a: 1, b: 1, c: 2, d: 2},
			product{shape: "m16n8k128", types: "s32.b1.b1.s32", tail: op, a: 2, b: 1, c: 4, d: 4},
			product{shape: "m16n8k256", types: "s32.b1.b1.s32", tail: op, a: 4, b: 2, c: 4, d: 4})
	}
	return list
}

// matrixSources returns the text of the fixtures of matrices by name.
func matrixSources() map[string]string {
	files := map[string]string{}
	add := func(name, text string) {
		if _, twice := files[name]; twice {
			panic("two fixtures are named " + name)
		}
		files[name] = text
	}
	for _, p := range append(products(), sparseProducts()...) {
		add(p.name(), p.text())
	}
	for _, w := range wmmas() {
		add(w.name(), w.text())
	}
	for _, m := range moves() {
		add(m.name, m.text())
	}
	return files
}
