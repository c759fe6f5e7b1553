package main

import "fmt"

// places is a product with one matrix whose elements tell where they come from: each two bytes of
// shared memory hold their own number, and the other matrix is the identity. Each block takes the
// fields of the descriptor from random numbers.
type places struct {
	name   string
	n      int
	a      bool // the matrix is a, not b
	trans  bool
	base   bool   // the descriptor has a base offset
	sparse bool   // b has 32 rows; odd warps show the upper two of four, the others the lower two
	start  uint32 // bits of the address that are random
	stride uint32 // and of the two offsets
	blocks int
	whole  bool // all numbers are compared, not one that depends on all of a thread's
}

// identityAt is where b lies that is an identity, behind the numbers.
const identityAt = 47 << 10

// text is the source of the fixture.
func (p *places) text() string {
	s := &source{}
	regs, column := p.n/2, "u32"
	if p.whole {
		column = columns("u32", regs)[1:]
	}
	s.line("//! in a %d u32:rand u32:rand", p.blocks)
	s.line("//! out d %d %s", 128*p.blocks, column)
	s.line("//! run k grid %d block 128 shared 49152 args a d", p.blocks)
	s.begin("a", "d")
	s.line("\t.reg .b32 %%a<4>, %%d<%d>;\n\t.reg .f32 %%f;\n\t.reg .b16 %%h;", regs)
	s.line("\tmov.u32 %%t6, %%t0;\nfill:\n\tcvt.u16.u32 %%h, %%t6;\n\tmov.b32 %%t7, 0;")
	if p.a { // columns of b are rows of 16 bytes, eight of them and then the second half of these
		s.line("\tsub.u32 %%t7, %%t6, %d;\n\tshr.u32 %%t8, %%t7, 3;\n\tshr.u32 %%t9, %%t8, 4;\n\tand.b32 %%t10, %%t8, 7;", identityAt/2)
		s.line("\tshl.b32 %%t9, %%t9, 3;\n\tadd.u32 %%t9, %%t9, %%t10; // the column")
		s.line("\tshr.u32 %%t11, %%t8, 3;\n\tand.b32 %%t11, %%t11, 1;\n\tshl.b32 %%t11, %%t11, 3;\n\tand.b32 %%t10, %%t7, 7;\n\tadd.u32 %%t11, %%t11, %%t10;")
		s.line("\tsetp.eq.u32 %%p, %%t9, %%t11;\n\tselp.b32 %%t9, 0x3c00, 0, %%p;\n\tsetp.ge.u32 %%p, %%t6, %d;\n\tselp.b32 %%t9, %%t9, %%t6, %%p;", identityAt/2)
		s.line("\tcvt.u16.u32 %%h, %%t9;")
	}
	s.line("\tshl.b32 %%t9, %%t6, 1;\n\tadd.u32 %%t9, %%t9, %%t2;\n\tst.shared.b16 [%%t9], %%h;")
	s.line("\tadd.u32 %%t6, %%t6, 128;\n\tsetp.lt.u32 %%p, %%t6, %d;\n\t@%%p bra fill;", 49152/2)
	s.line("\tfence.proxy.async;\n\tbar.sync 0;")
	// The identity as a fragment of a: row g and column 2t or 2t+1 of a thread 4g+t.
	s.line("\tand.b32 %%t6, %%t0, 31;\n\tshr.u32 %%t7, %%t6, 2;\n\tand.b32 %%t8, %%t6, 3;\n\tshr.u32 %%t9, %%t7, 1;\n\tsetp.eq.u32 %%p, %%t8, %%t9;")
	s.line("\tand.b32 %%t7, %%t7, 1;\n\tshl.b32 %%t7, %%t7, 4;\n\tshl.b32 %%t8, 0x3c00, %%t7;\n\tselp.b32 %%a0, %%t8, 0, %%p;")
	s.line("\tmov.b32 %%a1, 0;\n\tmov.b32 %%a2, 0;\n\tmov.b32 %%a3, %%a0;")
	s.row("a", "%t1", 8)
	s.line("\tld.global.v2.b32 {%%t6, %%t7}, [%%at];")
	s.line("\tand.b32 %%t8, %%t6, 0x%x;\n\tadd.u32 %%t8, %%t8, %%t2;\n\tshr.u32 %%t8, %%t8, 4;\n\tcvt.u64.u32 %%l0, %%t8;", p.start)
	s.line("\tand.b32 %%t8, %%t7, 0x%x;\n\tshr.u32 %%t8, %%t8, 4;\n\tcvt.u64.u32 %%l2, %%t8;\n\tshl.b64 %%l2, %%l2, 16;\n\tor.b64 %%l0, %%l0, %%l2;", p.stride)
	s.line("\tshr.u32 %%t8, %%t7, 16;\n\tand.b32 %%t8, %%t8, 0x%x;\n\tshr.u32 %%t8, %%t8, 4;\n\tcvt.u64.u32 %%l2, %%t8;\n\tshl.b64 %%l2, %%l2, 32;\n\tor.b64 %%l0, %%l0, %%l2;", p.stride)
	s.line("\tand.b32 %%t8, %%t1, 3;\n\tcvt.u64.u32 %%l2, %%t8;\n\tshl.b64 %%l2, %%l2, 62;\n\tor.b64 %%l0, %%l0, %%l2; // swizzling")
	if p.base {
		s.line("\tshr.u32 %%t8, %%t6, 28;\n\tand.b32 %%t8, %%t8, 7;\n\tcvt.u64.u32 %%l2, %%t8;\n\tshl.b64 %%l2, %%l2, 49;\n\tor.b64 %%l0, %%l0, %%l2;")
	}
	s.line("\tadd.u32 %%t5, %%t2, %d;", identityAt)
	s.descriptor("%l1", "%t5", 256)
	for n := range regs {
		s.line("\tmov.b32 %%d%d, 0;", n)
	}
	s.line("\tsetp.ne.u32 %%q, %%t0, %%t0;")
	a, b, trans := vectorOf("a", 4), "%l0", "0"
	if p.trans {
		trans = "1"
	}
	if p.a {
		a, b, trans = "%l0", "%l1", trans+", 0"
	}
	kind, k, meta := "wgmma.mma_async", 16, ""
	if p.sparse {
		kind, k, meta = kind+".sp", 32, ", %t12, 0"
		s.line("\tshr.u32 %%t12, %%t0, 5;\n\tand.b32 %%t12, %%t12, 1;\n\tsetp.ne.u32 %%p, %%t12, 0;\n\tselp.b32 %%t12, 0xeeeeeeee, 0x44444444, %%p;")
	}
	s.product(fmt.Sprintf("%s.sync.aligned.m64n%dk%d.f32.f16.f16 %s, %s, %s%s, %%q, 1, 1, %s", kind, p.n, k, vectorOf("d", regs), a, b, meta, trans))
	// A number is the bits of an f16.
	for n := range regs {
		s.line("\tmov.b32 %%f, %%d%d;\n\tcvt.rn.f16.f32 %%h, %%f;\n\tcvt.u32.u16 %%d%d, %%h;", n, n)
	}
	s.results(regs, !p.whole)
	return s.String()
}

// placeSources are the fixtures of descriptors.
func placeSources() map[string]string {
	files := map[string]string{}
	for _, p := range []places{
		{name: "b", n: 32, start: 0x3ff0, stride: 0x1ff0, blocks: 16},
		{name: "b.base", n: 32, base: true, start: 0x3ff0, stride: 0x1ff0, blocks: 16},
		{name: "b.trans", n: 128, trans: true, start: 0x1ff0, stride: 0x7f0, blocks: 16},
		{name: "b.trans.base", n: 128, trans: true, base: true, start: 0x1ff0, stride: 0x7f0, blocks: 16},
		{name: "b.trans.narrow", n: 24, trans: true, start: 0x1ff0, stride: 0x7f0, blocks: 16},
		{name: "b.trans.wide", n: 256, trans: true, start: 0xff0, stride: 0x3f0, blocks: 16},
		{name: "b.sparse", n: 32, sparse: true, base: true, start: 0x1ff0, stride: 0x1ff0, blocks: 16},
		{name: "b.sparse.trans", n: 128, sparse: true, trans: true, start: 0xff0, stride: 0x7f0, blocks: 16},
		{name: "a", a: true, n: 16, start: 0x1ff0, stride: 0xff0, blocks: 16},
		{name: "a.base", a: true, n: 16, base: true, start: 0x1ff0, stride: 0xff0, blocks: 16},
		{name: "a.trans", a: true, n: 16, trans: true, start: 0x1ff0, stride: 0x7f0, blocks: 16},
		{name: "a.trans.base", a: true, n: 16, trans: true, base: true, start: 0x1ff0, stride: 0x7f0, blocks: 16},
	} {
		files["wgmma.places."+p.name] = p.text()
	}
	return files
}
