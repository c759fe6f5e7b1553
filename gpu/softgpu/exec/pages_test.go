package exec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/tlb"
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

// apart is accesses of lanes that lie in several pages each: words, pairs and vectors, one whose
// result is its own address, and those of some lanes.
const apart = `setp.lt.u32 %p2, %r2, 13; mov.u32 %r5, 0; mov.u32 %r6, 0;
L:	mad.lo.u32 %r7, %r2, 7, %r5; and.b32 %r7, %r7, 63; mul.wide.u32 %rd5, %r7, 4096; add.u64 %rd6, %rd1, %rd5;
	ld.global.u32 %r9, [%rd6+128]; add.u32 %r6, %r6, %r9;
	ld.global.v2.u32 {%r10, %r11}, [%rd6+256]; add.u32 %r6, %r6, %r11;
	mul.wide.u32 %rd8, %r2, 16; add.u64 %rd8, %rd6, %rd8;
	ld.global.v2.u32 {%r10, %r11}, [%rd8+512]; add.u32 %r6, %r6, %r11;
	ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd8+640]; xor.b32 %r6, %r6, %r13;
	@%p2 ld.global.u32 %r9, [%rd6+896]; add.u32 %r6, %r6, %r9;
	@!%p2 ld.global.v2.u32 {%r10, %r11}, [%rd8+1024]; add.u32 %r6, %r6, %r10;
	ld.global.u16 %r9, [%rd6+130]; add.u32 %r6, %r6, %r9;
	st.global.u32 [%rd6+1152], %r6;
	@%p2 st.global.u32 [%rd6+1280], %r5;
	st.global.v2.u32 [%rd8+1408], {%r5, %r6};
	cvt.u64.u32 %rd7, %r6; st.global.u64 [%rd8+1664], %rd7; @%p2 st.global.u64 [%rd8+1920], %rd7;
	ld.global.u64 %rd6, [%rd8+2176]; cvt.u32.u64 %r9, %rd6; add.u32 %r6, %r6, %r9;
	@%p2 ld.global.u64 %rd8, [%rd8+2432]; cvt.u32.u64 %r9, %rd8; add.u32 %r6, %r6, %r9;
	add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
	st.global.u32 [%rd4], %r6;`

// TestPagesChange compares accesses that change their pages with those of the interpreter, for
// a warp with all lanes and one with some.
func TestPagesChange(t *testing.T) {
	for name, code := range map[string]string{"jumping": jumping, "apart": apart} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, runOnPages(t, code, NativeNever), runOnPages(t, code, NativeAtOnce))
		})
	}
}

// runOnPages returns what a kernel leaves in its memory.
func runOnPages(t *testing.T, code string, when Native) []uint32 {
	const pages = 66
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", code), m), "k")
	writeAll(m, exectest.BufA, pageData(pages))
	require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(48, 1, 1), Native: when,
		Params: params(uint64(exectest.BufA), uint64(0), uint32(1000))}, m, new(Control), 1))
	return readAll[uint32](m, exectest.BufA, pages*1024)
}

func pageData(pages int) []uint32 {
	data := make([]uint32, pages*1024)
	for i := range data {
		data[i] = uint32(i) * 0x85ebca6b
	}
	return data
}

// mixed is an address space at BufA of pages of several sizes.
type mixed struct{ pages [][]byte }

func (m mixed) Lookup(va uint64) (page []byte, base uint64, p gpu.Prot, ok bool) {
	base = exectest.BufA
	for _, page := range m.pages {
		if va >= base && va-base < uint64(len(page)) {
			return page, base, gpu.ProtRead | gpu.ProtWrite, true
		}
		base += uint64(len(page))
	}
	return nil, 0, 0, false
}

// TestLanesInPagesOfSeveralSizes has lanes in pages of four sizes, and of six.
func TestLanesInPagesOfSeveralSizes(t *testing.T) {
	for name, sizes := range map[string][]int{
		"four": {4, 4, 8, 16, 32, 8, 8, 16, 32, 32, 32, 32, 32, 8, 4, 4, 16},
		"six":  {4, 4, 8, 16, 32, 64, 128, 4, 4, 8},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(when Native) (all []byte) {
				var m mixed
				data := pageData(74)
				for _, size := range sizes {
					page := make([]uint64, size<<10/8)
					for i := range page {
						page[i] = uint64(data[0]) | uint64(data[1])<<32
						data = data[2:]
					}
					m.pages = append(m.pages, tlb.WordBytes(page))
				}
				k := kernel(t, build(t, "k.ptx", source("", apart), exectest.NewMemory(4096)), "k")
				require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(48, 1, 1), Native: when,
					Params: params(uint64(exectest.BufA), uint64(0), uint32(1000))}, m, new(Control), 1))
				for _, page := range m.pages {
					all = append(all, page...)
				}
				return all
			}
			require.Equal(t, run(NativeNever), run(NativeAtOnce))
		})
	}
}

// TestLanesInPagesKeepRights has one lane of several pages in one that may only be read, or is not
// there, or at an address that is not aligned.
func TestLanesInPagesKeepRights(t *testing.T) {
	const bad = 9
	for name, c := range map[string]struct {
		access, wrong string
		threads       uint32
		cause         gpu.LostCause
	}{
		"store, read only":             {access: "st.global.u32 [%rd6], %r5;", wrong: "mov.u64 %rd5, 36864", threads: 32, cause: gpu.LostAddress},
		"store, read only, some lanes": {access: "st.global.u32 [%rd6], %r5;", wrong: "mov.u64 %rd5, 36864", threads: 20, cause: gpu.LostAddress},
		"load, not there":              {access: "ld.global.u32 %r6, [%rd6];", wrong: "mov.u64 %rd5, 0x100000", threads: 32, cause: gpu.LostAddress},
		"load, not there, some lanes":  {access: "ld.global.v2.u32 {%r6, %r7}, [%rd6];", wrong: "mov.u64 %rd5, 0x100000", threads: 20, cause: gpu.LostAddress},
		"load, not aligned":            {access: "ld.global.u32 %r6, [%rd6];", wrong: "mov.u64 %rd5, 2", threads: 32, cause: gpu.LostAlign},
		"store, not aligned":           {access: "st.global.v2.u32 [%rd6], {%r5, %r5};", wrong: "mov.u64 %rd5, 4", threads: 20, cause: gpu.LostAlign},
	} {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "k.ptx", source("", `mov.u32 %r5, 0; setp.eq.u32 %p2, %r2, 9;
			L:	mov.u32 %r8, %r2; @%p2 mov.u32 %r8, 40; mul.wide.u32 %rd5, %r8, 4096; setp.gt.u32 %p3, %r5, 900;
				and.pred %p3, %p3, %p2; @%p3 `+c.wrong+`; add.u64 %rd6, %rd1, %rd5;
				`+c.access+`
				add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;`), m), "k")
			m.Map(exectest.BufA, 41*4096)
			m.Prot[exectest.BufA+bad*4096] = gpu.ProtRead
			err := Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(c.threads, 1, 1), Native: NativeAtOnce,
				Params: params(uint64(exectest.BufA), uint64(0), uint32(1000))}, m, new(Control), 1)
			var lost *gpu.LostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, c.cause, lost.Cause)
		})
	}
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

// BenchmarkPagesOfLanes loads a row for each lane, of rows that are longer than a page.
func BenchmarkPagesOfLanes(b *testing.B) {
	const pitch = 1 << 16
	m := exectest.NewMemory(pitch)
	k := kernel(b, build(b, "k.ptx", source("", `mov.u32 %r5, 0; mov.u32 %r6, 0; mul.wide.u32 %rd5, %r2, 65536; add.u64 %rd6, %rd1, %rd5;
	L:	ld.global.u32 %r8, [%rd6]; add.u32 %r6, %r6, %r8;
		add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
		st.global.u32 [%rd4], %r6;`), m), "k")
	m.Map(exectest.BufA, 32*pitch)
	l := Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(100000))}
	start := cpuTime()
	for b.Loop() {
		require.NoError(b, Run(k, l, m, new(Control), 1))
	}
	b.ReportMetric((cpuTime()-start).Seconds()/float64(b.N)/100000*1e9, "ns/load")
}

// A guarded load into a register that all lanes share moves what the others keep, perhaps to where another register was:
// where the load leaves native code, as for a page that is new, that register has been saved.
func TestGuardedLoadsUnderPressure(t *testing.T) {
	const held = 30
	for name, load := range map[string]string{
		"word":     "@%p2 ld.global.u32 %x1, [%rd6];",
		"two":      "@%p2 ld.global.v2.u32 {%x1, %x2}, [%rd6];",
		"four":     "@%p2 ld.global.v4.u32 {%x1, %x2, %x3, %x4}, [%rd6];",
		"long":     "@%p2 ld.global.u64 %l1, [%rd6];",
		"byte":     "@%p2 ld.global.u8 %x1, [%rd6];",
		"volatile": "@%p2 ld.volatile.global.v2.u32 {%x1, %x2}, [%rd6];",
		"beside":   "@!%p2 bra M; ld.global.u32 %x1, [%rd6+4]; ld.global.u32 %x2, [%rd6+8]; M:",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after strings.Builder
			for i := range held {
				fmt.Fprintf(&before, "mad.lo.u32 %%h%d, %%r2, %d, %%r8;", i, 2*i+1)
				fmt.Fprintf(&after, "mad.lo.u32 %%r6, %%r6, 31, %%h%d;", i)
			}
			body := fmt.Sprintf(`.reg .b32 %%h<%d>; shl.b32 %%r7, %%r5, 12; and.b32 %%r7, %%r7, 0x7000; mad.lo.u32 %%r7, %%r2, 16, %%r7; cvt.u64.u32 %%rd6, %%r7; add.u64 %%rd6, %%rd6, %%rd1; add.u64 %%rd6, %%rd6, 8192; %s
				mov.u32 %%x1, 7; mov.u32 %%x2, 9; mov.u32 %%x3, 3; mov.u32 %%x4, 1; mov.u64 %%l1, 5; %s %s`, held, before.String(), load, after.String())
			requireFormOf(t, "", patternLoop(body), 32, 77, 128)
		})
	}
}
