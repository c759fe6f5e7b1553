package exec

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// handOver has block 0 write vectors of one number in all elements, a place for each lane, and the
// others read them and count those whose elements differ. The last argument is how the elements
// are put together.
const handOver = `.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 out)
{
	.reg .b64 %%d<9>; .reg .b32 %%r<9>; .reg .b64 %%x<5>; .reg .b32 %%w<5>; .reg .pred %%p, %%q;
	ld.param.u64 %%d1, [a]; ld.param.u64 %%d2, [out];
	mov.u32 %%r1, %%tid.x; mad.wide.u32 %%d1, %%r1, 16, %%d1;
	mov.u32 %%r2, %%ctaid.x; mov.u32 %%r3, 0; mov.u32 %%r4, 0;
	setp.ne.u32 %%p, %%r2, 0; @%%p bra read;
write:
	add.u32 %%r3, %%r3, 1; cvt.u64.u32 %%x1, %%r3;
	st.%[1]s.%[2]s [%%d1], %[3]s;
	setp.lt.u32 %%p, %%r3, 20000; @%%p bra write;
	ret;
read:
	add.u32 %%r3, %%r3, 1;
	ld.%[4]s.%[2]s %[5]s, [%%d1];
	%[6]s
	@%%q add.u32 %%r4, %%r4, 1;
	setp.lt.u32 %%p, %%r3, 20000; @%%p bra read;
	atom.global.add.u32 %%r5, [%%d2], %%r4;
	ret;
}
`

// A vector that blocks hand over is written and read at once, as CUB's scans need it.
func TestVectorsAreWhole(t *testing.T) {
	two := "setp.ne.u32 %q, %w1, %w2;"
	four := "xor.b32 %w1, %w1, %w2; xor.b32 %w2, %w2, %w3; xor.b32 %w3, %w3, %w4; or.b32 %w1, %w1, %w3; or.b32 %w1, %w1, %w2; setp.ne.u32 %q, %w1, 0;"
	for _, c := range []struct{ store, load, kind, from, to, differ string }{
		{store: "relaxed.gpu.global", load: "relaxed.gpu.global", kind: "v2.u32", from: "{%r3, %r3}", to: "{%w1, %w2}", differ: two},
		{store: "release.gpu", load: "acquire.gpu", kind: "v4.u32", from: "{%r3, %r3, %r3, %r3}", to: "{%w1, %w2, %w3, %w4}", differ: four},
		{store: "volatile.global", load: "volatile.global", kind: "v2.u64", from: "{%x1, %x1}", to: "{%x2, %x3}", differ: "setp.ne.u64 %q, %x2, %x3;"},
		{store: "global.cg", load: "global.cg", kind: "v2.u64", from: "{%x1, %x1}", to: "{%x2, %x3}", differ: "setp.ne.u64 %q, %x2, %x3;"},
	} {
		for name, native := range map[string]Native{"interpreted": NativeNever, "native": NativeAtOnce} {
			t.Run(c.load+"."+c.kind+"/"+name, func(t *testing.T) {
				m := exectest.NewMemory(4096)
				src := fmt.Sprintf(handOver, c.store, c.kind, c.from, c.load, c.to, c.differ)
				k := kernel(t, build(t, "k.ptx", []byte(src), m), "k")
				m.Map(exectest.BufA, 4096)
				m.Map(exectest.BufB, 4096)
				l := Launch{Grid: grid(4, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA), uint64(exectest.BufB)), Native: native}
				require.NoError(t, Run(k, l, m, new(Control), 4))
				require.Zero(t, readAll[uint32](m, exectest.BufB, 1)[0], "vectors whose elements differ")
				require.EqualValues(t, 20000, readAll[uint32](m, exectest.BufA, 1)[0])
			})
		}
	}
}

// Vectors that are one access go where others go, and fail as they do.
func TestWholeVectorsElsewhere(t *testing.T) {
	const src = `.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a)
{
	.reg .b64 %d<9>; .reg .b32 %r<9>; .shared .align 16 .b8 s[512]; .reg .pred %p;
	ld.param.u64 %d1, [a]; mov.u32 %r1, %tid.x; mad.wide.u32 %d1, %r1, 16, %d1;
	mov.u64 %d2, s; cvta.shared.u64 %d2, %d2; mad.wide.u32 %d2, %r1, 16, %d2;
	setp.lt.u32 %p, %r1, 16; selp.b64 %d3, %d1, %d2, %p;
	add.u32 %r2, %r1, 100;
	st.relaxed.gpu.v4.u32 [%d3], {%r1, 7, %r2, %r2};
	ld.relaxed.gpu.v4.u32 {%r3, %r4, _, %r5}, [%d3];
	add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; st.global.u32 [%d1+512], %r3;
	ld.relaxed.gpu.global.v2.u32 {%d4, %r6}, [%d1+512]; st.global.u64 [%d1+1024], %d4;
	ret;
}`
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", []byte(src), m), "k")
	m.Map(exectest.BufA, 4096)
	l := Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA))}
	require.NoError(t, Run(k, l, m, new(Control), 1))
	for i := range uint32(32) {
		require.Equal(t, 2*i+107, readAll[uint32](m, exectest.BufA+512, 128)[4*i])
		require.EqualValues(t, 2*i+107, readAll[uint64](m, exectest.BufA+1024, 64)[2*i])
	}
	l.Params = params(uint64(exectest.BufA + 4096 - 128)) // half of them lie behind the mapping
	require.EqualValues(t, exectest.BufA+4096, lost(t, Run(k, l, m, new(Control), 1)).Addr)
	l.Params = params(uint64(exectest.BufA + 8))
	require.EqualValues(t, exectest.BufA+8, lost(t, Run(k, l, m, new(Control), 1)).Addr)
}
