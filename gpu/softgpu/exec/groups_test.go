package exec

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// groups is loads of two and four words, and of eight bytes, by blocks of eight by eight threads: rows of eight lanes,
// the same for eight lanes, ones that lie in neither way, at several offsets of one register in a loop, from .shared by
// addresses of both sizes and from global memory.
const groups = `.shared .align 16 .b8 s[4096];
	mov.u32 %r15, %tid.x; mov.u32 %r16, %tid.y; mov.u32 %r19, s; mad.lo.u32 %r17, %r16, 8, %r15; mad.lo.u32 %r18, %r17, 64, %r19;
	mul.lo.u32 %r5, %r17, 2654435761; st.shared.u32 [%r18], %r5; st.shared.u32 [%r18+4], %r17; xor.b32 %r5, %r5, %r17; st.shared.u32 [%r18+8], %r5;
	st.shared.u32 [%r18+12], %r15; st.shared.v4.u32 [%r18+16], {%r5, %r17, %r15, %r16}; st.shared.v4.u32 [%r18+32], {%r17, %r5, %r16, %r15}; st.shared.v4.u32 [%r18+48], {%r15, %r5, %r17, %r5};
	bar.sync 0;
	mad.lo.u32 %r18, %r15, 16, %r19; mad.lo.u32 %r16, %r16, SIDE, %r19; mad.lo.u32 %r17, %r15, 48, %r19; mul.wide.u32 %rd5, %r15, 8; mov.u64 %rd6, s; add.u64 %rd5, %rd5, %rd6; cvt.u64.u32 %rd7, %r16;
	mov.u32 %r5, 0; mov.u32 %r6, 1; mad.lo.u32 %r14, %r15, 16, 0; cvt.u64.u32 %rd8, %r14; ld.param.u64 %rd9, [a]; add.u64 %rd8, %rd8, %rd9;
L:	ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r18]; ACC ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r18+128]; ACC ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r18+END]; ACC
	ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r16]; ACC ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r16+64]; ACC ld.shared.v2.u32 {%r7, %r8}, [%r16+24]; ACC ld.shared.v2.u32 {%r7, %r8}, [%r16+8]; ACC
	ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r17]; ACC ld.shared.v4.u32 {%r7, %r8, %r9, %r10}, [%r17+16]; ACC
	ld.shared.v2.u32 {%r7, %r8}, [%rd5]; ACC ld.shared.v2.u32 {%r7, %r8}, [%rd5+72]; ACC ld.shared.u64 %rd10, [%rd5+8]; cvt.u32.u64 %r9, %rd10; shr.u64 %rd10, %rd10, 32; cvt.u32.u64 %r10, %rd10; ACC
	ld.shared.u64 %rd10, [%rd5+80]; cvt.u32.u64 %r7, %rd10; ld.shared.u64 %rd10, [%rd7+8]; cvt.u32.u64 %r8, %rd10; ACC ld.shared.u64 %rd10, [%rd7+16]; cvt.u32.u64 %r8, %rd10; ACC
	ld.global.v4.u32 {%r7, %r8, %r9, %r10}, [%rd8]; ACC ld.global.v2.u32 {%r7, %r8}, [%rd8+8]; ACC
	add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 20; @%p1 bra L;
	mov.u32 %r16, %tid.y; mad.lo.u32 %r17, %r16, 8, %r15; mul.wide.u32 %rd5, %r17, 4; add.u64 %rd5, %rd5, %rd9; st.global.u32 [%rd5+2048], %r6;`

// TestGroups compares loads by groups of eight lanes with those of the interpreter, also where a group is behind the end
// of .shared.
func TestGroups(t *testing.T) {
	for _, c := range []struct {
		side, end int // how far rows of lanes that load the same are apart, and where the last row begins
		cause     gpu.LostCause
	}{
		{side: 16, end: 3952},
		{side: 128, end: 3968},
		{side: 0, end: 3952},
		{side: 24, end: 3952, cause: gpu.LostAlign},
		{side: 16, end: 3984, cause: gpu.LostAddress},
		{side: 576, end: 128, cause: gpu.LostAddress},
	} {
		t.Run(fmt.Sprint(c.side, " ", c.end), func(t *testing.T) {
			run := func(when Native) ([]uint32, error) {
				m := exectest.NewMemory(4096)
				text := strings.NewReplacer("SIDE", fmt.Sprint(c.side), "END", fmt.Sprint(c.end),
					"ACC", "mad.lo.u32 %r6, %r6, 31, %r7; xor.b32 %r6, %r6, %r8; mad.lo.u32 %r6, %r6, 29, %r9; add.u32 %r6, %r6, %r10;").Replace(groups)
				k := kernel(t, build(t, "k.ptx", source("", text), m), "k")
				m.Map(exectest.BufA, 4096)
				for i := range uint32(512) {
					m.Write(exectest.BufA+uint64(4*i), binary.LittleEndian.AppendUint32(nil, i*i*2654435761))
				}
				err := Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(8, 8, 1), Native: when,
					Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1)
				return readAll[uint32](m, exectest.BufA, 1024), err
			}
			want, wrong := run(NativeNever)
			got, err := run(NativeAtOnce)
			require.Equal(t, wrong, err)
			require.Equal(t, want, got)
			if c.cause == 0 {
				require.NoError(t, err)
			} else {
				require.Equal(t, c.cause, lost(t, err).Cause)
			}
		})
	}
}
