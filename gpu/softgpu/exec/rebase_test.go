package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
)

// rebased are kernels whose threads add up what they load at several addresses into %r6: words of .shared, where word
// k holds k, with the thread's address %rd10, or of global memory, and how many base registers the loads have
// in the end.
var rebased = map[string]struct {
	body   string
	expect func(i uint32) uint32
	bases  int
}{
	"sums of 32 bits that do not wrap around": {body: "add.u32 %r5, %r2, 3; mul.wide.u32 %rd5, %r5, 4; add.u64 %rd6, %rd9, %rd5; ld.shared.u32 %r7, [%rd10]; ld.shared.u32 %r8, [%rd6];",
		expect: func(i uint32) uint32 { return i + i + 3 }, bases: 1},
	"all kinds of sums": {body: "mad.lo.s32 %r5, %r2, 1, 7; shl.b32 %r9, %r5, 2; cvt.u64.u32 %rd5, %r9; add.s64 %rd6, %rd9, %rd5; mad.wide.s32 %rd7, %r2, 4, %rd9; sub.s64 %rd7, %rd7, -20;" +
		"ld.shared.u32 %r7, [%rd10+4]; ld.shared.u32 %r8, [%rd6+8]; add.u32 %r7, %r7, %r8; ld.shared.u32 %r8, [%rd7];",
		expect: func(i uint32) uint32 { return i + 1 + i + 9 + i + 5 }, bases: 1},
	"a sum that wraps around": {body: "add.u32 %r5, %r2, 4294967295; mul.wide.u32 %rd5, %r5, 4; setp.eq.u32 %p1, %r2, 0; @%p1 mov.u64 %rd5, 8; add.u64 %rd6, %rd9, %rd5; ld.shared.u32 %r7, [%rd10]; ld.shared.u32 %r8, [%rd6];",
		expect: func(i uint32) uint32 { return pick(i == 0, 2, i+i-1) }, bases: 2},
	"a product with a sign": {body: "sub.u32 %r5, %r2, 5; mul.wide.s32 %rd5, %r5, 4; add.u64 %rd6, %rd9, %rd5; ld.shared.u32 %r7, [%rd10]; ld.shared.u32 %r8, [%rd6+20];",
		expect: func(i uint32) uint32 { return i + i }, bases: 2},
	"a register that changes": {body: "add.u64 %rd6, %rd10, 4; ld.shared.u32 %r7, [%rd10]; add.u64 %rd10, %rd10, 32; ld.shared.u32 %r8, [%rd6]; add.u32 %r7, %r7, %r8; ld.shared.u32 %r8, [%rd10];",
		expect: func(i uint32) uint32 { return i + i + 1 + i + 8 }, bases: 1},
	"a register that some lanes change": {body: "setp.gt.u32 %p1, %r2, 50; add.u64 %rd6, %rd10, 4; ld.shared.u32 %r7, [%rd6]; @%p1 add.u64 %rd6, %rd6, 4; ld.shared.u32 %r8, [%rd6];",
		expect: func(i uint32) uint32 { return i + 1 + pick(i > 50, i+2, i+1) }, bases: 2},
	"in a loop": {body: "mov.u32 %r5, 0; mov.u64 %rd6, %rd10; L: ld.shared.u32 %r7, [%rd6]; add.u32 %r6, %r6, %r7; add.u64 %rd6, %rd6, 4; add.u64 %rd7, %rd6, 8; ld.shared.u32 %r7, [%rd7]; add.u32 %r6, %r6, %r7;" +
		"add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 4; @%p1 bra L; mov.u32 %r7, 0; mov.u32 %r8, 0;",
		expect: func(i uint32) uint32 { return 8*i + 24 }, bases: 1},
	"a base that its load overwrites": {body: "mul.wide.u32 %rd3, %r2, 8; add.u64 %rd4, %rd1, %rd3; st.global.u64 [%rd4+1024], %rd3; add.u64 %rd6, %rd4, 8; ld.global.u64 %rd4, [%rd4+1024]; cvt.u32.u64 %r7, %rd4;" +
		"ld.global.u64 %rd6, [%rd6+1016]; cvt.u32.u64 %r8, %rd6; mul.wide.u32 %rd3, %r2, 4; add.u64 %rd4, %rd1, %rd3;",
		expect: func(i uint32) uint32 { return 16 * i }, bases: 2},
	"one address before a branch and one after it": {body: "ld.shared.u32 %r7, [%rd10]; mov.u32 %r8, 0; add.u64 %rd6, %rd10, 4; setp.gt.u32 %p1, %r2, 9; @%p1 bra B; ld.shared.u32 %r8, [%rd6]; B: add.u64 %rd7, %rd6, 4; ld.shared.u32 %r5, [%rd7]; add.u32 %r6, %r6, %r5;",
		expect: func(i uint32) uint32 { return i + pick(i > 9, 0, i+1) + i + 2 }, bases: 2},
}

// Accesses whose addresses differ by a number that is known have one base register; results are what they were.
func TestRebased(t *testing.T) {
	const threads = 96
	for name, c := range rebased {
		t.Run(name, func(t *testing.T) {
			body := ".shared .align 4 .b8 s[1024]; mov.u64 %rd9, s; mul.wide.u32 %rd5, %r2, 4; add.u64 %rd10, %rd9, %rd5; mov.u32 %r6, 0;\n" +
				"st.shared.u32 [%rd10], %r2; add.u32 %r5, %r2, 96; st.shared.u32 [%rd10+384], %r5; bar.sync 0;\n" + c.body + "\nadd.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8; st.global.u32 [%rd4], %r6;"
			for _, native := range []Native{NativeNever, NativeAtOnce} {
				m := exectest.NewMemory(4096)
				m.Map(exectest.BufA, 8192)
				p := build(t, "k.ptx", source("", body), m)
				require.NoError(t, Run(kernel(t, p, "k"), Launch{Grid: grid(1, 1, 1), Block: grid(threads, 1, 1), Native: native, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1))
				got := readAll[uint32](m, exectest.BufA, threads)
				for i := range uint32(threads) {
					require.Equal(t, c.expect(i), got[i], "thread %d", i)
				}
				require.Equal(t, c.bases, basesOfLoads(p.Code))
			}
		})
	}
}

// basesOfLoads counts the registers that loads have as their base, in a kernel that is not large.
func basesOfLoads(code []ir.Inst) int {
	bases := map[uint32]bool{}
	for i := range code {
		if in := &code[i]; in.Op >= ir.OpLoad && in.Op <= ir.OpLoadWide {
			bases[in.A] = true
		}
	}
	return len(bases)
}
