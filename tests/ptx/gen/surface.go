package main

import (
	"fmt"
	"strings"
)

// surfaceSizes are the sizes of surfaces by geometry.
var surfaceSizes = map[string]extents{
	"1d": {text: "12", axes: []int{12}}, "2d": {text: "12,5", axes: []int{12, 5}}, "3d": {text: "6,3,4", axes: []int{6, 3, 4}},
	"a1d": {text: "12,3", axes: []int{12}}, "a2d": {text: "6,4,3", axes: []int{6, 4}},
}

// wholeColumns are integer coordinates in a surface and around it, behind the layer.
func wholeColumns(g geometry) (in []string) {
	if g.layered {
		in = append(in, "u32:inside=3")
	}
	for _, n := range surfaceSizes[g.name].axes {
		in = append(in, fmt.Sprintf("u32:inside=%d", n))
	}
	return in
}

// insideColumns are coordinates in the surface alone.
func insideColumns(g geometry) (in []string) {
	if g.layered {
		in = append(in, "u32:below=3")
	}
	for _, n := range surfaceSizes[g.name].axes {
		in = append(in, fmt.Sprintf("u32:below=%d", n))
	}
	return in
}

// scaled turns the number of an element into its first byte.
func scaled(g geometry, bytes int) []string {
	x := 0
	if g.layered {
		x = 1
	}
	return []string{fmt.Sprintf("mul.lo.u32 %%c%d, %%c%d, %d", x, x, bytes)}
}

// vectorForms are the widths of accesses by bytes.
var vectorForms = []struct {
	form     string
	bits, of int
}{
	{form: ".b8", bits: 8, of: 1}, {form: ".v2.b8", bits: 8, of: 2}, {form: ".v4.b8", bits: 8, of: 4}, {form: ".b16", bits: 16, of: 1},
	{form: ".v2.b16", bits: 16, of: 2}, {form: ".v4.b16", bits: 16, of: 4}, {form: ".b32", bits: 32, of: 1}, {form: ".v2.b32", bits: 32, of: 2},
	{form: ".v4.b32", bits: 32, of: 4}, {form: ".b64", bits: 64, of: 1}, {form: ".v2.b64", bits: 64, of: 2},
}

// texelOf is a texel of so many bytes.
func texelOf(bytes int) string {
	switch bytes {
	case 1:
		return "u8:rand"
	case 2:
		return "u16:rand"
	case 4:
		return "u32:rand"
	}
	return texel("u32:rand", bytes/4)
}

// list of registers of an instruction.
func registers(prefix string, from, n int) string {
	var names []string
	for k := range n {
		names = append(names, fmt.Sprintf("%%%s%d", prefix, from+k))
	}
	if n == 1 {
		return names[0]
	}
	return "{" + strings.Join(names, ", ") + "}"
}

// loadAccesses are suld.
func loadAccesses() (list []access) {
	for _, g := range flatGeometries {
		for _, v := range vectorForms {
			for _, bounds := range []string{"clamp", "zero", "trap"} {
				bytes, in := v.bits/8*v.of, wholeColumns(g)
				if bounds == "trap" {
					in = insideColumns(g)
				}
				list = append(list, access{name: "suld.b." + g.name + v.form + "." + bounds, object: g.name + " " + surfaceSizes[g.name].text + " " + texelOf(bytes),
					in: in, out: repeat(fmt.Sprintf("u%d", v.bits), v.of), rows: 64, before: scaled(g, bytes),
					instr: "suld.b." + g.name + v.form + "." + bounds + " " + registers("o", 0, v.of) + ", [%t, " + g.operand() + "]"})
			}
		}
	}
	// Accesses wider and narrower than an element.
	two := flatGeometries[1]
	for _, bytes := range []int{1, 2, 4, 8, 16} {
		for _, v := range vectorForms {
			if v.bits/8*v.of == bytes || v.of == 2 && v.bits != 32 {
				continue
			}
			for _, bounds := range []string{"clamp", "zero"} {
				list = append(list, access{name: fmt.Sprintf("suld.b.2d%s.%s.of%d", v.form, bounds, bytes), object: "2d 12,5 " + texelOf(bytes),
					in: wholeColumns(two), out: repeat(fmt.Sprintf("u%d", v.bits), v.of), rows: 32, before: scaled(two, v.bits/8*v.of),
					instr: "suld.b.2d" + v.form + "." + bounds + " " + registers("o", 0, v.of) + ", [%t, " + two.operand() + "]"})
			}
		}
	}
	five := flatGeometries[4]
	list = append(list, access{name: "suld.b.cube", object: "cube 4 u32:rand", in: []string{"u32:below=6", "u32:below=4", "u32:below=4"}, out: []string{"u32"}, rows: 64,
		before: scaled(five, 4), instr: "suld.b.a2d.b32.trap %o0, [%t, " + five.operand() + "]"})
	list = append(list, access{name: "suld.b.acube", object: "acube 4,2 u32:rand", in: []string{"u32:below=12", "u32:below=4", "u32:below=4"}, out: []string{"u32"}, rows: 64,
		before: scaled(five, 4), instr: "suld.b.a2d.b32.trap %o0, [%t, " + five.operand() + "]"})
	return list
}

// storeAccesses are sust.
func storeAccesses() (list []access) {
	for _, g := range flatGeometries {
		for _, v := range vectorForms {
			for _, bounds := range []string{"clamp", "zero"} {
				bytes := v.bits / 8 * v.of
				in := append(wholeColumns(g), repeat(fmt.Sprintf("u%d:rand", v.bits), v.of)...)
				list = append(list, access{name: "sust.b." + g.name + v.form + "." + bounds, object: g.name + " " + surfaceSizes[g.name].text + " " + texelOf(bytes) + " compared",
					in: in, rows: 24, loop: true, before: scaled(g, bytes),
					instr: "sust.b." + g.name + v.form + "." + bounds + " [%t, " + g.operand() + "], " + registers("c", g.columns(), v.of)})
			}
		}
		in := append(insideColumns(g), "u32:rand")
		list = append(list, access{name: "sust.b." + g.name + ".b32.trap", object: g.name + " " + surfaceSizes[g.name].text + " u32:rand compared", in: in, rows: 24, loop: true,
			before: scaled(g, 4), instr: "sust.b." + g.name + ".b32.trap [%t, " + g.operand() + "], " + registers("c", g.columns(), 1)})
	}
	two := flatGeometries[1]
	// The driver's assembler takes .b32 alone.
	for _, column := range []string{"u8:rand", "u16:rand", "u32:rand"} {
		for _, channels := range []int{1, 4} {
			for _, vec := range []int{1, 2, 4} {
				form := map[int]string{1: "", 2: ".v2", 4: ".v4"}[vec]
				in := append([]string{"u32:inside=12", "u32:inside=5"}, repeat("u32:edge", vec)...)
				list = append(list, access{name: fmt.Sprintf("sust.p.2d.%s.x%d%s", nameOf(column), channels, form), object: "2d 12,5 " + texel(column, channels) + " compared",
					in: in, rows: 32, loop: true, instr: "sust.p.2d" + form + ".b32.zero [%t, " + two.operand() + "], " + registers("c", 2, vec)})
			}
		}
	}
	for _, g := range flatGeometries {
		for _, bounds := range []string{"clamp", "zero"} {
			in := append(wholeColumns(g), repeat("u32:edge", 4)...)
			list = append(list, access{name: "sust.p." + g.name + "." + bounds, object: g.name + " " + surfaceSizes[g.name].text + " s16:rand s16:rand compared", in: in, rows: 24, loop: true,
				instr: "sust.p." + g.name + ".v4.b32." + bounds + " [%t, " + g.operand() + "], " + registers("c", g.columns(), 4)})
		}
	}
	return list
}

// reduceAccesses are sured.
func reduceAccesses() (list []access) {
	for _, g := range flatGeometries[:3] {
		for _, op := range []string{"add.u32", "add.u64", "add.s32", "min.u32", "min.s32", "min.u64", "min.s64", "max.u32", "max.s32", "max.u64", "max.s64", "and.b32", "or.b32"} {
			bytes := 4
			if strings.HasSuffix(op, "64") {
				bytes = 8
			}
			for _, bounds := range []string{"clamp", "zero"} {
				in := append(wholeColumns(g), fmt.Sprintf("u%d:rand", 8*bytes))
				name, ty, _ := strings.Cut(op, ".")
				list = append(list, access{name: "sured.b." + op + "." + g.name + "." + bounds, object: g.name + " " + surfaceSizes[g.name].text + " " + texelOf(bytes) + " compared",
					in: in, rows: 32, loop: true, before: scaled(g, bytes),
					instr: "sured.b." + name + "." + g.name + "." + ty + "." + bounds + " [%t, " + g.operand() + "], " + registers("c", g.columns(), 1)})
			}
		}
	}
	return list
}

// trapAccesses end with a fault: they are outside of a surface, or not aligned.
func trapAccesses() (list []access) {
	for _, g := range flatGeometries {
		e := surfaceSizes[g.name]
		for axis := range g.columns() {
			var in []string
			for n := range g.columns() {
				value := "u32:zero"
				if n == axis {
					value = "u32:fill=64"
				}
				in = append(in, value)
			}
			list = append(list,
				access{name: fmt.Sprintf("suld.fault.%s.%d", g.name, axis), object: g.name + " " + e.text + " u32:rand", in: in, out: []string{"u32"}, rows: 32, fault: true,
					instr: "suld.b." + g.name + ".b32.trap %o0, [%t, " + g.operand() + "]"},
				access{name: fmt.Sprintf("sust.fault.%s.%d", g.name, axis), object: g.name + " " + e.text + " u32:rand", in: in, rows: 32, fault: true,
					instr: "sust.b." + g.name + ".b32.trap [%t, " + g.operand() + "], 5"})
		}
	}
	two := flatGeometries[1]
	list = append(list,
		access{name: "suld.fault.misaligned", object: "2d 12,5 u32:rand", in: []string{"u32:fill=2", "u32:zero"}, out: []string{"u32"}, rows: 32, fault: true,
			instr: "suld.b.2d.b32.trap %o0, [%t, " + two.operand() + "]"},
		access{name: "sust.fault.p", object: "2d 12,5 u32:rand", in: []string{"u32:fill=64", "u32:zero"}, rows: 32, fault: true,
			instr: "sust.p.2d.b32.trap [%t, " + two.operand() + "], 5"},
		access{name: "sured.fault", object: "2d 12,5 u32:rand", in: []string{"u32:fill=64", "u32:zero"}, rows: 32, fault: true,
			instr: "sured.b.add.2d.u32.trap [%t, " + two.operand() + "], 5"})
	return list
}

// queryAccesses are txq and suq of what NVIDIA's driver can answer: it loads no kernel that
// asks an object for anything else.
func queryAccesses() (list []access) {
	kinds := []string{"width", "height", "depth"}
	objects := []struct{ name, line string }{
		{name: "1d", line: "1d 12 u8:rand"}, {name: "2d", line: "2d 12,5 f32:rand f32:rand normalized"}, {name: "3d", line: "3d 6,3,4 s16:rand"},
		{name: "a2d", line: "a2d 6,4,3 u8:rand u8:rand u8:rand u8:rand floats"}, {name: "cube", line: "cube 4 f16:rand normalized"}, {name: "acube", line: "acube 4,2 u16:rand"},
		{name: "levels", line: "2d 16,8 f32:rand normalized levels=4"}, {name: "buffer", line: "buffer 24 s32:rand"}, {name: "pitch", line: "pitch 9,6 s8:rand"},
	}
	for _, o := range objects {
		for _, kind := range kinds {
			list = append(list, access{name: "txq." + kind + "." + o.name, object: o.line, in: []string{"u32:inside=3"}, out: []string{"u32"}, rows: 32,
				instr: "txq." + kind + ".b32 %o0, [%t]"})
			list = append(list, access{name: "txq.level." + kind + "." + o.name, object: o.line, in: []string{"u32:inside=4"}, out: []string{"u32"}, rows: 32,
				instr: "txq.level." + kind + ".b32 %o0, [%t], %c0"})
			if o.name == "2d" || o.name == "3d" || o.name == "a2d" || o.name == "cube" {
				list = append(list, access{name: "suq." + kind + "." + o.name, object: strings.Split(strings.Split(o.line, " normalized")[0], " floats")[0], in: []string{"u32:inside=3"},
					out: []string{"u32"}, rows: 32, instr: "suq." + kind + ".b32 %o0, [%t]"})
			}
		}
	}
	return list
}
