package exec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/jit"
)

// ringBodies are kernels of 160 threads whose warps hand values to each other at barriers: %r2 is the
// thread, %rd4 its place in the output. What stands between the barriers is native code, or not, or ends
// some warps.
var ringBodies = map[string]string{
	"all native":             ringLoop(""),
	"an atomic in each warp": ringLoop("mov.u32 %r10, s; red.shared.add.u32 [%r10+640], 1; "),
	"an atomic in one warp":  ringLoop("setp.eq.u32 %p2, %r9, 2; mov.u32 %r10, s; @%p2 red.shared.add.u32 [%r10+640], 3; "),
	"lanes part":             ringLoop("and.b32 %r10, %r2, 3; setp.eq.u32 %p2, %r10, 1; @%p2 bra ODD; add.u32 %r6, %r6, 7; bra.uni BOTH; ODD: xor.b32 %r6, %r6, %r5; BOTH: "),
	"a warp ends":            ringLoop("setp.eq.u32 %p2, %r9, 3; setp.gt.u32 %p3, %r5, 4; and.pred %p2, %p2, %p3; @%p2 bra END; "),
	"the first warp ends":    ringLoop("setp.eq.u32 %p2, %r9, 0; setp.gt.u32 %p3, %r5, 2; and.pred %p2, %p2, %p3; @%p2 bra END; "),
	"another barrier":        ringLoop("setp.gt.u32 %p2, %r9, 1; @%p2 bra NOT; bar.sync 1, 64; NOT: "),
	"new pages":              ringLoop("mul.lo.u32 %r10, %r5, 4096; cvt.u64.u32 %rd9, %r10; add.u64 %rd9, %rd9, %rd4; st.global.u32 [%rd9+1024], %r6; ld.global.u32 %r7, [%rd9+1024]; add.u32 %r6, %r6, %r7; "),
	"parts at the barrier":   ringLoop("and.b32 %r10, %r2, 3; setp.eq.u32 %p2, %r10, %r5; @!%p2 bra NOT; bar.sync 0; bra.uni GO; NOT: bar.sync 0; GO: "),
	"first turns": `.shared .align 4 .b8 s[1024]; mov.u32 %r11, s; shr.u32 %r9, %r2, 5; mov.u32 %r6, 0; mad.lo.u32 %r12, %r9, 4, %r11;
	st.volatile.shared.u32 [%r12], 1;
L:	ld.volatile.shared.u32 %r7, [%r11+16]; add.u32 %r6, %r6, 1; setp.eq.u32 %p1, %r7, 0; @%p1 bra L;
	bar.sync 0; st.global.u32 [%rd4], %r6; ret;`,
	"first turns at a barrier": `.shared .align 4 .b8 s[1024]; mov.u32 %r11, s; shr.u32 %r9, %r2, 5; mov.u32 %r6, 0; mad.lo.u32 %r12, %r9, 4, %r11;
	st.volatile.shared.u32 [%r12], 1; setp.ne.u32 %p2, %r9, 2; @%p2 bra NOT;
L:	ld.volatile.shared.u32 %r7, [%r11+16]; add.u32 %r6, %r6, 1; setp.eq.u32 %p1, %r7, 0; @%p1 bra L;
NOT:	bar.sync 0; ld.volatile.shared.u32 %r7, [%r11+8]; add.u32 %r6, %r6, %r7; bar.sync 0; bar.sync 0; st.global.u32 [%rd4], %r6; ret;`,
	"parts in the first turn": firstTurns,
	"another number":          strings.ReplaceAll(ringLoop(""), "bar.sync 0;", "bar.sync 3;"),
	"counts":                  strings.ReplaceAll(ringLoop(""), "bar.sync 0;", "bar.sync 2, 160;"),
	"counts of less":          strings.ReplaceAll(ringLoop("setp.gt.u32 %p2, %r9, 1; @%p2 bra NOT; bar.sync 1, 64; NOT: "), "bar.sync 0;", "bar.sync 2, 160;"),
	"waits for another warp": `.shared .align 4 .b8 s[1024]; mov.u32 %r11, s; shr.u32 %r9, %r2, 5; mov.u32 %r6, 0; bar.sync 0;
	setp.ne.u32 %p2, %r9, 0; @%p2 bra NOT;
L:	ld.volatile.shared.u32 %r7, [%r11+16]; setp.eq.u32 %p1, %r7, 0; @%p1 bra L;
NOT:	setp.ne.u32 %p2, %r9, 4; @%p2 bra GO; st.volatile.shared.u32 [%r11+16], 7;
GO:	bar.sync 0; ld.shared.u32 %r7, [%r11+16]; st.global.u32 [%rd4], %r7; ret;`,
	"several numbers":          ringLoop("bar.sync 1; xor.b32 %r6, %r6, 9; bar.sync 2; "),
	"several, and a warp ends": ringLoop("bar.sync 1; setp.eq.u32 %p2, %r9, 0; setp.gt.u32 %p3, %r5, 2; and.pred %p2, %p2, %p3; @%p2 bra END; bar.sync 2; "),
	"two ways to a number":     ringLoop("setp.gt.u32 %p2, %r9, 1; @%p2 bra NOT; bar.sync 1; xor.b32 %r6, %r6, 9; bra.uni GO; NOT: bar.sync 1; xor.b32 %r6, %r6, 5; GO: "),
	"a long loop":              ringLoop("mov.u32 %r10, 0; IN: mad.lo.u32 %r6, %r6, 5, %r10; add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 900; @%p2 bra IN; "),
}

// firstTurns has the lanes of each warp go back in a loop for different numbers of times, so that their first turns end where lanes
// part; in each turn of the loop they look which warps have begun, and the last warp's lanes stay together.
const firstTurns = `.shared .align 4 .b8 s[1024]; mov.u32 %r11, s; shr.u32 %r9, %r2, 5; mov.u32 %r5, 0; mov.u32 %r6, 0; mad.lo.u32 %r12, %r9, 4, %r11;
	st.volatile.shared.u32 [%r12], 1; and.b32 %r8, %r2, 3; add.u32 %r8, %r8, %r9; setp.eq.u32 %p2, %r9, 4; selp.u32 %r8, 3, %r8, %p2;
L:	ld.volatile.shared.u32 %r7, [%r11+4]; mad.lo.u32 %r6, %r6, 5, %r7; ld.volatile.shared.u32 %r7, [%r11+16]; mad.lo.u32 %r6, %r6, 3, %r7;
	add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r8; @%p1 bra L;
	st.volatile.shared.u32 [%r12], %r5; bar.sync 0; ld.shared.u32 %r7, [%r11+8]; add.u32 %r6, %r6, %r7; st.global.u32 [%rd4], %r6; ret;`

func ringLoop(body string) string {
	return `.shared .align 4 .b8 s[4096];
	shr.u32 %r9, %r2, 5; mov.u32 %r5, 0; mov.u32 %r6, %r2; mov.u32 %r11, s; mad.lo.u32 %r11, %r2, 4, %r11;
	st.shared.u32 [%r11+640], 0;
	add.u32 %r12, %r2, 33; rem.u32 %r12, %r12, 160; mov.u32 %r13, s; mad.lo.u32 %r12, %r12, 4, %r13; bar.sync 0;
L:	st.shared.u32 [%r11], %r6; ` + body + `bar.sync 0;
	ld.shared.u32 %r7, [%r12]; mad.lo.u32 %r6, %r6, 3, %r7; bar.sync 0;
	add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
	ld.shared.u32 %r7, [%r13+640]; add.u32 %r6, %r6, %r7; st.global.u32 [%rd4], %r6;
END:	ret;`
}

// TestRing compares warps that run in native code from barrier to barrier with those of the interpreter.
func TestRing(t *testing.T) {
	for name, body := range ringBodies {
		t.Run(name, func(t *testing.T) {
			run := func(when Native) []uint32 {
				m := exectest.NewMemory(4096)
				k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
				m.Map(exectest.BufA, 48*4096)
				require.NoError(t, Run(k, Launch{Grid: grid(3, 1, 1), Block: grid(160, 1, 1), Native: when,
					Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}, m, new(Control), 1))
				return readAll[uint32](m, exectest.BufA, 160)
			}
			require.Equal(t, run(NativeNever), run(NativeAtOnce))
		})
	}
}

// First turns of warps whose lanes part there end in native code, on each width.
func TestFirstTurnsThatPart(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		var to Tally
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", source("", firstTurns), m), "k")
		m.Map(exectest.BufA, 4096)
		l := Launch{Grid: grid(3, 1, 1), Block: grid(160, 1, 1), Native: NativeAtOnce, Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}
		require.NoError(t, Run(k, l, m, new(Control), 1)) // the first finds the pages
		l.Tally = &to
		require.NoError(t, Run(k, l, m, new(Control), 1))
		require.NotZero(t, to.Rows()[0].Entered)
		require.Zero(t, to.Rows()[0].Interpreted[jit.Parts], "%v", to.Rows()[0].Lines)
	})
}

// Warps that wait at different barriers, or that count on a warp that has ended, wait for ever, in a ring, too.
func TestRingNeverComplete(t *testing.T) {
	for name, body := range map[string]string{
		"different": ringLoop("setp.gt.u32 %p2, %r9, 2; @%p2 bra NOT; bar.sync 1; bra.uni GO; NOT: bar.sync 2; GO: "),
		"the first": ringLoop("setp.gt.u32 %p2, %r9, 0; @%p2 bra NOT; bar.sync 1; bra.uni GO; NOT: bar.sync 2; GO: "),
		"a count":   strings.ReplaceAll(ringLoop("setp.eq.u32 %p2, %r9, 2; setp.gt.u32 %p3, %r5, 4; and.pred %p2, %p2, %p3; @%p2 bra END; "), "bar.sync 0;", "bar.sync 2, 160;"),
	} {
		t.Run(name, func(t *testing.T) {
			run := func(when Native) *gpu.LostError {
				m := exectest.NewMemory(4096)
				k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
				m.Map(exectest.BufA, 4096)
				return lost(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(160, 1, 1), Native: when,
					Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}, m, new(Control), 1))
			}
			want := run(NativeNever)
			require.Contains(t, want.Detail, "never complete")
			require.Equal(t, want, run(NativeAtOnce))
		})
	}
}

// A fault in a ring is that of the thread that the interpreter names.
func TestRingFault(t *testing.T) {
	run := func(when Native) *gpu.LostError {
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", source("", ringLoop("setp.eq.u32 %p2, %r2, 70; setp.eq.u32 %p3, %r5, 9; and.pred %p2, %p2, %p3; selp.u32 %r10, 4096, 0, %p2; add.u32 %r10, %r10, %r11; st.shared.u32 [%r10], %r6; ")), m), "k")
		m.Map(exectest.BufA, 4096)
		var lost *gpu.LostError
		require.ErrorAs(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(160, 1, 1), Native: when,
			Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}, m, new(Control), 1), &lost)
		return lost
	}
	lost := run(NativeAtOnce)
	require.Equal(t, gpu.LostAddress, lost.Cause)
	require.Equal(t, [3]uint32{70, 0, 0}, lost.Thread)
	require.Equal(t, run(NativeNever), lost)
}
