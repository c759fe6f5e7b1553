package exec

import (
	"testing"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// formOps are operations of which native code has not had a form, or not one of all shapes. %rd16 is the place of
// 8 bytes of the thread in global memory, %rd14 one of 32, %rd5 and %r14 one of 16 in .shared; %rd15 and %r15 are scattered.
var formOps = map[string]string{
	"nothing":          "",
	"ld.f64":           "ld.global.f64 %d1, [%rd16];",
	"ld.v2.f64":        "ld.global.v2.f64 {%d1, %d2}, [%rd17];",
	"ld.v2.f64 apart":  "ld.global.v2.f64 {%d1, %d2}, [%rd15];",
	"ld.v2.f64 some":   "@%p3 ld.global.v2.f64 {%d1, %d2}, [%rd17];",
	"ld.v2.f64 parted": partedRound("ld.global.v2.f64 {%d1, %d2}, [%rd17];"),

	"ld.v4.f32":                "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd17];",
	"st.v2.f64":                "st.global.v2.f64 [%rd17], {%d1, %d2};",
	"st.v2.f64 apart":          "st.global.v2.f64 [%rd15], {%d1, %d2};",
	"ld.shared.v2.f64":         "ld.shared.v2.f64 {%d1, %d2}, [%r14];",
	"ld.shared.v4.f32":         "ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r14];",
	"ld.shared.v2.f64 apart":   "ld.shared.v2.f64 {%d1, %d2}, [%r15];",
	"st.shared.v2.f64":         "st.shared.v2.f64 [%r14], {%d1, %d2};",
	"ld.local.v2.f64":          "ld.local.v2.f64 {%d1, %d2}, [%rd18];",
	"ld.local.f64 apart":       "ld.local.f64 %d1, [%rd19];",
	"ld.local.v2.f64 apart":    "ld.local.v2.f64 {%d1, %d2}, [%rd19];",
	"ld.local.v4.f32 apart":    "ld.local.v4.f32 {%f1, %f2, %f3, %f4}, [%rd19];",
	"st.local.v4.f32 apart":    "st.local.v4.f32 [%rd19], {%f1, %f2, %f3, %f4};",
	"st.local.f64 apart":       "st.local.f64 [%rd19], %d1;",
	"st.local.u8":              "st.local.u8 [%rd18], %r6;",
	"ld.volatile.v4":           "ld.volatile.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd17];",
	"ld.cg.v2.f64":             "ld.global.cg.v2.f64 {%d1, %d2}, [%rd17];",
	"st.u8 apart":              "st.global.u8 [%rd15+3], %r6;",
	"st.shared.u16 apart":      "st.shared.u16 [%r15+2], %r6;",
	"ldmatrix.x1":              "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%x0}, [%r14];",
	"ldmatrix.x2":              "ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%x0, %x1}, [%r14];",
	"ldmatrix.x4":              "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%x0, %x1, %x2, %x3}, [%r14];",
	"ldmatrix.x4.trans":        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%x0, %x1, %x2, %x3}, [%r14];",
	"stmatrix.x4":              "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r14], {%x0, %x1, %x2, %x3};",
	"stmatrix.x4.trans":        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%r14], {%x0, %x1, %x2, %x3};",
	"movmatrix":                "movmatrix.sync.aligned.m8n8.trans.b16 %x0, %x1;",
	"wmma.load.a.row":          "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}, [%rd1];",
	"wmma.load.b.col":          "wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}, [%rd1];",
	"wmma.load.b.row":          "wmma.load.b.sync.aligned.row.m16n16k16.global.f16 {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}, [%rd1];",
	"wmma.load.a.shared":       "wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}, [%r13];",
	"wmma.load.c.f32":          "wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7}, [%rd1];",
	"wmma.store.d.f32":         "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd1], {%x0, %x1, %x2, %x3, %x4, %x5, %x6, %x7};",
	"wmma.store.d.f16":         "wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%rd1], {%x0, %x1, %x2, %x3};",
	"dmma":                     "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1, %d2}, {%d3}, {%d4}, {%d1, %d2};",
	"generic ld.shared.v4.f32": "ld.v4.f32 {%f1, %f2, %f3, %f4}, [%w0];",
	"generic ld.shared.f32":    "ld.f32 %f1, [%w1];",
	"generic st.shared.f32":    "st.f32 [%w1], %f1;",
	"generic ld.shared apart":  "ld.f32 %f1, [%w2];",
	"generic red.shared":       "red.add.u32 [%w1], %r6;",
	"generic ld.local.f32":     "ld.f32 %f1, [%w3];",
	"generic st.local.f32":     "st.f32 [%w3], %f1;",
	"generic ld.local apart":   "ld.f32 %f1, [%w4];",
	"generic shared in func":   "call (%f1), reads, (%w1);",
	"generic local in func":    "call (%f1), reads, (%w3);",
	"cp.async 4":               "cp.async.ca.shared.global [%r14], [%rd17], 4;",
	"cp.async 16":              "cp.async.cg.shared.global [%r14], [%rd17], 16;",
	"cp.async 16 zeros":        "and.b32 %r8, %r2, 16; cp.async.cg.shared.global [%r14], [%rd17], 16, %r8;",
	"call":                     "call (%r6), plain, (%r6);",
	"call with exit":           "call (%r6), exits, (%r6);",
	"call with barrier":        "call (%r6), meets, (%r6);",
	"vabsdiff4":                "vabsdiff4.u32.u32.u32.add %r7, %r6, %r2, %r6;",
	"mapa":                     "mapa.shared::cluster.u32 %r7, %r14, 0;",
}

const formFunctions = `.func (.reg .f32 %o) reads(.reg .u64 %p) { .reg .f32 %x; ld.f32 %x, [%p]; add.f32 %o, %x, %x; st.f32 [%p], %o; ret; }
.func (.reg .u32 %o) plain(.reg .u32 %i) { add.u32 %o, %i, 3; ret; }
.func (.reg .u32 %o) exits(.reg .u32 %i) { .reg .pred %p; setp.eq.u32 %p, %i, 0x12345; @%p bra E; add.u32 %o, %i, 3; ret; E: exit; }
.func (.reg .u32 %o) meets(.reg .u32 %i) { bar.sync 0; add.u32 %o, %i, 3; ret; }
`

const formPlaces = `.reg .f64 %d<5>; .reg .b32 %x<8>; .reg .b64 %w<5>; .local .align 16 .b8 l[256]; .shared .align 16 .b8 rows[8192];
	mov.u32 %r14, rows; mad.lo.u32 %r14, %r2, 16, %r14; mul.lo.u32 %r15, %r2, 5; and.b32 %r15, %r15, 255; shl.b32 %r15, %r15, 4;
	mul.wide.u32 %rd15, %r15, 1; add.u64 %rd15, %rd15, %rd1; mov.u32 %r7, rows; add.u32 %r15, %r15, %r7;
	mul.wide.u32 %rd16, %r2, 8; add.u64 %rd16, %rd16, %rd1; mul.wide.u32 %rd17, %r2, 16; add.u64 %rd17, %rd17, %rd1;
	mul.wide.u32 %rd14, %r2, 32; add.u64 %rd14, %rd14, %rd1;
	mov.u64 %rd18, l; and.b32 %r7, %r2, 7; mul.wide.u32 %rd19, %r7, 16; add.u64 %rd19, %rd19, %rd18; st.local.u32 [%rd18], %r2;
	mov.u64 %w2, rows; cvta.shared.u64 %w2, %w2; mad.wide.u32 %w0, %r2, 16, %w2; mad.wide.u32 %w1, %r2, 4, %w2; and.b32 %r8, %r2, 31; mul.lo.u32 %r8, %r8, 5;
	mad.wide.u32 %w2, %r8, 16, %w2; cvta.local.u64 %w3, %rd18; cvta.local.u64 %w4, %rd19;
	setp.ne.u32 %p3, %r7, 2; mov.f64 %d1, 0d3ff8000000000000; mov.f64 %d2, %d1; mov.f64 %d3, %d1; mov.f64 %d4, %d1;
	mov.f32 %f1, 0f3fc00000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
	mov.u32 %x0, 0; mov.u32 %x1, 1; mov.u32 %x2, 2; mov.u32 %x3, 3; mov.u32 %x4, 4; mov.u32 %x5, 5; mov.u32 %x6, 6; mov.u32 %x7, 7;
`

// BenchmarkForms is what an operation takes of a warp, with the round of BenchmarkBarriers around it.
func BenchmarkForms(b *testing.B) {
	const rounds, blocks, warps = 500, 16, 8
	for name, op := range formOps {
		b.Run(name, func(b *testing.B) {
			m := exectest.NewMemory(2 << 20)
			k := kernel(b, build(b, "k.ptx", hopper(formFunctions, formPlaces+ringLoop(op)), m), "k")
			m.Map(exectest.BufA, 16384)
			l := Launch{Grid: grid(blocks, 1, 1), Block: grid(32*warps, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(rounds))}
			start := cpuTime()
			for b.Loop() {
				runKernel(b, k, l, m, 1)
			}
			b.ReportMetric(float64((cpuTime()-start).Nanoseconds())/float64(b.N*rounds*blocks*warps), "cpu-ns/round")
			b.ReportMetric(0, "ns/op")
		})
	}
}
