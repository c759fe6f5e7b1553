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

// ticket has every lane that comes there take the next number of a counter into its result, so that results show in which
// order lanes ran. %r9 to %r14 and %p5 to %p7 are the bodies' own.
const ticket = "atom.global.add.u32 %r8, [%rd1+4092], 1; mad.lo.u32 %r6, %r6, 0x01000193, %r8; "

// apartKernels are kernels whose lanes part in many ways. %r10 is a number without order that each thread has.
var apartKernels = map[string]string{
	"nested branches": "and.b32 %r11, %r10, 1; setp.ne.u32 %p1, %r11, 0; and.b32 %r11, %r10, 2; setp.ne.u32 %p2, %r11, 0; and.b32 %r11, %r10, 4; setp.ne.u32 %p3, %r11, 0;" +
		ticket + "@%p1 bra A;" + ticket + "@%p2 bra B;" + ticket + "@%p3 bra C;" + ticket + "C:" + ticket + "bra D; B:" + ticket + "@!%p3 bra E;" + ticket + "E:" + ticket + "D:" + ticket + "bra G;" +
		"A:" + ticket + "@%p3 bra F;" + ticket + "@!%p2 bra F;" + ticket + "F:" + ticket + "G:" + ticket,
	"loops that end apart": "and.b32 %r11, %r10, 63; L:" + ticket + "sub.u32 %r11, %r11, 1; setp.gt.s32 %p1, %r11, 0; @%p1 bra L;" + ticket,
	"break and continue": "and.b32 %r11, %r10, 31; mov.u32 %r12, %r10; L:" + ticket + "mad.lo.u32 %r12, %r12, 1103515245, 12345; sub.u32 %r11, %r11, 1; setp.lt.s32 %p1, %r11, 0; @%p1 bra X;" +
		"shr.u32 %r13, %r12, 16; and.b32 %r14, %r13, 3; setp.eq.u32 %p2, %r14, 0; @%p2 bra L;" + ticket + "and.b32 %r14, %r13, 60; setp.eq.u32 %p3, %r14, 0; @%p3 bra Y;" + ticket + "bra L;" +
		"Y:" + ticket + "X:" + ticket,
	"nested loops": "and.b32 %r11, %r10, 7; L: shr.u32 %r12, %r10, 8; add.u32 %r12, %r12, %r11; and.b32 %r12, %r12, 7; M:" + ticket + "sub.u32 %r12, %r12, 1; setp.ge.s32 %p1, %r12, 0; @%p1 bra M;" + ticket +
		"and.b32 %r13, %r12, %r10; setp.eq.u32 %p2, %r13, 99; @%p2 bra X; sub.u32 %r11, %r11, 1; setp.ge.s32 %p3, %r11, 0; @%p3 bra L; X:" + ticket,
	"an escape": "cvt.rn.f32.u32 %f1, %r2; mul.f32 %f1, %f1, 0f3D800000; sub.f32 %f1, %f1, 0f3FC00000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.u32 %r11, 0;" +
		"L: mul.f32 %f4, %f2, %f2; mul.f32 %f5, %f3, %f3; add.f32 %f6, %f4, %f5; setp.gt.f32 %p1, %f6, 0f40800000; @%p1 bra X; mul.f32 %f3, %f2, %f3; fma.rn.f32 %f3, %f3, 0f40000000, 0f3DCCCCCD;" +
		"sub.f32 %f2, %f4, %f5; add.f32 %f2, %f2, %f1; add.u32 %r11, %r11, 1; setp.lt.u32 %p2, %r11, 200; @%p2 bra L; X: mad.lo.u32 %r6, %r11, 7, 3;" + ticket,
	"many ends": "and.b32 %r11, %r10, 15; L:" + ticket + "st.global.u32 [%rd4], %r6; setp.eq.u32 %p1, %r11, 3; @%p1 exit; setp.eq.u32 %p2, %r11, 9; @%p2 bra X; sub.u32 %r11, %r11, 1; setp.ge.s32 %p3, %r11, 0; @%p3 bra L;" +
		ticket + "bra Y; X:" + ticket + "st.global.u32 [%rd4], %r6; ret; Y:" + ticket,
	"jump tables": "and.b32 %r11, %r10, 31; L: shr.u32 %r12, %r10, %r11; and.b32 %r12, %r12, 3; T: .branchtargets A, B, C, B; brx.idx %r12, T; A:" + ticket + "bra D; B:" + ticket + ticket + "C:" + ticket +
		"D:" + ticket + "sub.u32 %r11, %r11, 1; setp.ge.s32 %p1, %r11, 0; mov.u32 %r13, 1; selp.u32 %r13, 1, 0, %p1; U: .branchtargets X, L; brx.idx %r13, U; X:" + ticket,
	"lanes wait for each other": "mov.u32 %r11, 0; setp.lt.u32 %p1, %r2, 7; @%p1 bra W; L:" + ticket + "add.u32 %r11, %r11, 1; ld.global.u32 %r12, [%rd1+4088]; setp.eq.u32 %p2, %r12, 0; @%p2 bra L; bra X;" +
		"W: and.b32 %r13, %r10, 63; M:" + ticket + "sub.u32 %r13, %r13, 1; setp.ge.s32 %p3, %r13, 0; @%p3 bra M; membar.gl; st.volatile.global.u32 [%rd1+4088], 1; X:" + ticket,
	"long loops": "and.b32 %r11, %r10, 3; mad.lo.u32 %r11, %r11, 3000, 9000; L:" + ticket + "sub.u32 %r11, %r11, 1; setp.gt.s32 %p1, %r11, 0; @%p1 bra L;" + ticket,
	"barriers": ".shared .align 4 .b8 s[384]; mul.lo.u32 %r9, %r2, 4; mov.u32 %r11, 0; L: and.b32 %r12, %r10, 3; add.u32 %r10, %r10, %r11; M: mad.lo.u32 %r6, %r6, 31, %r12; sub.u32 %r12, %r12, 1; setp.ge.s32 %p1, %r12, 0; @%p1 bra M;" +
		"mov.u32 %r13, s; add.u32 %r13, %r13, %r9; st.shared.u32 [%r13], %r6; bar.sync 0; mov.u32 %r13, s; xor.b32 %r14, %r9, 36; add.u32 %r13, %r13, %r14; ld.shared.u32 %r14, [%r13]; xor.b32 %r6, %r6, %r14;" +
		"setp.ne.u32 %p2, %r11, %r2; @%p2 bra N; st.global.u32 [%rd4+2048], %r6; N: bar.sync 0; add.u32 %r11, %r11, 1; setp.lt.u32 %p3, %r11, 90; @%p3 bra L;",
	"warps in between": "and.b32 %r11, %r10, 3; setp.eq.u32 %p1, %r11, 0; @%p1 bra A;" + ticket + "bar.warp.sync -1;" + ticket + "A:" + ticket + "bar.warp.sync -1; vote.sync.ballot.b32 %r12, %p1, -1; xor.b32 %r6, %r6, %r12;",
}

// apartKernel builds a kernel of such a body, and a launch of it.
func apartKernel(t *testing.T, body string, threads uint32) (*exectest.Memory, *Kernel, Launch) {
	m := exectest.NewMemory(4096)
	m.Map(exectest.BufA, 4096)
	const mix = "mad.lo.u32 %r10, %r2, 0x9e3779b1, 0x7f4a7c15; shr.u32 %r11, %r10, 15; xor.b32 %r10, %r10, %r11; mul.lo.u32 %r10, %r10, 0x85ebca6b; " +
		"shr.u32 %r11, %r10, 13; xor.b32 %r10, %r10, %r11; mov.u32 %r6, %r2;"
	k := kernel(t, build(t, "k.ptx", source("", mix+body+"st.global.u32 [%rd4], %r6;"), m), "k")
	return m, k, Launch{Grid: grid(1, 1, 1), Block: grid(threads, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}
}

// runApart returns what a kernel of apartKernels leaves in memory, and counts what was interpreted.
func runApart(t *testing.T, body string, threads uint32, native Native) ([]uint32, Tallied) {
	m, k, l := apartKernel(t, body, threads)
	var to Tally
	l.Native, l.Tally = native, &to
	require.NoError(t, Run(k, l, m, new(Control), 1))
	return readAll[uint32](m, exectest.BufA, 1024), to.Rows()[0]
}

// Lanes that part run in the same order in native code as interpreted, on each width, and it is not left for them.
func TestApart(t *testing.T) {
	eachISA(t, func(t *testing.T) {
		for name, body := range apartKernels {
			for _, threads := range []uint32{32, 80, 96} {
				t.Run(fmt.Sprintf("%s/%d", name, threads), func(t *testing.T) {
					want, _ := runApart(t, body, threads, NativeNever)
					got, row := runApart(t, body, threads, NativeAtOnce)
					require.Equal(t, want, got)
					if name != "long loops" && name != "lanes wait for each other" { // native code comes back from these now and then
						require.LessOrEqual(t, row.Interpreted[jit.Parts], uint64(30+threads))
					}
				})
			}
		}
	})
}

// The state of a warp whose lanes are apart is what goes on elsewhere. The order of lanes is another then.
func TestApartPreempted(t *testing.T) {
	for name, body := range apartKernels {
		if name == "long loops" || name == "lanes wait for each other" {
			continue // it is preempted at each head of a loop; how often they look depends on the order
		}
		body = strings.ReplaceAll(body, ticket, "mad.lo.u32 %r6, %r6, 0x01000193, 5;")
		want, _ := runApart(t, body, 32, NativeNever)
		m, k, l := apartKernel(t, body, 32)
		require.NoError(t, runPreempted(k, l, m, 1, 40))
		require.Equal(t, want, readAll[uint32](m, exectest.BufA, 1024), name)
	}
}

// An index beyond a list of targets is the fault of the first lane that has one.
func TestApartBadIndex(t *testing.T) {
	var errs []*gpu.LostError
	for _, when := range []Native{NativeNever, NativeAtOnce} {
		_, k, l := apartKernel(t, "sub.u32 %r11, %r2, 5; and.b32 %r11, %r11, 1; setp.eq.u32 %p1, %r2, 9; selp.u32 %r11, 2, %r11, %p1;\nT: .branchtargets A, B; brx.idx %r11, T; A: add.u32 %r6, %r6, 1; B:", 32)
		l.Native = when
		errs = append(errs, lost(t, Run(k, l, exectest.NewMemory(4096), new(Control), 1)))
	}
	require.Equal(t, gpu.LostInstruction, errs[0].Cause)
	require.Equal(t, [3]uint32{9, 0, 0}, errs[0].Thread)
	require.Equal(t, errs[0], errs[1])
}

// A loop that never ends and whose lanes part each time is stopped, and is told of mappings that went.
func TestApartStops(t *testing.T) {
	if err := NativeCode(); err != nil {
		t.Skip(err)
	}
	m, k, l := apartKernel(t, "L: add.u32 %r5, %r5, 1; xor.b32 %r6, %r5, %r2; and.b32 %r6, %r6, 1; setp.eq.u32 %p1, %r6, 0; @%p1 bra A; ld.global.u32 %r7, [%rd4]; bra L;"+
		"A: and.b32 %r7, %r5, 3; setp.lt.u32 %p2, %r7, %r2; @%p2 bra L; st.global.u32 [%rd4], %r5; bra L;", 64)
	l.Native = NativeAtOnce
	ctl, errs := new(Control), make(chan error)
	go func() { errs <- Run(k, l, m, ctl, 1) }()
	ctl.FlushTLB()
	ctl.Stop(gpu.LostTimeout)
	require.Equal(t, gpu.LostTimeout, lost(t, <-errs).Cause)
}
