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

// A register that a guard lets some lanes write is zero before only if others read it: lanes of another guard, of the
// predicate when it has changed, or all of them.
func TestGuardedWritesAreKnown(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		zero bool
	}{
		"the same guard":   {body: "@%p add.u32 %r4, %r1, 1; @%p add.u32 %r4, %r4, %r1; @%p st.global.u32 [%rd1], %r4;"},
		"the other lanes":  {body: "@%p add.u32 %r4, %r1, 1; @!%p st.global.u32 [%rd1], %r4;", zero: true},
		"all lanes":        {body: "@%p add.u32 %r4, %r1, 1; st.global.u32 [%rd1], %r4;", zero: true},
		"read at once":     {body: "@%p add.u32 %r4, %r4, 1; @%p st.global.u32 [%rd1], %r4;", zero: true},
		"changed between":  {body: "@%p add.u32 %r4, %r1, 1; setp.ne.u32 %p, %r1, 7; @%p st.global.u32 [%rd1], %r4;", zero: true},
		"another block":    {body: "@%p add.u32 %r4, %r1, 1; @%q bra L; xor.b32 %r1, %r1, 1; L: @%p st.global.u32 [%rd1], %r4;", zero: true},
		"a short side":     {body: "@%p bra L; add.u32 %r4, %r1, 1; st.global.u32 [%rd1], %r4; L: xor.b32 %r1, %r1, 1; st.global.u32 [%rd1], %r1;"},
		"its own guard":    {body: "@%p setp.ne.u32 %p, %r1, 3; @%p add.u32 %r4, %r1, 1; @%p st.global.u32 [%rd1], %r4;"},
		"before its guard": {body: "@%p add.u32 %r4, %r1, 1; @%p setp.ne.u32 %p, %r1, 3; @%p st.global.u32 [%rd1], %r4;", zero: true},
	} {
		t.Run(name, func(t *testing.T) {
			mod, err := ptx.Load("g.ptx", []byte(`.version 8.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n)
{
	.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p, %q;
	ld.param.u64 %rd1, [a];
	ld.param.u32 %r1, [n];
	setp.eq.u32 %p, %r1, 0; setp.eq.u32 %q, %r1, 1;
	`+c.body+"\n\tret;\n}\n"))
			require.NoError(t, err)
			p, err := Module(nil, mod, false)
			require.NoError(t, err)
			require.Equal(t, c.zero, len(p.Funcs[0].Zero32) != 0)
		})
	}
}
