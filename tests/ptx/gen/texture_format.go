package main

import (
	"fmt"
	"strings"
)

// texelKinds are the types of channels, with how they can be read.
var texelKinds = []struct {
	column          string
	floats, numbers bool // can be read as normalized numbers; holds numbers
}{
	{column: "u8:rand", floats: true}, {column: "s8:rand", floats: true}, {column: "u16:rand", floats: true}, {column: "s16:rand", floats: true},
	{column: "u32:rand"}, {column: "s32:rand"}, {column: "f16:edge", numbers: true}, {column: "f32:edge", numbers: true},
	{column: "f16:range=-8,8", numbers: true}, {column: "f32:range=-8,8", numbers: true},
}

// nameOf is a column's type, and what tells generators apart.
func nameOf(column string) string {
	name, gen, _ := strings.Cut(column, ":")
	if strings.HasPrefix(gen, "edge") {
		name += ".edge"
	}
	return name
}

// formatAccesses are all formats, with each number of channels, and in each geometry.
func formatAccesses() (list []access) {
	two := flatGeometries[1]
	e := extents{text: "9,7", axes: []int{9, 7}}
	add := func(g geometry, e extents, column string, channels int, options, tag string) {
		name := fmt.Sprintf("format.%s.%s.x%d%s", g.name, nameOf(column), channels, tag)
		a := fetched(g, name, g.name+" "+e.text+" "+texel(column, channels)+options, coordinates(g, e, strings.Contains(options, "normalized")), 4)
		a.rows = 64
		list = append(list, a)
	}
	for _, k := range texelKinds {
		for _, channels := range []int{1, 2, 4} {
			add(two, e, k.column, channels, " address=clamp", ".point")
			add(two, e, k.column, channels, " address=border border=-0.5,1.5,0.3,300", ".point.border")
			if k.floats {
				add(two, e, k.column, channels, " floats address=clamp", ".floats")
				add(two, e, k.column, channels, " floats linear address=clamp", ".floats.linear")
				add(two, e, k.column, channels, " floats linear normalized address=border border=-0.5,1.5,0.3,2", ".floats.linear.border")
			}
			if k.numbers {
				add(two, e, k.column, channels, " linear address=clamp", ".linear")
				add(two, e, k.column, channels, " linear normalized address=border border=-0.5,1e5,1e-6,300", ".linear.border")
			}
		}
		for _, g := range flatGeometries {
			options := " linear normalized address=wrap"
			if k.floats {
				options = " floats" + options
			} else if !k.numbers {
				continue
			}
			if g.name != "2d" {
				add(g, sizes[g.name][0], k.column, 2, options, ".wrap")
			}
		}
	}
	for _, channels := range []int{1, 2, 4} {
		for _, filter := range []string{"", " linear"} {
			name := strings.ReplaceAll(fmt.Sprintf("srgb.x%d%s", channels, filter), " ", ".")
			object := "2d 16,16 " + texel("u8:iota", channels) + " floats srgb address=clamp" + filter
			a := fetched(two, name, object, coordinates(two, extents{axes: []int{16, 16}}, false), 4)
			if filter == "" { // every byte
				a.in, a.rows, a.out = []string{"u32:iota"}, 256, repeat("u32", 2)
				a.before = []string{"and.b32 %n, %c0, 15", "cvt.rn.f32.u32 %n, %n", "shr.u32 %c0, %c0, 4", "cvt.rn.f32.u32 %c0, %c0"}
				a.instr = "tex.2d.v4.f32.f32 {%o0, %o2, %o3, %o1}, [%t, {%n, %c0}]"
			}
			list = append(list, a)
		}
	}
	return list
}

// wholeAccesses fetch with integer coordinates.
func wholeAccesses() (list []access) {
	for _, g := range flatGeometries {
		e := sizes[g.name][0]
		var in []string
		if g.layered {
			in = append(in, "u32:inside=3")
		}
		for _, n := range e.axes {
			in = append(in, fmt.Sprintf("u32:inside=%d", n))
		}
		for _, mode := range []string{"clamp", "border", "wrap", "mirror"} {
			for _, options := range []string{"", " linear", " normalized"} {
				name := strings.ReplaceAll("tex.whole."+g.name+"."+mode+options, " ", ".")
				list = append(list, access{name: name, in: in, out: repeat("u32", 2), rows: 64,
					object: g.name + " " + e.text + " f32:range=-1,1 f32:range=-1,1" + options + " address=" + mode + " border=0.5,2,3,4",
					instr:  "tex." + g.name + ".v4.f32.s32 {%o0, %o1, %o2, %o3}, [%t, " + g.operand() + "]"})
			}
		}
		for _, column := range []string{"u8:rand", "s16:rand", "u32:rand", "f16:edge"} {
			ty := "s32"
			if column[0] == 'u' {
				ty = "u32"
			}
			if column[0] == 'f' {
				ty = "f32"
			}
			list = append(list, access{name: "tex.whole." + g.name + "." + nameOf(column), in: in, out: repeat("u32", 4), rows: 64,
				object: g.name + " " + e.text + " " + texel(column, 2) + " address=border border=0.5,2,3,4",
				instr:  "tex." + g.name + ".v4." + ty + ".s32 {%o0, %o1, %o2, %o3}, [%t, " + g.operand() + "]"})
		}
	}
	return list
}

// memoryAccesses fetch from linear memory, and from memory with a pitch.
func memoryAccesses() (list []access) {
	one, two := flatGeometries[0], flatGeometries[1]
	for _, k := range texelKinds {
		for _, channels := range []int{1, 2, 4} {
			for _, read := range []string{"", " floats"} {
				if read != "" && !k.floats {
					continue
				}
				name := strings.ReplaceAll(fmt.Sprintf("tex.buffer.%s.x%d%s", nameOf(k.column), channels, read), " ", ".")
				list = append(list, access{name: name, object: "buffer 24 " + texel(k.column, channels) + read, in: []string{"u32:inside=24"}, out: repeat("u32", 4), rows: 64,
					instr: "tex.1d.v4.f32.s32 {%o0, %o1, %o2, %o3}, [%t, {%c0}]"})
			}
		}
	}
	for _, options := range []string{"", " address=clamp", " address=border border=1,2,3,4"} {
		tag := strings.ReplaceAll(strings.SplitN(options+" ", " border", 2)[0], " ", "")
		tag = strings.ReplaceAll(tag, "=", "_")
		list = append(list, access{name: "tex.buffer.edges." + tag, object: "buffer 24 u32:rand" + options, in: []string{"u32:edge"}, out: repeat("u32", 4),
			rows: 64, instr: "tex.1d.v4.u32.s32 {%o0, %o1, %o2, %o3}, [%t, {%c0}]"})
		list = append(list, fetched(one, "buffer.real."+tag, "buffer 24 f32:range=-1,1"+options, []string{"f32:texel=24"}, 4))
	}
	for _, mode := range []string{"clamp", "border", "wrap", "mirror"} {
		for _, filter := range []string{"", " linear"} {
			for _, scale := range []string{"", " normalized"} {
				name := strings.ReplaceAll("pitch."+mode+filter+scale, " ", ".")
				list = append(list, fetched(two, name, "pitch 9,6 f32:range=-1,1"+filter+scale+" address="+mode+" border=2,3,4,5",
					coordinates(two, extents{axes: []int{9, 6}}, scale != ""), 1))
			}
		}
	}
	for _, k := range texelKinds {
		options := " address=clamp"
		if k.floats {
			options += " floats linear"
		}
		list = append(list, fetched(two, "pitch.format."+nameOf(k.column), "pitch 9,6 "+texel(k.column, 2)+options, coordinates(two, extents{axes: []int{9, 6}}, false), 4))
		list[len(list)-1].rows = 64
	}
	return list
}

// gatherAccesses are tld4.
func gatherAccesses() (list []access) {
	add := func(geometry geometry, name, object, component, result string, in []string, rows int) {
		list = append(list, access{name: "tld4." + name, object: object, in: in, out: repeat("u32", 4), rows: rows,
			instr: "tld4." + component + "." + geometry.name + ".v4." + result + ".f32 {%o0, %o1, %o2, %o3}, [%t, " + geometry.operand() + "]"})
	}
	two := flatGeometries[1]
	for _, mode := range []string{"clamp", "border", "wrap", "mirror"} {
		for n, component := range []string{"r", "g", "b", "a"} {
			scale := ""
			if n%2 == 1 {
				scale = " normalized"
			}
			for _, filter := range []string{"", " linear"} {
				name := strings.ReplaceAll(fmt.Sprintf("2d.%s.%s%s%s", mode, component, filter, scale), " ", ".")
				add(two, name, "2d 7,5 "+texel("f32:range=-1,1", 4)+filter+scale+" gather address="+mode+" border=2,3,4,5", component, "f32",
					coordinates(two, extents{axes: []int{7, 5}}, scale != ""), 64)
			}
		}
	}
	for _, k := range texelKinds {
		for _, component := range []string{"r", "g", "b", "a"} {
			result := "f32"
			if !k.numbers {
				result = map[byte]string{'u': "u32", 's': "s32"}[k.column[0]]
			}
			add(two, "format."+nameOf(k.column)+"."+component, "2d 7,5 "+texel(k.column, 2)+" gather address=border border=2,3,4,5", component, result,
				coordinates(two, extents{axes: []int{7, 5}}, false), 32)
			if k.floats {
				add(two, "format."+nameOf(k.column)+".floats."+component, "2d 7,5 "+texel(k.column, 2)+" floats linear gather address=border border=2,0.5,-4,5", component, "f32",
					coordinates(two, extents{axes: []int{7, 5}}, false), 32)
			}
		}
	}
	add(two, "levels.texel", "2d 8,8 "+texel("f32:range=-1,1", 4)+" levels=4 lod=1,3 gather address=wrap,border", "g", "f32", coordinates(two, extents{axes: []int{8, 8}}, true), 64)
	for n, component := range []string{"r", "g", "b", "a"} {
		add(flatGeometries[4], "a2d."+component, "a2d 7,5,3 "+texel("f32:range=-1,1", 4)+" address=clamp", component, "f32", coordinates(flatGeometries[4], sizes["a2d"][0], false), 64)
		add(cubeGeometries[0], "cube."+component, "cube 4 "+texel("f32:range=-1,1", 4)+" normalized address=clamp", component, "f32", repeat("f32:way", 3), 64)
		add(cubeGeometries[1], "acube."+component, "acube 5,2 "+texel("f32:range=-1,1", 4)+" normalized address=clamp", component, "f32", append([]string{"u32:inside=2"}, repeat("f32:way", 3)...), 64)
		add(two, "levels."+component, "2d 8,8 "+texel("f32:range=-1,1", 4)+" normalized levels=4 lod=1,3 gather address=clamp bias="+fmt.Sprint(n), component, "f32", coordinates(two, extents{axes: []int{8, 8}}, true), 64)
	}
	return list
}
