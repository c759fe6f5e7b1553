package main

import (
	"fmt"
	"strings"
)

// wmma is a wmma.mma with the transfers of its matrices.
type wmma struct {
	shape, a, b  string // layouts of a and b
	element      string
	c, d         string // their types
	layoutC      string
	layoutD      string
	tail         string // of bits
	sat, strides bool   // strides: leading dimensions that are larger than the matrices
	shared       bool   // a and b come from shared memory
}

// sizes are m, n and k.
func (w *wmma) sizes() (m, n, k int) {
	if _, err := fmt.Sscanf(w.shape, "m%dn%dk%d", &m, &n, &k); err != nil {
		panic(err)
	}
	return m, n, k
}

func (w *wmma) name() string {
	name := fmt.Sprintf("wmma.%s.%s.%s.%s.%s.%s", w.shape, w.a, w.b, w.d, w.element, w.c) + w.tail
	if w.sat {
		name += ".satfinite"
	}
	return name
}

// registers is how many hold values of a matrix, and their width.
func (w *wmma) registers(element string, values int, multiplicand bool) (count, width int) {
	switch {
	case element == "f64":
		return values / 32, 64
	case multiplicand && element == "f16":
		return 8, 32
	case element == "f32" || element == "s32" || element == "tf32":
		return values / 32, 32
	}
	return values * elementBits(element) / 1024, 32
}

func elementBits(element string) int {
	switch element {
	case "f16", "bf16":
		return 16
	case "f64":
		return 64
	case "s8", "u8":
		return 8
	case "s4", "u4":
		return 4
	case "b1":
		return 1
	}
	return 32
}

// memory is the column of a buffer that holds a matrix, and how many rows of it there are.
func (w *wmma) memory(element string, elements int) (column string, rows int) {
	switch element {
	case "f16", "bf16":
		return element + ":edge", elements
	case "f32", "tf32":
		return "f32:edge", elements
	case "f64":
		return "f64:edge", elements
	case "s32":
		return "s32:rand", elements
	}
	return "u32:rand", elements * elementBits(element) / 32
}

// text is the source of the fixture.
func (w *wmma) text() string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, format+"\n", args...) }
	m, n, k := w.sizes()
	pitch := func(rows, cols int, layout, element string) int {
		long := cols
		if layout == "col" {
			long = rows
		}
		if w.strides {
			long += 128 / min(elementBits(element), 32)
		}
		return long
	}
	type matrix struct {
		name, layout, element string
		rows, cols            int
	}
	list := []matrix{{name: "a", layout: w.a, element: w.element, rows: m, cols: k}, {name: "b", layout: w.b, element: w.element, rows: k, cols: n},
		{name: "c", layout: w.layoutC, element: w.c, rows: m, cols: n}, {name: "d", layout: w.layoutD, element: w.d, rows: m, cols: n}}
	count := func(x matrix) int {
		long, short := pitch(x.rows, x.cols, x.layout, x.element), x.rows
		if x.layout == "col" {
			short = x.cols
		}
		return long * short
	}
	for _, x := range list[:3] {
		column, rows := w.memory(x.element, count(x))
		line("//! in %s %d %s", x.name, rows, column)
	}
	out := map[string]string{"f16": "u16", "f32": "u32", "f64": "u64", "s32": "s32"}[w.d]
	line("//! out d %d %s", count(list[3]), out)
	line("//! run k grid 1 block 32 args a b c d")
	line(".version 8.5\n.target sm_90\n.address_size 64\n")
	if w.shared {
		line(".shared .align 32 .b8 tile[8192];")
	}
	line(".visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{")
	line("\t.reg .b64 %%at;\n\t.reg .b32 %%pitch, %%t<4>;\n\t.reg .b64 %%l<3>;\n\t.reg .pred %%p;")
	lists := map[string]string{}
	for n, x := range list {
		number, width := w.registers(x.element, x.rows*x.cols, n < 2)
		var regs []string
		for r := range number {
			regs = append(regs, fmt.Sprintf("%%%s%d", x.name, r))
		}
		lists[x.name] = "{" + strings.Join(regs, ", ") + "}"
		line("\t.reg .b%d %s;", width, strings.Join(regs, ", "))
	}
	for n, x := range list[:3] {
		line("\tld.param.u64 %%at, [%s];", x.name)
		from, space := "%at", ".global"
		if w.shared && n < 2 {
			w.copy(line, n*4096, count(x)*elementBits(x.element)/8)
			from, space = fmt.Sprintf("tile+%d", n*4096), ".shared"
		}
		stride := ""
		if w.strides {
			line("\tmov.u32 %%pitch, %d;", pitch(x.rows, x.cols, x.layout, x.element))
			stride = ", %pitch"
		}
		line("\twmma.load.%s.sync.aligned.%s.%s%s.%s %s, [%s]%s;", x.name, x.layout, w.shape, space, x.element, lists[x.name], from, stride)
	}
	types := w.d + "." + w.element + "." + w.element + "." + w.c
	if w.element == "f16" {
		types = w.d + "." + w.c
	}
	op, sat := w.suffixes()
	line("\twmma.mma.%ssync.aligned.%s.%s.%s.%s%s %s, %s, %s, %s;", op, w.a, w.b, w.shape, types, sat, lists["d"], lists["a"], lists["b"], lists["c"])
	line("\tld.param.u64 %%at, [d];")
	line("\twmma.store.d.sync.aligned.%s.%s.global.%s [%%at], %s, %d;", w.layoutD, w.shape, w.d, lists["d"], pitch(m, n, w.layoutD, w.d))
	line("\tret;\n}")
	return s.String()
}

// suffixes are what the name of wmma.mma has for bits, and for integers that are clamped.
func (w *wmma) suffixes() (op, sat string) {
	if w.tail != "" {
		op = w.tail[1:] + "."
	}
	if w.sat {
		sat = ".satfinite"
	}
	return op, sat
}

// copy copies bytes from %at to shared memory.
func (w *wmma) copy(line func(string, ...any), to, bytes int) {
	line("\tmov.u32 %%t0, %%tid.x;\n\tshl.b32 %%t0, %%t0, 2;\nL%d:\n\tcvt.u64.u32 %%l0, %%t0;\n\tadd.u64 %%l1, %%at, %%l0;", to)
	line("\tld.global.u32 %%t1, [%%l1];\n\tmov.u32 %%t2, tile;\n\tadd.u32 %%t2, %%t2, %%t0;\n\tst.shared.u32 [%%t2+%d], %%t1;", to)
	line("\tadd.u32 %%t0, %%t0, 128;\n\tsetp.lt.u32 %%p, %%t0, %d;\n\t@%%p bra L%d;\n\tbar.warp.sync -1;", bytes, to)
}

// wmmas are products of every shape.
func wmmas() (list []wmma) {
	orders := [][2]string{{"row", "row"}, {"row", "col"}, {"col", "row"}, {"col", "col"}}
	for _, shape := range []string{"m16n16k16", "m32n8k16", "m8n32k16"} {
		for n, o := range orders {
			w := wmma{shape: shape, a: o[0], b: o[1], element: "f16", c: "f32", d: "f32", layoutC: o[0], layoutD: o[1], strides: n%2 == 0, shared: n > 1}
			list = append(list, w)
			w.element = "bf16"
			list = append(list, w)
			w.element, w.c, w.d = "u8", "s32", "s32"
			if n%2 == 0 {
				w.element, w.sat = "s8", n == 0
			}
			list = append(list, w)
		}
		for n, t := range [][2]string{{"f16", "f16"}, {"f16", "f32"}, {"f32", "f16"}} {
			list = append(list, wmma{shape: shape, a: "row", b: "col", element: "f16", d: t[0], c: t[1],
				layoutC: orders[n][0], layoutD: orders[n][1], strides: true})
		}
	}
	for n, o := range orders {
		list = append(list,
			wmma{shape: "m16n16k8", a: o[0], b: o[1], element: "tf32", c: "f32", d: "f32", layoutC: o[1], layoutD: o[0], strides: n%2 == 1},
			wmma{shape: "m8n8k4", a: o[0], b: o[1], element: "f64", c: "f64", d: "f64", layoutC: o[1], layoutD: o[0], strides: n%2 == 1, shared: n > 1})
	}
	for n, element := range []string{"s4", "u4"} {
		list = append(list, wmma{shape: "m8n8k32", a: "row", b: "col", element: element, c: "s32", d: "s32", layoutC: "row", layoutD: "col", strides: n > 0, sat: n > 0, shared: true})
	}
	for n, tail := range []string{".xor.popc", ".and.popc"} {
		list = append(list, wmma{shape: "m8n8k128", a: "row", b: "col", element: "b1", c: "s32", d: "s32", layoutC: "col", layoutD: "row", strides: n > 0, tail: tail})
	}
	return list
}

// moves are ldmatrix, stmatrix and movmatrix.
func moves() (list []spec) {
	for _, num := range []int{1, 2, 4} {
		for _, trans := range []string{"", ".trans"} {
			var in, regs []string
			for n := range num {
				in = append(in, "u32:rand")
				regs = append(regs, outNames[n])
			}
			if num == 1 {
				regs = []string{"%x"}
			}
			form := fmt.Sprintf("sync.aligned.m8n8.x%d%s", num, trans)
			store := []string{"mov.u32 %t0, %laneid", "shl.b32 %t0, %t0, 4", "mov.u32 %t1, tile", "add.u32 %t0, %t0, %t1", "mov.u32 %t3, %laneid",
				"shl.b32 %t2, %t3, 4", "xor.b32 %t2, %t2, 112", "add.u32 %t1, %t1, %t2"} // rows in another order
			load := append([]string{}, store...)
			for n := range num {
				load = append(load, fmt.Sprintf("st.shared.b32 [%%t0+%d], %s", 4*n, inNames[n]))
			}
			load = append(load, "bar.warp.sync -1", "ldmatrix."+form+".shared.b16 {"+strings.Join(regs, ", ")+"}, [%t1]")
			var out []string
			for range num {
				out = append(out, "u32")
			}
			list = append(list, spec{name: "ldmatrix" + form[12:], in: in, out: out, rows: 32, block: 32, body: load, top: []string{".shared .align 16 .b8 tile[512];"}})
			body := append(append([]string{}, store...), "st.shared.v4.b32 [%t0], {0, 0, 0, 0}", "bar.warp.sync -1",
				"stmatrix."+form+".shared.b16 [%t1], {"+strings.Join(inNames[:num], ", ")+"}", "bar.warp.sync -1", "ld.shared.v4.b32 {%x, %y, %z, %w}, [%t0]")
			list = append(list, spec{name: "stmatrix" + form[12:], in: in, out: []string{"u32", "u32", "u32", "u32"}, rows: 32, block: 32, body: body,
				top: []string{".shared .align 16 .b8 tile[512];"}})
		}
	}
	return append(append(list, asyncSpecs()...), spec{name: "movmatrix.m8n8.trans", in: []string{"u32:rand"}, out: []string{"u32"}, rows: 128, block: 128,
		body: []string{"movmatrix.sync.aligned.m8n8.trans.b16 %x, %a"}})
}
