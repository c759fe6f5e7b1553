package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// jumping loads and stores in pages of 4 KiB in no order: by all lanes, by some, of one address,
// and of lanes that lie in two pages. Each adds to what it found.
const jumping = `setp.lt.u32 %p2, %r2, 13; mov.u32 %r5, 0; mov.u32 %r6, 0;
L:	mul.lo.u32 %r7, %r5, 0x9e3779b1; shr.u32 %r7, %r7, 26; mul.wide.u32 %rd5, %r7, 4096;
	add.u64 %rd7, %rd1, %rd5; add.u64 %rd6, %rd4, %rd5;
	and.b32 %r8, %r5, 7; setp.eq.u32 %p3, %r8, 0; @%p3 add.u64 %rd6, %rd6, 4032;
	ld.global.u32 %r9, [%rd6]; add.u32 %r6, %r6, %r9;
	@%p2 ld.global.u32 %r9, [%rd6+192]; add.u32 %r6, %r6, %r9;
	ld.global.u32 %r9, [%rd7+1024]; add.u32 %r6, %r6, %r9;
	ld.global.v2.u32 {%r10, %r11}, [%rd7+2048]; add.u32 %r6, %r6, %r11;
	@%p2 st.global.u32 [%rd6+512], %r6;
	st.global.u32 [%rd6+1536], %r5;
	add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
	st.global.u32 [%rd4], %r6;`

// TestPagesChange compares accesses that change their pages with those of the interpreter, for
// a warp with all lanes and one with some.
func TestPagesChange(t *testing.T) {
	const pages = 66
	run := func(when Native) []uint32 {
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", source("", jumping), m), "k")
		data := make([]uint32, pages*1024)
		for i := range data {
			data[i] = uint32(i) * 0x85ebca6b
		}
		writeAll(m, exectest.BufA, data)
		require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(48, 1, 1), Native: when,
			Params: params(uint64(exectest.BufA), uint64(0), uint32(1000))}, m, new(Control), 1))
		return readAll[uint32](m, exectest.BufA, len(data))
	}
	require.Equal(t, run(NativeNever), run(NativeAtOnce))
}

// TestPagesKeepRights stores to a page that may only be read, and which loads of the same kernel
// have found.
func TestPagesKeepRights(t *testing.T) {
	for name, threads := range map[string]uint32{"all lanes": 32, "some lanes": 7} {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "k.ptx", source("", `mov.u32 %r5, 0;
			L:	and.b32 %r6, %r5, 1; mul.wide.u32 %rd5, %r6, 4096; add.u64 %rd6, %rd4, %rd5;
				ld.global.u32 %r7, [%rd6];
				setp.lt.u32 %p2, %r5, 40; @%p2 mov.u64 %rd6, %rd4;
				st.global.u32 [%rd6], %r7;
				add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;`), m), "k")
			m.Map(exectest.BufA, 8192)
			m.Prot[exectest.BufA+4096] = gpu.ProtRead
			err := Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(threads, 1, 1), Native: NativeAtOnce,
				Params: params(uint64(exectest.BufA), uint64(0), uint32(1000))}, m, new(Control), 1)
			var lost *gpu.LostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, gpu.LostAddress, lost.Cause)
			require.True(t, lost.Write)
		})
	}
}

// BenchmarkPages loads a column of a matrix whose rows are longer than a page.
func BenchmarkPages(b *testing.B) {
	const rows, pitch = 64, 1 << 16
	m := exectest.NewMemory(pitch)
	k := kernel(b, build(b, "k.ptx", source("", `mov.u32 %r5, 0; mov.u32 %r6, 0;
	L:	and.b32 %r7, %r5, 15; mul.wide.u32 %rd5, %r7, 65536; add.u64 %rd6, %rd4, %rd5;
		ld.global.u32 %r8, [%rd6]; add.u32 %r6, %r6, %r8;
		add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
		st.global.u32 [%rd4], %r6;`), m), "k")
	m.Map(exectest.BufA, rows*pitch)
	l := Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(100000))}
	start := cpuTime()
	for b.Loop() {
		require.NoError(b, Run(k, l, m, new(Control), 1))
	}
	b.ReportMetric((cpuTime()-start).Seconds()/float64(b.N)/100000*1e9, "ns/load")
}
