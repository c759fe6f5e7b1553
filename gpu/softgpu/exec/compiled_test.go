package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/jit"
)

// compiled are kernels of operations that native code has: what thread i of 64 gets in %r6 is what the interpreter
// gives it, and no operation is left to that. The threads begin with different numbers in %r5 and %rd5.
var compiled = map[string]string{
	"match.any":  "and.b32 %r7, %r5, 3; match.any.sync.b32 %r6, %r7, -1; and.b64 %rd6, %rd5, 0x700000000; match.any.sync.b64 %r8, %rd6, -1; xor.b32 %r6, %r6, %r8;",
	"match.all":  "shr.u32 %r7, %r2, 5; match.all.sync.b32 %r6|%p1, %r7, -1; match.all.sync.b64 %r8, %rd5, -1; add.u32 %r6, %r6, %r8; @%p1 add.u32 %r6, %r6, 7;",
	"redux":      "redux.sync.add.s32 %r6, %r5, -1; redux.sync.min.s32 %r7, %r5, -1; xor.b32 %r6, %r6, %r7; redux.sync.max.u32 %r7, %r5, -1; xor.b32 %r6, %r6, %r7; redux.sync.and.b32 %r7, %r5, -1; add.u32 %r6, %r6, %r7;",
	"vote.uni":   "setp.gt.u32 %p1, %r2, 31; vote.sync.uni.pred %p2, %p1, -1; setp.gt.u32 %p1, %r2, 40; vote.sync.uni.pred %p3, !%p1, -1; mov.u32 %r6, 1; @%p2 add.u32 %r6, %r6, 2; @%p3 add.u32 %r6, %r6, 4;",
	"elect":      "elect.sync %r6|%p1, -1; @%p1 add.u32 %r6, %r6, 9;",
	"activemask": "setp.gt.u32 %p1, %r2, 40; activemask.b32 %r6; @%p1 activemask.b32 %r6;",
	"carries": "add.cc.u32 %r7, %r5, 0x80000001; addc.cc.u32 %r8, %r5, %r2; addc.u32 %r6, %r8, %r7; sub.cc.u64 %rd6, %rd5, %rd4; subc.cc.u64 %rd7, %rd6, %rd5; subc.u64 %rd8, %rd7, 0; " +
		"add.cc.u64 %rd6, %rd8, %rd5; addc.u64 %rd7, %rd7, 0; xor.b64 %rd6, %rd6, %rd7; cvt.u32.u64 %r7, %rd6; xor.b32 %r6, %r6, %r7; mad.lo.cc.u32 %r7, %r5, %r6, %r8; madc.hi.u32 %r8, %r5, %r6, %r7; add.u32 %r6, %r7, %r8; setp.gt.u32 %p1, %r2, 40; @%p1 add.cc.u32 %r6, %r6, %r5; addc.u32 %r6, %r6, 0;",
	"of lanes and warps": "mov.u32 %r6, %laneid; mov.u32 %r7, %lanemask_lt; xor.b32 %r6, %r6, %r7; mov.u32 %r7, %lanemask_ge; mad.lo.u32 %r6, %r6, 3, %r7; mov.u32 %r7, %lanemask_eq; mad.lo.u32 %r6, %r6, 3, %r7; mov.u32 %r7, %lanemask_le; mad.lo.u32 %r6, %r6, 3, %r7; " +
		"mov.u32 %r7, %lanemask_gt; mad.lo.u32 %r6, %r6, 3, %r7; mov.u32 %r7, %warpid; mad.lo.u32 %r6, %r6, 3, %r7; mov.u32 %r7, %nwarpid; mad.lo.u32 %r6, %r6, 3, %r7; mov.u32 %r7, %smid; mov.u32 %r8, %nsmid; mad.lo.u32 %r6, %r7, 5, %r6; mad.lo.u32 %r6, %r8, 5, %r6; setp.gt.u32 %p1, %r2, 40; @%p1 mov.u32 %r6, %warpid;",
	"tiles":  "mov.u32 %r8, %laneid; and.b32 %r8, %r8, 24; shl.b32 %r8, 0xff, %r8; shfl.sync.bfly.b32 %r6, %r5, 4, 0x181f, %r8; redux.sync.add.u32 %r7, %r5, %r8; xor.b32 %r6, %r6, %r7; setp.gt.u32 %p1, %r5, 0x70000000; vote.sync.ballot.b32 %r8, %p1, %r8; add.u32 %r6, %r6, %r8; bar.warp.sync -1; elect.sync %r7|%p2, -1; @%p2 add.u32 %r6, %r6, 1;",
	"fences": "membar.gl; fence.acq_rel.sys; fence.sc.cta; mov.u32 %r6, %r2;",
	"add.f64": ".shared .align 8 .f64 s[2]; mov.u64 %rd6, s; cvt.rn.f64.u32 %fd1, %r5; atom.shared.add.f64 %fd2, [%rd6], %fd1; add.u64 %rd7, %rd1, 4096; " +
		"atom.global.add.f64 %fd3, [%rd7], %fd1; red.global.add.f64 [%rd7+8], %fd1; mov.b64 %rd8, %fd2; mov.b64 %rd9, %fd3; xor.b64 %rd8, %rd8, %rd9; cvt.u32.u64 %r6, %rd8; shr.u64 %rd8, %rd8, 32; cvt.u32.u64 %r7, %rd8; xor.b32 %r6, %r6, %r7;",
	"local": ".local .align 16 .b8 l[64]; mov.u64 %rd6, l; st.local.u64 [%rd6], %rd5; st.local.v2.u32 [%rd6+8], {%r5, %r2}; st.local.v4.u32 [%rd6+16], {%r2, %r5, %r2, %r5}; st.local.u64 [l+32], %rd5; st.local.u32 [l+40], %r2;" +
		"ld.local.u32 %r6, [%rd6+4]; ld.local.u64 %rd7, [%rd6+8]; cvt.u32.u64 %r7, %rd7; add.u32 %r6, %r6, %r7; ld.local.v2.u32 {%r7, %r8}, [%rd6+24]; mad.lo.u32 %r6, %r7, %r8, %r6; ld.local.u64 %rd8, [l+32]; shr.u64 %rd8, %rd8, 32; cvt.u32.u64 %r7, %rd8; xor.b32 %r6, %r6, %r7; ld.local.u32 %r7, [l+40]; add.u32 %r6, %r6, %r7;",
	"halves": "mov.b32 %r10, 0x3c013555; fma.rn.f16x2 %r6, %r5, %r10, %r2; add.f16x2 %r7, %r5, %r6; mul.f16x2 %r8, %r7, %r5; max.f16x2 %r9, %r8, %r5; xor.b32 %r6, %r6, %r7; xor.b32 %r6, %r6, %r8; xor.b32 %r6, %r6, %r9; fma.rn.bf16x2 %r7, %r5, %r6, %r2; xor.b32 %r6, %r6, %r7;" +
		"cvt.rn.f32.u32 %f1, %r5; cvt.rn.f16x2.f32 %r7, %f1, %f1; cvt.rn.bf16x2.f32 %r8, %f1, %f1; xor.b32 %r6, %r6, %r7; xor.b32 %r6, %r6, %r8;",
	"bits": "brev.b32 %r6, %r5; bfind.u32 %r7, %r5; bfind.shiftamt.s32 %r8, %r5; add.u32 %r6, %r6, %r7; xor.b32 %r6, %r6, %r8; mul.hi.u64 %rd6, %rd5, 0x123456789abcdef; mul.hi.s64 %rd7, %rd5, -9; brev.b64 %rd8, %rd5; xor.b64 %rd6, %rd6, %rd7; xor.b64 %rd6, %rd6, %rd8; cvt.u32.u64 %r7, %rd6; xor.b32 %r6, %r6, %r7; dp4a.u32.s32 %r6, %r5, %r7, %r6;",
}

// Operations that hot kernels use run in native code, on each width, with the interpreter's results.
func TestCompiledOperations(t *testing.T) {
	const threads = 64
	run := func(t *testing.T, body string, native Native, to *Tally) []uint32 {
		m := exectest.NewMemory(4096)
		m.Map(exectest.BufA, 8192)
		src := "mad.lo.u32 %r5, %r2, 0x9e3779b1, 0x7f4a7c15; mul.wide.u32 %rd5, %r5, %r5; bar.sync 0;" + body + "st.global.u32 [%rd4], %r6;"
		p := build(t, "k.ptx", []byte(".version 8.6\n.target sm_90\n"+string(source("", ".reg .f64 %fd<4>;\n"+src))[len(".version 7.0\n.target sm_70\n"):]), m)
		l := Launch{Grid: grid(1, 1, 1), Block: grid(threads, 1, 1), Native: native, Tally: to, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}
		require.NoError(t, Run(kernel(t, p, "k"), l, m, new(Control), 1))
		return readAll[uint32](m, exectest.BufA, threads)
	}
	eachISA(t, func(t *testing.T) {
		for name, body := range compiled {
			t.Run(name, func(t *testing.T) {
				var to Tally
				want := run(t, body, NativeNever, nil)
				require.Equal(t, want, run(t, body, NativeAtOnce, &to))
				row := to.Rows()[0]
				require.NotZero(t, row.Entered)
				require.Zero(t, row.Interpreted[jit.Operation], "lines %v", row.Lines)
			})
		}
	})
}
