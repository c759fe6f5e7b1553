package main

import (
	"fmt"
	"slices"
)

const full = "0xffffffff"

// warpSpecs are the instructions in which the lanes of a warp work together.
func warpSpecs() []spec { return slices.Concat(shuffleSpecs(), voteSpecs(), reduxSpecs()) }

func shuffleSpecs() (list []spec) {
	for _, mode := range []string{"up", "down", "bfly", "idx"} {
		all := spec{name: "shfl.sync." + mode + ".b32", in: []string{"u32:rand", "u32:below=40", "u32:rand"}, out: []string{"u32", "u32"}, rows: 256,
			body: []string{"shfl.sync." + mode + ".b32 %x|%p, %a, %b, %c, " + full, "selp.u32 %y, 1, 0, %p"}}
		list = append(list, all)
		s := spec{name: "shfl.sync." + mode + ".widths", in: []string{"u32:rand"}, rows: 64}
		for _, width := range []int{32, 16, 8, 4} {
			c := (32 - width) << 8
			if mode != "up" {
				c |= 31
			}
			for _, by := range []int{1, 3, 9} {
				s.body = append(s.body, fmt.Sprintf("shfl.sync.%s.b32 %%x%d, %%a, %d, %d, -1", mode, len(s.out), by, c))
				s.out = append(s.out, "u32")
			}
		}
		list = append(list, s)
		list = append(list, spec{name: "shfl." + mode + ".b32", in: all.in, out: all.out, rows: 128, target: ".version 6.0\n.target sm_60",
			body: []string{"shfl." + mode + ".b32 %x|%p, %a, %b, %c", "selp.u32 %y, 1, 0, %p"}})
	}
	// Halves of a warp on two ways.
	list = append(list, spec{name: "shfl.sync.divergent", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64, body: []string{
		"mov.u32 %t0, %laneid", "and.b32 %t1, %t0, 1", "setp.ne.u32 %q, %t1, 0", "@%q bra odd",
		"shfl.sync.bfly.b32 %x, %a, 2, 31, 0x55555555", "bra both", "odd:",
		"shfl.sync.up.b32 %x, %a, 4, 0, 0xaaaaaaaa", "add.u32 %x, %x, 1", "both:"}})
	return list
}

func voteSpecs() (list []spec) {
	bools := []string{"u32:bool", "u32:below=40"}
	for _, mode := range []string{"all", "any", "uni"} {
		// The second column makes warps in which all agree likely.
		body := []string{"shr.u32 %t0, %row, 5", "and.b32 %t0, %t0, 3", "setp.lt.u32 %p, %t0, 2", "setp.eq.and.u32 %r, %t0, 0, %p",
			"setp.ne.or.u32 %q, %a, 0, %r", "setp.ne.and.u32 %q, %t0, 1, %q"}
		tail := []string{"selp.u32 %x, 1, 0, %s"}
		for _, not := range []string{"", "!"} {
			name := ".pred"
			if not != "" {
				name = ".not.pred"
			}
			list = append(list, spec{name: "vote.sync." + mode + name, in: bools, out: []string{"u32"}, rows: 128,
				body: append(append(append([]string(nil), body...), "vote.sync."+mode+".pred %s, "+not+"%q, "+full), tail...)})
		}
		list = append(list, spec{name: "vote." + mode + ".pred", in: bools, out: []string{"u32"}, rows: 128, target: ".version 6.0\n.target sm_60",
			body: append(append(append([]string(nil), body...), "vote."+mode+".pred %s, %q"), tail...)})
	}
	return append(list,
		spec{name: "vote.sync.ballot.b32", in: bools, out: []string{"u32", "u32"}, rows: 128, body: []string{
			"setp.ne.u32 %p, %a, 0", "vote.sync.ballot.b32 %x, %p, " + full, "vote.sync.ballot.b32 %y, !%p, " + full}},
		spec{name: "vote.ballot.b32", in: bools, out: []string{"u32"}, rows: 128, target: ".version 6.0\n.target sm_60", body: []string{
			"setp.ne.u32 %p, %a, 0", "vote.ballot.b32 %x, %p"}},
		spec{name: "vote.sync.ballot.divergent", in: bools, out: []string{"u32"}, rows: 128, body: []string{
			"setp.lt.u32 %q, %b, 20", "vote.sync.ballot.b32 %t0, %q, -1", "setp.ne.u32 %p, %a, 0", "mov.u32 %x, 0", "@!%q bra both",
			"vote.sync.ballot.b32 %x, %p, %t0", "both:"}},
		spec{name: "activemask.b32", in: bools, out: []string{"u32"}, rows: 128, body: []string{
			"setp.ne.u32 %p, %a, 0", "mov.u32 %x, 0", "@%p bra both", "activemask.b32 %x", "both:"}},
		spec{name: "match.any.sync.b32", in: []string{"u32:below=6"}, out: []string{"u32"}, rows: 128, body: []string{
			"match.any.sync.b32 %x, %a, " + full}},
		spec{name: "match.any.sync.b64", in: []string{"u64:below=6"}, out: []string{"u32"}, rows: 128, body: []string{
			"shl.b64 %l0, %a, 31", "match.any.sync.b64 %x, %l0, " + full}},
		spec{name: "match.all.sync.b32", in: []string{"u32:below=6"}, out: []string{"u32", "u32"}, rows: 128, body: []string{
			"shr.u32 %t0, %row, 6", "setp.eq.u32 %q, %t0, 0", "selp.u32 %t1, 5, %a, %q",
			"match.all.sync.b32 %x|%p, %t1, " + full, "selp.u32 %y, 1, 0, %p"}},
		spec{name: "match.all.sync.b64", in: []string{"u64:below=6"}, out: []string{"u32", "u32"}, rows: 128, body: []string{
			"shr.u32 %t0, %row, 6", "setp.eq.u32 %q, %t0, 0", "selp.u64 %l1, 5, %a, %q",
			"match.all.sync.b64 %x|%p, %l1, " + full, "selp.u32 %y, 1, 0, %p"}},
		spec{name: "elect.sync", in: bools, out: []string{"u32", "u32"}, rows: 128, body: []string{
			"elect.sync %x|%p, " + full, "selp.u32 %y, 1, 0, %p", "setp.lt.u32 %q, %b, 20", "vote.sync.ballot.b32 %t0, %q, -1", "@!%q bra both",
			"elect.sync %t1|%p, %t0", "mad.lo.u32 %x, %t1, 100, %x", "selp.u32 %t2, 2, 0, %p", "add.u32 %y, %y, %t2", "both:"}},
		spec{name: "bar.warp.sync", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 64, block: 64, top: []string{".shared .u32 buf[64];"}, body: []string{
			"mov.u32 %t0, %tid.x", "mov.u32 %t1, buf", "mad.lo.u32 %t2, %t0, 4, %t1", "st.shared.u32 [%t2], %a", "bar.warp.sync " + full,
			"xor.b32 %t0, %t0, 21", "mad.lo.u32 %t2, %t0, 4, %t1", "ld.shared.u32 %x, [%t2]"}},
	)
}

func reduxSpecs() (list []spec) {
	for _, o := range []string{"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32", "and.b32", "or.b32", "xor.b32"} {
		list = append(list, spec{name: "redux.sync." + o, in: []string{"u32:edge"}, out: []string{"u32", "u32"}, rows: 128, body: []string{
			"redux.sync." + o + " %x, %a, " + full, "setp.lt.u32 %p, %a, 0x10000", "vote.sync.ballot.b32 %t0, %p, -1", "mov.u32 %y, 3",
			"@!%p bra both", "redux.sync." + o + " %y, %a, %t0", "both:"}})
	}
	return list
}

// barrierSpecs are bar and barrier. A block of 96 threads passes the sum of
// what it was given through shared memory.
func barrierSpecs() (list []spec) {
	top := []string{".shared .u32 buf[96];"}
	write := []string{"mov.u32 %t0, %tid.x", "mov.u32 %t1, buf", "mad.lo.u32 %t2, %t0, 4, %t1", "st.shared.u32 [%t2], %a"}
	read := []string{"sub.u32 %t3, 95, %t0", "mad.lo.u32 %t2, %t3, 4, %t1", "ld.shared.u32 %x, [%t2]"}
	cat := func(parts ...[]string) (all []string) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	for _, i := range []string{"bar.sync 0", "bar.sync 3", "bar.sync 1, 96", "bar.cta.sync 0", "barrier.sync 2", "barrier.sync 2, 96", "barrier.sync.aligned 5",
		"barrier.cta.sync 1"} {
		list = append(list, spec{name: fileName(i), in: []string{"u32:rand"}, out: []string{"u32"}, rows: 192, block: 96, top: top,
			body: cat(write, []string{i}, read)})
	}
	for _, i := range []string{"bar", "barrier"} {
		// One warp arrives and goes on, the others wait for it.
		list = append(list, spec{name: i + ".arrive", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 192, block: 96, top: top,
			body: cat(write, []string{"setp.ge.u32 %q, %t0, 64", "@%q bra arrive", i + ".sync 1, 96", "bra both", "arrive:", i + ".arrive 1, 96", "mov.u32 %x, 1",
				"bra end", "both:"}, read, []string{"setp.lt.u32 %p, %t0, 32", "@!%p mov.u32 %x, 2", "end:"})})
		for _, not := range []string{"", "!"} {
			name := ""
			if not != "" {
				name = ".not"
			}
			pred := []string{"setp.lt.u32 %p, %a, 3"}
			list = append(list,
				spec{name: i + ".red.popc" + name, in: []string{"u32:below=7"}, out: []string{"u32"}, rows: 192, block: 96,
					body: cat(pred, []string{i + ".red.popc.u32 %x, 0, " + not + "%p"})},
				spec{name: i + ".red.and" + name, in: []string{"u32:below=7"}, out: []string{"u32"}, rows: 192, block: 96,
					body: cat(pred, []string{"setp.lt.or.u32 %p, %row, 96, %p", i + ".red.and.pred %q, 1, 96, " + not + "%p", "selp.u32 %x, 1, 0, %q"})},
				spec{name: i + ".red.or" + name, in: []string{"u32:below=7"}, out: []string{"u32"}, rows: 192, block: 96,
					body: cat(pred, []string{"setp.lt.or.u32 %p, %row, 96, %p", i + ".red.or.pred %q, 1, " + not + "%p", "selp.u32 %x, 1, 0, %q"})})
		}
	}
	return list
}

// fileName replaces what does not belong into the name of a file.
func fileName(text string) string {
	var b []byte
	for _, c := range []byte(text) {
		switch c {
		case ' ':
			c = '.'
		case ',':
			continue
		}
		b = append(b, c)
	}
	return string(b)
}
