package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// An array of 64 words in .local, and accesses of it by all lanes and by some: of one word, of one
// for each half of the warp, of another for each lane, and of parts of words.
const (
	array       = ".local .align 8 .b8 words[256];"
	arrayAccess = `mov.u64 %rd9, words; setp.lt.u32 %p2, %r2, 13; mov.u32 %r5, 0; mov.u32 %r6, 0;
L:	mul.lo.u32 %r7, %r5, 0x9e3779b1; shr.u32 %r7, %r7, 26; mul.wide.u32 %rd5, %r7, 4; add.u64 %rd6, %rd9, %rd5;
	ld.local.u32 %r9, [%rd6]; add.u32 %r6, %r6, %r9;
	mad.lo.u32 %r7, %r2, %r5, %r6; st.local.u32 [%rd6], %r7;
	@%p2 ld.local.u32 %r9, [%rd6]; add.u32 %r6, %r6, %r9;
	@!%p2 st.local.u32 [%rd6], %r6;
	and.b32 %r8, %r2, 16; mad.lo.u32 %r8, %r8, 3, %r5; and.b32 %r8, %r8, 63; mul.wide.u32 %rd5, %r8, 4; add.u64 %rd6, %rd9, %rd5;
	ld.local.u32 %r9, [%rd6]; add.u32 %r6, %r6, %r9; st.local.u32 [%rd6], %r5;
	mad.lo.u32 %r8, %r2, 7, %r5; and.b32 %r8, %r8, 31; mul.wide.u32 %rd5, %r8, 4; add.u64 %rd6, %rd9, %rd5;
	ld.local.u32 %r9, [%rd6+128]; xor.b32 %r6, %r6, %r9;
	st.local.u32 [%rd6+64], %r6; @%p2 st.local.u32 [%rd6], %r5; @%p2 ld.local.u32 %r9, [%rd6+4]; add.u32 %r6, %r6, %r9;
	ld.local.u8 %r9, [%rd6+3]; add.u32 %r6, %r6, %r9; ld.local.s16 %r9, [%rd6+2]; add.u32 %r6, %r6, %r9;
	add.u32 %r8, %r5, %r2; and.b32 %r8, %r8, 127; cvt.u64.u32 %rd5, %r8; add.u64 %rd7, %rd9, %rd5; ld.local.u8 %r9, [%rd7]; add.u32 %r6, %r6, %r9;
	@%p2 ld.local.s8 %r9, [%rd7+1]; add.u32 %r6, %r6, %r9; st.local.u8 [%rd7], %r6;
	cvt.u64.u32 %rd8, %r6; and.b64 %rd5, %rd5, 120; add.u64 %rd6, %rd9, %rd5;
	st.local.u64 [%rd6], %rd8; ld.local.u64 %rd8, [%rd6+8]; cvt.u32.u64 %r9, %rd8; add.u32 %r6, %r6, %r9;
	add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
	st.global.u32 [%rd4], %r6;`
)

// TestLocal compares compiled accesses of .local with those of the interpreter, for a warp with all
// lanes and one with some.
func TestLocal(t *testing.T) {
	run := func(when Native) []uint32 {
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", source("", array+arrayAccess), m), "k")
		m.Map(exectest.BufA, 4096)
		require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(48, 1, 1), Native: when,
			Params: params(uint64(exectest.BufA), uint64(0), uint32(300))}, m, new(Control), 1))
		return readAll[uint32](m, exectest.BufA, 48)
	}
	require.Equal(t, run(NativeNever), run(NativeAtOnce))
}

// TestLocalFault has accesses behind the end of .local, before its beginning and not aligned, by all
// lanes and by one.
func TestLocalFault(t *testing.T) {
	for name, access := range map[string]string{
		"all behind the end":       "ld.local.u32 %r7, [%rd5+256];",
		"all far behind the end":   "st.local.u32 [%rd5+1125899906842624], %r7;",
		"all before the beginning": "ld.local.u32 %r7, [%rd5+-4];",
		"all not aligned":          "st.local.u32 [%rd5+2], %r7;",
		"a byte behind the end":    "ld.local.u8 %r7, [%rd5+256];",
		"one behind the end":       "ld.local.u32 %r7, [%rd6+256];",
		"one not aligned":          "st.local.u32 [%rd7+4], %r7;",
		"one of some behind":       "@%p2 st.local.u32 [%rd6+252], %r7;",
		"a half word not aligned":  "ld.local.u16 %r7, [%rd7+4];",
	} {
		t.Run(name, func(t *testing.T) {
			run := func(when Native) *gpu.LostError {
				m := exectest.NewMemory(4096)
				k := kernel(t, build(t, "k.ptx", source("", array+`mov.u64 %rd5, words; setp.eq.u32 %p2, %r2, 5; selp.u64 %rd6, 4, 0, %p2; add.u64 %rd6, %rd6, %rd5;
					selp.u64 %rd7, 1, 0, %p2; add.u64 %rd7, %rd7, %rd5; st.local.u32 [%rd5], %r2; ld.local.u32 %r7, [%rd6+248]; `+access), m), "k")
				err := Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Native: when,
					Params: params(uint64(exectest.BufA), uint64(0), uint32(1))}, m, new(Control), 1)
				require.Error(t, err)
				return lost(t, err)
			}
			require.Equal(t, run(NativeNever), run(NativeAtOnce))
		})
	}
}

// BenchmarkLocal has each thread add up an array of its own again and again, by one index and by
// one that differs between lanes.
func BenchmarkLocal(b *testing.B) {
	for name, index := range map[string]string{"same": "0", "own": "%r2"} {
		b.Run(name, func(b *testing.B) {
			m := exectest.NewMemory(4096)
			k := kernel(b, build(b, "k.ptx", source("", array+`mov.u64 %rd9, words; mov.u32 %r8, `+index+`; mov.u32 %r6, 0;
L:	and.b32 %r7, %r8, 63; mul.wide.u32 %rd5, %r7, 4; add.u64 %rd6, %rd9, %rd5;
	ld.local.u32 %r9, [%rd6]; add.u32 %r6, %r6, %r9; st.local.u32 [%rd6], %r6;
	add.u32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, %r1; @%p1 bra L;
	st.global.u32 [%rd4], %r6;`), m), "k")
			m.Map(exectest.BufA, 4096)
			l := Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Native: NativeHot, Params: params(uint64(exectest.BufA), uint64(0), uint32(100000))}
			for b.Loop() {
				require.NoError(b, Run(k, l, m, new(Control), 1))
			}
		})
	}
}
