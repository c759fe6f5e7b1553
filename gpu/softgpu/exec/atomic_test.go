package exec

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// TestAtomsOfAWarp compares updates by lanes of one page with those of lanes in several, which go one
// by one: different words and the same one, by all lanes and by some, in both memories. Compiled code does
// the same, with a turn that ends in between.
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
		atom.global.exch.b32 %r8, [%rd7+1536], 5; atom.global.exch.b64 %rd12, [%rd7+1792], %rd1; red.global.add.u64 [%rd6+1288], %rd1; red.shared.or.b32 [%rd10+12], 9;
		atom.global.add.u64 %rd12, [%rd6+1280], %rd8; st.global.u64 [%rd7+3584], %rd12;
		atom.shared.add.u32 %r8, [%rd10], %r5; atom.shared.inc.u32 %r9, [%rd10+4], 5; xor.b32 %r8, %r8, %r9; st.global.u32 [%rd7+256], %r8;
		@%p2 atom.shared.add.f32 %f2, [%rd10+8], %f1; @%p2 st.global.f32 [%rd7+260], %f2;
		atom.shared.max.u64 %rd12, [%rd10+16], %rd8; st.global.u64 [%rd7+512], %rd12;
		ld.shared.u32 %r8, [%rd10]; ld.shared.u32 %r9, [%rd10+4]; ld.shared.f32 %f2, [%rd10+8]; mov.b32 %r10, %f2; xor.b32 %r8, %r8, %r9; xor.b32 %r8, %r8, %r10;
		st.global.u32 [%rd7+768], %r8;`
	const loop = `mov.u32 %r12, 0; L: ` + body + ` add.u32 %r12, %r12, 1; setp.lt.u32 %p3, %r12, 70; @%p3 bra L;`
	run := func(page uint64, native Native, body string) []uint32 {
		m := exectest.NewMemory(page)
		k := kernel(t, build(t, "k.ptx", source("", code+body), m), "k")
		data := make([]uint32, 2048)
		for i := range data {
			data[i] = uint32(i) * 0x85ebca6b >> 7
		}
		writeAll(m, exectest.BufA+3*4096/4, data) // so that what is updated lies on both sides of a small page's end
		require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1),
			Params: params(uint64(exectest.BufA+3*4096/4), uint64(0), uint32(0)), Native: native}, m, new(Control), 1))
		return readAll[uint32](m, exectest.BufA+3*4096/4, len(data))
	}
	for _, body := range []string{body, loop} {
		want := run(4096, NativeNever, body)
		require.Equal(t, want, run(1<<16, NativeNever, body))
		require.Equal(t, want, run(4096, NativeAtOnce, body))
		require.Equal(t, want, run(1<<16, NativeAtOnce, body))
	}
}

// TestAtomsOfAWarpFault updates words of which some lane's is not there, or not aligned: those of the
// lanes before it are updated.
func TestAtomsOfAWarpFault(t *testing.T) {
	for wrong, cause := range map[string]gpu.LostCause{"mov.u64 %rd4, 0x40000000": gpu.LostAddress, "add.u64 %rd4, %rd4, 2": gpu.LostAlign} {
		for _, native := range []Native{NativeNever, NativeAtOnce} {
			atomsFault(t, wrong, cause, native)
		}
	}
}

func atomsFault(t *testing.T, wrong string, cause gpu.LostCause, native Native) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", `setp.eq.u32 %p1, %r2, 20; @%p1 `+wrong+`; red.global.add.u32 [%rd4], 7;`), m), "k")
	m.Map(exectest.BufA, 4096)
	err := Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0)), Native: native}, m, new(Control), 1)
	var lost *gpu.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, cause, lost.Cause)
	for i, x := range readAll[uint32](m, exectest.BufA, 32) {
		require.Equal(t, i < 20, x == 7, "lane %d", i)
	}
}

// TestAtomsOfManyWorkers updates the same words from all blocks of a grid at once: no update is lost.
func TestAtomsOfManyWorkers(t *testing.T) {
	const body = `mov.u32 %r12, 0; mov.u32 %r4, 3; L: red.global.add.u32 [%rd1], 1; atom.global.add.u32 %r5, [%rd1+4], %r4; red.global.add.f32 [%rd1+8], 0f3f800000;
		atom.global.inc.u32 %r6, [%rd1+12], 4095; red.global.max.u32 [%rd1+16], %r5; red.global.xor.b32 [%rd1+20], %r6; atom.global.xor.b32 %r7, [%rd1+24], %r6;
		red.global.add.u64 [%rd1+32], %rd3; atom.global.min.s32 %r8, [%rd1+28], %r5; add.u32 %r12, %r12, 1; setp.lt.u32 %p1, %r12, 32; @%p1 bra L;`
	for _, threads := range []uint32{64, 40} { // the second warp has all lanes, or some
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
		m.Map(exectest.BufA, 4096)
		const blocks = 32
		require.NoError(t, Run(k, Launch{Grid: grid(blocks, 1, 1), Block: grid(threads, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0)),
			Native: NativeAtOnce}, m, new(Control), 4))
		n := blocks * threads * 32
		xor := uint32(0) // of what counts to 4095 and begins again
		for i := range n {
			xor ^= i % 4096
		}
		want := []uint32{n, 3 * n, math.Float32bits(float32(n)), n % 4096, 3 * (n - 1), xor, xor, 0}
		require.Equal(t, want, readAll[uint32](m, exectest.BufA, 8))
		sum := blocks * 32 * 4 * threads * (threads - 1) / 2 // four times the number of each thread
		require.EqualValues(t, sum, readAll[uint64](m, exectest.BufA+32, 1)[0])
	}
}

// TestAtomsNeedBothRights updates words of pages that may only be read or only be written, after a load or a
// store has found them.
func TestAtomsNeedBothRights(t *testing.T) {
	for access, prot := range map[string]gpu.Prot{"ld.global.u32 %r4, [%rd1];": gpu.ProtRead, "st.global.u32 [%rd1], %r2;": gpu.ProtWrite} {
		for _, native := range []Native{NativeNever, NativeAtOnce} {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "k.ptx", source("", `mov.u32 %r12, 0; L: `+access+` add.u32 %r12, %r12, 1; setp.lt.u32 %p1, %r12, 9; @%p1 bra L;
				red.global.add.u32 [%rd1], 1; `+access), m), "k")
			m.Map(exectest.BufA, 4096)
			m.Prot[exectest.BufA] = prot
			err := Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(0)), Native: native}, m, new(Control), 1)
			var lost *gpu.LostError
			require.ErrorAs(t, err, &lost, access)
			require.Equal(t, gpu.LostAddress, lost.Cause)
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
