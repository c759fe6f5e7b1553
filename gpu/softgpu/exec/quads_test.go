package exec

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// rowsOf is a kernel whose threads have rows of words in .shared, at the address in a register: it fills .shared, adds up
// words, makes sums of those before each, and writes all of .shared and the sums.
func rowsOf(address, register string) string {
	var b strings.Builder
	b.WriteString(`.shared .align 16 .b8 s[8192]; mov.u32 %r10, s; mov.u32 %r11, 0; mad.lo.u32 %r12, %r2, 4, %r10;
F:	mad.lo.u32 %r13, %r11, 64, %r2; mad.lo.u32 %r13, %r13, 77, 5; st.shared.u32 [%r12], %r13; add.u32 %r12, %r12, 256; add.u32 %r11, %r11, 1;
	setp.lt.u32 %p1, %r11, 32; @%p1 bra F; bar.sync 0; and.b32 %r14, %r2, 31; shr.u32 %r15, %r2, 5; ` + address + `
	cvt.u64.u32 %rd5, %r16; mov.u32 %r6, 0; mov.u32 %r5, 0; mov.f32 %f2, 0f7F800001;
L:	`)
	for w := range 8 {
		fmt.Fprintf(&b, "ld.shared.u32 %%r7, [%s+%d]; add.u32 %%r6, %%r6, %%r7; ", register, 4*w)
	}
	b.WriteString("bar.sync 0; mov.u32 %r8, %r6; ")
	for w := range 8 { // the last quad is not loaded whole
		if w < 7 {
			fmt.Fprintf(&b, "ld.shared.u32 %%r7, [%s+%d]; ", register, 64+4*w)
		}
		fmt.Fprintf(&b, "st.shared.u32 [%s+%d], %%r6; xor.b32 %%r6, %%r6, %%r7; ", register, 64+4*w)
	}
	for _, w := range []int{2, 3, 1, 0, 4, 5, 7, 6} { // what is stored is no address, and one NaN of many
		fmt.Fprintf(&b, "mul.f32 %%f1, %%f2, %%f2; st.shared.f32 [%s+%d], %%f1; ", register, 4*w)
	}
	b.WriteString(`bar.sync 0; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
	mov.u32 %r11, 0; mad.lo.u32 %r12, %r2, 4, %r10; st.global.u32 [%rd4], %r6; add.u32 %r8, %r8, %r6; st.global.u32 [%rd4+256], %r8;
G:	ld.shared.u32 %r13, [%r12]; add.u64 %rd4, %rd4, 512; st.global.u32 [%rd4], %r13; add.u32 %r12, %r12, 256; add.u32 %r11, %r11, 1;
	setp.lt.u32 %p1, %r11, 32; @%p1 bra G;`)
	return b.String()
}

// How the rows of lanes lie: equally far from one another, so that they overlap or not, or otherwise.
var rowStrides = map[string]string{
	"96 bytes":           "mad.lo.u32 %r16, %r14, 96, %r10;",
	"100 bytes":          "mad.lo.u32 %r16, %r14, 100, %r10; mad.lo.u32 %r16, %r15, 400, %r16;",
	"128 bytes":          "mad.lo.u32 %r16, %r14, 128, %r10;",
	"64 bytes, overlaps": "mad.lo.u32 %r16, %r14, 64, %r10;",
	"4 bytes":            "mad.lo.u32 %r16, %r14, 4, %r10;",
	"the same":           "mad.lo.u32 %r16, %r15, 256, %r10;",
	"backwards":          "sub.u32 %r16, 31, %r14; mad.lo.u32 %r16, %r16, 96, %r10;",
	"one lane elsewhere": "mad.lo.u32 %r16, %r14, 96, %r10; setp.eq.u32 %p2, %r14, 29; @%p2 add.u32 %r16, %r16, 4;",
	"by halves":          "shr.u32 %r17, %r14, 4; mad.lo.u32 %r16, %r17, 2000, %r10; and.b32 %r17, %r14, 15; mad.lo.u32 %r16, %r17, 96, %r16;",
}

// Rows of words get what the interpreter gives them, however they lie.
func TestQuads(t *testing.T) {
	for name, address := range rowStrides {
		for _, register := range []string{"%r16", "%rd5"} {
			t.Run(name+register, func(t *testing.T) {
				run := func(when Native) []uint32 {
					m := exectest.NewMemory(4096)
					k := kernel(t, build(t, "k.ptx", source("", rowsOf(address, register)), m), "k")
					m.Map(exectest.BufA, 5*4096)
					require.NoError(t, Run(k, Launch{Grid: grid(2, 1, 1), Block: grid(64, 1, 1), Native: when,
						Params: params(uint64(exectest.BufA), uint64(0), uint32(3))}, m, new(Control), 1))
					return readAll[uint32](m, exectest.BufA, 5*1024)
				}
				require.Equal(t, run(NativeNever), run(NativeAtOnce))
			})
		}
	}
}

// A row that lies beyond .shared, or not at a word, is the fault of the thread that the interpreter names.
func TestQuadsFault(t *testing.T) {
	for name, c := range map[string]struct {
		address string
		cause   gpu.LostCause
	}{
		"the last lane beyond the end": {address: "mad.lo.u32 %r16, %r14, 264, %r10;", cause: gpu.LostAddress},
		"all beyond the end":           {address: "mad.lo.u32 %r16, %r14, 96, %r10; add.u32 %r16, %r16, 8192;", cause: gpu.LostAddress},
		"before the beginning":         {address: "mad.lo.u32 %r16, %r14, 96, %r10; sub.u32 %r16, %r16, 96;", cause: gpu.LostAddress},
		"not at a word":                {address: "mad.lo.u32 %r16, %r14, 96, %r10; add.u32 %r16, %r16, 2;", cause: gpu.LostAlign},
		"some not at a word":           {address: "mad.lo.u32 %r16, %r14, 98, %r10;", cause: gpu.LostAlign},
	} {
		for _, register := range []string{"%r16", "%rd5"} {
			t.Run(name+register, func(t *testing.T) {
				run := func(when Native) *gpu.LostError {
					m := exectest.NewMemory(4096)
					k := kernel(t, build(t, "k.ptx", source("", rowsOf(c.address, register)), m), "k")
					m.Map(exectest.BufA, 5*4096)
					return lost(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Native: when,
						Params: params(uint64(exectest.BufA), uint64(0), uint32(3))}, m, new(Control), 1))
				}
				want := run(NativeNever)
				require.Equal(t, c.cause, want.Cause)
				require.Equal(t, want, run(NativeAtOnce))
			})
		}
	}
}
