// Package random writes valid random kernels as PTX fixtures. What a kernel
// computes is determined: no races, no instruction whose result PTX leaves open,
// every loop ends.
package random

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// rows is the number of threads of a kernel: blocks of a warp and a half, so
// that some lanes do not exist.
const (
	rows  = 192
	block = 48
)

// perType is how many registers of each type a kernel computes with.
const perType = 4

// A kind is a register file: the registers of one type.
type kind struct {
	letter string // registers are %letter0 …
	reg    string // type in .reg
	column string // of the input
}

// kinds of registers, by letter.
var kinds = []kind{
	{letter: "r", reg: "b32", column: "u32:edge"},
	{letter: "l", reg: "b64", column: "u64:edge"},
	{letter: "f", reg: "f32", column: "f32:edge"},
	{letter: "d", reg: "f64", column: "f64:edge"},
	{letter: "h", reg: "b16", column: "f16:edge"},
}

// writer builds one kernel.
type writer struct {
	rng    *rand.Rand
	b      strings.Builder
	indent int
	labels int
	loops  int // nesting of loops
	// engines: only engines run it, not a GPU; see unrounded.
	engines  bool
	integers bool   // in a function, which computes with integers only
	pages    []Page // of a hostile kernel
	tame     bool   // it stays inside variables in .local
	wild     bool   // this access goes anywhere
	wildness int    // one access in so many is wild
	cluster  int    // blocks of a cluster, 0 without
	lone     bool   // threads work together at the block's barriers only
}

// Kernel returns the fixture for a seed.
func Kernel(seed uint64) string {
	return write(rand.NewPCG(seed, 0x5eed), fmt.Sprintf("Random kernel %d.", seed), "~nan")
}

// Lone is FromBytes for a kernel without instructions of whole warps, and whose barriers are all of the
// whole block: it can be suspended. Its products and sums have a rounding, because what PTX leaves to
// compilers to join may depend on where a kernel can stop.
func Lone(data []byte) string {
	h := fnv.New64a()
	h.Write(data) // never fails
	w := &writer{rng: rand.New(&choices{data: data, more: rand.NewPCG(h.Sum64(), 0x10e)}), lone: true}
	return w.kernel("Random kernel of a fuzzer, of threads that do without warps.", "")
}

// FromBytes returns the fixture whose choices are the bytes of data and, where
// they end, random numbers that follow from them. A small change of data is
// mostly a small change of the kernel. Unlike those of Kernel, results are to be
// compared in every bit, NaNs too.
func FromBytes(data []byte) string {
	h := fnv.New64a()
	h.Write(data) // never fails
	return write(&choices{data: data, more: rand.NewPCG(h.Sum64(), 0x5eed)}, "Random kernel of a fuzzer.", "")
}

// choices is a rand.Source of bytes, each of which makes one number.
type choices struct {
	data []byte
	more rand.Source
}

// Uint64 returns the next byte eight times, so that it decides whatever part of
// the number is looked at.
func (c *choices) Uint64() uint64 {
	if len(c.data) == 0 {
		return c.more.Uint64()
	}
	b := c.data[0]
	c.data = c.data[1:]
	return uint64(b) * 0x0101010101010101
}

// write writes a kernel. Nan is the tolerance of columns of floating point.
func write(source rand.Source, title, nan string) string {
	w := &writer{rng: rand.New(source), engines: nan == ""}
	return w.kernel(title, nan)
}

func (w *writer) kernel(title, nan string) string {
	w.header(title, nan)
	w.function()
	w.line(".visible .entry k(.param .u64 in, .param .u64 out)%s\n{", w.clusterRule())
	w.indent = 1
	w.line(".shared .align 8 .b8 shared[%d];\n.local .align 8 .b8 local[64];", 8*block)
	w.line(".reg .pred %%p<4>;\n.reg .b32 %%i<8>, %%t<4>, %%row;\n.reg .b64 %%from, %%to, %%at;")
	w.load()
	for range 4 + w.rng.IntN(8) {
		w.statement(0)
		kind := w.rng.IntN(9)
		if w.lone && (kind == 3 || kind == 4) { // apart, and barriers of some threads
			kind = 0
		}
		switch kind {
		case 0, 1, 2:
			w.together()
		case 3:
			w.apart()
		case 4:
			w.exchange()
		case 5, 6, 7:
			if w.cluster > 0 {
				w.remote()
			}
		}
	}
	if w.cluster > 0 {
		w.remote()
	}
	w.store()
	w.line("ret;")
	w.indent = 0
	w.line("}")
	return w.b.String()
}

func (w *writer) line(format string, args ...any) {
	for l := range strings.SplitSeq(fmt.Sprintf(format, args...), "\n") {
		w.b.WriteString(strings.Repeat("\t", w.indent))
		w.b.WriteString(l)
		w.b.WriteByte('\n')
	}
}

func (w *writer) header(title, nan string) {
	var in, out []string
	for _, k := range kinds {
		for range perType {
			in = append(in, k.column)
			column, _, _ := strings.Cut(k.column, ":")
			if column[0] == 'f' {
				column += nan
			}
			out = append(out, column)
		}
	}
	w.line("//! in in %d %s\n//! out out %d %s", rows, strings.Join(in, " "), rows, strings.Join(out, " "))
	w.line("//! run k grid %d block %d args in out", rows/block, block)
	w.line("// %s\n.version 8.5\n.target sm_90\n.address_size 64\n", title)
}

// eachRegister calls f with the registers and their offsets in a row.
func eachRegister(f func(k kind, reg string, offset int)) (stride int) {
	for _, k := range kinds {
		size := map[string]int{"b16": 2, "b32": 4, "f32": 4, "b64": 8, "f64": 8}[k.reg]
		for i := range perType {
			stride = (stride + size - 1) / size * size
			f(k, fmt.Sprintf("%%%s%d", k.letter, i), stride)
			stride += size
		}
	}
	return (stride + 7) / 8 * 8
}

func (w *writer) load() {
	for _, k := range kinds {
		w.line(".reg .%s %%%s<%d>;", k.reg, k.letter, perType+2)
	}
	stride := eachRegister(func(kind, string, int) {})
	w.line("mov.u32 %%row, %%ctaid.x;\nmov.u32 %%t0, %%tid.x;\nmad.lo.u32 %%row, %%row, %d, %%t0;", block)
	w.line("ld.param.u64 %%from, [in];\nmad.wide.u32 %%from, %%row, %d, %%from;", stride)
	eachRegister(func(k kind, reg string, offset int) { w.line("ld.global.%s %s, [%%from+%d];", k.reg, reg, offset) })
	w.line(".reg .b64 %%sp<4>;\nmov.u64 %%sp0, local;\ncvta.local.u64 %%sp1, %%sp0;\nadd.u64 %%sp2, %%sp0, 16;\nor.b64 %%sp3, %%sp1, 4;")
	// Scratch registers and .local are read before they are written.
	for _, k := range kinds {
		w.line("mov.%s %%%s%d, %%%s0;\nmov.%s %%%s%d, %%%s1;", k.reg, k.letter, perType, k.letter, k.reg, k.letter, perType+1, k.letter)
	}
	for i := range 8 {
		w.line("st.local.b64 [local+%d], %%l%d;", 8*i, i%perType)
	}
	for i := range 4 {
		w.line("setp.lt.s32 %%p%d, %%r%d, %d;", i, i, w.rng.IntN(100))
	}
}

func (w *writer) store() {
	stride := eachRegister(func(kind, string, int) {})
	w.line("ld.param.u64 %%to, [out];\nmad.wide.u32 %%to, %%row, %d, %%to;", stride)
	for i := range 4 {
		w.line("selp.u32 %%t0, %d, 0, %%p%d;\nxor.b32 %%r%d, %%r%d, %%t0;", 1<<(8*i), i, i, i)
	}
	eachRegister(func(k kind, reg string, offset int) { w.line("st.global.%s [%%to+%d], %s;", k.reg, offset, reg) })
}

// function writes a function that the kernel may call.
func (w *writer) function() {
	w.line(".func (.param .b32 result) helper(.param .b32 x, .param .b64 y)\n{")
	w.indent = 1
	w.line(".reg .pred %%p<4>;\n.reg .b32 %%r<%d>;\n.reg .b64 %%l<%d>;", perType+2, perType+2)
	for i := range perType + 2 {
		w.line("ld.param.b32 %%r%d, [x];\nld.param.b64 %%l%d, [y];", i, i)
	}
	w.line("setp.ne.u32 %%p0, %%r0, 0;\nsetp.gt.s32 %%p1, %%r0, 5;\nsetp.lt.u64 %%p2, %%l0, 9;\nsetp.lt.s64 %%p3, %%l0, 0;")
	w.integers = true
	for range 3 + w.rng.IntN(4) {
		w.instruction("r")
		w.instruction("l")
	}
	w.integers = false
	w.line("st.param.b32 [result], %%r0;\nret;")
	w.indent = 0
	w.line("}")
	w.callers()
}

// statement writes an instruction or a control structure.
func (w *writer) statement(depth int) {
	if depth > 3 {
		w.plain()
		return
	}
	if w.pages != nil && w.rng.IntN(2) == 0 {
		w.access()
		return
	}
	switch w.rng.IntN(9) {
	case 0:
		w.branch(depth)
	case 1:
		if w.loops < 2 {
			w.loop(depth)
			return
		}
		w.plain()
	case 2:
		w.jumpTable(depth)
	case 3:
		w.call()
	case 5:
		w.carry()
	case 4:
		w.memory()
	default:
		for range 1 + w.rng.IntN(6) {
			w.plain()
		}
	}
}

// plain writes an instruction of any kind, sometimes under a predicate.
func (w *writer) plain() { w.instruction(kinds[w.rng.IntN(len(kinds))].letter) }

func (w *writer) label() string {
	w.labels++
	return fmt.Sprintf("L%d", w.labels)
}

func (w *writer) body(depth int) {
	for range 1 + w.rng.IntN(3) {
		w.statement(depth + 1)
	}
}

func (w *writer) branch(depth int) {
	other, end := w.label(), w.label()
	w.compare()
	w.line("@%s%s bra %s;", w.oneOf("", "!"), w.predicate(), other)
	w.body(depth)
	w.line("bra%s %s;", w.oneOf("", ".uni"), end)
	w.line("%s:", other)
	if w.rng.IntN(2) == 0 {
		w.body(depth)
	}
	w.line("%s:", end)
}

// loop counts down from a number that differs by lane. Some lanes leave it sooner, or go on with the next turn.
func (w *writer) loop(depth int) {
	head, next, end := w.label(), w.label(), w.label()
	counter := fmt.Sprintf("%%i%d", w.loops)
	w.loops++
	w.line("and.b32 %s, %s, %d;", counter, w.register("r"), w.rng.IntN(8))
	w.line("%s:", head)
	w.body(depth)
	switch w.rng.IntN(6) {
	case 0, 1:
		w.line("@%s bra %s;", w.predicate(), end)
	case 2:
		w.line("@%s bra %s;", w.predicate(), next)
		w.body(depth)
	case 3:
		w.line("@%s bra %s;", w.predicate(), next)
		w.body(depth)
		w.line("@%s%s bra %s;", w.oneOf("", "!"), w.predicate(), end)
		w.call()
	}
	w.line("%s:\nsub.u32 %s, %s, 1;\nsetp.ge.s32 %%p3, %s, 0;\n@%%p3 bra %s;\n%s:", next, counter, counter, counter, head, end)
	w.loops--
}

func (w *writer) jumpTable(depth int) {
	end := w.label()
	targets := []string{w.label(), w.label(), w.label(), end}
	w.line("%s_table: .branchtargets %s;", end, strings.Join(targets, ", "))
	w.line("and.b32 %%t0, %s, 3;\nbrx.idx %%t0, %s_table;", w.register("r"), end)
	for _, t := range targets[:3] {
		w.line("%s:", t)
		w.body(depth + 1)
		if w.rng.IntN(2) == 0 {
			w.line("bra %s;", end)
		}
	}
	w.line("%s:", end)
}

// carry writes a chain of additions or subtractions of several words.
func (w *writer) carry() {
	r := func() string { return w.register("r") }
	l := func() string { return w.register("l") }
	switch w.rng.IntN(5) {
	case 0:
		w.line("add.cc.u32 %s, %s, %s;\naddc.cc.u32 %s, %s, %s;\naddc.u32 %s, %s, %s;", r(), r(), r(), r(), r(), r(), r(), r(), r())
	case 1:
		w.line("sub.cc.u32 %s, %s, %s;\nsubc.cc.s32 %s, %s, %s;\nsubc.u32 %s, %s, 0;", r(), r(), r(), r(), r(), r(), r(), r())
	case 2:
		w.line("%s.cc.u64 %s, %s, %s;", w.oneOf("add", "sub"), l(), l(), l())
		w.line("%s.u64 %s, %s, %s;", w.oneOf("addc.cc", "subc.cc"), l(), l(), l())
		w.line("%s.u64 %s, %s, %s;", w.oneOf("addc", "subc"), l(), l(), l())
	case 3: // the carry is kept where lanes part between its operations
		end := w.label()
		w.line("add.cc.u32 %s, %s, %s;\n@%s bra %s;\naddc.cc.u32 %s, %s, %s;\n%s:\naddc.u32 %s, %s, %s;", r(), r(), r(), w.predicate(), end, r(), r(), r(), end, r(), r(), r())
	default:
		w.line("mad.lo.cc.u32 %s, %s, %s, %s;\nmadc.hi.u32 %s, %s, %s, %s;", r(), r(), r(), r(), r(), r(), r(), r())
	}
}

// memory stores to and loads from the lane's own array.
func (w *writer) memory() {
	w.line("and.b32 %%t0, %s, 7;\nmov.u64 %%at, local;\nmad.wide.u32 %%at, %%t0, 8, %%at;", w.register("r"))
	k := kinds[w.rng.IntN(len(kinds))]
	switch w.rng.IntN(7) {
	case 5, 6:
		w.known()
	case 0:
		w.line("st.local.%s [%%at+%d], %s;", w.oneOf("u8", "s8"), w.rng.IntN(8), w.register("r"))
		w.line("cvta.local.u64 %%at, %%at;\nld.%s %s, [%%at+%d];", w.oneOf("u8", "s8"), w.register("r"), w.rng.IntN(8))
	case 1:
		w.line("st.local.v2.b32 [local+%d], {%s, %s};", 8*w.rng.IntN(8), w.register("r"), w.register("r"))
		w.line("ld.local.v2.b32 {%s, %s}, [%%at];", "%r0", "%r1")
	case 2:
		w.line("st.local.%s [%%at+%d], %s;", w.oneOf("u16", "s16"), 2*w.rng.IntN(4), w.register("r"))
		w.line("ld.local.%s %s, [%%at+%d];", w.oneOf("u16", "s16", "b16"), w.register("l"), 2*w.rng.IntN(4))
	default:
		w.line("st.local.%s [%%at], %s;", k.reg, w.bits(k.letter))
	}
	k = kinds[w.rng.IntN(len(kinds))]
	w.line("ld.local.%s %s, [local+%d];", k.reg, w.register(k.letter), 8*w.rng.IntN(8))
}

// known writes accesses of the lane's own array at places that compilers know.
func (w *writer) known() {
	at := func() string {
		return w.oneOf("[%sp1+", "[%sp1+", "[%sp3+4+") + fmt.Sprint(8*w.rng.IntN(7)) + "]"
	}
	own := func() string { return fmt.Sprintf("[%%sp2+%d]", 8*w.rng.IntN(8)-16) }
	switch w.rng.IntN(4) {
	case 0:
		w.line("st.b64 %s, %s;\nld.local.v2.b32 {%%r0, %%r1}, %s;", at(), w.register("l"), own())
	case 1:
		w.line("st.local.b32 %s, %s;\nld.b64 %s, %s;", own(), w.register("r"), w.register("l"), at())
	case 2:
		w.line("@%s st.u16 %s, %s;\nld.s8 %s, %s;", w.predicate(), at(), w.register("h"), w.register("r"), at())
	default:
		w.line("st.v2.b32 [%%sp1+%d], {%%r1, %%r2};\n@%s ld.b32 %s, %s;", 8*w.rng.IntN(8), w.predicate(), w.register("r"), at())
	}
}

// together writes what all lanes do at once: shuffles, votes, an exchange
// through shared memory. Lanes 16 to 31 of every second warp do not exist.
func (w *writer) together() {
	w.line("mov.u32 %%t3, %%tid.x;\nsetp.lt.u32 %%p3, %%t3, 32;\nselp.b32 %%t3, -1, 0xffff, %%p3;")
	r, s := w.register("r"), w.register("r")
	kind := w.rng.IntN(6)
	if w.lone {
		kind = 5
	}
	switch kind {
	case 0:
		w.line("shfl.sync.%s.b32 %s|%s, %s, %d, 0x100f, %%t3;", w.oneOf("bfly", "idx"), r, w.predicate(), s, w.rng.IntN(16))
	case 1:
		w.line("shfl.sync.down.b32 %s|%s, %s, %d, 0x100f, %%t3;", r, w.predicate(), s, w.rng.IntN(16))
	case 2:
		w.line("vote.sync.ballot.b32 %s, %s, %%t3;", r, w.predicate())
	case 3:
		w.line("match.any.sync.b32 %s, %s, %%t3;", r, s)
	case 4:
		w.line("redux.sync.%s %s, %s, %%t3;", w.oneOf("add.u32", "min.s32", "max.u32", "xor.b32", "and.b32"), r, s)
	default:
		w.line("bar.sync 0;\nmov.u32 %%t0, shared;\nmov.u32 %%t1, %%tid.x;\nmad.lo.u32 %%t2, %%t1, 8, %%t0;\nst.shared.b64 [%%t2], %s;\nbar.sync 0;", w.register("l"))
		w.line("xor.b32 %%t1, %%t1, %d;\nmad.lo.u32 %%t2, %%t1, 8, %%t0;\nld.shared.b64 %s, [%%t2];", w.rng.IntN(16), w.register("l"))
	}
}

// apart writes what some lanes of a warp do at once: tiles of it with a mask for
// each, or the lanes on either side of a branch.
func (w *writer) apart() {
	w.line("mov.u32 %%t3, %%laneid;")
	if w.rng.IntN(2) == 0 {
		w.line("and.b32 %%t2, %%t3, 24;\nshl.b32 %%t3, 0xff, %%t2;")
		w.collective(7)
		return
	}
	// Lanes 16 to 31 of every second warp do not exist.
	w.line("mov.u32 %%t0, %%tid.x;\nsetp.lt.u32 %%p3, %%t0, 32;\nselp.b32 %%t2, -1, 0xffff, %%p3;")
	p, other, end := w.predicate(), w.label(), w.label()
	w.line("vote.sync.ballot.b32 %%t0, %s, %%t2;\nnot.b32 %%t1, %%t0;\nand.b32 %%t1, %%t1, %%t2;\nselp.b32 %%t3, %%t0, %%t1, %s;", p, p)
	w.line("@%s bra %s;", p, other)
	w.collective(0)
	w.line("bra %s;\n%s:", end, other)
	w.collective(0)
	w.line("%s:\nbar.warp.sync %%t2;", end)
}

// collective writes an instruction of the lanes in mask %t3, which has size-1 as
// the clamp of a shuffle, or may be any mask if that is 0.
func (w *writer) collective(clamp int) {
	r, s := w.register("r"), w.register("r")
	switch n := w.rng.IntN(6); {
	case n == 0:
		w.line("vote.sync.ballot.b32 %s, %s, %%t3;", r, w.predicate())
	case n == 1:
		w.line("vote.sync.%s.pred %s, %s, %%t3;", w.oneOf("all", "any", "uni"), w.predicate(), w.predicate())
	case n == 2:
		w.line("match.%s.sync.b32 %s, %s, %%t3;", w.oneOf("any", "all"), r, s)
	case n == 3:
		w.line("match.any.sync.b64 %s, %s, %%t3;", r, w.register("l"))
	case n == 4 && clamp != 0:
		w.line("shfl.sync.%s.b32 %s|%s, %s, %d, %d, %%t3;", w.oneOf("bfly", "idx", "down"), r, w.predicate(), s, w.rng.IntN(8), 24<<8|clamp)
	default:
		w.line("redux.sync.%s %s, %s, %%t3;", w.oneOf("add.s32", "min.u32", "max.s32", "or.b32"), r, s)
	}
}

// bits returns a register whose bits may be used as a number. PTX does not say
// which NaN an instruction returns, so all become one.
func (w *writer) bits(letter string) string {
	float, nan := "f32", "0x7fffffff"
	switch letter {
	case "r", "l":
		return w.register(letter)
	case "d":
		float, nan = "f64", "0x7fffffffffffffff"
	case "h":
		float, nan = "f16", "0x7fff"
	}
	x, word := w.register(letter), "b"+float[1:]
	w.line("setp.nan.%s %%p3, %s, %s;\nselp.%s %%%s%d, %s, %s, %%p3;", float, x, x, word, letter, perType, nan, x)
	return fmt.Sprintf("%%%s%d", letter, perType)
}

func (w *writer) register(letter string) string {
	return fmt.Sprintf("%%%s%d", letter, w.rng.IntN(perType))
}

func (w *writer) predicate() string { return fmt.Sprintf("%%p%d", w.rng.IntN(3)) }

func (w *writer) oneOf(list ...string) string { return list[w.rng.IntN(len(list))] }
