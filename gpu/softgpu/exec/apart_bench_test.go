package exec

import (
	"testing"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// divergent are kernels whose lanes part at every turn, of 64 warps with all lanes: a number without order is in %r10.
var divergent = map[string]string{
	"escape": "cvt.rn.f32.u32 %f1, %r10; mul.f32 %f1, %f1, 0f2F800000; fma.rn.f32 %f1, %f1, 0f40400000, 0fC0000000; mov.f32 %f2, 0f00000000; mov.f32 %f3, 0f00000000; mov.u32 %r11, 0;" +
		"L: mul.f32 %f4, %f2, %f2; mul.f32 %f5, %f3, %f3; add.f32 %f6, %f4, %f5; setp.gt.f32 %p1, %f6, 0f40800000; @%p1 bra X; mul.f32 %f3, %f2, %f3; fma.rn.f32 %f3, %f3, 0f40000000, 0f3E99999A;" +
		"sub.f32 %f2, %f4, %f5; add.f32 %f2, %f2, %f1; add.u32 %r11, %r11, 1; setp.lt.u32 %p2, %r11, 256; @%p2 bra L; X: mov.u32 %r6, %r11;",
	"probing": "mov.u32 %r11, %r10; mov.u32 %r12, 0; L: and.b32 %r13, %r11, 1023; mul.wide.u32 %rd5, %r13, 4; add.u64 %rd5, %rd1, %rd5; ld.global.u32 %r14, [%rd5]; setp.eq.u32 %p1, %r14, 1; @%p1 bra X;" +
		"mad.lo.u32 %r11, %r11, 1664525, 1013904223; shr.u32 %r11, %r11, 3; xor.b32 %r11, %r11, %r10; add.u32 %r12, %r12, 1; setp.lt.u32 %p2, %r12, 40; @%p2 bra L; X: mov.u32 %r6, %r12;",
	"table": "mov.u32 %r11, %r10; mov.u32 %r12, 0; L: and.b32 %r13, %r11, 3; T: .branchtargets A, B, C, D; brx.idx %r13, T; A: add.u32 %r6, %r6, %r11; bra E; B: xor.b32 %r6, %r6, %r11; shl.b32 %r6, %r6, 1; bra E;" +
		"C: mad.lo.u32 %r6, %r6, 31, %r11; bra E; D: sub.u32 %r6, %r6, 7; E: shr.u32 %r11, %r11, 1; add.u32 %r12, %r12, 1; setp.lt.u32 %p2, %r12, 30; @%p2 bra L;",
	"nested": "mov.u32 %r11, %r10; mov.u32 %r12, 0; L: and.b32 %r13, %r11, 7; M: mad.lo.u32 %r6, %r6, 31, %r13; sub.u32 %r13, %r13, 1; setp.ge.s32 %p1, %r13, 0; @%p1 bra M; shr.u32 %r11, %r11, 1;" +
		"and.b32 %r13, %r11, 1; setp.eq.u32 %p3, %r13, 0; @%p3 bra N; mul.lo.u32 %r14, %r6, %r6; xor.b32 %r6, %r14, %r11; shr.u32 %r14, %r6, 3; add.u32 %r6, %r6, %r14; mul.lo.u32 %r6, %r6, 5; xor.b32 %r6, %r6, 99; shl.b32 %r14, %r6, 2; sub.u32 %r6, %r6, %r14; xor.b32 %r6, %r6, %r12; N:" +
		"add.u32 %r12, %r12, 1; setp.lt.u32 %p2, %r12, 20; @%p2 bra L;",
}

// BenchmarkApart reports the processor time that a warp takes.
func BenchmarkApart(b *testing.B) {
	for name, body := range divergent {
		b.Run(name, func(b *testing.B) {
			m := exectest.NewMemory(1 << 20)
			table := make([]uint32, 1024)
			for i := range table {
				if uint32(i)*0x9e3779b1>>29 == 3 {
					table[i] = 1
				}
			}
			writeAll(m, exectest.BufA, table)
			m.Map(exectest.BufA+1<<20, 4096)
			k := kernel(b, build(b, "k.ptx", source("", "mad.lo.u32 %r10, %r3, 32, %r2; mad.lo.u32 %r10, %r10, 0x9e3779b1, 0x7f4a7c15; shr.u32 %r11, %r10, 15; xor.b32 %r10, %r10, %r11; mul.lo.u32 %r10, %r10, 0x85ebca6b;"+
				"mov.u32 %r6, 0;"+body+"add.u64 %rd2, %rd2, %rd3; st.global.u32 [%rd2], %r6;"), m), "k")
			const warps = 64
			l := Launch{Grid: grid(warps, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufA+1<<20), uint32(0))}
			start := cpuTime()
			for b.Loop() {
				runKernel(b, k, l, m, 1)
			}
			b.ReportMetric((cpuTime()-start).Seconds()*1e6/float64(b.N)/warps, "us/warp")
		})
	}
}
