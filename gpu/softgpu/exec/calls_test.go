package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// callsPTX has a kernel whose lanes call two functions by address, some lanes the one and some the
// other, each with a loop and constants.
const callsPTX = `.version 6.3
.target sm_70
.address_size 64
.func (.param .b32 r) up(.param .b32 x, .param .b32 n) {
	.reg .b32 %r<4>; .reg .pred %p;
	ld.param.u32 %r0, [x]; ld.param.u32 %r1, [n];
	mov.u32 %r2, 7;
L:	mad.lo.u32 %r0, %r0, 3, %r2;
	mov.u32 %r2, 5;
	sub.u32 %r1, %r1, 1;
	setp.ne.u32 %p, %r1, 0;
	@%p bra L;
	st.param.b32 [r], %r0;
	ret;
}
.func (.param .b32 r) down(.param .b32 x, .param .b32 n) {
	.reg .b32 %r<4>; .reg .pred %p;
	ld.param.u32 %r0, [x]; ld.param.u32 %r1, [n];
	mov.u32 %r2, 1000003;
L:	xor.b32 %r0, %r0, %r2;
	mul.lo.u32 %r0, %r0, %r2;
	sub.u32 %r1, %r1, 1;
	setp.ne.u32 %p, %r1, 0;
	@%p bra L;
	st.param.b32 [r], %r0;
	ret;
}
.visible .entry calls(.param .u64 out, .param .u32 rounds) {
	.reg .b64 %rd<6>; .reg .b32 %r<8>; .reg .pred %p<3>;
	ld.param.u64 %rd0, [out]; ld.param.u32 %r0, [rounds];
	mov.u32 %r1, %tid.x;
	mov.u64 %rd1, up; mov.u64 %rd2, down;
	mov.u32 %r2, %r1;
M:	and.b32 %r3, %r2, 1;
	setp.eq.u32 %p0, %r3, 0;
	selp.b64 %rd3, %rd1, %rd2, %p0;
	and.b32 %r4, %r1, 3; add.u32 %r4, %r4, %r0;
	{ .param .b32 a; .param .b32 b; .param .b32 c;
	st.param.b32 [a], %r2; st.param.b32 [b], %r4;
	P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
	call (c), %rd3, (a, b), P;
	ld.param.b32 %r2, [c]; }
	sub.u32 %r0, %r0, 1;
	setp.ne.u32 %p1, %r0, 0;
	@%p1 bra M;
	mul.wide.u32 %rd4, %r1, 4; add.u64 %rd0, %rd0, %rd4;
	st.global.u32 [%rd0], %r2;
	ret;
}`

// TestNativeCalls runs functions that are called by address, by all lanes or some, as native code and
// not.
func TestNativeCalls(t *testing.T) {
	const rounds = 40
	for name, native := range map[string]Native{"interpreted": NativeNever, "hot": NativeHot, "at once": NativeAtOnce} {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			k := kernel(t, build(t, "calls.ptx", []byte(callsPTX), m), "calls")
			m.Map(exectest.BufA, 4096)
			require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(48, 1, 1), Native: native,
				Params: params(uint64(exectest.BufA), uint32(rounds))}, m, new(Control), 1))
			for i, got := range readAll[uint32](m, exectest.BufA, 48) {
				x := uint32(i)
				for n := uint32(rounds); n > 0; n-- {
					turns := n + uint32(i)&3
					if x&1 == 0 {
						x = x*3 + 7
						for range turns - 1 {
							x = x*3 + 5
						}
						continue
					}
					for range turns {
						x = (x ^ 1000003) * 1000003
					}
				}
				require.Equal(t, x, got, "thread %d", i)
			}
		})
	}
}
