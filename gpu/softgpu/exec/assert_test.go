package exec

import (
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// asserting is what nvcc makes of assert(threadIdx.x < n).
const asserting = `.version 7.0
.target sm_70
.address_size 64
.extern .func __assertfail (.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 n, .param .b64 s) .noreturn;
.global .align 1 .b8 message[6] = {120, 32, 60, 32, 110, 0};
.global .align 1 .b8 file[5] = {97, 46, 99, 117, 0};
.global .align 1 .b8 name[9] = {118, 111, 105, 100, 32, 107, 40, 41, 0};
.visible .entry k(.param .u32 n)
{
	.reg .b32 %r<4>; .reg .b64 %d<8>; .reg .pred %p;
	ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x; setp.lt.u32 %p, %r2, %r1; @%p bra done;
	mov.u64 %d1, message; cvta.global.u64 %d2, %d1; mov.u64 %d3, file; cvta.global.u64 %d4, %d3; mov.u64 %d5, name; cvta.global.u64 %d6, %d5;
	{ .param .b64 p0; .param .b64 p1; .param .b32 p2; .param .b64 p3; .param .b64 p4;
	st.param.b64 [p0], %d2; st.param.b64 [p1], %d4; st.param.b32 [p2], 47; st.param.b64 [p3], %d6; st.param.b64 [p4], 1;
	call.uni __assertfail, (p0, p1, p2, p3, p4); }
done:
	ret;
}
`

func TestAssert(t *testing.T) {
	for name, native := range map[string]Native{"interpreted": NativeNever, "native": NativeAtOnce} {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "k.ptx", []byte(asserting), m), "k")
			var mu sync.Mutex
			var lines []string
			l := Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint32(29)), Native: native, Print: func(text string) {
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, text)
			}}
			e := lost(t, Run(k, l, m, new(Control), 1))
			require.Equal(t, gpu.LostTrap, e.Cause)
			require.Contains(t, e.Detail, "assertion failed")
			sort.Strings(lines)
			require.Equal(t, strings.ReplaceAll(`MARKa.cu:47: void k(): block: [0,0,0], thread: [29,0,0] Assertion ~x < n~ failed.
MARKa.cu:47: void k(): block: [0,0,0], thread: [30,0,0] Assertion ~x < n~ failed.
MARKa.cu:47: void k(): block: [0,0,0], thread: [31,0,0] Assertion ~x < n~ failed.
`, "~", "`"), strings.ReplaceAll(strings.Join(lines, ""), gpu.StderrMark, "MARK"))
			lines = nil
			l.Params = params(uint32(32))
			require.NoError(t, Run(k, l, m, new(Control), 1))
			require.Empty(t, lines)
		})
	}
}
