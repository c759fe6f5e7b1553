package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// againBodies are what blocks do that one worker runs one after the other: %r3 is the block, %r2 the thread of 96. Registers that
// nothing has written, .local and .shared are zero in each of them, whatever the block before has left there.
var againBodies = map[string]string{
	"to the end":          "",
	"with barriers":       "bar.sync 0;",
	"some blocks part":    "bar.sync 0; and.b32 %r9, %r3, 3; setp.eq.u32 %p2, %r9, 1; setp.lt.u32 %p3, %r2, 40; and.pred %p2, %p2, %p3; @%p2 bra E; bar.sync 0;",
	"some warps go round": "and.b32 %r9, %r3, 3; setp.ne.u32 %p2, %r9, 2; @%p2 bra S; mov.u32 %r9, 0; L: add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, %r2; @%p2 bra L; S:",
	"some blocks loop":    "bar.sync 0; and.b32 %r9, %r3, 3; setp.ne.u32 %p2, %r9, 2; @%p2 bra S; mov.u32 %r9, 0; L: add.u32 %r9, %r9, 1; bar.sync 0; setp.lt.u32 %p2, %r9, 9; @%p2 bra L; S:",
	"pages that are new":  "bar.sync 0; mul.wide.u32 %rd5, %r3, 4096; add.u64 %rd5, %rd5, %rd4; st.global.u32 [%rd5+4096], %r2; ld.global.u32 %r9, [%rd5+4096]; add.u32 %r7, %r7, %r9; bar.sync 0;",
}

// Blocks that begin where the last one has ended get what the interpreter gives them.
func TestAgain(t *testing.T) {
	for name, body := range againBodies {
		t.Run(name, func(t *testing.T) {
			run := func(when Native) []uint32 {
				m := exectest.NewMemory(4096)
				m.Map(exectest.BufA, 48*4096)
				k := kernel(t, build(t, "k.ptx", source("", `.shared .align 4 .b8 s[512]; .local .align 4 .b8 l[16];
	mad.lo.u32 %r4, %r3, 96, %r2; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd4, %rd1, %rd3;
	mov.u32 %r10, s; mad.lo.u32 %r10, %r2, 4, %r10; ld.shared.u32 %r11, [%r10]; ld.local.u32 %r12, [l+4];
	setp.eq.u32 %p1, %r3, 3; @%p1 bra W; setp.lt.u32 %p1, %r2, 50; @%p1 add.u32 %r6, %r6, 5; W:
	add.u32 %r7, %r7, %r6; add.u32 %r7, %r7, %r11; add.u32 %r7, %r7, %r12; add.u32 %r6, %r3, 9; `+body+`
	st.shared.u32 [%r10], %r6; st.local.u32 [l+4], %r6; add.u32 %r7, %r7, %r3; st.global.u32 [%rd4], %r7;
E:`), m), "k")
				require.NoError(t, Run(k, Launch{Grid: grid(24, 1, 1), Block: grid(96, 1, 1), Native: when,
					Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1))
				return readAll[uint32](m, exectest.BufA, 24*96)
			}
			want := run(NativeNever)
			require.Equal(t, want, run(NativeAtOnce))
			require.Equal(t, want, run(NativeHot))
			require.Contains(t, want, uint32(28), "the last block's threads from 50 on")
		})
	}
}
