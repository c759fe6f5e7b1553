package exec

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
)

// meetingFunctions are functions in which threads meet at barriers, or exit. Each takes a number and gives one.
const meetingFunctions = `
.func (.reg .u32 %o) meets(.reg .u32 %i) { bar.sync 0; mad.lo.u32 %o, %i, 3, 1; ret; }
.func (.reg .u32 %o) twice(.reg .u32 %i) { .reg .b32 %x; .local .align 4 .b8 own[8]; .reg .b64 %a; mov.u64 %a, own; st.local.u32 [%a+4], %i; bar.sync 0; xor.b32 %x, %i, 0x55; call (%x), meets, (%x); bar.sync 1; ld.local.u32 %o, [%a+4]; add.u32 %o, %o, %x; ret; }
.func (.reg .u32 %o) counts(.reg .u32 %i) { .reg .pred %p; setp.gt.u32 %p, %i, 0x40000000; bar.red.popc.u32 %o, 2, %p; mad.lo.u32 %o, %i, 5, %o; ret; }
.func (.reg .u32 %o) all(.reg .u32 %i) { .reg .pred %p; setp.lt.u32 %p, %i, 0xf0000000; bar.red.and.pred %p, 1, %p; add.u32 %o, %i, 9; @%p mad.lo.u32 %o, %i, 7, 2; ret; }
.func (.reg .u32 %o) hands(.reg .u32 %i) { .reg .u32 %w; .reg .pred %p; mov.u32 %w, %tid.x; setp.gt.u32 %p, %w, 63; @%p bra C; bar.arrive 4, 160; bar.sync 5, 160; add.u32 %o, %i, 1; ret; C: bar.sync 4, 160; bar.arrive 5, 160; add.u32 %o, %i, 2; ret; }
.func (.reg .u32 %o) loops(.reg .u32 %i) { .reg .u32 %n; .reg .pred %p; mov.u32 %n, 0; mov.u32 %o, %i; L: bar.sync 0; mad.lo.u32 %o, %o, 5, %n; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 6; @%p bra L; ret; }
.func (.reg .u32 %o) long(.reg .u32 %i) { .reg .u32 %n; .reg .pred %p; mov.u32 %n, 0; mov.u32 %o, %i; bar.sync 0; L: mad.lo.u32 %o, %o, 5, %n; add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 700; @%p bra L; bar.sync 0; ret; }
.func (.reg .u32 %o) parts(.reg .u32 %i) { .reg .u32 %n; .reg .pred %p; and.b32 %n, %i, 3; setp.eq.u32 %p, %n, 1; @%p bra A; add.u32 %o, %i, 7; bra B; A: xor.b32 %o, %i, 0x77; B: bar.sync 0; add.u32 %o, %o, 1; ret; }
.func (.reg .u32 %o) apart(.reg .u32 %i) { .reg .u32 %n; .reg .pred %p; mov.u32 %n, %tid.x; and.b32 %n, %n, 3; setp.eq.u32 %p, %n, 1; @%p bra A; bar.sync 0; add.u32 %o, %i, 7; ret; A: bar.sync 0; add.u32 %o, %i, 8; ret; }
.func (.reg .u32 %o) down(.reg .u32 %i, .reg .u32 %n) { .reg .u32 %m; .reg .pred %p; mov.u32 %o, %i; setp.eq.u32 %p, %n, 0; @%p ret; bar.sync 0; sub.u32 %m, %n, 1; call (%o), down, (%o, %m); bar.sync 0; mad.lo.u32 %o, %o, 3, %n; ret; }
.func (.reg .u32 %o) exits(.reg .u32 %i, .reg .u32 %n) { .reg .u32 %m; .reg .pred %p, %q; mov.u32 %m, %tid.x; and.b32 %m, %m, 7; setp.eq.u32 %p, %m, 5; setp.gt.u32 %q, %n, 2; and.pred %p, %p, %q; @%p exit; bar.sync 0; mad.lo.u32 %o, %i, 3, 1; ret; }
.func (.reg .u32 %o) leaves(.reg .u32 %i, .reg .u32 %n) { .reg .u32 %m; .reg .pred %p, %q; mov.u32 %m, %tid.x; shr.u32 %m, %m, 5; setp.eq.u32 %p, %m, 1; setp.gt.u32 %q, %n, 4; and.pred %p, %p, %q; @%p exit; bar.sync 0; mad.lo.u32 %o, %i, 3, 1; ret; }
.func (.reg .u32 %o) early(.reg .u32 %i, .reg .u32 %n) { .reg .u32 %m; .reg .pred %p, %q; mov.u32 %m, %tid.x; add.u32 %o, %i, 5; and.b32 %m, %m, 7; setp.gt.u32 %p, %m, 5; @%p ret; setp.eq.u32 %p, %m, %n; @%p bra X; L: xor.b32 %o, %o, %n; setp.ne.u32 %p, %m, 2; @%p ret; add.u32 %o, %o, 1; X: setp.ne.u32 %p, %m, %n; @!%p exit; ret; }
.func (.reg .u32 %o) stores(.reg .u32 %i, .reg .u64 %a) { .reg .u32 %n; .reg .pred %p; st.global.u32 [%a+1024], %i; mov.u32 %n, 3; L: sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra L; bar.sync 0; st.global.u32 [%a+5120], %i; mov.u32 %n, 3; M: sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra M; add.u32 %o, %i, 3; ret; }
.func (.reg .u32 %o) last(.reg .u32 %i, .reg .u32 %n) { .reg .u32 %m; .reg .pred %p, %q; mov.u32 %m, %tid.x; mov.u32 %o, %i; and.b32 %m, %m, 7; setp.gt.u32 %p, %n, 6; setp.eq.u32 %q, %m, 3; and.pred %p, %p, %q; @!%p ret; exit; }
`

// meetingCalls are what a round of ringLoop calls of them: %r6 is what a thread has computed, %r5 the round, %r9 the warp.
var meetingCalls = map[string]string{
	"meets":            "call (%r6), meets, (%r6);",
	"no other barrier": "call (%r6), meets, (%r6);",
	"twice":            "call (%r6), twice, (%r6);",
	"counts":           "call (%r6), counts, (%r6); bar.red.popc.u32 %r7, 2, %p1; add.u32 %r6, %r6, %r7;",
	"all":              "call (%r6), all, (%r6);",
	"hands":            "call (%r6), hands, (%r6);",
	"loops":            "call (%r6), loops, (%r6);",
	"long":             "call (%r6), long, (%r6);",
	"parts":            "call (%r6), parts, (%r6);",
	"apart":            "call (%r6), apart, (%r6);",
	"recursion":        "and.b32 %r10, %r5, 7; call (%r6), down, (%r6, %r10);",
	"deep":             "and.b32 %r10, %r5, 31; call (%r6), down, (%r6, %r10);",
	"by address":       "T: .callprototype (.reg .u32 %o) _ (.reg .u32 %i); and.b32 %r10, %r5, 1; setp.eq.u32 %p2, %r10, 0; mov.u64 %rd9, meets; @%p2 mov.u64 %rd9, loops; call (%r6), %rd9, (%r6), T;",
	"in two functions": "setp.gt.u32 %p2, %r9, 1; @%p2 bra CO; call (%r6), meets, (%r6); bra.uni BOTH; CO: call (%r6), parts, (%r6); BOTH:",
	"one in a kernel":  "setp.gt.u32 %p2, %r9, 1; @%p2 bra CO; call (%r6), meets, (%r6); bra.uni BOTH; CO: bar.sync 0; BOTH:",
	"exits":            "call (%r6), exits, (%r6, %r5);",
	"a warp exits":     "call (%r6), leaves, (%r6, %r5);",
	"exits, no bar":    "call (%r6), early, (%r6, %r5);",
	"all that called":  "and.b32 %r10, %r2, 7; setp.ne.u32 %p2, %r10, %r5; @%p2 bra N; call (%r6), last, (%r6, %r5); N:",
	"the last exit":    "call (%r6), last, (%r6, %r5);",
	"pages":            "mul.lo.u32 %r10, %r5, 4096; cvt.u64.u32 %rd9, %r10; add.u64 %rd9, %rd9, %rd4; call (%r6), stores, (%r6, %rd9);",
	"a page":           "call (%r6), meets, (%r6);" + anyPage,
}

// anyPage stores to a page of the round.
const anyPage = "mul.lo.u32 %r10, %r5, 4096; cvt.u64.u32 %rd9, %r10; add.u64 %rd9, %rd9, %rd4; st.global.u32 [%rd9+1024], %r6;"

// meetingKernel builds a kernel with such calls, and something around them, and a launch of it.
func meetingKernel(t testing.TB, name, around string, threads, rounds uint32) (*exectest.Memory, *Kernel, Launch) {
	m := exectest.NewMemory(4096)
	body := ringLoop(around + meetingCalls[name] + around)
	if name == "no other barrier" {
		body = strings.ReplaceAll(strings.ReplaceAll(body, "bar.sync 0;", ""), "[%r12]", "[%r11]")
	}
	k := kernel(t, build(t, "k.ptx", source(meetingFunctions, body), m), "k")
	m.Map(exectest.BufA, 48*4096)
	return m, k, Launch{Grid: grid(3, 1, 1), Block: grid(threads, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), rounds)}
}

// Threads meet at barriers in functions, and exit there, as they do interpreted.
func TestMeetings(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for name := range meetingCalls {
			for _, threads := range []uint32{160, 151, 32} {
				if threads != 160 && name == "hands" {
					continue
				}
				t.Run(fmt.Sprint(name, "/", threads), func(t *testing.T) {
					run := func(when Native) ([]byte, Tallied) {
						m, k, l := meetingKernel(t, name, "", threads, 40)
						var to Tally
						l.Native, l.Tally = when, &to
						require.NoError(t, Run(k, l, m, new(Control), 1))
						return m.Read(exectest.BufA, 48*4096), to.Rows()[0]
					}
					want, slow := run(NativeNever)
					got, row := run(NativeAtOnce)
					require.Equal(t, want, got)
					t.Logf("%d of %d: %v", row.All(), slow.All(), row.Interpreted)
				})
			}
		}
	})
}

// Barriers in functions, and lanes that exit there, are native code: little is left to the interpreter, however long a kernel runs.
func TestMeetingsAreNative(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for name := range meetingCalls {
			switch name {
			case "apart", "deep", "long": // lanes come apart, more calls are open than there is room for, and turns end
				continue
			}
			for _, threads := range []uint32{160, 151, 32} {
				if threads != 160 && name == "hands" {
					continue
				}
				m, k, l := meetingKernel(t, name, "", threads, 400)
				m.Map(exectest.BufA, 512*4096)
				l.Native = NativeAtOnce
				require.NoError(t, Run(k, l, m, new(Control), 1)) // the first finds the pages
				var to Tally
				l.Tally = &to
				require.NoError(t, Run(k, l, m, new(Control), 1))
				row := to.Rows()[0]
				require.Less(t, row.Interpreted[jit.Barrier]+row.Interpreted[jit.Ends]+row.Interpreted[jit.Called], uint64(3*5*40), "%s, %d threads: %v", name, threads, row.Interpreted)
			}
		}
	})
}

// atBarrierInFunction matches a fragment of a state that waits at a barrier in another frame than the kernel's.
var atBarrierInFunction = regexp.MustCompile(fmt.Sprintf(`frame:[1-9][0-9]* state:%d`, ir.AtBarrier))

// The state of a warp that waits at a barrier in a function, or has exited there, is what goes on elsewhere: interpreted, or in native code.
func TestMeetingsPreempted(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for name := range meetingCalls {
			m, k, l := meetingKernel(t, name, anyPage, 160, 40)
			l.Native = NativeNever
			require.NoError(t, Run(k, l, m, new(Control), 1))
			want := m.Read(exectest.BufA, 48*4096)
			for _, first := range []Native{NativeAtOnce, NativeNever} {
				m, k, l := meetingKernel(t, name, anyPage, 160, 40)
				stops, met := 0, false
				for {
					c := new(Control)
					n := 0
					c.Yield = func() bool { n++; return n > 1+stops%3 }
					l.Native = first
					if stops%2 != 0 {
						l.Native = NativeAtOnce + NativeNever - first
					}
					var space Space = m
					if stops < 80 {
						space = pausing{Memory: m, control: c}
					} else {
						c.Yield = nil
					}
					err := Run(k, l, space, c, 1)
					var stopped *Preempted
					if !errors.As(err, &stopped) {
						require.NoError(t, err)
						break
					}
					stops++
					met = met || atBarrierInFunction.MatchString(fmt.Sprintf("%+v", *stopped.State))
					code, err := stopped.State.MarshalBinary()
					require.NoError(t, err)
					l.From = new(State)
					require.NoError(t, l.From.UnmarshalBinary(code))
				}
				require.Positive(t, stops)
				if name != "exits, no bar" && name != "the last exit" && name != "all that called" {
					require.True(t, met, "%s: %d stops, none with a warp at a barrier in a function", name, stops)
				}
				require.Equal(t, want, m.Read(exectest.BufA, 48*4096), name)
			}
		}
	})
}

// Barriers in functions that cannot be, or never complete, and faults behind them, end a kernel as they do interpreted.
func TestMeetingFaults(t *testing.T) {
	const funcs = meetingFunctions + `
.func number(.reg .u32 %i) { bar.sync %i; ret; }
.func threads(.reg .u32 %i) { bar.sync 3, %i; ret; }
.func some(.reg .u32 %i) { .reg .pred %p; setp.gt.u32 %p, %i, 70; @%p ret; bar.sync 3; ret; }
.func again() { bar.arrive 1, 160; bar.arrive 1, 160; ret; }
.func bad(.reg .u32 %i) { .reg .b64 %a; .reg .pred %p; bar.sync 0; mul.wide.u32 %a, %i, 4; setp.eq.u32 %p, %i, 77; @%p st.global.u32 [%a], %i; bar.sync 0; ret; }
.func traps(.reg .u32 %i) { .reg .pred %p; bar.sync 0; setp.ne.u32 %p, %i, 77; @%p ret; trap; }
`
	eachISA(t, func(t *testing.T) {
		for name, body := range map[string]string{
			"no such barrier": "add.u32 %r10, %r5, 11; call number, (%r10);",
			"several":         "and.b32 %r10, %r2, 1; call number, (%r10);",
			"too many":        "mul.lo.u32 %r10, %r5, 64; call threads, (%r10);",
			"never complete":  "call some, (%r2);",
			"arrives twice":   "call again;",
			"a fault":         "call bad, (%r2);",
			"a trap":          "call traps, (%r2);",
			"no stack":        "mov.u32 %r10, 100000; call (%r6), down, (%r6, %r10);",
		} {
			run := func(when Native) *gpu.LostError {
				m := exectest.NewMemory(4096)
				k := kernel(t, build(t, "k.ptx", source(funcs, ringLoop("call (%r6), meets, (%r6); setp.ne.u32 %p2, %r5, 5; @%p2 bra NOT; "+body+" NOT:")), m), "k")
				m.Map(exectest.BufA, 4096)
				return lost(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(160, 1, 1), Native: when,
					Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}, m, new(Control), 1))
			}
			require.Equal(t, run(NativeNever), run(NativeAtOnce), name)
		}
	})
}

// Endless loops around barriers in functions are stopped, whether the loop is in the function or around it.
func TestMeetingsAreStopped(t *testing.T) {
	const funcs = ".func f() { bar.sync 0; ret; }\n.func g() { L: bar.sync 0; bra L; }\n.func h() { L: bar.sync 0; call f; bra L; }\n"
	eachISA(t, func(t *testing.T) {
		for _, body := range []string{"L: call f; bra L;", "call g;", "call h;"} {
			for _, threads := range []uint32{32, 160} {
				m := exectest.NewMemory(4096)
				k := kernel(t, build(t, "k.ptx", source(funcs, body), m), "k")
				ctl, done := &Control{Deadline: time.Now().Add(20 * time.Millisecond)}, make(chan error, 1)
				go func() {
					done <- Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(threads, 1, 1), Native: NativeAtOnce, Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}, m, ctl, 1)
				}()
				ctl.FlushTLB()
				require.Equal(t, gpu.LostTimeout, lost(t, <-done).Cause)
			}
		}
	})
}
