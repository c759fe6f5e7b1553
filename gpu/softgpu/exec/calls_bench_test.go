package exec

import (
	"testing"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// callKernels are kernels that call small functions 256 times in a loop: a number without order is in %r10.
var callKernels = map[string]string{
	"direct":   "call (c), leaf, (a, b);",
	"register": "mov.u64 %rd5, leaf; call (c), %rd5, (a, b), P;",
	"nested":   "call (c), outer, (a, b);",
	"parted":   "xor.b32 %r13, %r10, %r12; and.b32 %r13, %r13, 1; setp.eq.u32 %p2, %r13, 0; @%p2 bra N; call (c), leaf, (a, b); N:",
	"two":      "xor.b32 %r13, %r10, %r12; and.b32 %r13, %r13, 1; setp.eq.u32 %p2, %r13, 0; mov.u64 %rd5, leaf; mov.u64 %rd6, outer; selp.b64 %rd5, %rd5, %rd6, %p2; call (c), %rd5, (a, b), P;",
}

// calledFunctions are the functions that callKernels call.
const calledFunctions = `
.func (.param .b32 r) leaf(.param .b32 x, .param .b32 y) {
	.reg .b32 %r<4>;
	ld.param.u32 %r0, [x]; ld.param.u32 %r1, [y];
	mad.lo.u32 %r2, %r0, 31, %r1;
	st.param.b32 [r], %r2;
	ret;
}
.func (.param .b32 r) outer(.param .b32 x, .param .b32 y) {
	.reg .b32 %r<4>;
	ld.param.u32 %r0, [x]; ld.param.u32 %r1, [y];
	add.u32 %r1, %r1, 1;
	{ .param .b32 a; .param .b32 b; .param .b32 c;
	st.param.b32 [a], %r0; st.param.b32 [b], %r1;
	call (c), leaf, (a, b);
	ld.param.b32 %r2, [c]; }
	st.param.b32 [r], %r2;
	ret;
}
`

// callingKernel is the source of a kernel that has such a call in a loop.
func callingKernel(call string) []byte {
	return []byte(`.version 6.3
.target sm_70
.address_size 64
` + calledFunctions + `.visible .entry k(.param .u64 out) {
	.reg .b64 %rd<8>; .reg .b32 %r<16>; .reg .pred %p<4>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x;
	mad.lo.u32 %r4, %r3, 32, %r2;
	mad.lo.u32 %r10, %r4, 0x9e3779b1, 0x7f4a7c15; shr.u32 %r11, %r10, 15; xor.b32 %r10, %r10, %r11;
	mov.u32 %r12, 256;
L:	{ .param .b32 a; .param .b32 b; .param .b32 c;
	st.param.b32 [a], %r10; st.param.b32 [b], %r12; st.param.b32 [c], %r10;
	P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
	` + call + `
	ld.param.b32 %r10, [c]; }
	sub.u32 %r12, %r12, 1;
	setp.ne.u32 %p1, %r12, 0;
	@%p1 bra L;
	mul.wide.u32 %rd2, %r4, 4; add.u64 %rd1, %rd1, %rd2;
	st.global.u32 [%rd1], %r10;
	ret;
}`)
}

// BenchmarkCalls reports the processor time of one turn of a loop with a call, for a warp.
func BenchmarkCalls(b *testing.B) {
	for name, call := range callKernels {
		b.Run(name, func(b *testing.B) {
			m := exectest.NewMemory(1 << 20)
			m.Map(exectest.BufA, 1<<20)
			k := kernel(b, build(b, "k.ptx", callingKernel(call), m), "k")
			const warps = 64
			l := Launch{Grid: grid(warps, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA))}
			runKernel(b, k, l, m, 1)
			start := cpuTime()
			for b.Loop() {
				runKernel(b, k, l, m, 1)
			}
			b.ReportMetric((cpuTime()-start).Seconds()*1e9/float64(b.N)/warps/256, "ns/turn")
		})
	}
}

// raysKernel is a program that clang made, whose functions are not inlined, and a launch of it for so many rays a side.
func raysKernel(t testing.TB, width uint32) (*exectest.Memory, *Kernel, Launch) {
	m := exectest.NewMemory(1 << 20)
	m.Map(exectest.BufA, 1<<20)
	k := kernel(t, buildFile(t, "calls.ptx", m), "rays")
	return m, k, Launch{Grid: grid(width*width/128, 1, 1), Block: grid(128, 1, 1), Params: params(uint64(exectest.BufA), width)}
}

// BenchmarkRays reports the processor time of a program with calls in loops that lanes leave apart.
func BenchmarkRays(b *testing.B) {
	m, k, l := raysKernel(b, 128)
	runKernel(b, k, l, m, 1)
	start := cpuTime()
	for b.Loop() {
		runKernel(b, k, l, m, 1)
	}
	b.ReportMetric((cpuTime()-start).Seconds()*1e3/float64(b.N), "ms/run")
}
