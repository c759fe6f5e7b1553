package random

import "fmt"

// exchange writes what all threads of the block do to one word of .shared, in
// any order, and reductions by a barrier.
func (w *writer) exchange() {
	r, p := w.register("r"), w.predicate()
	switch w.rng.IntN(8) {
	case 4, 5:
		w.rounds()
	case 6:
		w.handOver()
	case 7: // each warp has a barrier of its own
		w.line("mov.u32 %%t0, %%tid.x;\nshr.u32 %%t0, %%t0, 5;\nadd.u32 %%t0, %%t0, %d;\nmov.u32 %%t1, 32;", 4+2*w.rng.IntN(3))
		w.line("barrier.sync %%t0, %%t1;\nbarrier.red.popc.u32 %s, %%t0, %s, %s;", r, w.oneOf("32", "%t1"), p)
	case 0:
		w.line("barrier.sync 1, 64;\nbarrier.red.popc.u32 %s, 2, %s%s;", r, w.oneOf("", "!"), p)
	case 1:
		w.line("bar.red.%s.pred %s, 3, %s;", w.oneOf("and", "or"), p, w.predicate())
	default:
		w.line("bar.sync 0;\nst.shared.b64 [shared+16], %s;", "0x12345678")
		w.line("bar.sync 0;\nred.shared.%s [shared+16], %s;", w.oneOf("add.u32", "min.s32", "max.u32", "xor.b32", "and.b32", "or.b32"), r)
		w.line("mov.u32 %%t0, shared;\ncvt.u64.u32 %%at, %%t0;\ncvta.shared.u64 %%at, %%at;\nbar.sync 0;\nld.b32 %s, [%%at+16];\nbar.sync 0;", w.register("r"))
	}
}

// rounds writes reductions by barriers in a loop, for all threads of the block or for those of each warp. Lanes part around some.
func (w *writer) rounds() {
	r, s, p, head := w.register("r"), w.register("r"), w.predicate(), w.label()
	number := w.oneOf("3", "3, 64", "%t0, 32")
	w.line("mov.u32 %%t0, %%tid.x;\nshr.u32 %%t0, %%t0, 5;\nadd.u32 %%t0, %%t0, 8;\nmov.u32 %%t1, %d;\n%s:", w.rng.IntN(5), head)
	w.line("setp.lt.%s %%p3, %s, %s;", w.oneOf("u32", "s32"), r, s)
	if w.rng.IntN(2) == 0 {
		other := w.label()
		w.line("@%s bra %s;\nadd.cc.u32 %s, %s, %s;\naddc.u32 %s, %s, %d;\n%s:", p, other, r, r, s, s, s, w.rng.IntN(9), other)
	}
	switch w.rng.IntN(3) {
	case 0:
		w.line("barrier.red.popc.u32 %%t2, %s, %s%%p3;\nadd.u32 %s, %s, %%t2;", number, w.oneOf("", "!"), s, s)
	case 1:
		w.line("barrier.red.%s.pred %s, %s, %%p3;\n@%s add.u32 %s, %s, 5;", w.oneOf("and", "or"), p, number, p, r, s)
	default:
		w.line("barrier.sync %s;\nbarrier.red.popc.u32 %%t2, 7, %%p3;\nxor.b32 %s, %s, %%t2;", number, r, r)
	}
	if w.rng.IntN(2) == 0 { // some lanes are at the next barrier before others
		end := w.label()
		w.line("setp.eq.u32 %%p3, %%t1, 0;\nsub.u32 %%t1, %%t1, 1;\n@%%p3 bra %s;\n@%s bra %s;\nadd.u32 %s, %s, 7;\nbra %s;\n%s:", end, p, head, s, s, head, end)
		return
	}
	w.line("setp.gt.u32 %%p3, %%t1, 0;\nsub.u32 %%t1, %%t1, 1;\n@%%p3 bra %s;", head)
}

// handOver has the first warp of a block, which does not wait, hand numbers to the second, and that answer.
func (w *writer) handOver() {
	second, end := w.label(), w.label()
	w.line("mov.u32 %%t0, %%tid.x;\nmov.u32 %%t1, shared;\nand.b32 %%t2, %%t0, 31;\nmad.lo.u32 %%t1, %%t2, 8, %%t1;\nsetp.gt.u32 %%p3, %%t0, 31;\nbar.sync 0;\n@%%p3 bra %s;", second)
	w.line("st.shared.b32 [%%t1], %s;\nbar.arrive 5, 64;\nbar.sync 6, 64;\nld.shared.b32 %s, [shared+4];\nbra %s;", w.register("r"), w.register("r"), end)
	w.line("%s:\nbar.sync 5, 64;\nld.shared.b32 %s, [%%t1];\nst.shared.b32 [%%t1+4], %s;\nbar.arrive 6, 64;\n%s:", second, w.register("r"), w.register("r"), end)
}

// barrier writes a barrier, most often one that the threads of a warp may come to.
func (w *writer) barrier() {
	guard, number, count := "", fmt.Sprint(w.rng.IntN(4)), w.oneOf("", ", 32")
	if w.rng.IntN(8) == 0 {
		guard = fmt.Sprintf("@%s ", w.predicate())
	}
	if w.rng.IntN(w.wildness) == 0 {
		w.line("and.b32 %%t0, %s, 31;\nmul.lo.u32 %%t1, %%t0, %d;", w.register("r"), w.rng.IntN(33))
		number, count = w.oneOf(number, "%t0"), w.oneOf(count, ", %t1", ", 64")
	}
	switch w.rng.IntN(4) {
	case 0:
		w.line("%sbarrier.sync %s%s;", guard, number, count)
	case 1:
		if count == "" {
			count = ", 32"
		}
		w.line("%sbarrier.arrive %s%s;", guard, number, count)
	case 2:
		w.line("%sbarrier.red.popc.u32 %s, %s%s, %s;", guard, w.register("r"), number, count, w.predicate())
	default:
		w.line("%sbarrier.red.%s.pred %s, %s%s, !%s;", guard, w.oneOf("and", "or"), w.predicate(), number, count, w.predicate())
	}
}
