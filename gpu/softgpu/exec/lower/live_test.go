package lower

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
)

// What all threads of a block have in common keeps a place of its own where registers share places, so that
// native code takes it for one value; what is written again does not.
func TestUniformsHavePlaces(t *testing.T) {
	var body strings.Builder
	for i := range 80 {
		fmt.Fprintf(&body, "\txor.b64 %%rd%d, %%rd3, %%rd4;\n", 10+i)
		if i%10 == 9 {
			for k := range 10 {
				fmt.Fprintf(&body, "\tst.global.u64 [%%rd3], %%rd%d;\n", 10+i-k)
			}
		}
	}
	source := `.version 8.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n)
{
	.reg .b64 %rd<120>; .reg .b32 %r<4>; .reg .pred %p;
	ld.param.u64 %rd1, [a];
	ld.param.u32 %r1, [n];
	mul.wide.u32 %rd2, %r1, 4;
	mov.u32 %r2, %tid.x;
	mul.wide.u32 %rd4, %r2, 8;
	add.u64 %rd3, %rd1, %rd4;
	setp.eq.u32 %p, %r1, 0;
	@%p bra L;
	st.global.u64 [%rd3], %rd2;
L:
` + body.String() + "\tld.param.u32 %r3, [n];\n\tst.global.u32 [%rd3], %r3;\n\tret;\n}\n"
	mod, err := ptx.Load("u.ptx", []byte(source))
	require.NoError(t, err)
	p, err := Module(nil, mod, false)
	require.NoError(t, err)
	fn := p.Funcs[0]
	require.Less(t, fn.Regs64, 60, "places are shared")
	require.Less(t, len(fn.Once64), 6)
	params := 0
	for pc := fn.Entry; pc < fn.End; pc++ {
		if in := &p.Code[pc]; in.Op == ir.OpParam && in.C == 8 {
			require.Contains(t, fn.Once64, in.D)
			params++
		}
	}
	require.Equal(t, 1, params)
}
