package random

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
)

// Page is memory that a hostile kernel may find.
type Page struct {
	Base, Size uint64
	ReadOnly   bool
}

// HostileRows is how many rows of RowBytes a kernel of Hostile reads from its first
// parameter and writes to its second, if each of its four blocks at most has a warp or less.
const HostileRows = 3*block + 32

// RowBytes is the size of the registers of one thread in memory.
var RowBytes = eachRegister(func(kind, string, int) {})

// Hostile returns the source of a kernel k(in, out) whose choices are the bytes of
// data, as those of FromBytes are. It accesses memory of every kind at addresses that
// go anywhere: mostly to the pages, often to their ends, sometimes just beyond or
// where nothing is. What it does is determined if one warp runs at a time. PTX does
// not say what lies around a variable in .local: where layouts differ, tame accesses
// stay inside those.
func Hostile(data []byte, pages []Page, tame bool) string {
	h := fnv.New64a()
	h.Write(data) // never fails
	w := &writer{rng: rand.New(&choices{data: data, more: rand.NewPCG(h.Sum64(), 0x5eed)}), engines: true, pages: pages, tame: tame}
	w.line(".version 8.5\n.target sm_90\n.address_size 64\n.const .align 8 .b8 constants[64] = {1, 2, 3};\n.global .align 8 .b8 globals[256];")
	w.function()
	w.line(".visible .entry k(.param .u64 in, .param .u64 out)\n{")
	w.indent = 1
	w.line(".shared .align 16 .b8 shared[512];\n.local .align 16 .b8 local[64];")
	w.line(".reg .pred %%p<4>;\n.reg .b32 %%i<8>, %%t<4>, %%row;\n.reg .b64 %%from, %%to, %%at;")
	w.load()
	w.wildness = []int{4, 12, 24, 1000}[w.rng.IntN(4)]
	for range 3 + w.rng.IntN(8) {
		w.statement(0)
		w.access()
		if w.rng.IntN(4) == 0 {
			w.barrier()
		}
	}
	w.store()
	w.line("ret;")
	w.indent = 0
	w.line("}")
	return w.b.String()
}

// access writes a load, a store or an atomic operation. Most are good; one in so many
// goes where it may not.
func (w *writer) access() {
	w.wild = w.rng.IntN(w.wildness) == 0
	space := w.oneOf("", "", "", ".global", ".global", ".global", ".global", ".shared", ".shared", ".local", ".const")
	guard := ""
	if w.rng.IntN(4) == 0 {
		guard = fmt.Sprintf("@%s%s ", w.oneOf("", "!"), w.predicate())
	}
	switch n := w.rng.IntN(13); {
	case n < 5 || space == ".const":
		kind, regs, size := w.elements()
		volatile := ""
		if space != ".const" && space != ".local" {
			volatile = w.oneOf("", "", ".volatile")
		}
		place := w.place(space, size, false)
		w.line("%sld%s%s%s %s, [%s];", guard, volatile, space, kind, regs, place)
	case n < 10 || space == ".local":
		kind, regs, size := w.elements()
		place := w.place(space, size, true)
		w.line("%sst%s%s [%s], %s;", guard, space, kind, place, regs)
	case n == 12:
		w.copy(guard)
	case n == 10:
		op, letter, _ := strings.Cut(w.oneOf("add.u32 r", "min.s32 r", "max.u32 r", "xor.b32 r", "inc.u32 r", "add.u64 l", "max.s64 l", "and.b64 l", "add.f32 f", "add.f64 d"), " ")
		place := w.place(space, sizes[letter], true)
		w.line("%sred%s.%s [%s], %s;", guard, space, op, place, w.register(letter))
	default:
		op, letter, _ := strings.Cut(w.oneOf("exch.b32 r", "dec.u32 r", "or.b32 r", "add.s32 r", "exch.b64 l", "min.u64 l", "add.f32 f", "cas.b32 r", "cas.b64 l"), " ")
		second := ""
		if op[:3] == "cas" {
			second = ", " + w.register(letter)
		}
		place := w.place(space, sizes[letter], true)
		w.line("%satom%s.%s %s, [%s], %s%s;", guard, space, op, w.register(letter), place, w.register(letter), second)
	}
}

// copy writes a cp.async, of all its bytes or of some.
func (w *writer) copy(guard string) {
	size := []int{4, 8, 16}[w.rng.IntN(3)]
	at, offset, _ := strings.Cut(w.place(".shared", size, true), "+")
	if at == "%at" {
		w.line("cvt.u32.u64 %%t3, %%at;")
	} else {
		w.line("mov.u32 %%t3, %%t2;")
	}
	from, bytes := w.place(".global", size, false), ""
	switch w.rng.IntN(4) {
	case 0:
		bytes = ", " + w.register("r")
	case 1:
		w.line("and.b32 %%t1, %s, %d;", w.register("r"), size)
		bytes = ", %t1"
	}
	w.line("%scp.async.ca.shared.global [%%t3+%s], [%s], %d%s;", guard, offset, from, size, bytes)
}

// sizes are the bytes of registers, by their letter.
var sizes = map[string]int{"r": 4, "l": 8, "f": 4, "d": 8, "h": 2}

// elements returns the type of an access, its registers and its bytes.
func (w *writer) elements() (kind, regs string, size int) {
	types := []struct {
		kind, letter string
		size         int
	}{
		{kind: ".b32", letter: "r", size: 4}, {kind: ".u32", letter: "r", size: 4}, {kind: ".f32", letter: "f", size: 4},
		{kind: ".b64", letter: "l", size: 8}, {kind: ".f64", letter: "d", size: 8}, {kind: ".b32", letter: "r", size: 4},
		{kind: ".u8", letter: "r", size: 1}, {kind: ".s8", letter: "r", size: 1}, {kind: ".u16", letter: "r", size: 2},
		{kind: ".s16", letter: "l", size: 2}, {kind: ".b16", letter: "h", size: 2},
	}
	t := types[w.rng.IntN(len(types))]
	n := []int{1, 1, 1, 1, 2, 2, 4, 4}[w.rng.IntN(8)]
	if n == 4 && t.size == 8 {
		n = 2
	}
	if n == 1 {
		return t.kind, w.register(t.letter), t.size
	}
	first, list := w.rng.IntN(perType), make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%%%s%d", t.letter, (first+i)%perType)
	}
	return fmt.Sprintf(".v%d%s", n, t.kind), "{" + strings.Join(list, ", ") + "}", n * t.size
}

// place computes an address in %at, or %t2 where it has 32 bits, for accesses of
// some bytes by each lane, and returns it with a constant.
func (w *writer) place(space string, bytes int, write bool) string {
	room, base, at, wide := 0, "", "%at", true
	switch space {
	case ".shared":
		room, base = 512, "shared"
		if w.rng.IntN(2) == 0 {
			at, wide = "%t2", false
		}
	case ".local":
		room, base = 64, "local"
		if w.tame {
			w.line("and.b32 %%t1, %s, 3;\nmov.u64 %%at, local;\nmad.wide.u32 %%at, %%t1, 16, %%at;", w.register("r"))
			return "%at+0"
		}
	case ".const":
		room, base = 64, "constants"
	default:
		room, base = w.globalBase(space == "", write)
	}
	scale, offset := w.good(room, bytes)
	if w.wild {
		scale = []int{scale, 0, 1, 2, 4, 8, 16, -4, -8, 12, 1024, 4096}[w.rng.IntN(12)]
		switch w.rng.IntN(4) {
		case 0: // about the end
			offset = room - 31*scale - []int{1, 2, 4, 8, 16, 0, 12, 32}[w.rng.IntN(8)]
		case 1:
			offset = w.rng.IntN(33) - 16
		case 2:
			offset = int(int32(w.rng.Uint32()) >> w.rng.IntN(32))
		}
	}
	if wide {
		w.line("mov.u64 %%at, %s;\nmad.wide.s32 %%at, %%t1, %d, %%at;", base, scale)
	} else {
		w.line("mov.u32 %%t2, %s;\nmad.lo.s32 %%t2, %%t1, %d, %%t2;", base, scale)
	}
	if w.wild && w.rng.IntN(2) == 0 { // good in the first block, by which native code knows the page
		step := []int{room, room - offset, scale, 4, 4096, 64 << 10, 1<<31 - 8, -offset - 8, 1, 2}[w.rng.IntN(10)]
		if wide {
			w.line("mov.u32 %%t1, %%ctaid.x;\nmad.wide.s32 %%at, %%t1, %d, %%at;", step)
		} else {
			w.line("mov.u32 %%t1, %%ctaid.x;\nmad.lo.s32 %%t2, %%t1, %d, %%t2;", step)
		}
	}
	return fmt.Sprintf("%s+%d", at, offset)
}

// good leaves an index in %t1, the thread's or one that was computed, and chooses
// distance and offset so that all lanes are aligned and inside, often at the very end.
func (w *writer) good(room, bytes int) (scale, offset int) {
	last := 31
	switch n := w.rng.IntN(8); {
	case n == 0:
		last = 0
		w.line("mov.u32 %%t1, 0;")
	case n <= 2:
		last = []int{1, 3, 7, 31}[w.rng.IntN(4)]
		w.line("and.b32 %%t1, %s, %d;", w.register("r"), last)
	case w.wild && n == 3:
		w.line("mov.u32 %%t1, %s;", w.register("r"))
	default:
		w.line("mov.u32 %%t1, %%tid.x;")
	}
	for _, scale = range []int{bytes * []int{1, 1, 1, 2, 4, 64}[w.rng.IntN(6)], bytes, 0} {
		if last*scale+bytes <= room {
			break
		}
	}
	steps := (room - last*scale) / bytes // places for the first lane
	switch w.rng.IntN(3) {
	case 0:
		return scale, bytes * (steps - 1)
	case 1:
		return scale, bytes * w.rng.IntN(steps)
	}
	return scale, bytes * min(w.rng.IntN(4), steps-1)
}

// globalBase is a number or name from which global memory, or any memory, is reached,
// and how many bytes there are.
func (w *writer) globalBase(generic, write bool) (room int, base string) {
	switch n := w.rng.IntN(16); {
	case n == 0:
		return 256, "globals"
	case n == 1 && generic:
		at := w.rng.IntN(w.windows())
		if at == 0 || w.wild {
			return 512, fmt.Sprintf("0x%x", uint64(1)<<[]int{56, 58, 57}[at]) // .shared, parameters, .local
		}
		if !write && at == 1 {
			return 16, fmt.Sprintf("0x%x", uint64(1)<<58)
		}
	case n == 2 && w.wild:
		return 4096, w.register("l")
	case n == 3 && w.wild:
		return 4096, fmt.Sprintf("0x%x", w.rng.Uint64()>>w.rng.IntN(40))
	}
	first := w.rng.IntN(len(w.pages))
	for i := range w.pages {
		if p := w.pages[(first+i)%len(w.pages)]; !p.ReadOnly || !write || w.wild {
			return int(p.Size), fmt.Sprintf("0x%x", p.Base)
		}
	}
	return 256, "globals"
}

// windows is how many windows of the generic address space a kernel goes to.
func (w *writer) windows() int {
	if w.tame {
		return 2
	}
	return 3
}
