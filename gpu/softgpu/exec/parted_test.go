package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/jit"
)

// partedOps are operations of lanes that have parted: %r5 differs by thread, %r7 names the lanes that run, and %r6 is the
// result.
var partedOps = map[string]string{
	"shfl":       "shfl.sync.bfly.b32 %r6|%p2, %r5, 4, 0x1f, %r7; @%p2 add.u32 %r6, %r6, 1; shfl.sync.up.b32 %r8|%p2, %r5, 1, 0, %r7; @!%p2 add.u32 %r8, %r8, 3; xor.b32 %r6, %r6, %r8;",
	"votes":      "vote.sync.ballot.b32 %r6, %p3, %r7; vote.sync.all.pred %p2, %p3, %r7; @%p2 add.u32 %r6, %r6, 1; vote.sync.any.pred %p2, !%p3, %r7; @%p2 add.u32 %r6, %r6, 2; vote.sync.uni.pred %p2, %p3, %r7; @%p2 add.u32 %r6, %r6, 4;",
	"match.any":  "and.b32 %r8, %r5, 3; match.any.sync.b32 %r6, %r8, %r7; and.b64 %rd6, %rd5, 0x100000000; match.any.sync.b64 %r8, %rd6, %r7; xor.b32 %r6, %r6, %r8;",
	"match.all":  "match.all.sync.b32 %r6|%p2, %r7, %r7; @%p2 add.u32 %r6, %r6, 9; match.all.sync.b64 %r8, %rd5, %r7; add.u32 %r6, %r6, %r8;",
	"redux":      "redux.sync.add.s32 %r6, %r5, %r7; redux.sync.min.s32 %r8, %r5, %r7; xor.b32 %r6, %r6, %r8; redux.sync.max.u32 %r8, %r5, %r7; xor.b32 %r6, %r6, %r8; redux.sync.and.b32 %r8, %r5, %r7; add.u32 %r6, %r6, %r8;",
	"tiles":      "mov.u32 %r8, %laneid; and.b32 %r8, %r8, 24; shl.b32 %r8, 0xff, %r8; and.b32 %r8, %r8, %r7; shfl.sync.down.b32 %r6|%p2, %r5, 4, 0x181f, %r8; @%p2 add.u32 %r6, %r6, 1; redux.sync.add.u32 %r10, %r5, %r8; xor.b32 %r6, %r6, %r10; vote.sync.all.pred %p2, %p3, %r8; @%p2 add.u32 %r6, %r6, 5; match.any.sync.b32 %r8, %r2, %r8; xor.b32 %r6, %r6, %r8;",
	"elect":      "elect.sync %r6|%p2, %r7; @%p2 add.u32 %r6, %r6, 99;",
	"activemask": "activemask.b32 %r6;",
	"syncwarp":   "bar.warp.sync %r7; add.u32 %r6, %r5, 1;",
	"carries":    "add.cc.u32 %r8, %r5, %r5; addc.cc.u32 %r6, %r8, %r5; addc.u32 %r6, %r6, 0; sub.cc.u64 %rd6, %rd4, %rd5; subc.u64 %rd6, %rd6, %rd6; cvt.u32.u64 %r8, %rd6; xor.b32 %r6, %r6, %r8;",
}

// Lanes that have parted run such operations in native code, on each width, with the interpreter's results.
func TestPartedOperations(t *testing.T) {
	const threads = 64
	run := func(t *testing.T, op string, native Native, to *Tally) []uint32 {
		m := exectest.NewMemory(4096)
		m.Map(exectest.BufA, 8192)
		// The lanes with three numbers in four go one way, the others another.
		src := `mad.lo.u32 %r5, %r2, 0x9e3779b1, 0x7f4a7c15; mul.wide.u32 %rd5, %r5, %r5; setp.lt.u32 %p3, %r5, 0x60000000; mov.u32 %r6, 0;
			and.b32 %r8, %r2, 3; setp.eq.u32 %p1, %r8, 2; mov.u32 %r9, 0; @%p1 bra ONE; mov.u32 %r7, 0xbbbbbbbb; ` + op + `
			bra.uni BOTH; ONE: mov.u32 %r7, 0x44444444; ` + op + `
			xor.b32 %r6, %r6, 0x55; BOTH: st.global.u32 [%rd4], %r6;`
		p := build(t, "k.ptx", []byte(".version 8.6\n.target sm_90\n"+string(source("", src))[len(".version 7.0\n.target sm_70\n"):]), m)
		l := Launch{Grid: grid(1, 1, 1), Block: grid(threads, 1, 1), Native: native, Tally: to, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}
		for range 2 { // the first finds the pages
			require.NoError(t, Run(kernel(t, p, "k"), l, m, new(Control), 1))
		}
		return readAll[uint32](m, exectest.BufA, threads)
	}
	eachISA(t, func(t *testing.T) {
		for name, op := range partedOps {
			t.Run(name, func(t *testing.T) {
				var to Tally
				require.Equal(t, run(t, op, NativeNever, nil), run(t, op, NativeAtOnce, &to))
				row := to.Rows()[0]
				for _, cause := range []jit.Cause{jit.Operation, jit.Barrier, jit.Parts, jit.Between} {
					require.Zero(t, row.Interpreted[cause], "%s, lines %v", cause, row.Lines)
				}
			})
		}
	})
}
