package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// keptBodies compute an address in .shared once a round, %r12, of which the lanes of a warp lie differently in each, and
// use it between barriers. %r5 is the round, %r9 counts in it; each warp has 768 bytes for itself.
var keptBodies = map[string]string{
	"rows, one, and scattered": keptLoop("", "st.shared.u32 [%r12], %r6; bar.sync 0; ld.shared.u32 %r7, [%r12+128]; ld.shared.u32 %r8, [%r12]; "),
	"a guard":                  keptLoop("", "@%p2 st.shared.u32 [%r12], %r6; bar.sync 0; @%p2 ld.shared.u32 %r7, [%r12+128]; @!%p2 ld.shared.u32 %r8, [%r12+4]; "),
	"lanes part":               keptLoop("", "@%p2 bra ODD; st.shared.u32 [%r12+64], %r6; xor.b32 %r6, %r6, 5; bra.uni BOTH; ODD: st.shared.u32 [%r12], %r6; ld.shared.u32 %r8, [%r12]; BOTH: bar.sync 0; ld.shared.u32 %r7, [%r12+64]; "),
	"lanes stay apart":         keptLoop("", "@%p2 bra ODD; "+longSide+"st.shared.u32 [%r12+64], %r6; bra.uni BOTH; ODD: "+longSide+"st.shared.u32 [%r12], %r6; ld.shared.u32 %r8, [%r12]; BOTH: bar.sync 0; ld.shared.u32 %r7, [%r12+64]; "),
	"pairs":                    keptLoop("shl.b32 %r10, %r10, 1; ", "st.shared.v2.u32 [%r12], {%r6, %r5}; bar.sync 0; ld.shared.v2.u32 {%r7, %r8}, [%r12]; "),
	"some lanes compute it":    keptLoop("@%p2 ", "st.shared.u32 [%r12], %r6; bar.sync 0; ld.shared.u32 %r7, [%r12+128]; "),
	"beyond for idle lanes":    keptLoop("@%p2 mov.u32 %r10, 1073741824; ", "@!%p2 st.shared.u32 [%r12], %r6; bar.sync 0; @!%p2 ld.shared.u32 %r7, [%r12+128]; "),
}

// longSide is more than lanes that part run together.
const longSide = "add.u32 %r6, %r6, 1; xor.b32 %r6, %r6, 3; add.u32 %r6, %r6, 1; xor.b32 %r6, %r6, 3; add.u32 %r6, %r6, 1; xor.b32 %r6, %r6, 3; add.u32 %r6, %r6, 1; xor.b32 %r6, %r6, 3; "

func keptLoop(address, use string) string {
	return `.shared .align 8 .b8 s[4096]; .reg .b32 %x<8>;
	mov.u32 %r5, 0; mov.u32 %r6, %r2; mov.u32 %r7, 0; mov.u32 %r8, 0;
	mov.u32 %x0, s; shr.u32 %x1, %r2, 5; mad.lo.u32 %x0, %x1, 768, %x0; and.b32 %x2, %r2, 31;
	and.b32 %x3, %r2, 5; setp.eq.u32 %p2, %x3, 4;
L:	mul.lo.u32 %r10, %x2, %r5; and.b32 %r10, %r10, 63; shl.b32 %r10, %r10, 2; ` + address + `add.u32 %r12, %x0, %r10;
	mov.u32 %r9, 0;
IN:	bar.sync 0; ` + use + `mad.lo.u32 %r6, %r6, 3, %r7; add.u32 %r6, %r6, %r8; add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, 3; @%p1 bra IN;
	add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r1; @%p1 bra L;
	st.global.u32 [%rd4], %r6; ret;`
}

func runKept(t *testing.T, body string, rounds uint32, when Native) ([]uint32, error) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", source("", body), m), "k")
	m.Map(exectest.BufA, 4096)
	err := Run(k, Launch{Grid: grid(3, 1, 1), Block: grid(160, 1, 1), Native: when, Params: params(uint64(exectest.BufA), uint64(0), rounds)}, m, new(Control), 1)
	return readAll[uint32](m, exectest.BufA, 160), err
}

// TestKept compares accesses by registers whose places native code keeps with those of the interpreter.
func TestKept(t *testing.T) {
	for name, body := range keptBodies {
		t.Run(name, func(t *testing.T) {
			want, err := runKept(t, body, 7, NativeNever)
			require.NoError(t, err)
			got, err := runKept(t, body, 7, NativeAtOnce)
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// A register that comes to lie beyond .shared, or between two places, after many accesses that were inside is a fault.
func TestKeptFault(t *testing.T) {
	for name, c := range map[string]struct {
		address string
		cause   gpu.LostCause
	}{
		"beyond":     {address: "setp.eq.u32 %p3, %r5, 5; @%p3 add.u32 %r10, %r10, 4096; ", cause: gpu.LostAddress},
		"below":      {address: "setp.eq.u32 %p3, %r5, 5; @%p3 sub.u32 %r10, %r10, 65536; ", cause: gpu.LostAddress},
		"one lane":   {address: "setp.eq.u32 %p3, %r2, 77; setp.eq.and.u32 %p3, %r5, 5, %p3; @%p3 add.u32 %r10, %r10, 4096; ", cause: gpu.LostAddress},
		"misaligned": {address: "setp.eq.u32 %p3, %r5, 5; @%p3 add.u32 %r10, %r10, 2; ", cause: gpu.LostAlign},
	} {
		t.Run(name, func(t *testing.T) {
			body := keptLoop(c.address, "st.shared.u32 [%r12], %r6; bar.sync 0; ld.shared.u32 %r7, [%r12]; ")
			_, err := runKept(t, body, 7, NativeNever)
			want := lost(t, err)
			require.Equal(t, c.cause, want.Cause)
			_, err = runKept(t, body, 7, NativeAtOnce)
			require.Equal(t, want, lost(t, err))
		})
	}
}
