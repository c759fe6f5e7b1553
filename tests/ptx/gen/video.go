package main

import "strings"

// wordPairs are the types of a and b of video instructions.
var wordPairs = []string{"u32.u32", "u32.s32", "s32.u32", "s32.s32"}

// videoSpecs are the video instructions.
func videoSpecs() (list []spec) {
	var one, lanes []spec
	for _, t := range wordPairs {
		for _, d := range []string{"u32.", "s32."} {
			for _, op := range []string{"vadd.", "vsub.", "vabsdiff.", "vmin.", "vmax."} {
				one = append(one, scalarVideo(op+d+t, ".sat", "")...)
			}
			one = append(one, scaledVideo("vmad."+d+t)...)
			for _, count := range []string{"2.", "4."} {
				for _, op := range []string{"vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"} {
					lanes = append(lanes, laneVideo(op+count+d+t)...)
				}
			}
		}
		if strings.HasSuffix(t, "u32") {
			for _, op := range []string{"vshl.", "vshr."} {
				one = append(one, scalarVideo(op+t[:4]+"u32.u32", ".sat", ".clamp")...)
				one = append(one, scalarVideo(op+t[:4]+"s32.u32", ".sat", ".wrap")...)
				one = append(one, scalarVideo(op+t[:4]+"u32.u32", ".sat", ".wrap")...)
				one = append(one, scalarVideo(op+t[:4]+"s32.u32", ".sat", ".clamp")...)
			}
		}
		one = append(one, compareVideo("vset."+t)...)
		lanes = append(lanes, compareLanes("vset2."+t)...)
		lanes = append(lanes, compareLanes("vset4."+t)...)
	}
	return append(one, lanes...)
}

// several is a spec of instructions that each have a result of their own: X stands for its
// register.
func several(name string, instrs ...string) spec {
	s := spec{name: name, in: []string{"u32:edge", "u32:edge", "u32:edge"}, rows: 224}
	for range instrs {
		s.out = append(s.out, "u32")
	}
	for n, text := range instrs {
		s.body = append(s.body, strings.Replace(text, "X", s.outName(n), 1))
	}
	return s
}

// scalarVideo is a video instruction on one value: alone, into a part of the result, and with a
// second operation. Mode is for shifts.
func scalarVideo(op, sat, mode string) []spec {
	shift := mode != ""
	plain, clamped := op+mode, op+sat+mode
	b, bPart := "%b", "%b.h1"
	if shift { // most edge cases are no amounts
		bPart = "%b.b3"
	}
	list := []spec{
		several(op+mode, plain+" X, %a, "+b, clamped+" X, %a, "+b, plain+" X, %a.b1, "+bPart, clamped+" X, %a.h0, %b.b2"),
		several(op+mode+".part", plain+" X.b0, %a, "+b+", %c", clamped+" X.b1, %a, "+b+", %c", plain+" X.h1, %a.h1, %b.b0, %c",
			clamped+" X.h0, %a.b3, "+b+", %c", clamped+" X.b3, %a.h1, %b.b1, %c", plain+" X, %a, "+b+", %c"),
		several(op+mode+".second", plain+".add X, %a, "+b+", %c", plain+".min X, %a, "+b+", %c", plain+".max X, %a, "+b+", %c",
			clamped+".add X, %a, "+b+", %c", clamped+".min X, %a.h0, "+b+", %c", clamped+".max X, %a, "+b+", %c", plain+".min X, %a.b2, %b.h0, %c"),
	}
	if shift {
		for n := range list {
			list[n].in[1] = "u32:shift"
		}
	}
	return list
}

// scaledVideo is vmad, also negated and with one more.
func scaledVideo(op string) []spec {
	return []spec{
		several(op, op+" X, %a, %b, %c", op+".shr7 X, %a, %b, %c", op+".sat X, %a.h1, %b, %c", op+".sat.shr15 X, %a, %b, %c", op+".sat.shr7 X, %a.b0, %b.h0, %c"),
		several(op+".minus", op+" X, -%a, %b, %c", op+".sat.shr7 X, %a, -%b.h1, %c", op+".sat X, -%a, -%b, %c", op+".shr15 X, %a, %b, -%c",
			op+".sat X, %a.h0, %b, -%c", op+".sat.shr15 X, -%a, %b, %c"),
		several(op+".po", op+".po X, %a, %b, %c", op+".po.shr7 X, %a.b3, %b, %c", op+".po.sat.shr15 X, %a, %b, %c", op+".po.sat X, %a.h0, %b.h1, %c"),
	}
}

var videoComparisons = []string{".eq", ".ne", ".lt", ".le", ".gt", ".ge"}

// compareVideo is vset.
func compareVideo(op string) []spec {
	var plain, part, second []string
	for n, cmp := range videoComparisons {
		sel := []string{"b0", "b1", "b2", "b3", "h0", "h1"}[n]
		plain = append(plain, op+cmp+" X, %a, %b")
		part = append(part, op+cmp+" X."+sel+", %a."+sel+", %b, %c")
		second = append(second, op+cmp+[]string{".add", ".min", ".max"}[n%3]+" X, %a, %b.h0, %c")
	}
	return []spec{several(op, plain...), several(op+".part", part...), several(op+".second", second...)}
}

// selections are parts of the result, of a and of b for two or four lanes.
func selections(op string) (masks []string, parts [][2]string) {
	if strings.HasPrefix(op[strings.IndexAny(op, "24"):], "2") {
		return []string{".h0", ".h1", ".h10"}, [][2]string{{".h01", ".h23"}, {".h33", ".h10"}, {".h20", ".h31"}}
	}
	return []string{".b0", ".b31", ".b210", ".b3210", ".b2"}, [][2]string{{".b0123", ".b4567"}, {".b7531", ".b6420"}, {".b3333", ".b0000"}, {".b5104", ".b7263"}, {".b3210", ".b3210"}}
}

// laneVideo is a video instruction on two or four values at once.
func laneVideo(op string) []spec {
	masks, parts := selections(op)
	one := []string{op + " X, %a, %b, %c", op + ".sat X, %a, %b, %c"}
	sum := []string{op + ".add X, %a, %b, %c"}
	for n, m := range masks {
		sat := ""
		if n%2 == 0 {
			sat = ".sat"
		}
		one = append(one, op+sat+" X"+m+", %a"+parts[n][0]+", %b"+parts[n][1]+", %c")
		sum = append(sum, op+".add X"+m+", %a"+parts[n][1]+", %b"+parts[n][0]+", %c")
	}
	return []spec{several(op, one...), several(op+".sum", sum...)}
}

// compareLanes is vset2 and vset4.
func compareLanes(op string) []spec {
	masks, parts := selections(op)
	var one, sum []string
	for n, cmp := range videoComparisons {
		m, p := masks[n%len(masks)], parts[n%len(parts)]
		one = append(one, op+cmp+" X"+m+", %a"+p[0]+", %b"+p[1]+", %c")
		sum = append(sum, op+cmp+".add X"+m+", %a"+p[0]+", %b"+p[1]+", %c")
	}
	one = append(one, op+".ge X, %a, %b, %c")
	return []spec{several(op, one...), several(op+".sum", append(sum, op+".ne.add X, %a, %b, %c")...)}
}

// hintSpecs are cvt.pack, and the modifiers of accesses that say how caches are to be used, or
// that memory is a device's.
func hintSpecs() (list []spec) {
	for _, t := range []string{"u16", "s16"} {
		list = append(list, op("cvt.pack.sat."+t+".s32", "u32", "s32:edge", "s32:edge"))
	}
	for _, t := range []string{"u8", "s8", "u4", "s4", "u2", "s2"} {
		list = append(list, op("cvt.pack.sat."+t+".s32.b32", "u32", "s32:edge", "s32:edge", "u32:rand"))
	}
	policy := "createpolicy.fractional.L2::evict_first.b64 %l3, 1.0"
	for _, q := range []string{"ld.global", "ld", "ld.weak.global.cg", "ld.global.L1::evict_last", "ld.relaxed.gpu.global", "ld.acquire.sys.global.L1::no_allocate",
		"ld.global.nc", "ld.global.nc.L1::no_allocate"} {
		list = append(list, spec{name: q + ".hint.u32", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64,
			body: []string{policy, q + ".L2::cache_hint.L2::128B.u32 %x, [%from], %l3"}})
	}
	for _, q := range []string{"st.global", "st", "st.weak.global.cs", "st.global.L1::no_allocate", "st.relaxed.gpu.global", "st.release.sys.global"} {
		list = append(list, spec{name: q + ".hint.u32", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64, stores: true,
			body: []string{policy, q + ".L2::cache_hint.u32 [%to], %a, %l3"}})
	}
	for _, o := range []struct{ op, t string }{{"and", "b32"}, {"xor", "b64"}, {"exch", "b32"}, {"add", "u32"}, {"add", "f32"}, {"add", "u64"}, {"inc", "u32"},
		{"min", "s64"}, {"max", "u32"}, {"add.noftz", "f16x2"}} {
		for _, a := range []string{"atom", "red"} {
			if a == "red" && o.op == "exch" {
				continue
			}
			s := atomic(a+".global."+o.op+"."+o.t, o.t, "%b, %l3")
			for n, line := range s.body {
				s.body[n] = strings.Replace(line, a+".global."+o.op, a+".global."+o.op+".L2::cache_hint", 1)
			}
			s.body = append([]string{policy}, s.body...)
			s.name = a + ".global." + o.op + ".hint." + o.t
			s.rows = 128
			list = append(list, s)
		}
	}
	for _, q := range []string{"membar.proxy.alias", "fence.proxy.alias", "fence.proxy.async", "fence.proxy.async.global", "fence.proxy.async.shared::cta",
		"fence.mbarrier_init.release.cluster"} {
		list = append(list, spec{name: strings.ReplaceAll(q, "::", "."), in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64,
			body: []string{q, "ld.global.u32 %x, [%from]"}})
	}
	return append(list,
		spec{name: "ld.mmio.relaxed.sys.global.u32", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64, body: []string{"ld.mmio.relaxed.sys.global.u32 %x, [%from]"}},
		spec{name: "ld.mmio.relaxed.sys.u32", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64, body: []string{"ld.mmio.relaxed.sys.u32 %x, [%from]"}},
		spec{name: "st.mmio.relaxed.sys.global.u32", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64, stores: true, body: []string{"st.mmio.relaxed.sys.global.u32 [%to], %a"}})
}
