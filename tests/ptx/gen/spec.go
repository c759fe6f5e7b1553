package main

import (
	"fmt"
	"strings"
)

// spec is one fixture: a kernel in which each thread takes a row of inputs
// through a few instructions to a row of outputs.
type spec struct {
	name string
	in   []string // columns, as package fixture describes them; in registers %a, %b, …
	out  []string // columns; from registers %x, %y, %z, %w, or %x0, %x1, … if there are more than four

	// body is the instruction under test with what it needs. It may use the
	// predicates %p, %q, %r, %s, the registers %h<8> (16 bits), %t<8> (32),
	// %l<8> (64), %row, and the addresses %from and %to of the thread's rows.
	body []string

	rows    int      // 0: chosen by the number of columns
	block   int      // threads of a block; 0: 128
	shared  int      // dynamic shared memory
	top     []string // declarations of the module
	locals  []string // declarations of the kernel
	stores  bool     // the body stores the outputs itself
	target  string   // "": .version 8.5, .target sm_90
	moreArg string   // further kernel parameters, such as ", .param .u32 x"
	moreVal string   // and their values in the run line
}

var (
	inNames  = []string{"%a", "%b", "%c", "%d", "%e", "%f", "%g"}
	outNames = []string{"%x", "%y", "%z", "%w"}
)

// op is an instruction with one result and the operands %a, %b, …
func op(instr, out string, in ...string) spec {
	line := instr + " %x"
	for i := range in {
		line += ", " + inNames[i]
	}
	return spec{name: instr, in: in, out: []string{out}, body: []string{line}}
}

// bitsOf is the number of bits of a column's type.
func bitsOf(column string) int {
	name := column
	if i := strings.IndexAny(name, ":~"); i >= 0 {
		name = name[:i]
	}
	switch name {
	case "f16", "bf16":
		return 16
	case "f16x2", "bf16x2":
		return 32
	}
	var n int
	if _, err := fmt.Sscanf(name[1:], "%d", &n); err != nil {
		panic("column " + column + ": " + err.Error())
	}
	return n
}

// register is the width of the register for a value of so many bits.
func register(bits int) int { return max(bits, 16) }

func (s *spec) outName(i int) string {
	if len(s.out) > len(outNames) {
		return fmt.Sprintf("%%x%d", i)
	}
	return outNames[i]
}

// place returns the offset of each column and the size of a row.
func place(columns []string) (offsets []int, stride int) {
	align := 1
	for _, c := range columns {
		size := bitsOf(c) / 8
		stride = (stride + size - 1) / size * size
		offsets = append(offsets, stride)
		stride += size
		align = max(align, size)
	}
	return offsets, (stride + align - 1) / align * align
}

func (s *spec) rowCount() int {
	if s.rows != 0 {
		return s.rows
	}
	lists := 0
	for _, c := range s.in {
		if strings.Contains(c, ":edge") || strings.Contains(c, ":shift") || strings.Contains(c, ":cvt") || strings.Contains(c, ":exp") || strings.Contains(c, ":oob") {
			lists++
		}
	}
	switch {
	case strings.Contains(s.in[0], ":cvt"):
		return 192
	case strings.Contains(s.in[0], ":fp8"):
		return 320
	case lists < 2:
		return 128
	case strings.Count(s.name, ".") > 2:
		return 240 // the first modifier had more
	case lists > 2:
		return 384
	}
	return 432
}

// text is the source of the fixture.
func (s *spec) text() string {
	var b strings.Builder
	rows, block := s.rowCount(), s.block
	if block == 0 {
		block = 128
	}
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("//! in in %d %s", rows, strings.Join(s.in, " "))
	line("//! out out %d %s", rows, strings.Join(s.out, " "))
	shared := ""
	if s.shared > 0 {
		shared = fmt.Sprintf(" shared %d", s.shared)
	}
	line("//! run k grid %d block %d%s args in out u32=%d%s", (rows+block-1)/block, block, shared, rows, s.moreVal)
	if s.target == "" {
		line(".version 8.5\n.target sm_90")
	} else {
		line("%s", s.target)
	}
	line(".address_size 64\n")
	for _, t := range s.top {
		line("%s", t)
	}
	line(".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 n%s)\n{", s.moreArg)
	for _, l := range s.locals {
		line("\t%s", l)
	}
	s.registers(line)
	line("\tmov.u32 %%row, %%ctaid.x;\n\tmov.u32 %%t0, %%ntid.x;\n\tmov.u32 %%t1, %%tid.x;\n\tmad.lo.u32 %%row, %%row, %%t0, %%t1;")
	line("\tld.param.u32 %%t0, [n];\n\tsetp.ge.u32 %%p, %%row, %%t0;\n\t@%%p bra done;")
	offsets, stride := place(s.in)
	line("\tld.param.u64 %%from, [in];\n\tmad.wide.u32 %%from, %%row, %d, %%from;", stride)
	for i, c := range s.in {
		t := fmt.Sprintf("b%d", bitsOf(c))
		if strings.HasPrefix(c, "s8") || strings.HasPrefix(c, "u8") {
			t = c[:2]
		}
		line("\tld.global.%s %s, [%%from+%d];", t, inNames[i], offsets[i])
	}
	outs, stride := place(s.out)
	line("\tld.param.u64 %%to, [out];\n\tmad.wide.u32 %%to, %%row, %d, %%to;\n", stride)
	for _, l := range s.body {
		if strings.HasSuffix(l, ":") || l == "{" || l == "}" || strings.HasSuffix(l, ";") {
			line("\t%s", l)
		} else {
			line("\t%s;", l)
		}
	}
	b.WriteString("\n")
	for i, c := range s.out {
		if !s.stores {
			line("\tst.global.b%d [%%to+%d], %s;", bitsOf(c), outs[i], s.outName(i))
		}
	}
	line("done:\n\tret;\n}")
	return b.String()
}

// registers declares what the kernel uses.
func (s *spec) registers(line func(string, ...any)) {
	line("\t.reg .pred %%p, %%q, %%r, %%s;\n\t.reg .b16 %%h<8>;\n\t.reg .b32 %%row, %%t<8>;\n\t.reg .b64 %%from, %%to, %%l<8>;")
	byWidth := map[int][]string{}
	for i, c := range s.in {
		n := register(bitsOf(c))
		byWidth[n] = append(byWidth[n], inNames[i])
	}
	for i, c := range s.out {
		n := register(bitsOf(c))
		byWidth[n] = append(byWidth[n], s.outName(i))
	}
	for _, n := range []int{16, 32, 64} {
		if len(byWidth[n]) > 0 {
			line("\t.reg .b%d %s;", n, strings.Join(byWidth[n], ", "))
		}
	}
}
