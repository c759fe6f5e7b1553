package exec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// places is accesses of .shared by registers that several of them use: lanes that follow one another, with
// 4, 8 and 16 bytes, the same in each half of a warp, the same in all, in no order, by all lanes
// and by some; a register changes, and one is overwritten by what it loads.
const places = `.shared .align 16 .b8 s[4096];
	mul.lo.u32 %r15, %r2, 4; mul.lo.u32 %r16, %r2, 8; shr.u32 %r17, %r2, 4; mul.lo.u32 %r17, %r17, 64;
	mul.lo.u32 %r18, %r2, 7; and.b32 %r18, %r18, 31; mul.lo.u32 %r18, %r18, 4; mov.u32 %r19, s;
	add.u32 %r15, %r15, %r19; add.u32 %r16, %r16, %r19; add.u32 %r17, %r17, %r19; add.u32 %r18, %r18, %r19;
	mul.wide.u32 %rd5, %r2, 16; mov.u64 %rd6, s; add.u64 %rd5, %rd5, %rd6; cvt.u64.u32 %rd7, %r17;
	mov.u32 %r5, 0; mov.u32 %r6, %r2; setp.lt.u32 %p2, %r2, 13; and.b32 %r14, %r2, 31; setp.eq.u32 %p3, %r14, 3;
L:	st.shared.u32 [%r15], %r6; st.shared.u32 [%r15+512], %r5; @%p2 st.shared.u32 [%r15+1024], %r6;
	ld.shared.u32 %r7, [%r15+4]; ld.shared.u32 %r8, [%r15+508]; add.u32 %r6, %r7, %r8;
	ld.shared.u32 %r7, [%r17]; ld.shared.u32 %r8, [%r17+4]; ld.shared.v2.u32 {%r9, %r10}, [%r17+8]; xor.b32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8; xor.b32 %r6, %r6, %r10;
	ld.shared.u32 %r7, [%r19]; ld.shared.u32 %r8, [%r19+8]; add.u32 %r6, %r6, %r7; xor.b32 %r6, %r6, %r8;
	st.shared.v2.u32 [%r16+1536], {%r6, %r5}; ld.shared.v2.u32 {%r7, %r8}, [%r16+1544]; ld.shared.u32 %r9, [%r16+1536]; add.u32 %r6, %r6, %r8; add.u32 %r6, %r6, %r9;
	ld.shared.u32 %r7, [%r18]; ld.shared.u32 %r8, [%r18+64]; add.u32 %r6, %r6, %r7; xor.b32 %r6, %r6, %r8; st.shared.u32 [%r18+128], %r6; st.shared.u32 [%r17+192], %r6;
	st.shared.v4.u32 [%rd5+2304], {%r6, %r5, %r7, %r8}; ld.shared.v4.u32 {%r9, %r10, %r11, %r12}, [%rd5+2320]; ld.shared.u64 %rd8, [%rd5+2304]; cvt.u32.u64 %r13, %rd8;
	xor.b32 %r6, %r6, %r12; add.u32 %r6, %r6, %r13; ld.shared.u64 %rd8, [%rd7+512]; cvt.u32.u64 %r13, %rd8; ld.shared.u64 %rd8, [%rd7+520]; add.u32 %r6, %r6, %r13;
	@%p3 add.u32 %r17, %r17, 4; ld.shared.u32 %r7, [%r17]; ld.shared.u32 %r8, [%r17+4]; @%p3 sub.u32 %r17, %r17, 4; add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r8;
	and.b32 %r14, %r6, 124; add.u32 %r14, %r14, %r19; ld.shared.u32 %r7, [%r14]; ld.shared.u32 %r14, [%r14+4]; xor.b32 %r6, %r6, %r7; add.u32 %r6, %r6, %r14;
	add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
	st.global.u32 [%rd4], %r6; ld.shared.u32 %r7, [%r15]; st.global.u32 [%rd4+1024], %r7; ld.shared.u32 %r7, [%r15+2048]; st.global.u32 [%rd4+2048], %r7;`

// TestSharedPlaces compares compiled accesses of .shared with those of the interpreter.
func TestSharedPlaces(t *testing.T) {
	run := func(when Native) []uint32 {
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", source("", places), m), "k")
		m.Map(exectest.BufA, 4096)
		require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(48, 1, 1), Native: when,
			Params: params(uint64(exectest.BufA), uint64(0), uint32(300))}, m, new(Control), 1))
		return readAll[uint32](m, exectest.BufA, 1024)
	}
	require.Equal(t, run(NativeNever), run(NativeAtOnce))
}

// TestSharedPlacesFault has accesses behind the end of .shared, before its beginning and not aligned, by a
// register of which native code knows how its lanes lie.
func TestSharedPlacesFault(t *testing.T) {
	for name, c := range map[string]struct {
		access string
		cause  gpu.LostCause
	}{
		"row behind the end":            {access: "ld.shared.u32 %r7, [%r15+388];", cause: gpu.LostAddress},
		"row before the beginning":      {access: "ld.shared.u32 %r7, [%r15+-4];", cause: gpu.LostAddress},
		"row not aligned":               {access: "st.shared.u32 [%r15+2], %r7;", cause: gpu.LostAlign},
		"vectors behind the end":        {access: "ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r16+16];", cause: gpu.LostAddress},
		"halves behind the end":         {access: "ld.shared.u32 %r7, [%r17+496];", cause: gpu.LostAddress},
		"halves not aligned":            {access: "ld.shared.v2.u32 {%r7, %r8}, [%r17+4];", cause: gpu.LostAlign},
		"all lanes behind the end":      {access: "ld.shared.u32 %r7, [%r19+512];", cause: gpu.LostAddress},
		"all lanes far behind the end":  {access: "ld.shared.u32 %r7, [%r19+4194304];", cause: gpu.LostAddress},
		"all lanes not aligned":         {access: "ld.shared.u32 %r7, [%r19+1];", cause: gpu.LostAlign},
		"row of several behind the end": {access: "ld.shared.u32 %r7, [%r15]; ld.shared.u32 %r7, [%r15+380]; ld.shared.u32 %r7, [%r15+8]; ld.shared.u32 %r7, [%r15+388]; trap;", cause: gpu.LostAddress},
		"row of several before it":      {access: "st.shared.u32 [%r15+8], %r7; st.shared.u32 [%r15+-4], %r7; trap;", cause: gpu.LostAddress},
		"halves of several behind it":   {access: "ld.shared.u32 %r7, [%r17+4]; ld.shared.u32 %r7, [%r17+8]; ld.shared.u32 %r7, [%r17+496]; trap;", cause: gpu.LostAddress},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(when Native) *gpu.LostError {
				m := exectest.NewMemory(4096)
				k := kernel(t, build(t, "k.ptx", source("", `.shared .align 16 .b8 s[512]; mov.u32 %r19, s; mul.lo.u32 %r15, %r2, 4; add.u32 %r15, %r15, %r19;
					mul.lo.u32 %r16, %r2, 16; add.u32 %r16, %r16, %r19; and.b32 %r17, %r2, 16; add.u32 %r17, %r17, %r19;
					ld.shared.u32 %r7, [%r15]; ld.shared.u32 %r7, [%r15+384]; ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r16];
					ld.shared.u32 %r7, [%r17]; ld.shared.u32 %r7, [%r17+492]; ld.shared.u32 %r7, [%r19+508]; `+c.access), m), "k")
				err := Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Native: when,
					Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1)
				var lost *gpu.LostError
				require.ErrorAs(t, err, &lost)
				return lost
			}
			lost := run(NativeAtOnce)
			require.Equal(t, c.cause, lost.Cause)
			require.Equal(t, run(NativeNever), lost)
		})
	}
}

// sharedRows is accesses of .shared by registers of which native code knows that the lanes follow one another: of 4, 8 and 16
// bytes, by 32 and 64 bits, across barriers, in a block of 64 threads. ACCESS is by the row of 4 bytes at %rd5 and %r15, of 8
// at %rd6, of 16 at %rd7.
const sharedRows = `.shared .align 16 .b8 s[1024];
	mov.u64 %rd8, s; mul.wide.u32 %rd5, %r2, 4; add.u64 %rd5, %rd5, %rd8; mul.wide.u32 %rd6, %r2, 8; add.u64 %rd6, %rd6, %rd8;
	mul.wide.u32 %rd7, %r2, 16; add.u64 %rd7, %rd7, %rd8; mov.u32 %r15, s; mad.lo.u32 %r15, %r2, 4, %r15; mad.lo.u32 %r6, %r2, 0x9e3779b1, 7; mov.u32 %r5, 0;
L:	add.u32 %r7, %r6, 1; add.u32 %r8, %r6, 2; add.u32 %r9, %r6, 3; st.shared.v4.u32 [%rd7], {%r6, %r7, %r8, %r9}; bar.sync 0;
	ld.shared.u32 %r10, [%rd5]; ld.shared.u32 %r11, [%rd5+768]; mad.lo.u32 %r6, %r6, 3, %r10; ld.shared.u32 %r12, [%r15+252]; xor.b32 %r6, %r6, %r11; add.u32 %r6, %r6, %r12; bar.sync 0;
	st.shared.u32 [%rd5+256], %r6; st.shared.u32 [%r15], %r10; bar.sync 0; ld.shared.v2.u32 {%r10, %r11}, [%rd6]; ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [%rd7]; mad.lo.u32 %r6, %r6, 5, %r10; bar.sync 0;
	xor.b32 %r6, %r6, %r12; add.u32 %r6, %r6, %r14; st.shared.v2.u32 [%rd6+512], {%r6, %r7}; ld.shared.u64 %rd6, [%rd6+512]; cvt.u32.u64 %r10, %rd6; add.u32 %r6, %r6, %r10; mul.wide.u32 %rd6, %r2, 8; add.u64 %rd6, %rd6, %rd8;
	bar.sync 0; ACCESS add.u32 %r6, %r6, %r7; bar.sync 0; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 3; @%p1 bra L; st.global.u32 [%rd4], %r6;`

// TestSharedRows compares such accesses with those of the interpreter, also where only some lanes' are beyond .shared, or all
// are not aligned.
func TestSharedRows(t *testing.T) {
	for access, cause := range map[string]gpu.LostCause{
		"":                                                       gpu.LostNone,
		"ld.shared.u32 %r7, [%rd5+768];":                         gpu.LostNone,
		"ld.shared.u32 %r7, [%rd5+772];":                         gpu.LostAddress, // the last lane
		"ld.shared.u32 %r7, [%r15+772];":                         gpu.LostAddress,
		"st.shared.u32 [%rd5+836], %r6;":                         gpu.LostAddress, // half of a warp
		"st.shared.u32 [%r15+-4], %r6;":                          gpu.LostAddress, // the first lane
		"ld.shared.u32 %r7, [%rd5+-128];":                        gpu.LostAddress, // the first warp
		"ld.shared.u32 %r7, [%rd5+0x7fffffff];":                  gpu.LostAlign,
		"ld.shared.u32 %r7, [%rd5+2];":                           gpu.LostAlign,
		"st.shared.v2.u32 [%rd6+4], {%r6, %r7};":                 gpu.LostAlign,
		"ld.shared.v2.u32 {%r7, %r8}, [%rd6+520];":               gpu.LostAddress,
		"ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%rd7+16];":     gpu.LostAddress,
		"ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%rd7+8];":      gpu.LostAlign,
		"ld.shared.u64 %rd9, [%rd6+512]; cvt.u32.u64 %r7, %rd9;": gpu.LostNone,
	} {
		t.Run(access, func(t *testing.T) {
			run := func(when Native) ([]uint32, error) {
				m := exectest.NewMemory(4096)
				k := kernel(t, build(t, "k.ptx", source("", strings.Replace(sharedRows, "ACCESS", access, 1)), m), "k")
				m.Map(exectest.BufA, 4096)
				err := Run(k, Launch{Grid: grid(3, 1, 1), Block: grid(64, 1, 1), Native: when, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1)
				return readAll[uint32](m, exectest.BufA, 1024), err
			}
			want, wrong := run(NativeNever)
			got, err := run(NativeAtOnce)
			if cause == gpu.LostNone {
				require.NoError(t, err)
				require.NoError(t, wrong)
				require.Equal(t, want, got)
				return
			}
			require.Equal(t, cause, lost(t, err).Cause)
			require.Equal(t, cause, lost(t, wrong).Cause) // which warp comes first behind a barrier is open
			require.Equal(t, lost(t, wrong).Detail, lost(t, err).Detail)
		})
	}
}
