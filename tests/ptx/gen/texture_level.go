package main

import (
	"fmt"
	"strings"
)

// cubeAccesses fetch from cubes.
func cubeAccesses() (list []access) {
	for _, g := range cubeGeometries {
		for _, width := range []int{1, 2, 4, 5, 16, 33} {
			size, in := fmt.Sprint(width), repeat("f32:way", 3)
			if g.layered {
				size, in = size+",2", append([]string{"u32:inside=2"}, in...)
			}
			for _, options := range []string{"", " linear", " linear normalized", " normalized"} {
				name := strings.ReplaceAll(fmt.Sprintf("%s.%d%s", g.name, width, options), " ", ".")
				a := fetched(g, name, g.name+" "+size+" f32:range=-1,1"+options+" address=clamp", in, 1)
				a.rows = 192
				list = append(list, a)
			}
		}
		size, in := "6", repeat("f32:way", 3)
		if g.layered {
			size, in = size+",2", append([]string{"u32:inside=2"}, in...)
		}
		for _, mode := range []string{"border border=2,3,4,5", "wrap", "mirror"} {
			name, _, _ := strings.Cut(mode, " ")
			a := fetched(g, g.name+".mode."+name, g.name+" "+size+" f32:range=-1,1 linear normalized address="+mode, in, 1)
			list = append(list, a)
		}
		for _, column := range []string{"u8:rand", "s16:rand", "f16:range=-8,8"} {
			floats := " floats"
			if column[0] == 'f' {
				floats = ""
			}
			a := fetched(g, g.name+".format."+nameOf(column), g.name+" "+size+" "+texel(column, 4)+floats+" linear normalized address=clamp", in, 4)
			a.rows = 64
			list = append(list, a)
		}
	}
	return list
}

// pyramid is a texture with levels.
type pyramid struct {
	geometry
	size   string
	axes   []int
	levels int
}

var pyramids = []pyramid{
	{geometry: flatGeometries[0], size: "16", axes: []int{16}, levels: 5},
	{geometry: flatGeometries[1], size: "16,8", axes: []int{16, 8}, levels: 5},
	{geometry: flatGeometries[2], size: "8,8,4", axes: []int{8, 8, 4}, levels: 4},
	{geometry: flatGeometries[3], size: "16,3", axes: []int{16}, levels: 5},
	{geometry: flatGeometries[4], size: "13,10,3", axes: []int{13, 10}, levels: 4},
	{geometry: cubeGeometries[0], size: "16", levels: 5},
	{geometry: cubeGeometries[1], size: "8,2", levels: 4},
}

func (p *pyramid) columns() []string {
	if p.axes != nil {
		return coordinates(p.geometry, extents{axes: p.axes}, true)
	}
	in := repeat("f32:way", 3)
	if p.layered {
		in = append([]string{"u32:inside=2"}, in...)
	}
	return in
}

func (p *pyramid) object(column, options string) string {
	return fmt.Sprintf("%s %s %s normalized levels=%d%s", p.name, p.size, column, p.levels, options)
}

// plain is object, but that its descriptor does not ask for normalized coordinates.
func (p *pyramid) plain(column, options string) string {
	return fmt.Sprintf("%s %s %s levels=%d lod=0,%d%s", p.name, p.size, column, p.levels, p.levels, options)
}

// levelAccesses are tex.level and tex.base on textures with levels.
func levelAccesses() (list []access) {
	for _, p := range pyramids {
		add := func(form, tag, column, options, result string, stored int) {
			in, level := p.columns(), ""
			if form == ".level" {
				in, level = append(in, "f32:lod"), fmt.Sprintf(", %%c%d", p.geometry.columns())
			}
			list = append(list, access{name: "tex" + form + "." + p.name + "." + tag, object: p.object(column, options), in: in, out: repeat("u32", stored),
				instr: "tex" + form + "." + p.name + ".v4." + result + ".f32 {%o0, %o1, %o2, %o3}, [%t, " + p.operand() + "]" + level})
		}
		all := fmt.Sprintf(" address=clamp lod=0,%d", p.levels)
		for _, filter := range []string{"", " linear"} {
			for _, mip := range []string{"", " miplinear", " miplinear exact"} {
				tag := strings.ReplaceAll("filter"+filter+mip, " ", ".")
				add(".level", tag, "f32:range=-1,1", all+filter+mip, "f32", 1)
			}
		}
		add(".level", "bias", "f32:range=-1,1", all+" miplinear linear bias=0.3", "f32", 1)
		add(".level", "bounds", "f32:range=-1,1", " address=clamp miplinear linear lod=0.4,1.7", "f32", 1)
		add(".level", "bounds.point", "f32:range=-1,1", " address=clamp lod=0.4,1.7", "f32", 1)
		add(".level", "crossed", "f32:range=-1,1", " address=clamp miplinear linear lod=2.3,0.6", "f32", 1)
		add(".level", "wrap", "f32:range=-1,1", fmt.Sprintf(" address=wrap miplinear linear lod=0,%d bias=-0.7", p.levels), "f32", 1)
		add(".level", "u8", texel("u8:rand", 4), all+" floats linear miplinear", "f32", 4)
		add(".level", "u16.whole", texel("u16:rand", 2), all, "u32", 4)
		add(".base", "plain", "f32:range=-1,1", all+" linear", "f32", 1)
		add("", "plain", "f32:range=-1,1", all+" linear miplinear", "f32", 1)
		add("", "bias", "f32:range=-1,1", all+" linear miplinear bias=1.4", "f32", 1)
		add("", "least", "f32:range=-1,1", fmt.Sprintf(" address=clamp linear miplinear lod=0.8,%d", p.levels), "f32", 1)
		if p.axes == nil {
			continue
		}
		// Coordinates that the descriptor does not call normalized.
		for _, mode := range []string{"clamp", "wrap", "mirror", "border"} {
			for kind, normalized := range map[string]bool{"unit": true, "texel": false} {
				list = append(list, access{name: "tex.level." + p.name + "." + kind + "." + mode, object: p.plain("f32:range=-1,1", " linear address="+mode), in: append(coordinates(p.geometry, extents{axes: p.axes}, normalized), "f32:lod"), out: repeat("u32", 1),
					instr: fmt.Sprintf("tex.level.%s.v4.f32.f32 {%%o0, %%o1, %%o2, %%o3}, [%%t, %s], %%c%d", p.name, p.operand(), p.geometry.columns())})
			}
		}
		var in []string
		if p.layered {
			in = append(in, "u32:inside=3")
		}
		for _, n := range p.axes {
			in = append(in, fmt.Sprintf("u32:inside=%d", n))
		}
		list = append(list, access{name: "tex.level." + p.name + ".whole", object: p.object("f32:range=-1,1 f32:range=-1,1", all), in: append(in, "u32:inside=3"), out: repeat("u32", 2),
			instr: fmt.Sprintf("tex.level.%s.v4.f32.s32 {%%o0, %%o1, %%o2, %%o3}, [%%t, %s], %%c%d", p.name, p.operand(), p.geometry.columns())})
		list = append(list, p.wholeModes(append(in, "u32:inside=3"))...)
	}
	return list
}

// wholeModes are fetches by whole coordinates, beyond the ends too, in the other address modes and
// where the descriptor does not call coordinates normalized.
func (p *pyramid) wholeModes(in []string) (list []access) {
	instr := fmt.Sprintf("tex.level.%s.v4.f32.s32 {%%o0, %%o1, %%o2, %%o3}, [%%t, %s], %%c%d", p.name, p.operand(), p.geometry.columns())
	for _, mode := range []string{"wrap", "mirror", "border"} {
		list = append(list,
			access{name: "tex.level." + p.name + ".whole." + mode, object: p.object("f32:range=-1,1", fmt.Sprintf(" lod=0,%d address=%s", p.levels, mode)), in: in, out: repeat("u32", 1), instr: instr},
			access{name: "tex.level." + p.name + ".whole.texel." + mode, object: p.plain("f32:range=-1,1", " address="+mode), in: in, out: repeat("u32", 1), instr: instr})
	}
	return list
}

// gradientAccesses are tex.grad.
func gradientAccesses() (list []access) {
	for _, p := range pyramids {
		vector := func(from int) string {
			var names []string
			for n := range p.geometry.axes {
				names = append(names, fmt.Sprintf("%%c%d", from+n))
			}
			if len(names) == 1 {
				return "{" + names[0] + "}"
			}
			if len(names) == 3 {
				names = append(names, names[2])
			}
			return "{" + strings.Join(names, ", ") + "}"
		}
		first := p.geometry.columns()
		add := func(name, object string, in []string) {
			list = append(list, access{name: "tex.grad." + p.name + "." + name, object: object, in: in, out: repeat("u32", 1),
				instr: "tex.grad." + p.name + ".v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, " + p.operand() + "], " + vector(first) + ", " + vector(first+p.geometry.axes)})
		}
		if p.axes != nil {
			add("texel.large", p.plain("f32:range=-1,1", " miplinear linear address=wrap"), append(p.columns(), repeat("f32:range=-0.5,0.5", 2*p.geometry.axes)...))
			add("texel.far", p.plain("f32:range=-1,1", " miplinear linear address=wrap"), append(p.columns(), repeat("f32:range=-8,8", 2*p.geometry.axes)...))
		}
		for _, filter := range []string{"", " linear"} {
			for _, mip := range []string{"", " miplinear"} {
				for _, step := range []string{"f32:range=-0.02,0.02", "f32:range=-0.5,0.5", "f32:way"} {
					kind := map[string]string{"f32:range=-0.02,0.02": "small", "f32:range=-0.5,0.5": "large", "f32:way": "any"}[step]
					in := append(p.columns(), repeat(step, 2*p.geometry.axes)...)
					add(strings.ReplaceAll(kind+filter+mip, " ", "."), p.object("f32:range=-1,1", fmt.Sprintf(" address=clamp lod=0,%d", p.levels)+filter+mip), in)
				}
			}
		}
	}
	return list
}
