package main

import (
	"fmt"
	"strings"
)

// offsetAccesses are fetches with an offset in texels.
func offsetAccesses() (list []access) {
	for _, g := range flatGeometries {
		e := sizes[g.name][0]
		for _, mode := range []string{"clamp", "border", "wrap", "mirror"} {
			for _, options := range []string{"", " linear", " linear normalized"} {
				name := strings.ReplaceAll(g.name+".offset."+mode+options, " ", ".")
				a := fetched(g, name, g.name+" "+e.text+" f32:range=-1,1 address="+mode+" border=2,3,4,5"+options, coordinates(g, e, strings.Contains(options, "normalized")), 1)
				if strings.Contains(options, "normalized") || !strings.Contains("wrap mirror", mode) {
					list = append(list, g.shifted(a, 16))
				}
			}
		}
		a := fetched(g, g.name+".offset.far", g.name+" "+e.text+" f32:range=-1,1 address=border border=2,3,4,5", coordinates(g, e, false), 1)
		list = append(list, g.shifted(a, 80))
		in := append([]string(nil), coordinates(g, e, false)...)
		for n := range in {
			in[n] = "u32:inside=5"
		}
		whole := access{name: "tex.whole." + g.name + ".offset", in: in, out: repeat("u32", 1), rows: 96, object: g.name + " " + e.text + " f32:range=-1,1 address=border border=2,3,4,5",
			instr: "tex." + g.name + ".v4.f32.s32 {%o0, %o1, %o2, %o3}, [%t, " + g.operand() + "]"}
		list = append(list, g.shifted(whole, 16))
	}
	for _, p := range pyramids[:5] {
		for _, options := range []string{"", " linear miplinear"} {
			name := strings.ReplaceAll("tex.level.offset."+p.name+options, " ", ".")
			a := access{name: name, object: p.object("f32:range=-1,1", options+" address=wrap"+fmt.Sprintf(" lod=0,%d", p.levels)), in: append(p.columns(), "f32:lod"), out: repeat("u32", 1),
				instr: fmt.Sprintf("tex.level.%s.v4.f32.f32 {%%o0, %%o1, %%o2, %%o3}, [%%t, %s], %%c%d", p.name, p.operand(), p.geometry.columns())}
			list = append(list, p.shifted(a, 16))
		}
	}
	for _, g := range flatGeometries[1:2] {
		e := sizes[g.name][0]
		for _, mode := range []string{"clamp", "border", "wrap"} {
			a := access{name: "tld4." + g.name + ".offset." + mode, object: g.name + " " + e.text + " f32:range=-1,1 gather normalized address=" + mode + " border=2,3,4,5", in: coordinates(g, e, true), out: repeat("u32", 4),
				instr: "tld4.r." + g.name + ".v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, " + g.operand() + "]"}
			list = append(list, g.shifted(a, 16))
		}
	}
	return list
}

// shifted gives an access an offset from a range of so many texels, with zero in its middle.
func (g geometry) shifted(a access, span int) access {
	var list []string
	for n := range g.axes {
		c := fmt.Sprintf("%%c%d", len(a.in)+n)
		a.before = append(a.before, fmt.Sprintf("sub.s32 %s, %s, %d", c, c, span/2))
		list = append(list, c)
	}
	for range g.axes {
		a.in = append(a.in, fmt.Sprintf("u32:below=%d", span))
	}
	if g.axes == 3 {
		list = append(list, list[2])
	}
	a.instr += ", {" + strings.Join(list, ", ") + "}"
	return a
}
