package main

import (
	"fmt"
	"slices"
)

// moveSpecs are mov with packing and unpacking, cvta, isspacep and the special
// registers whose values are determined.
func moveSpecs() (list []spec) {
	for _, t := range []string{"b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"} {
		s := op("mov."+t, column(t), edge(t))
		s.rows = 64
		list = append(list, s)
	}
	list = append(list,
		spec{name: "mov.pred", in: []string{"u32:bool"}, out: []string{"u32"}, rows: 64,
			body: []string{"setp.ne.u32 %p, %a, 0", "mov.pred %q, %p", "selp.u32 %x, 7, 9, %q"}},
		spec{name: "mov.b32.pack", in: []string{"u16:edge", "u16:edge"}, out: []string{"u32"}, body: []string{"mov.b32 %x, {%a, %b}"}},
		spec{name: "mov.b32.unpack", in: []string{"u32:edge"}, out: []string{"u16", "u16"}, body: []string{"mov.b32 {%x, %y}, %a"}},
		spec{name: "mov.b64.pack2", in: []string{"u32:edge", "u32:edge"}, out: []string{"u64"}, body: []string{"mov.b64 %x, {%a, %b}"}},
		spec{name: "mov.b64.unpack2", in: []string{"u64:edge"}, out: []string{"u32", "u32"}, body: []string{"mov.b64 {%x, %y}, %a"}},
		spec{name: "mov.b64.pack4", in: []string{"u16:rand", "u16:rand", "u16:edge", "u16:edge"}, out: []string{"u64"}, rows: 64,
			body: []string{"mov.b64 %x, {%a, %b, %c, %d}"}},
		spec{name: "mov.b64.unpack4", in: []string{"u64:rand"}, out: []string{"u16", "u16", "u16", "u16"}, rows: 64,
			body: []string{"mov.b64 {%x, %y, %z, %w}, %a"}},
		spec{name: "mov.b64.unpack2.sink", in: []string{"u64:rand"}, out: []string{"u32"}, rows: 64,
			body: []string{"mov.b64 {_, %x}, %a"}},
	)
	return slices.Concat(list, vectorMoveSpecs(), spaceSpecs(), specialSpecs())
}

// vectorMoveSpecs are mov of whole vectors. Elements are read before any is written.
func vectorMoveSpecs() (list []spec) {
	for _, t := range []string{"b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"} {
		c := column(t)
		list = append(list, spec{name: "mov.v2." + t, in: []string{edge(t), c + ":rand"}, out: []string{c, c}, rows: 64,
			locals: []string{".reg .v2 ." + t + " %V;"},
			body:   []string{"mov.v2." + t + " %V, {%a, %b}", "mov.v2." + t + " {%x, %y}, %V", "mov.v2." + t + " {%x, %y}, {%y, %x}"}})
		if bitsOf(c) == 64 {
			continue // a vector has 128 bits at most
		}
		list = append(list, spec{name: "mov.v4." + t, in: []string{edge(t), c + ":rand", c + ":rand", c + ":rand"}, out: []string{c, c, c, c}, rows: 64,
			locals: []string{".reg .v4 ." + t + " %V;"},
			body:   []string{"mov.v4." + t + " %V, {%a, %b, %c, %d}", "mov.v4." + t + " {%x, %y, %z, %w}, {%V.w, %V.x, %V.y, %V.z}"}})
	}
	return append(list, spec{name: "mov.v2.constant", in: []string{"u32:rand"}, out: []string{"u32", "u32"}, rows: 64,
		body: []string{"mov.v2.u32 {%x, %y}, {7, %a}"}})
}

// spaceSpecs are addresses of variables in the state spaces.
func spaceSpecs() (list []spec) {
	spaces := []string{"global", "shared", "local", "const"}
	for _, v := range spaces {
		s := spec{name: "isspacep." + v, in: []string{"u32:zero"}, out: []string{"u32"}, rows: 32, body: []string{
			"mov.u64 %l0, var", "cvta." + v + ".u64 %l1, %l0", "mov.u32 %x, 0"}}
		for i, asked := range append(spaces, "shared::cta") {
			s.body = append(s.body, "isspacep."+asked+" %p, %l1")
			s.body = collect(s.body, i, false)
		}
		back := spec{name: "cvta." + v, in: []string{"u32:rand"}, out: []string{"u32", "u32"}, rows: 32, body: []string{
			"mov.u64 %l0, var", "cvta." + v + ".u64 %l1, %l0", "cvta.to." + v + ".u64 %l2, %l1",
			"setp.eq.u64 %p, %l0, %l2", "selp.u32 %x, 1, 0, %p"}}
		if v == "const" {
			back.body = append(back.body, "ld.u32 %y, [%l1+4]")
		} else {
			back.body = append(back.body, "st."+v+".u32 [%l2+4], 77", "bar.sync 0", "ld.u32 %y, [%l1+4]")
		}
		for _, p := range []*spec{&s, &back} {
			switch v {
			case "local":
				p.locals = []string{".local .align 8 .b8 var[64];"}
			case "const":
				p.top = []string{".const .align 8 .u32 var[4] = {11, 12, 13, 14};"}
			default:
				p.top = []string{"." + v + " .align 8 .b8 var[64];"}
			}
		}
		list = append(list, s, back)
	}
	list = append(list, spec{name: "isspacep.param", in: []string{"u32:zero"}, out: []string{"u32"}, rows: 32, body: []string{
		"mov.b64 %l0, n", "cvta.param.u64 %l1, %l0", "isspacep.param %p, %l1", "isspacep.global %q, %to",
		"isspacep.param %r, %to", "mov.u32 %x, 0", "selp.u32 %t0, 1, 0, %p", "selp.u32 %t1, 2, 0, %q", "selp.u32 %t2, 4, 0, %r",
		"or.b32 %x, %t0, %t1", "or.b32 %x, %x, %t2"}})
	return list
}

// specialSpecs are the special registers.
func specialSpecs() (list []spec) {
	for _, r := range []string{"tid", "ntid", "ctaid", "nctaid"} {
		s := spec{name: "special." + r, in: []string{"u32:zero"}, out: []string{"u32", "u32", "u32", "u16"}, rows: 192, block: 64}
		for i, axis := range []string{".x", ".y", ".z"} {
			s.body = append(s.body, "mov.u32 "+outNames[i]+", %"+r+axis)
		}
		s.body = append(s.body, "cvt.u16.u32 %w, %"+r+".x")
		list = append(list, s)
	}
	masks := spec{name: "special.lanemask", in: []string{"u32:zero"}, rows: 64}
	for i, m := range []string{"eq", "le", "lt", "ge", "gt"} {
		masks.out = append(masks.out, "u32")
		masks.body = append(masks.body, fmt.Sprintf("mov.u32 %%x%d, %%lanemask_%s", i, m))
	}
	// Each block of a launch without clusters is a cluster of its own.
	for _, r := range []string{"clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid"} {
		s := spec{name: "special." + r, in: []string{"u32:zero"}, out: []string{"u32", "u32", "u32"}, rows: 192, block: 64}
		for i, axis := range []string{".x", ".y", ".z"} {
			s.body = append(s.body, "mov.u32 "+outNames[i]+", %"+r+axis)
		}
		list = append(list, s)
	}
	return append(list, masks,
		spec{name: "special.cluster_rank", in: []string{"u32:zero"}, out: []string{"u32", "u32", "u32"}, rows: 192, block: 64, body: []string{
			"mov.u32 %x, %cluster_ctarank", "mov.u32 %y, %cluster_nctarank", "mov.pred %q, %is_explicit_cluster", "selp.u32 %z, 1, 0, %q"}},
		spec{name: "special.current_graph_exec", in: []string{"u32:zero"}, out: []string{"u64"}, rows: 64, body: []string{"mov.u64 %x, %current_graph_exec"}},
		spec{name: "special.laneid", in: []string{"u32:zero"}, out: []string{"u32", "u32"}, rows: 128, body: []string{
			"mov.u32 %x, %laneid", "mov.u32 %t0, %warpid", "mov.u32 %t1, %nwarpid", "setp.lt.u32 %p, %t0, %t1", "selp.u32 %y, 1, 0, %p"}},
		spec{name: "special.smid", in: []string{"u32:zero"}, out: []string{"u32"}, rows: 64, body: []string{
			"mov.u32 %t0, %smid", "mov.u32 %t1, %nsmid", "setp.lt.u32 %p, %t0, %t1", "selp.u32 %x, 1, 0, %p"}},
		spec{name: "special.smem", in: []string{"u32:zero"}, out: []string{"u32", "u32"}, rows: 64, shared: 272, body: []string{
			"mov.u32 %x, %dynamic_smem_size", "mov.u32 %t1, %total_smem_size", "setp.ge.u32 %p, %t1, %x", "selp.u32 %y, 1, 0, %p"}},
		// Clocks do not run backwards.
		spec{name: "special.clock", in: []string{"u32:zero"}, out: []string{"u32"}, rows: 64, body: []string{
			"mov.u64 %l0, %clock64", "mov.u64 %l2, %globaltimer", "mov.u32 %t0, %clock", "bar.sync 0", "mov.u64 %l1, %clock64",
			"mov.u64 %l3, %globaltimer", "mov.u32 %t1, %clock", "sub.u32 %t1, %t1, %t0",
			"setp.le.u64 %p, %l0, %l1", "setp.le.and.u64 %q, %l2, %l3, %p", "setp.ge.and.s32 %r, %t1, 0, %q", "selp.u32 %x, 1, 0, %r"}},
	)
}
