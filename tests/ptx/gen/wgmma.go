package main

import (
	"fmt"
	"strings"
)

// group is a product of a warpgroup, wgmma. B lies in shared memory without swizzling, pieces of
// eight columns by 16 bytes one after another, and at 32 KiB also a, unless it is in registers.
type group struct {
	n, k     int
	d, a, b  string // types, such as "f32"
	tail     string // of bits: ".and.popc"
	scales   string // behind scale-d, such as ", 1, -1"
	sat      bool
	memory   bool // a lies in shared memory
	zero     bool // scale-d is false for every other block
	hash     bool // each thread writes one number that depends on all of its d
	sparse   bool
	selector int
	blocks   int    // 0: 4
	mask     uint32 // of a and b
	kind     string // for the name
	sums     string // column of c; "": by type
}

// dRegisters is how many registers of a thread hold its part of d.
func (g *group) dRegisters() int {
	if g.d == "f16" {
		return g.n / 4
	}
	return g.n / 2
}

func (g *group) name() string {
	name := "wgmma."
	if g.sparse {
		name += "sp."
	}
	name += fmt.Sprintf("m64n%dk%d.%s.%s.%s%s", g.n, g.k, g.d, g.a, g.b, g.tail)
	if g.sat {
		name += ".satfinite"
	}
	if g.memory {
		name += ".memory"
	}
	if g.selector > 0 {
		name += fmt.Sprintf(".f%d", g.selector)
	}
	if g.kind != "" {
		name += "." + g.kind
	}
	return name
}

// operands is what stands behind the scale of d: factors of a and b, and transpositions.
func (g *group) operands() string {
	switch {
	case g.d == "s32":
		return ""
	case g.scales != "":
		return g.scales
	case g.a == "f16" || g.a == "bf16":
		if g.memory {
			return ", 1, 1, 0, 0"
		}
		return ", 1, 1, 0"
	}
	return ", 1, 1"
}

// vectorOf lists registers %x0 to %x(n-1).
func vectorOf(x string, n int) string {
	var regs []string
	for k := range n {
		regs = append(regs, fmt.Sprintf("%%%s%d", x, k))
	}
	return "{" + strings.Join(regs, ", ") + "}"
}

// source collects the lines of a kernel.
type source struct{ strings.Builder }

func (s *source) line(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// begin writes the header of a kernel with parameters, and what its threads have.
func (s *source) begin(params ...string) {
	s.line(".version 8.4\n.target sm_90a\n.address_size 64\n\n.extern .shared .align 1024 .b8 pool[];")
	for n, p := range params {
		params[n] = ".param .u64 " + p
	}
	s.line(".visible .entry k(%s)\n{", strings.Join(params, ", "))
	s.line("\t.reg .pred %%p, %%q;\n\t.reg .b32 %%t<16>;\n\t.reg .b64 %%at, %%l<16>;")
	s.line("\tmov.u32 %%t0, %%tid.x;\n\tmov.u32 %%t1, %%ctaid.x;\n\tmov.u32 %%t2, pool;\n\tshl.b32 %%t3, %%t1, 7;\n\tadd.u32 %%t3, %%t3, %%t0;")
}

// row sets %at to row r of a buffer of rows of so many bytes.
func (s *source) row(buffer, r string, bytes int) {
	s.line("\tld.param.u64 %%at, [%s];\n\tmad.wide.u32 %%at, %s, %d, %%at;", buffer, r, bytes)
}

// descriptor makes one of 256 bytes of stride for each eight rows or columns, 128 for each 16 bytes.
func (s *source) descriptor(to, address string, stride int) {
	s.line("\tshr.u32 %%t4, %s, 4;\n\tand.b32 %%t4, %%t4, 0x3fff;\n\tcvt.u64.u32 %s, %%t4;", address, to)
	s.line("\tor.b64 %s, %s, 0x%x;", to, to, uint64(128>>4)<<16|uint64(stride>>4)<<32)
}

// run writes a product and waits for it.
func (s *source) product(text string) {
	s.line("\twgmma.fence.sync.aligned;\n\t%s;\n\twgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;", text)
}

// results stores d, or a number that depends on all of it.
func (s *source) results(count int, hash bool) {
	if hash {
		s.line("\tmov.b32 %%t5, 0;")
		for n := range count {
			s.line("\tmad.lo.u32 %%t5, %%t5, 0x01000193, %%d%d;", n)
		}
		s.row("d", "%t3", 4)
		s.line("\tst.global.b32 [%%at], %%t5;\n\tret;\n}")
		return
	}
	s.row("d", "%t3", 4*count)
	for n := range count {
		s.line("\tst.global.b32 [%%at+%d], %%d%d;", 4*n, n)
	}
	s.line("\tret;\n}")
}

// columns repeats a column.
func columns(column string, count int) string { return strings.Repeat(" "+column, count) }

// text is the source of the fixture.
func (g *group) text() string {
	s := &source{}
	blocks, regs := g.blocks, g.dRegisters()
	if blocks == 0 {
		blocks = 4
	}
	rows, words := 128*blocks, 8*g.n // of b in a block
	if g.sparse {
		words *= 2
	}
	sums, out := g.sums, outOf(g.d)
	if sums == "" {
		sums = columnOf(g.d)
	}
	given := min(regs, 4) // registers of c that come from memory
	s.line("//! in a %d%s", rows, columns(columnOf(g.a), 4))
	s.line("//! in b %d %s", words*blocks, columnOf(g.b))
	s.line("//! in c %d%s", rows, columns(sums, given))
	params, args := []string{"a", "b", "c", "d"}, ""
	if g.sparse {
		s.line("//! in e %d u32:rand", rows)
		params, args = append(params, "e"), " e"
	}
	if g.hash {
		s.line("//! out d %d u32", rows)
	} else {
		s.line("//! out d %d%s", rows, columns(out, regs))
	}
	s.line("//! run k grid %d block 128 shared 36864 args a b c d%s", blocks, args)
	s.begin(params...)
	s.line("\t.reg .b32 %%a<4>, %%c<%d>, %%d<%d>;", given, regs)
	s.row("a", "%t3", 16)
	s.line("\tld.global.v4.b32 %s, [%%at];", vectorOf("a", 4))
	s.masked("a", 4, g.mask)
	s.line("\tshl.b32 %%t4, %%t0, 4;\n\tadd.u32 %%t4, %%t4, %%t2;\n\tst.shared.v4.b32 [%%t4+32768], %s;", vectorOf("a", 4))
	s.row("c", "%t3", 4*given)
	for n := range given {
		s.line("\tld.global.b32 %%c%d, [%%at+%d];", n, 4*n)
	}
	for n := range regs {
		s.line("\tmov.b32 %%d%d, %%c%d;", n, n%given)
	}
	s.line("\tmov.u32 %%t6, %%t0;\nfill:\n\tmad.lo.u32 %%t7, %%t1, %d, %%t6;", words)
	s.row("b", "%t7", 4)
	s.line("\tld.global.b32 %%t8, [%%at];")
	if g.mask != 0 {
		s.line("\tand.b32 %%t8, %%t8, 0x%x;", g.mask)
	}
	s.line("\tshl.b32 %%t9, %%t6, 2;\n\tadd.u32 %%t9, %%t9, %%t2;\n\tst.shared.b32 [%%t9], %%t8;")
	s.line("\tadd.u32 %%t6, %%t6, 128;\n\tsetp.lt.u32 %%p, %%t6, %d;\n\t@%%p bra fill;", words)
	s.line("\tfence.proxy.async;\n\tbar.sync 0;")
	s.descriptor("%l0", "%t2", 4*words/g.n*8)
	s.line("\tadd.u32 %%t5, %%t2, 32768;")
	s.descriptor("%l1", "%t5", 256)
	s.line("\tsetp.eq.u32 %%q, %%t0, %%t0;")
	if g.zero {
		s.line("\tand.b32 %%t5, %%t1, 1;\n\tsetp.eq.u32 %%q, %%t5, 1;")
	}
	kind, meta, a, sat := "wgmma.mma_async", "", vectorOf("a", 4), ""
	if g.sparse {
		kind, meta = kind+".sp", fmt.Sprintf(", %%e, %d", g.selector)
		s.line("\tmov.u32 %%row, %%t3;")
		(&product{types: strings.Join([]string{g.d, g.a, g.b}, ".")}).metadata(s.line)
	}
	if g.memory {
		a = "%l1"
	}
	if g.sat {
		sat = ".satfinite"
	}
	s.product(fmt.Sprintf("%s.sync.aligned.m64n%dk%d%s.%s.%s.%s%s %s, %s, %%l0%s, %%q%s", kind, g.n, g.k, sat, g.d, g.a, g.b, g.tail,
		vectorOf("d", regs), a, meta, g.operands()))
	s.results(regs, g.hash)
	text := s.String()
	if g.sparse {
		text = strings.Replace(text, "%t<16>", "%row, %t<16>", 1)
	}
	return text
}

// masked clears bits of registers.
func (s *source) masked(x string, count int, mask uint32) {
	for n := range count {
		if mask != 0 {
			s.line("\tand.b32 %%%s%d, %%%s%d, 0x%x;", x, n, x, n, mask)
		}
	}
}
