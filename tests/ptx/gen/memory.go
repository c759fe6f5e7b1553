package main

import (
	"fmt"
	"slices"
	"strings"
)

var memoryTypes = []string{"b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "f32", "b64", "u64", "s64", "f64"}

// memorySpecs are ld and st.
func memorySpecs() []spec {
	return slices.Concat(loadSpecs(), vectorSpecs(), qualifierSpecs(), storageSpecs())
}

// loadSpecs load and store every type in every space; small ones are extended.
func loadSpecs() (list []spec) {
	for _, t := range memoryTypes {
		bits := bitsOf(t)
		list = append(list, spec{name: "ld.global." + t, in: []string{column(t) + ":rand"}, out: []string{wide(column(t)), "u64"}, rows: 64,
			body: []string{"ld.global." + t + " %x, [%from]", "ld.global." + t + " %y, [%from]"}})
		s := spec{name: "st.global." + t, in: []string{"u64:rand"}, out: []string{"u64"}, rows: 64, stores: true,
			body: []string{"st.global.u64 [%to], -1", "st.global." + t + " [%to], %a"}}
		if bits > 8 {
			s.in = []string{column(t) + ":rand"}
		}
		list = append(list, s)
	}
	for _, space := range []string{"shared", "local", "generic"} {
		for _, t := range []string{"u8", "s8", "u16", "s16", "b32", "f32", "b64"} {
			in := ".shared"
			s := spec{name: "ld." + space + "." + t, in: []string{"u64:rand"}, out: []string{"u64", "u64"}, rows: 64, block: 64}
			switch space {
			case "local":
				in = ".local"
				s.locals = []string{".local .align 8 .b8 buf[1024];"}
			case "generic":
				in = ""
				s.top = []string{".shared .align 8 .b8 buf[1024];"}
			default:
				s.top = []string{".shared .align 8 .b8 buf[1024];"}
			}
			s.body = []string{"mov.u32 %t0, %tid.x", "mov.u64 %l0, buf"}
			if in == "" {
				s.body = append(s.body, "cvta.shared.u64 %l0, %l0")
			}
			st, narrow := "st"+in+"."+t, "%a"
			if b := bitsOf(t); b == 32 || b == 16 {
				narrow = map[int]string{16: "%h0", 32: "%t1"}[b]
				s.body = append(s.body, fmt.Sprintf("cvt.u%d.u64 %s, %%a", b, narrow))
			}
			s.body = append(s.body, "mad.wide.u32 %l0, %t0, 16, %l0", "st"+in+".b64 [%l0], -1",
				st+" [%l0], "+narrow, st+" [%l0+8], "+narrow, "ld"+in+".b64 %x, [%l0]")
			if b := bitsOf(t); b == 32 || b == 16 {
				s.body = append(s.body, "ld"+in+"."+t+" "+narrow+", [%l0+8]", fmt.Sprintf("cvt.u64.u%d %%y, %s", b, narrow))
			} else {
				s.body = append(s.body, "ld"+in+"."+t+" %y, [%l0+8]")
			}
			list = append(list, s)
		}
	}
	return list
}

// vectorSpecs move vectors in the spaces.
func vectorSpecs() (list []spec) {
	for _, v := range []int{2, 4} {
		for _, t := range memoryTypes {
			if v*bitsOf(t) > 128 {
				continue
			}
			c := column(t)
			var in, out []string
			for range v {
				in, out = append(in, c+":rand"), append(out, c)
			}
			from, to := strings.Join(inNames[:v], ", "), strings.Join(outNames[:v], ", ")
			form := fmt.Sprintf(".v%d.%s", v, t)
			list = append(list, spec{name: "ld.global" + form, in: in, out: out, rows: 64,
				body: []string{"ld.global" + form + " {" + to + "}, [%from]"}})
			list = append(list, spec{name: "st.global" + form, in: in, out: out, rows: 64, stores: true,
				body: []string{"st.global" + form + " [%to], {" + from + "}"}})
			if t[0] == 'b' {
				list = append(list, spec{name: "ld.shared" + form, in: in, out: out, rows: 64, block: 64,
					top: []string{".shared .align 16 .b8 buf[1024];"},
					body: []string{"mov.u32 %t0, %tid.x", "mov.u32 %t1, buf", "mad.lo.u32 %t1, %t0, 16, %t1",
						"st.shared" + form + " [%t1], {" + from + "}", "xor.b32 %t1, %t1, 16", "bar.sync 0",
						"ld.shared" + form + " {" + to + "}, [%t1]"}})
				list = append(list, spec{name: "ld.local" + form, in: in, out: out, rows: 64,
					locals: []string{".local .align 16 .b8 buf[64];"},
					body: []string{"mov.u64 %l0, buf", "and.b32 %t0, %row, 3", "mad.wide.u32 %l0, %t0, 16, %l0",
						"st.local" + form + " [%l0], {" + from + "}", "ld.local" + form + " {" + to + "}, [%l0]"}})
			}
		}
	}
	return list
}

// qualifierSpecs are the qualifiers of ld and st that change no value.
func qualifierSpecs() (list []spec) {
	for _, q := range []string{"ld.weak.global", "ld.global.ca", "ld.global.cg", "ld.global.cs", "ld.global.lu", "ld.global.cv",
		"ld.global.nc", "ld.global.ca.nc", "ld.global.nc.L1::no_allocate.L2::128B", "ld.global.L1::evict_last", "ld.global.L2::64B",
		"ld.volatile.global", "ld.relaxed.cta.global", "ld.relaxed.gpu.global", "ld.acquire.gpu.global", "ld.acquire.sys.global",
		"ld", "ld.volatile", "ld.relaxed.sys", "ldu.global", "ldu"} {
		list = append(list, spec{name: q + ".u32", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64,
			body: []string{q + ".u32 %x, [%from]"}})
	}
	for _, q := range []string{"st.weak.global", "st.global.wb", "st.global.cg", "st.global.cs", "st.global.wt", "st.global.L1::no_allocate",
		"st.volatile.global", "st.relaxed.gpu.global", "st.release.gpu.global", "st.release.sys.global", "st", "st.volatile", "st.relaxed.cta"} {
		list = append(list, spec{name: q + ".u32", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64, stores: true,
			body: []string{q + ".u32 [%to], %a"}})
	}
	for _, q := range []string{"prefetch.global.L1 [%from]", "prefetch.global.L2 [%from]", "prefetch.L1 [%from]", "prefetch.global.L2::evict_last [%from]",
		"prefetchu.L1 [%from]", "membar.cta", "membar.gl", "membar.sys", "fence.sc.cta", "fence.sc.gpu", "fence.acq_rel.cta",
		"fence.acq_rel.gpu", "fence.acq_rel.sys", "nanosleep.u32 20", "pmevent 3", "pmevent.mask 6"} {
		name, _, _ := strings.Cut(q, " ")
		list = append(list, spec{name: name, in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64,
			body: []string{q, "ld.global.u32 %x, [%from]"}})
	}
	list = append(list, spec{name: "applypriority.global.L2::evict_normal", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64,
		body: []string{"and.b64 %l0, %from, -128", "applypriority.global.L2::evict_normal [%l0], 128", "ld.global.u32 %x, [%from]"}})
	list = append(list, spec{name: "discard.global.L2", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64,
		top:  []string{".global .align 128 .b8 scratch[16384];"},
		body: []string{"mov.u64 %l0, scratch", "mad.wide.u32 %l0, %row, 128, %l0", "discard.global.L2 [%l0], 128", "ld.global.u32 %x, [%from]"}})
	return list
}

// storageSpecs are variables: initialisers, dynamic shared memory, the stack.
func storageSpecs() (list []spec) {
	return append(list,
		spec{name: "ld.const", in: []string{"u32:below=8"}, out: []string{"u32", "f32", "u64", "u16"}, rows: 64,
			top: []string{".const .u32 words[8] = {1, 2, 0xffffffff, -4, 5, 6, 7, 8};", ".const .f32 reals[8] = {1.5, 0f3f800000, -0.0, 3.0};",
				".const .u64 longs[8] = {0x123456789abcdef0, 2, 3};", ".const .align 2 .b8 bytes[16] = {1, 2, 3, 4, 255, 6};"},
			body: []string{"mov.u64 %l0, words", "mad.wide.u32 %l0, %a, 4, %l0", "ld.const.u32 %x, [%l0]",
				"mov.u64 %l0, reals", "mad.wide.u32 %l0, %a, 4, %l0", "ld.const.f32 %y, [%l0]",
				"mov.u64 %l0, longs", "mad.wide.u32 %l0, %a, 8, %l0", "ld.const.u64 %z, [%l0]",
				"mov.u64 %l0, bytes", "mad.wide.u32 %l0, %a, 2, %l0", "ld.const.u16 %w, [%l0]"}},
		spec{name: "global.initialised", in: []string{"u32:below=4"}, out: []string{"u32", "u32"}, rows: 64,
			top: []string{".global .u32 values[4] = {10, 20, 30, 40};", ".global .u64 pointers[4] = {values, values+4, generic(values)+8, values+12};",
				".global .f64 halfs[2] = {0.5, 0d3ff0000000000000};"},
			body: []string{"mov.u64 %l0, pointers", "mad.wide.u32 %l0, %a, 8, %l0", "ld.global.u64 %l1, [%l0]", "ld.global.u32 %x, [%l1]",
				"and.b32 %t0, %a, 1", "mov.u64 %l0, halfs", "mad.wide.u32 %l0, %t0, 8, %l0", "ld.global.u32 %y, [%l0+4]"}},
		spec{name: "shared.dynamic", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 128, block: 64, shared: 256,
			top: []string{".extern .shared .align 16 .b8 dynamic[];"},
			body: []string{"mov.u32 %t0, %tid.x", "mov.u32 %t1, dynamic", "mad.lo.u32 %t2, %t0, 4, %t1", "st.shared.u32 [%t2], %a", "bar.sync 0",
				"xor.b32 %t0, %t0, 63", "mad.lo.u32 %t2, %t0, 4, %t1", "ld.shared.u32 %x, [%t2]"}},
		spec{name: "ld.param", in: []string{"u32:zero"}, out: []string{"u64", "u64", "u32", "u16"}, rows: 32,
			moreArg: ", .param .u64 p0, .param .u16 p1, .param .s8 p2, .param .f32 p3, .param .align 8 .b8 p4[8]",
			moreVal: " u64=0x123456789abcdef0 u16=0xfedc s8=-5 f32=1.25 u64=0x0807060504030201",
			body: []string{"ld.param.u64 %x, [p0]", "ld.param.u8 %y, [p4+3]", "ld.param.s8 %z, [p2]", "ld.param.u16 %w, [p1]",
				"ld.param.b32 %t0, [p3]", "cvt.u64.u32 %l0, %t0", "shl.b64 %l0, %l0, 32", "or.b64 %y, %y, %l0"}},
		spec{name: "alloca", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64,
			body: []string{"stacksave.u64 %l3", "alloca.u64 %l0, 64, 16", "st.local.u32 [%l0+12], %a", "alloca.u64 %l1, 64", "st.local.u32 [%l1+12], 5",
				"ld.local.u32 %x, [%l0+12]", "stackrestore.u64 %l3"}},
	)
}
