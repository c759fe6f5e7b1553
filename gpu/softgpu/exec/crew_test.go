package exec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/jit"
)

// crewBodies are kernels whose barriers are for some threads of the block, are named by registers, let threads go on or
// combine predicates: %r2 is the thread, %r9 its warp, %r5 the round, and %r6 what it has computed.
var crewBodies = map[string]string{
	"popc":          ringLoop("setp.gt.u32 %p2, %r6, 0x40000000; bar.red.popc.u32 %r7, 0, %p2; mad.lo.u32 %r6, %r6, 5, %r7; "),
	"and, or":       ringLoop("setp.lt.u32 %p2, %r6, 0xf0000000; bar.red.and.pred %p3, 1, %p2; @%p3 add.u32 %r6, %r6, 7; setp.lt.u32 %p2, %r6, 0x08000000; bar.red.or.pred %p3, 2, %p2; @!%p3 xor.b32 %r6, %r6, %r5; "),
	"not":           ringLoop("setp.lt.u32 %p2, %r6, 0x40000000; bar.red.popc.u32 %r7, 0, !%p2; add.u32 %r6, %r6, %r7; bar.red.and.pred %p3, 0, !%p2; @%p3 add.u32 %r6, %r6, 3; "),
	"other threads": ringLoop("setp.gt.u32 %p2, %r9, 1; @%p2 bra CO; bar.red.popc.u32 %r7, 1, 64, %p2; bar.sync 2, 64; bra.uni BOTH; CO: setp.lt.s32 %p3, %r6, 0; bar.red.popc.u32 %r7, 3, 96, %p3; BOTH: add.u32 %r6, %r6, %r7; "),
	"a warp alone":  ringLoop("setp.ne.u32 %p2, %r9, 2; @%p2 bra NOT; bar.sync 1, 32; add.u32 %r6, %r6, 9; NOT: "),
	"arrive": ringLoop("setp.gt.u32 %p2, %r9, 1; @%p2 bra CO; st.shared.u32 [%r11+1024], %r6; bar.arrive 4, 160; bar.sync 5, 160; bra.uni BOTH; " +
		"CO: bar.sync 4, 160; ld.shared.u32 %r7, [%r13+1028]; add.u32 %r6, %r6, %r7; bar.arrive 5, 160; BOTH: "),
	"by registers":              ringLoop("setp.gt.u32 %p2, %r9, 2; selp.u32 %r10, 6, 7, %p2; selp.u32 %r8, 64, 96, %p2; bar.sync %r10, %r8; xor.b32 %r6, %r6, %r10; "),
	"a warp ends":               ringLoop("bar.red.popc.u32 %r7, 0, %p1; add.u32 %r6, %r6, %r7; setp.eq.u32 %p2, %r9, 3; setp.gt.u32 %p3, %r5, 4; and.pred %p2, %p2, %p3; @%p2 bra END; "),
	"the first ends":            ringLoop("setp.eq.u32 %p2, %r9, 0; setp.gt.u32 %p3, %r5, 2; and.pred %p2, %p2, %p3; @%p2 bra END; bar.red.or.pred %p3, 1, %p2; "),
	"the last is awaited":       ringLoop("setp.eq.u32 %p2, %r9, 4; setp.eq.u32 %p3, %r5, 7; and.pred %p2, %p2, %p3; @%p2 bra END; setp.ge.u32 %p3, %r6, 0x80000000; bar.red.popc.u32 %r7, 3, %p3; add.u32 %r6, %r6, %r7; "),
	"some lanes end":            ringLoop("and.b32 %r10, %r2, 7; setp.eq.u32 %p2, %r10, 5; setp.gt.u32 %p3, %r5, 2; and.pred %p2, %p2, %p3; @%p2 bra END; bar.red.popc.u32 %r7, 0, %p1; add.u32 %r6, %r6, %r7; "),
	"lanes part":                ringLoop("and.b32 %r10, %r2, 3; setp.eq.u32 %p2, %r10, 1; @%p2 bra ODD; add.u32 %r6, %r6, 7; bra.uni BOTH; ODD: xor.b32 %r6, %r6, %r5; BOTH: bar.red.popc.u32 %r7, 0, %p2; add.u32 %r6, %r6, %r7; "),
	"lanes come apart":          ringLoop("and.b32 %r10, %r2, 3; setp.eq.u32 %p2, %r10, %r5; @!%p2 bra NOT; bar.red.popc.u32 %r7, 0, %p2; bra.uni GO; NOT: bar.red.popc.u32 %r7, 0, !%p2; GO: add.u32 %r6, %r6, %r7; "),
	"held":                      ringLoop("mov.u32 %r10, 0; J: bar.red.popc.u32 %r7, 0, %p1; add.u32 %r6, %r6, %r7; add.u32 %r10, %r10, 1; setp.gt.u32 %p2, %r10, 3; @%p2 bra GO; and.b32 %r8, %r2, %r10; setp.eq.u32 %p2, %r8, 0; @%p2 bra J; xor.b32 %r6, %r6, %r2; setp.gt.u32 %p2, %r8, 1; @%p2 bra J; add.u32 %r6, %r6, 3; bra.uni J; GO: "),
	"held, and some end":        ringLoop("mov.u32 %r10, 0; J: bar.red.popc.u32 %r7, 0, %p1; add.u32 %r6, %r6, %r7; add.u32 %r10, %r10, 1; setp.gt.u32 %p2, %r10, 3; @%p2 bra GO; and.b32 %r8, %r2, 3; setp.eq.u32 %p2, %r8, %r10; @!%p2 bra J; add.u32 %r6, %r6, %r5; setp.gt.u32 %p2, %r5, 30; @!%p2 bra J; st.global.u32 [%rd4], %r6; ret; GO: "),
	"held in a ring":            ringLoop("mov.u32 %r10, 0; J: bar.sync 0; add.u32 %r10, %r10, 1; setp.gt.u32 %p2, %r10, 3; @%p2 bra GO; and.b32 %r8, %r2, %r10; setp.eq.u32 %p2, %r8, 0; @%p2 bra J; xor.b32 %r6, %r6, %r2; bra.uni J; GO: "),
	"held, and come to another": ringLoop("mov.u32 %r10, 0; J: bar.sync 0; add.u32 %r10, %r10, 1; setp.gt.u32 %p2, %r10, 1; @%p2 bra GO; and.b32 %r8, %r2, 1; setp.eq.u32 %p2, %r8, 0; @%p2 bra J; bar.sync 0; GO: "),
	"new pages":                 ringLoop("bar.red.or.pred %p3, 0, %p1; mul.lo.u32 %r10, %r5, 4096; cvt.u64.u32 %rd9, %r10; add.u64 %rd9, %rd9, %rd4; st.global.u32 [%rd9+1024], %r6; ld.global.u32 %r7, [%rd9+1024]; add.u32 %r6, %r6, %r7; "),
	"an atomic":                 ringLoop("bar.red.or.pred %p3, 0, %p1; mov.u32 %r10, s; red.shared.add.u32 [%r10+640], 1; "),
	"helped":                    ringLoop("bar.red.or.pred %p3, 0, %p1; fns.b32 %r7, %r2, 0, 1; add.u32 %r6, %r6, %r7; "),
	"a long loop":               ringLoop("bar.red.or.pred %p3, 0, %p1; mov.u32 %r10, 0; IN: mad.lo.u32 %r6, %r6, 5, %r10; add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 900; @%p2 bra IN; "),
	"waits for another warp": `.shared .align 4 .b8 s[1024]; mov.u32 %r11, s; shr.u32 %r9, %r2, 5; mov.u32 %r6, 0; bar.red.or.pred %p3, 0, %p1;
	setp.ne.u32 %p2, %r9, 0; @%p2 bra NOT;
L:	ld.volatile.shared.u32 %r7, [%r11+16]; setp.eq.u32 %p1, %r7, 0; @%p1 bra L;
NOT:	setp.ne.u32 %p2, %r9, 4; @%p2 bra GO; st.volatile.shared.u32 [%r11+16], 7;
GO:	bar.sync 0; ld.shared.u32 %r7, [%r11+16]; st.global.u32 [%rd4], %r7; ret;`,
	"first turns": `.shared .align 4 .b8 s[1024]; mov.u32 %r11, s; shr.u32 %r9, %r2, 5; mov.u32 %r6, 0; mad.lo.u32 %r12, %r9, 4, %r11;
	st.volatile.shared.u32 [%r12], 1;
L:	ld.volatile.shared.u32 %r7, [%r11+16]; add.u32 %r6, %r6, 1; setp.eq.u32 %p1, %r7, 0; @%p1 bra L;
	bar.red.popc.u32 %r7, 0, %p1; add.u32 %r6, %r6, %r7; st.global.u32 [%rd4], %r6; ret;`,
	"goes on past a barrier twice": `.shared .align 4 .b8 s[1024]; mov.u32 %r11, s; shr.u32 %r9, %r2, 5; mov.u32 %r6, 0; setp.lt.u32 %p2, %r9, 3; @%p2 bra P;
	bar.sync 1, 160; bar.sync 2, 160; bar.sync 4, 160; bar.sync 1, 160; bra.uni GO;
P:	bar.arrive 1, 160; bar.arrive 2, 160; bar.sync 4, 160; bar.arrive 1, 160;
GO:	setp.lt.u32 %p3, %r2, 100; bar.red.popc.u32 %r6, 0, %p3; st.global.u32 [%rd4], %r6; ret;`,
}

// TestCrew compares warps that run in native code from one of these barriers to the next with those of the interpreter, also
// where the last warp has some lanes only.
func TestCrew(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for name, body := range crewBodies {
			t.Run(name, func(t *testing.T) {
				for _, threads := range []uint32{160, 151} {
					run := func(when Native) []uint32 {
						m := exectest.NewMemory(4096)
						k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
						m.Map(exectest.BufA, 48*4096)
						require.NoError(t, Run(k, Launch{Grid: grid(3, 1, 1), Block: grid(threads, 1, 1), Native: when,
							Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}, m, new(Control), 1))
						return readAll[uint32](m, exectest.BufA, int(threads))
					}
					require.Equal(t, run(NativeNever), run(NativeAtOnce))
				}
			})
		}
	})
}

// Such barriers are passed in native code: none is left to the interpreter.
func TestCrewIsNative(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for _, name := range []string{"popc", "and, or", "other threads", "arrive", "by registers", "some lanes end", "the first ends", "held", "held in a ring"} {
			t.Run(name, func(t *testing.T) {
				for _, threads := range []uint32{160, 151} {
					m := exectest.NewMemory(4096)
					k := kernel(t, build(t, "k.ptx", source("", crewBodies[name]), m), "k")
					m.Map(exectest.BufA, 48*4096)
					var to Tally
					require.NoError(t, Run(k, Launch{Grid: grid(3, 1, 1), Block: grid(threads, 1, 1), Native: NativeAtOnce, Tally: &to,
						Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}, m, new(Control), 1))
					require.Zero(t, to.Rows()[0].Interpreted[jit.Barrier], "%v", to.Rows()[0])
				}
			})
		}
	})
}

// Barriers that cannot be, and that never complete, end a kernel in native code as they do in the interpreter, after as many
// rounds.
func TestCrewFaults(t *testing.T) {
	in := func(body string) string {
		return ringLoop("bar.red.popc.u32 %r7, 0, %p1; setp.ne.u32 %p2, %r5, 5; @%p2 bra NOT; " + body + " NOT: ")
	}
	bodies := map[string]string{
		"no such barrier":       in("add.u32 %r10, %r5, 11; bar.sync %r10;"),
		"several":               in("and.b32 %r10, %r2, 1; bar.sync %r10;"),
		"numbers of threads":    in("and.b32 %r10, %r2, 1; add.u32 %r10, %r10, 64; bar.sync 1, %r10;"),
		"no warps":              in("add.u32 %r10, %r5, 11; bar.sync 1, %r10;"),
		"none":                  in("sub.u32 %r10, %r5, 5; bar.sync 1, %r10;"),
		"too many":              in("mul.lo.u32 %r10, %r5, 64; bar.sync 1, %r10;"),
		"for another number":    in("mul.lo.u32 %r10, %r9, 32; add.u32 %r10, %r10, 64; bar.sync 1, %r10;"),
		"arrives twice":         in("bar.arrive 1, 160; bar.arrive 1, 160;"),
		"never complete":        in("setp.gt.u32 %p2, %r9, 2; @%p2 bra NOT; bar.sync 1;"),
		"a count":               in("setp.eq.u32 %p2, %r9, 2; @%p2 bra END; bar.sync 2, 160;"),
		"waits for those ahead": in("bar.sync 2, 96;"),
		"a fault":               in("setp.eq.u32 %p2, %r2, 70; selp.u32 %r10, 4096, 0, %p2; add.u32 %r10, %r10, %r11; st.shared.u32 [%r10], %r6; "),
	}
	eachISA(t, func(t *testing.T) {
		for name, body := range bodies {
			t.Run(name, func(t *testing.T) {
				run := func(when Native) *gpu.LostError {
					m := exectest.NewMemory(4096)
					k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
					m.Map(exectest.BufA, 4096)
					return lost(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(160, 1, 1), Native: when,
						Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}, m, new(Control), 1))
				}
				require.Equal(t, run(NativeNever), run(NativeAtOnce))
			})
		}
	})
}

// An endless loop around such barriers is stopped.
func TestCrewIsStopped(t *testing.T) {
	m := exectest.NewMemory(4096)
	body := strings.ReplaceAll(ringLoop("bar.red.popc.u32 %r7, 0, %p1; bar.arrive 3, 320; "), "add.u32 %r5, %r5, 1;", "")
	body = strings.ReplaceAll(body, "bar.arrive 3, 320;", "")
	k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
	m.Map(exectest.BufA, 4096)
	ctl, done := new(Control), make(chan error, 1)
	go func() {
		done <- Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(160, 1, 1), Native: NativeAtOnce, Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}, m, ctl, 1)
	}()
	ctl.Stop(gpu.LostTimeout)
	require.Equal(t, gpu.LostTimeout, lost(t, <-done).Cause)
}
