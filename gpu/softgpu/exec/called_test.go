package exec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/jit"
)

// take is ticket in a function, whose parameters are a result so far, a number, and the counter's address.
const take = "atom.global.add.u32 %r8, [%rd1], 1; mad.lo.u32 %r6, %r6, 0x01000193, %r8; "

// fn writes a function of calledKernels.
func fn(name, body string) string {
	return ".func (.param .b32 out) " + name + "(.param .b32 x, .param .b32 n, .param .b64 at) { .reg .b32 %r<16>; .reg .b64 %rd<8>; .reg .pred %p<8>;" +
		"ld.param.u32 %r6, [x]; ld.param.u32 %r10, [n]; ld.param.u64 %rd1, [at]; st.param.b32 [out], %r6;" + body + "st.param.b32 [out], %r6; ret; }\n"
}

// with writes a call, of a name or of a register, with %r6 and a number; the result is in %r6.
func with(name, number string) string {
	via := ""
	if name[0] == '%' {
		via = ", PROTO"
	}
	return "{ .param .b32 a; .param .b32 b; .param .b64 c; .param .b32 d; PROTO: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _, .param .b64 _);" +
		"st.param.b32 [a], %r6; st.param.b32 [b], " + number + "; st.param.b64 [c], %rd1; call (d), " + name + ", (a, b, c)" + via + "; ld.param.b32 %r6, [d]; }"
}

// calledFuncs are the functions of calledKernels.
var calledFuncs = fn("leaf", take+"add.u32 %r6, %r6, %r10;") +
	fn("parts", "and.b32 %r11, %r10, 1; setp.eq.u32 %p1, %r11, 0; @%p1 bra A;"+take+"and.b32 %r11, %r10, 6; setp.eq.u32 %p2, %r11, 0; @%p2 ret; bra B; A:"+take+take+"B:"+take) +
	fn("turns", "and.b32 %r11, %r10, 15; L:"+take+"sub.u32 %r11, %r11, 1; setp.gt.s32 %p1, %r11, 0; @%p1 bra L;") +
	fn("outer", with("leaf", "%r10")+take+"and.b32 %r11, %r10, 2; setp.eq.u32 %p1, %r11, 0; @%p1 bra N;"+with("parts", "%r10")+"N:"+with("turns", "%r10")) +
	fn("down", "setp.eq.u32 %p1, %r10, 0; @%p1 ret; sub.u32 %r11, %r10, 1;"+take+with("down", "%r11")+take) +
	fn("twice", "setp.lt.u32 %p1, %r10, 2; @%p1 ret; sub.u32 %r12, %r10, 1;"+with("twice", "%r12")+"sub.u32 %r12, %r10, 2;"+with("twice", "%r12")+take) +
	fn("ends", "and.b32 %r11, %r10, 3; setp.eq.u32 %p1, %r11, 1; @%p1 exit;"+take) +
	fn("meets", take+"bar.sync 0;"+take)

// calledKernels are kernels that make calls in many ways. %r10 is a number without order that each thread has.
var calledKernels = map[string]string{
	"leaf":                 "mov.u32 %r11, 40; L:" + with("leaf", "%r11") + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
	"once":                 with("leaf", "%r10") + ticket,
	"lanes part and meet":  "mov.u32 %r11, 20; L: add.u32 %r12, %r10, %r11;" + with("parts", "%r12") + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
	"loops that end apart": "mov.u32 %r11, 20; L: add.u32 %r12, %r10, %r11;" + with("turns", "%r12") + ticket + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
	"calls of some lanes": "mov.u32 %r11, 20; L: shr.u32 %r12, %r10, %r11; and.b32 %r12, %r12, 1; setp.eq.u32 %p2, %r12, 0; @%p2 bra N;" + with("parts", "%r11") + ticket + "bra O; N:" + with("leaf", "%r11") + "O:" +
		ticket + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
	"nested":    "mov.u32 %r11, 12; L: add.u32 %r12, %r10, %r11;" + with("outer", "%r12") + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
	"recursion": "mov.u32 %r11, 12; L: shr.u32 %r12, %r10, %r11; and.b32 %r12, %r12, 31;" + with("down", "%r12") + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
	"trees":     "and.b32 %r11, %r10, 7;" + with("twice", "%r11") + "add.u32 %r11, %r11, 3;" + with("twice", "%r11"),
	"by address": "mov.u32 %r11, 24; L: shr.u32 %r12, %r10, %r11; and.b32 %r13, %r12, 1; setp.eq.u32 %p2, %r13, 0; and.b32 %r13, %r12, 6; setp.eq.u32 %p3, %r13, 0;" +
		"mov.u64 %rd5, leaf; @%p2 mov.u64 %rd5, outer; @%p3 mov.u64 %rd5, down; and.b32 %r12, %r12, 7;" + with("%rd5", "%r12") + ticket + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
	"one address": "mov.u32 %r11, 24; mov.u64 %rd5, parts; L: add.u32 %r12, %r10, %r11;" + with("%rd5", "%r12") + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
	"exits":       "shr.u32 %r12, %r10, 7; and.b32 %r11, %r10, 7; L:" + with("ends", "%r12") + "shr.u32 %r12, %r12, 1; st.global.u32 [%rd4], %r6; sub.u32 %r11, %r11, 1; setp.gt.s32 %p1, %r11, 0; @%p1 bra L;",
	"barriers":    "mov.u32 %r11, 12; L:" + with("meets", "%r11") + ticket + "bar.sync 0;" + with("turns", "%r10") + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
	"lanes held at barriers": "mov.u32 %r11, 12; L: shr.u32 %r12, %r10, %r11; and.b32 %r13, %r12, 1; setp.eq.u32 %p2, %r13, 0; @%p2 bra N;" + with("turns", "%r12") + with("parts", "%r12") + "N: bar.sync 0;" +
		with("outer", "%r11") + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
	"ring of calls": "mov.u32 %r11, 40; L: add.u32 %r12, %r10, %r11;" + with("leaf", "%r12") + "bar.sync 0; st.global.u32 [%rd4+1024], %r6; bar.sync 0;" + with("parts", "%r11") +
		"sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L;",
}

// calledKernel builds a kernel of such a body, and a launch of it. Without tickets results do not depend on the order of lanes.
func calledKernel(t *testing.T, body string, threads, blocks uint32, tickets bool) (*exectest.Memory, *Kernel, Launch) {
	m := exectest.NewMemory(4096)
	m.Map(exectest.BufA, 8192)
	const mix = "mad.lo.u32 %r10, %r2, 0x9e3779b1, 0x7f4a7c15; shr.u32 %r11, %r10, 15; xor.b32 %r10, %r10, %r11; mul.lo.u32 %r10, %r10, 0x85ebca6b; " +
		"shr.u32 %r11, %r10, 13; xor.b32 %r10, %r10, %r11; mov.u32 %r6, %r2; mul.lo.u32 %r9, %r3, 512; cvt.u64.u32 %rd5, %r9; add.u64 %rd4, %rd4, %rd5; add.u64 %rd1, %rd1, 4092;"
	src := calledFuncs + "#" + strings.ReplaceAll(body, "[%rd1+4092]", "[%rd1]")
	if !tickets {
		src = strings.ReplaceAll(src, take, "mad.lo.u32 %r6, %r6, 0x01000193, 5;")
	}
	funcs, body, _ := strings.Cut(src, "#")
	k := kernel(t, build(t, "k.ptx", source(funcs, mix+body+"st.global.u32 [%rd4], %r6;"), m), "k")
	return m, k, Launch{Grid: grid(blocks, 1, 1), Block: grid(threads, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}
}

// runCalled returns what a kernel of calledKernels leaves in memory, and counts what was interpreted.
func runCalled(t *testing.T, body string, threads, blocks uint32, tickets bool, native Native) ([]uint32, Tallied) {
	m, k, l := calledKernel(t, body, threads, blocks, tickets)
	var to Tally
	l.Native, l.Tally = native, &to
	require.NoError(t, Run(k, l, m, new(Control), 1))
	return readAll[uint32](m, exectest.BufA, 1024), to.Rows()[0]
}

// eachCalled runs a test for each kernel, number of threads and width.
func eachCalled(t *testing.T, test func(t *testing.T, name, body string, threads uint32)) {
	eachISA(t, func(t *testing.T) {
		for name, body := range calledKernels {
			for _, threads := range []uint32{32, 80, 96} {
				t.Run(fmt.Sprintf("%s/%d", name, threads), func(t *testing.T) { test(t, name, body, threads) })
			}
		}
	})
}

// Calls run in the same order in native code as interpreted, on each width. Blocks with barriers have orders of their own.
func TestCalledInOrder(t *testing.T) {
	eachCalled(t, func(t *testing.T, _, body string, threads uint32) {
		if strings.Contains(body, "bar.sync") || strings.Contains(body, "meets") {
			return
		}
		want, _ := runCalled(t, body, threads, 1, true, NativeNever)
		got, _ := runCalled(t, body, threads, 1, true, NativeAtOnce)
		require.Equal(t, want, got)
	})
}

// Calls have the same results in native code as interpreted, and it is left for few of them.
func TestCalled(t *testing.T) {
	eachCalled(t, func(t *testing.T, _, body string, threads uint32) {
		want, slow := runCalled(t, body, threads, 8, false, NativeNever)
		got, row := runCalled(t, body, threads, 8, false, NativeAtOnce)
		require.Equal(t, want, got)
		t.Logf("%d of %d: %v", row.All(), slow.All(), row.Interpreted)
		require.Less(t, 8*row.All(), slow.All(), "%v", row.Interpreted)
	})
}

// The state of a warp that has called is what goes on elsewhere.
func TestCalledPreempted(t *testing.T) {
	for name, body := range calledKernels {
		want, _ := runCalled(t, body, 80, 3, false, NativeNever)
		m, k, l := calledKernel(t, body, 80, 3, false)
		require.NoError(t, runPreempted(k, l, m, 1, 60))
		require.Equal(t, want, readAll[uint32](m, exectest.BufA, 1024), name)
	}
}

// A stack that is used up, an address of no function or of one with other parameters, and a fault in a function end a kernel as
// they do interpreted.
func TestCalledFaults(t *testing.T) {
	const other = ".func other(.param .b32 x) { ret; }\n"
	for name, body := range map[string]string{
		"deep":        "mov.u32 %r12, 100000;" + with("down", "%r12"),
		"some deep":   "setp.lt.u32 %p1, %r2, 9; mov.u32 %r12, 3; @!%p1 mov.u32 %r12, 5000;" + with("down", "%r12") + with("down", "%r12"),
		"no function": "mov.u64 %rd5, leaf; setp.eq.u32 %p1, %r2, 5; @%p1 add.u64 %rd5, %rd5, 1;" + with("%rd5", "%r2"),
		"null":        "mov.u64 %rd5, leaf;" + with("%rd5", "%r2") + "mov.u64 %rd5, 0;" + with("%rd5", "%r2"),
		"other":       "mov.u64 %rd5, other;" + with("%rd5", "%r2"),
		"the kernel":  "mov.u64 %rd5, leaf; add.u64 %rd5, %rd5, 4096;" + with("%rd5", "%r2"),
		"bad access":  "mov.u64 %rd1, 64;" + with("leaf", "%r2"),
	} {
		var errs []*gpu.LostError
		for _, when := range []Native{NativeNever, NativeAtOnce} {
			m := exectest.NewMemory(4096)
			m.Map(exectest.BufA, 4096)
			k := kernel(t, build(t, "k.ptx", source(calledFuncs+other, body), m), "k")
			errs = append(errs, lost(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Native: when,
				Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1)))
		}
		require.Equal(t, errs[0], errs[1], name)
	}
}

// Calls that never end are stopped, and are told of mappings that went.
func TestCalledStops(t *testing.T) {
	m, k, l := calledKernel(t, "L:"+with("leaf", "%r10")+"bra L;", 64, 1, false)
	l.Native = NativeAtOnce
	ctl, errs := new(Control), make(chan error)
	go func() { errs <- Run(k, l, m, ctl, 1) }()
	ctl.FlushTLB()
	ctl.Stop(gpu.LostTimeout)
	require.Equal(t, gpu.LostTimeout, lost(t, <-errs).Cause)
}

// A load by a generic address that is the same for all lanes, and is one of .local, gets each lane's own value.
func TestGenericLocal(t *testing.T) {
	for _, when := range []Native{NativeNever, NativeAtOnce} {
		m, k, l := apartKernel(t, ".local .align 8 .b8 own[16]; st.local.u32 [own], %r10; mov.u64 %rd5, own; cvta.local.u64 %rd5, %rd5; ld.u32 %r6, [%rd5]; ld.global.u32 %r7, [%rd1]; add.u32 %r6, %r6, %r7;", 32)
		l.Native = when
		require.NoError(t, Run(k, l, m, new(Control), 1))
		seen := map[uint32]bool{}
		for _, x := range readAll[uint32](m, exectest.BufA, 32) {
			seen[x] = true
		}
		require.Len(t, seen, 32)
	}
}

// A program that clang made has the same results in native code.
func TestRays(t *testing.T) {
	m, k, l := raysKernel(t, 32)
	l.Native = NativeNever
	require.NoError(t, Run(k, l, m, new(Control), 1))
	want := readAll[int32](m, exectest.BufA, 32*32)
	require.Subset(t, want, []int32{100, 8}, "rays that end far away, and near")
	eachISA(t, func(t *testing.T) {
		var to Tally
		m, k, l := raysKernel(t, 32)
		l.Native, l.Tally = NativeAtOnce, &to
		require.NoError(t, Run(k, l, m, new(Control), 1))
		require.Equal(t, want, readAll[int32](m, exectest.BufA, 32*32))
		require.Less(t, to.Rows()[0].Interpreted[jit.Page], uint64(8), "structures of functions are in .local, at places that are known")
	})
}

// More functions of one type than native code compares an address with.
func TestCallsOfMany(t *testing.T) {
	const many = 50
	funcs, body := "", "mov.u32 %r11, 100; L: xor.b32 %r12, %r10, %r11; rem.u32 %r12, %r12, 50; mov.u64 %rd5, f0;"
	for i := range many {
		funcs += fn(fmt.Sprint("f", i), fmt.Sprintf("mad.lo.u32 %%r6, %%r6, 31, %d;", i))
		body += fmt.Sprintf("setp.eq.u32 %%p2, %%r12, %d; @%%p2 mov.u64 %%rd5, f%d;", i, i)
	}
	body += with("%rd5", "%r2") + "sub.u32 %r11, %r11, 1; setp.ne.u32 %p1, %r11, 0; @%p1 bra L; st.global.u32 [%rd4], %r6;"
	run := func(t *testing.T, native Native) []uint32 {
		m := exectest.NewMemory(4096)
		m.Map(exectest.BufA, 4096)
		k := kernel(t, build(t, "k.ptx", source(funcs, "mov.u32 %r6, %r2; mul.lo.u32 %r10, %r2, 77;"+body), m), "k")
		require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(96, 1, 1), Native: native, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1))
		return readAll[uint32](m, exectest.BufA, 96)
	}
	want := run(t, NativeNever)
	eachISA(t, func(t *testing.T) { require.Equal(t, want, run(t, NativeAtOnce)) })
}

// Lanes that return from a function before others, which are in a long loop there, compute what is the same in all lanes by
// themselves.
func TestCalledApart(t *testing.T) {
	const long = "setp.eq.u32 %p1, %r10, 7; mov.u32 %r11, 3; @%p1 mov.u32 %r11, 30000; L: mad.lo.u32 %r6, %r6, 5, 1; sub.u32 %r11, %r11, 1; setp.ne.u32 %p2, %r11, 0; @%p2 bra L;"
	funcs := fn("long", long)
	run := func(t *testing.T, native Native) []uint32 {
		m := exectest.NewMemory(4096)
		m.Map(exectest.BufA, 4096)
		body := "mov.u32 %r6, %r2; add.u32 %r10, %r2, 7;" + with("long", "%r10") + "ld.param.u32 %r9, [n]; mov.u32 %r13, 3; M: mad.lo.u32 %r6, %r6, 3, %r9; sub.u32 %r13, %r13, 1; setp.ne.u32 %p1, %r13, 0; @%p1 bra M; mad.lo.u32 %r12, %r3, 128, %r2; mul.wide.u32 %rd6, %r12, 4; add.u64 %rd6, %rd1, %rd6; st.global.u32 [%rd6], %r6;"
		k := kernel(t, build(t, "k.ptx", source(funcs, body), m), "k")
		require.NoError(t, Run(k, Launch{Grid: grid(4, 1, 1), Block: grid(32, 1, 1), Native: native, Params: params(uint64(exectest.BufA), uint64(0), uint32(1000))}, m, new(Control), 1))
		return readAll[uint32](m, exectest.BufA, 512)
	}
	want := run(t, NativeNever)
	eachISA(t, func(t *testing.T) { require.Equal(t, want, run(t, NativeAtOnce)) })
}
