package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// TestAtomsOfAWarp compares updates by lanes of one page with those of lanes in several, which go one
// by one: different words and the same one, by all lanes and by some, in both memories.
func TestAtomsOfAWarp(t *testing.T) {
	const code = `.shared .align 16 .b8 s[512];`
	const body = `setp.lt.u32 %p2, %r2, 13; mul.lo.u32 %r5, %r2, 0x9e3779b1; and.b32 %r6, %r2, 24; mul.wide.u32 %rd5, %r6, 8;
		add.u64 %rd6, %rd1, %rd5; mul.wide.u32 %rd7, %r2, 8; add.u64 %rd7, %rd1, %rd7; cvt.u64.u32 %rd8, %r5; shr.u32 %r7, %r5, 9; mov.b32 %f1, %r7;
		mov.u64 %rd9, s; add.u64 %rd10, %rd9, %rd5;
		atom.global.add.u32 %r8, [%rd6+1024], %r5; st.global.u32 [%rd7+2048], %r8;
		@%p2 atom.global.exch.b32 %r8, [%rd6+1028], %r5; @%p2 st.global.u32 [%rd7+2052], %r8;
		atom.global.or.b32 %r8, [%rd6+1032], %r5; atom.global.and.b32 %r9, [%rd6+1036], %r5; xor.b32 %r8, %r8, %r9; st.global.u32 [%rd7+2560], %r8;
		red.global.add.f32 [%rd7+3072], %f1; @%p2 red.global.add.f32 [%rd6+1040], %f1;
		atom.global.max.s32 %r8, [%rd6+1044], %r5; atom.global.cas.b32 %r9, [%rd6+1048], 0, %r5; xor.b32 %r8, %r8, %r9; st.global.u32 [%rd7+2564], %r8;
		atom.global.add.u64 %rd12, [%rd6+1280], %rd8; st.global.u64 [%rd7+3584], %rd12;
		atom.shared.add.u32 %r8, [%rd10], %r5; atom.shared.inc.u32 %r9, [%rd10+4], 5; xor.b32 %r8, %r8, %r9; st.global.u32 [%rd7+256], %r8;
		@%p2 atom.shared.add.f32 %f2, [%rd10+8], %f1; @%p2 st.global.f32 [%rd7+260], %f2;
		atom.shared.max.u64 %rd12, [%rd10+16], %rd8; st.global.u64 [%rd7+512], %rd12;
		ld.shared.u32 %r8, [%rd10]; ld.shared.u32 %r9, [%rd10+4]; ld.shared.f32 %f2, [%rd10+8]; mov.b32 %r10, %f2; xor.b32 %r8, %r8, %r9; xor.b32 %r8, %r8, %r10;
		st.global.u32 [%rd7+768], %r8;`
	run := func(page uint64) []uint32 {
		m := exectest.NewMemory(page)
		k := kernel(t, build(t, "k.ptx", source("", code+body), m), "k")
		data := make([]uint32, 2048)
		for i := range data {
			data[i] = uint32(i) * 0x85ebca6b >> 7
		}
		writeAll(m, exectest.BufA+3*4096/4, data) // so that what is updated lies on both sides of a small page's end
		require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1),
			Params: params(uint64(exectest.BufA+3*4096/4), uint64(0), uint32(0))}, m, new(Control), 1))
		return readAll[uint32](m, exectest.BufA+3*4096/4, len(data))
	}
	require.Equal(t, run(4096), run(1<<16))
}

// TestAtomsOfAWarpFault updates words of which some lane's is not there, or not aligned: those of the
// lanes before it are updated.
func TestAtomsOfAWarpFault(t *testing.T) {
	for wrong, cause := range map[string]gpu.LostCause{"mov.u64 %rd4, 0x40000000": gpu.LostAddress, "add.u64 %rd4, %rd4, 2": gpu.LostAlign} {
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", source("", `setp.eq.u32 %p1, %r2, 20; @%p1 `+wrong+`; red.global.add.u32 [%rd4], 7;`), m), "k")
		m.Map(exectest.BufA, 4096)
		err := Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1)
		var lost *gpu.LostError
		require.ErrorAs(t, err, &lost)
		require.Equal(t, cause, lost.Cause)
		for i, x := range readAll[uint32](m, exectest.BufA, 32) {
			require.Equal(t, i < 20, x == 7, "lane %d", i)
		}
	}
}

// BenchmarkAtoms adds one number a lane to words of global memory and of .shared.
func BenchmarkAtoms(b *testing.B) {
	for name, op := range map[string]string{
		"global": "red.global.add.f32 [%rd4], 0f3f800000;", "shared": "atom.shared.add.u32 %r8, [%rd9], 1;",
	} {
		b.Run(name, func(b *testing.B) {
			m := exectest.NewMemory(1 << 16)
			k := kernel(b, build(b, "k.ptx", source("", `.shared .align 16 .b8 s[512]; mov.u32 %r5, 0; mov.u64 %rd9, s; add.u64 %rd9, %rd9, %rd3;
				L: `+op+` add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;`), m), "k")
			m.Map(exectest.BufA, 4096)
			l := Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(20000))}
			b.ReportAllocs()
			start := cpuTime()
			for b.Loop() {
				require.NoError(b, Run(k, l, m, new(Control), 1))
			}
			b.ReportMetric((cpuTime()-start).Seconds()/float64(b.N)/20000*1e9, "ns/warp")
		})
	}
}
