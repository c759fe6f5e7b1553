package main

import (
	"fmt"
	"strings"
)

// access is a fixture whose threads make one access to a texture or surface each.
type access struct {
	name   string
	object string   // the line of the object, behind its name
	in     []string // columns; in registers %c0, %c1, …
	before []string // instructions before
	instr  string   // the instruction; its results are %o0, %o1, …
	out    []string // columns of the results that are compared
	rows   int      // 0: accessRows
	loop   bool     // one thread makes all accesses, in order: they write
	fault  bool
}

// accessRows are the rows without another number.
const accessRows = 96

// geometry is how an instruction names texels.
type geometry struct {
	name    string
	axes    int
	layered bool
}

var (
	flatGeometries = []geometry{{name: "1d", axes: 1}, {name: "2d", axes: 2}, {name: "3d", axes: 3}, {name: "a1d", axes: 1, layered: true}, {name: "a2d", axes: 2, layered: true}}
	cubeGeometries = []geometry{{name: "cube", axes: 3}, {name: "acube", axes: 3, layered: true}}
)

// operand is the coordinates of an instruction, which are its first columns.
func (g geometry) operand() string {
	var list []string
	n := g.axes
	if g.layered {
		n++
	}
	for k := range n {
		list = append(list, fmt.Sprintf("%%c%d", k))
	}
	if n == 3 {
		list = append(list, list[2])
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// columns are how many columns the operand takes.
func (g geometry) columns() int {
	if g.layered {
		return g.axes + 1
	}
	return g.axes
}

// typed is the type of a column for ld and st, and the register that holds it.
func typed(column string) (instr, reg string) {
	switch n := bitsOf(column); n {
	case 8:
		return "u8", "b16"
	default:
		return fmt.Sprintf("b%d", n), fmt.Sprintf("b%d", n)
	}
}

// text is the source of the fixture.
func (a *access) text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	rows := a.rows
	if rows == 0 {
		rows = accessRows
	}
	kind := "texture"
	if strings.HasPrefix(a.name, "su") {
		kind = "surface"
	}
	line("//! %s t %s", kind, a.object)
	line("//! in c %d %s", rows, strings.Join(a.in, " "))
	args, params := "", ""
	if len(a.out) > 0 {
		line("//! out out %d %s", rows, strings.Join(a.out, " "))
		args, params = " out", ", .param .u64 out"
	}
	block, grid := rows, 1
	for block > 128 {
		block, grid = block/2, grid*2
	}
	if a.loop {
		block, grid = 1, 1
	}
	line("//! run k grid %d block %d args t c%s", grid, block, args)
	if a.fault {
		line("//! fault")
	}
	line(".version 8.5\n.target sm_90\n.address_size 64\n")
	line(".visible .entry k(.param .u64 t, .param .u64 c%s)\n{", params)
	a.body(line, rows)
	line("\tret;\n}")
	return b.String()
}

// body is what stands between the braces.
func (a *access) body(line func(string, ...any), rows int) {
	line("\t.reg .pred %%p;\n\t.reg .b32 %%row, %%n;\n\t.reg .b64 %%t, %%from, %%to;")
	for n, c := range a.in {
		_, reg := typed(c)
		line("\t.reg .%s %%c%d;", reg, n)
	}
	width := "b32"
	if len(a.out) > 0 {
		_, width = typed(a.out[0])
	}
	line("\t.reg .%s %%o<4>;", width)
	line("\tld.param.u64 %%t, [t];\n\tld.param.u64 %%from, [c];")
	if len(a.out) > 0 {
		line("\tld.param.u64 %%to, [out];")
	}
	offsets, stride := place(a.in)
	if a.loop {
		line("\tmov.u32 %%row, 0;\nloop:")
	} else {
		line("\tmov.u32 %%row, %%ctaid.x;\n\tmov.u32 %%n, %%ntid.x;\n\tmul.lo.u32 %%row, %%row, %%n;\n\tmov.u32 %%n, %%tid.x;\n\tadd.u32 %%row, %%row, %%n;")
		line("\tmad.wide.u32 %%from, %%row, %d, %%from;", stride)
	}
	for n, c := range a.in {
		t, _ := typed(c)
		line("\tld.global.%s %%c%d, [%%from+%d];", t, n, offsets[n])
	}
	for _, l := range a.before {
		line("\t%s;", l)
	}
	line("\t%s;", a.instr)
	if len(a.out) > 0 {
		outs, step := place(a.out)
		line("\tmad.wide.u32 %%to, %%row, %d, %%to;", step)
		for n, c := range a.out {
			t, _ := typed(c)
			line("\tst.global.%s [%%to+%d], %%o%d;", t, outs[n], n)
		}
	}
	if a.loop {
		line("\tadd.u64 %%from, %%from, %d;\n\tadd.u32 %%row, %%row, 1;\n\tsetp.lt.u32 %%p, %%row, %d;\n\t@%%p bra loop;", stride, rows)
	}
}

// repeat is a word several times.
func repeat(word string, n int) []string {
	list := make([]string, n)
	for k := range list {
		list[k] = word
	}
	return list
}

// texel is the columns of a texel.
func texel(column string, channels int) string { return strings.Join(repeat(column, channels), " ") }

// fetched is a fetch of a geometry with floating-point coordinates.
func fetched(g geometry, name, object string, in []string, stored int) access {
	return access{name: "tex." + name, object: object, in: in, out: repeat("u32", stored),
		instr: "tex." + g.name + ".v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, " + g.operand() + "]"}
}

// extents are a size as an object's line has it, and the extents of its axes.
type extents struct {
	text string
	axes []int
}

// coordinates are the columns of a fetch.
func coordinates(g geometry, e extents, normalized bool) (in []string) {
	if g.layered {
		in = append(in, "u32:inside=3")
	}
	kind := "texel"
	if normalized {
		kind = "unit"
	}
	for _, n := range e.axes {
		in = append(in, fmt.Sprintf("f32:%s=%d", kind, n))
	}
	return in
}

// sizes of textures of a geometry: of odd extents, and of powers of two.
var sizes = map[string][]extents{
	"1d":  {{text: "11", axes: []int{11}}, {text: "8", axes: []int{8}}},
	"2d":  {{text: "7,5", axes: []int{7, 5}}, {text: "8,4", axes: []int{8, 4}}},
	"3d":  {{text: "5,3,6", axes: []int{5, 3, 6}}, {text: "4,4,4", axes: []int{4, 4, 4}}},
	"a1d": {{text: "11,3", axes: []int{11}}},
	"a2d": {{text: "7,5,3", axes: []int{7, 5}}},
}

// textureSources are the fixtures of folder texture.
func textureSources() map[string]string {
	files := map[string]string{}
	for _, group := range [][]access{modeAccesses(), formatAccesses(), wholeAccesses(), memoryAccesses(), gatherAccesses(), cubeAccesses(),
		levelAccesses(), gradientAccesses(), queryAccesses(), loadAccesses(), storeAccesses(), reduceAccesses(), trapAccesses(), offsetAccesses(), seamlessAccesses(), cornerAccesses()} {
		for _, a := range group {
			if _, twice := files[a.name]; twice {
				panic("two fixtures are named " + a.name)
			}
			files[a.name] = a.text()
		}
	}
	return files
}

// modeAccesses are all address modes and filters of each geometry.
func modeAccesses() (list []access) {
	for _, g := range flatGeometries {
		for n, e := range sizes[g.name] {
			for _, mode := range []string{"clamp", "border", "wrap", "mirror"} {
				for _, filter := range []string{"", " linear"} {
					for _, scale := range []string{"", " normalized"} {
						name := strings.ReplaceAll(fmt.Sprintf("%s.%s%s%s", g.name, mode, filter, scale), " ", ".")
						object := fmt.Sprintf("%s %s f32:range=-1,1%s%s address=%s border=0.75,0.5,0.25,0.125", g.name, e.text, filter, scale, mode)
						if n > 0 {
							name += ".even"
						}
						a := fetched(g, name, object, coordinates(g, e, scale != ""), 1)
						if a.rows = 128; g.axes == 3 {
							a.rows = 192
						}
						list = append(list, a)
					}
				}
			}
		}
	}
	two := flatGeometries[1]
	for _, modes := range []string{"wrap,clamp", "clamp,mirror", "border,wrap", "mirror,border", "clamp,border", "wrap,mirror"} {
		for _, filter := range []string{"", " linear"} {
			name := "2d.mixed." + strings.ReplaceAll(modes, ",", "_") + strings.ReplaceAll(filter, " ", ".")
			list = append(list, fetched(two, name, "2d 6,5 f32:range=-1,1 f32:range=-1,1 normalized address="+modes+" border=1,2,3,4"+filter,
				coordinates(two, extents{axes: []int{6, 5}}, true), 2))
		}
	}
	// Gradients and levels mean nothing to a texture without levels.
	for _, g := range flatGeometries {
		e := sizes[g.name][0]
		a := fetched(g, "level.none."+g.name, g.name+" "+e.text+" f32:range=-1,1 linear normalized address=clamp", append(coordinates(g, e, true), "f32:lod"), 1)
		a.instr = fmt.Sprintf("tex.level.%s.v4.f32.f32 {%%o0, %%o1, %%o2, %%o3}, [%%t, %s], %%c%d", g.name, g.operand(), g.columns())
		list = append(list, a)
	}
	return list
}
