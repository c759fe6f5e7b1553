package main

import (
	"fmt"
	"strings"
)

// cubeOf is a size of cubes of a geometry, and the columns of a fetch from one.
func (g geometry) cubeOf(width int, kind string) (size string, in []string) {
	size, in = fmt.Sprint(width), repeat(kind, 3)
	if g.layered {
		size, in = size+",2", append([]string{"u32:inside=2"}, in...)
	}
	return size, in
}

// seamlessAccesses fetch from cubes whose filter looks beyond the edges of a face.
func seamlessAccesses() (list []access) {
	for _, g := range cubeGeometries {
		for _, width := range []int{1, 2, 4, 5, 16, 33} {
			size, in := g.cubeOf(width, "f32:way")
			for _, options := range []string{" linear", ""} {
				name := strings.ReplaceAll(fmt.Sprintf("%s.seamless.%d%s", g.name, width, options), " ", ".")
				a := fetched(g, name, g.name+" "+size+" f32:range=-1,1 seamless normalized"+options+" address=clamp", in, 1)
				a.rows = 768
				if options == "" || g.layered {
					a.rows = 96
				}
				list = append(list, a)
			}
		}
		size, in := g.cubeOf(3, "f32:way")
		for _, column := range []string{"u8:rand", "s8:rand", "s16:rand", "f16:range=-8,8"} {
			floats := " floats"
			if column[0] == 'f' {
				floats = ""
			}
			a := fetched(g, g.name+".seamless.format."+nameOf(column), g.name+" "+size+" "+texel(column, 4)+floats+" linear seamless address=clamp", in, 4)
			a.rows = 192
			list = append(list, a)
		}
	}
	for _, p := range pyramids[5:] {
		a := access{name: "tex.level.seamless." + p.name, object: p.object("f32:range=-1,1", fmt.Sprintf(" linear miplinear seamless address=clamp lod=0,%d", p.levels)), in: append(p.columns(), "f32:lod"), out: repeat("u32", 1), rows: 192,
			instr: fmt.Sprintf("tex.level.%s.v4.f32.f32 {%%o0, %%o1, %%o2, %%o3}, [%%t, %s], %%c%d", p.name, p.operand(), p.geometry.columns())}
		list = append(list, a)
		for _, mode := range []string{"wrap", "border border=2,3,4,5"} {
			tag, _, _ := strings.Cut(mode, " ")
			list = append(list, fetched(p.geometry, p.name+".seamless."+tag, p.name+" "+p.size+" f32:range=-1,1 linear seamless normalized address="+mode, p.columns(), 1))
		}
	}
	return list
}

// cornerAccesses are tld4 of seamless cubes, and fetches in directions that are hardly any.
func cornerAccesses() (list []access) {
	for _, g := range cubeGeometries {
		for _, column := range []string{"f32:range=-1,1", "f16:range=-8,8", "u8:rand", "s16:rand"} {
			floats := " floats"
			if column[0] == 'f' {
				floats = ""
			}
			size, in := g.cubeOf(3, "f32:way")
			list = append(list, access{name: "tld4." + g.name + ".seamless." + nameOf(column), in: in, out: repeat("u32", 4), rows: 192,
				object: g.name + " " + size + " " + texel(column, 2) + floats + " seamless address=clamp",
				instr:  "tld4.g." + g.name + ".v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, " + g.operand() + "]"})
		}
		for _, column := range []string{"u8:rand", "s8:rand", "u16:rand", "s16:rand", "u32:rand", "s32:rand"} {
			result := map[byte]string{'u': "u32", 's': "s32"}[column[0]]
			size, in := g.cubeOf(2, "f32:way")
			list = append(list, access{name: "tld4." + g.name + ".seamless.whole." + nameOf(column), in: in, out: repeat("u32", 4), rows: 192,
				object: g.name + " " + size + " " + texel(column, 2) + " seamless address=clamp",
				instr:  "tld4.r." + g.name + ".v4." + result + ".f32 {%o0, %o1, %o2, %o3}, [%t, " + g.operand() + "]"})
		}
		for _, options := range []string{"", " linear", " linear seamless"} {
			size, in := g.cubeOf(5, "f32:edge")
			a := fetched(g, strings.ReplaceAll(g.name+".edge"+options, " ", "."), g.name+" "+size+" f32:range=-1,1 normalized address=clamp"+options, in, 1)
			a.rows = 192
			list = append(list, a)
		}
	}
	for _, p := range pyramids[5:] {
		in := append(p.columns(), repeat("f32:edge", 6)...)
		n := p.geometry.columns()
		a := access{name: "tex.grad.edge." + p.name, object: p.object("f32:range=-1,1", fmt.Sprintf(" linear miplinear address=clamp lod=0,%d", p.levels)), in: in, out: repeat("u32", 1), rows: 64,
			instr: fmt.Sprintf("tex.grad.%s.v4.f32.f32 {%%o0, %%o1, %%o2, %%o3}, [%%t, %s], {%%c%d, %%c%d, %%c%d, %%c%d}, {%%c%d, %%c%d, %%c%d, %%c%d}", p.name, p.operand(), n, n+1, n+2, n+2, n+3, n+4, n+5, n+5)}
		list = append(list, a)
	}
	return list
}
