package lower

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/table"
)

// A product behind a barrier comes before it where that leaves fewer registers to live over the barrier, and changes nothing.
func TestHoist(t *testing.T) {
	const loads = "ld.shared.u32 %r2, [s]; ld.shared.u32 %r3, [s+4]; ld.shared.u32 %r4, [s+8]; "
	for name, c := range map[string]struct {
		body  string
		moved bool
	}{
		"two for one":              {body: loads + "bar.sync 0; mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6;", moved: true},
		"one is needed later":      {body: loads + "bar.sync 0; mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6; st.shared.u32 [s], %r2;"},
		"one is a number":          {body: loads + "bar.sync 0; mul.lo.u32 %r6, %r2, 5; st.shared.u32 [s], %r6;"},
		"behind a branch":          {body: loads + "bar.sync 0; @%p bra L; mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6; L: st.shared.u32 [s], %r1;", moved: true},
		"behind two branches":      {body: loads + "bar.sync 0; @%p bra L; st.shared.u32 [s], %r1; L: @%q bra M; mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6; M: st.shared.u32 [s], %r1;", moved: true},
		"read elsewhere":           {body: loads + "mov.u32 %r6, 0; bar.sync 0; @%p bra L; mul.lo.u32 %r6, %r2, %r3; L: st.shared.u32 [s], %r6;"},
		"an operand is written":    {body: loads + "bar.sync 0; ld.shared.u32 %r3, [s+8]; mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6;"},
		"the result was read":      {body: loads + "mov.u32 %r6, %r1; bar.sync 0; st.shared.u32 [s], %r6; mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6;"},
		"another way leads there":  {body: loads + "@%p bra L; bar.sync 0; L: mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6;"},
		"a loop leads there":       {body: loads + "bar.sync 0; L: mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6; @%p bra L;"},
		"with a guard":             {body: loads + "bar.sync 0; @%p mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6;"},
		"from outside the loop":    {body: loads + "L: ld.shared.u32 %r2, [s]; bar.sync 0; mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6; @%p bra L;"},
		"in a loop":                {body: "L: " + loads + "bar.sync 0; mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6; @%p bra L;", moved: true},
		"with what it needs":       {body: loads + "bar.sync 0; add.u32 %r5, %r2, %r3; mul.lo.u32 %r6, %r5, %r4; st.shared.u32 [s], %r6;", moved: true},
		"with what some lanes get": {body: loads + "mov.u32 %r5, 7; bar.sync 0; @%p bra L; add.u32 %r5, %r2, %r3; L: mul.lo.u32 %r6, %r5, %r4; st.shared.u32 [s], %r6;"},
		"what it needs is loaded":  {body: loads + "bar.sync 0; ld.shared.u32 %r5, [s+12]; mul.lo.u32 %r6, %r5, %r4; st.shared.u32 [s], %r6;"},
		"some threads wait":        {body: loads + "bar.sync 0, 64; mul.lo.u32 %r6, %r2, %r3; st.shared.u32 [s], %r6;"},
	} {
		t.Run(name, func(t *testing.T) {
			mod, err := ptx.Load("h.ptx", []byte(`.version 8.0
.target sm_70
.address_size 64
.visible .entry k(.param .u32 n)
{
	.reg .b32 %r<8>; .reg .pred %p, %q; .shared .align 4 .b8 s[64];
	ld.param.u32 %r1, [n];
	setp.eq.u32 %p, %r1, 0; setp.eq.u32 %q, %r1, 1;
	`+c.body+"\n\tret;\n}\n"))
			require.NoError(t, err)
			for _, timed := range []bool{false, true} { // modelled time counts operations where they are written
				p, err := Module(nil, mod, timed)
				require.NoError(t, err)
				barrier, product := int32(-1), int32(-1)
				for pc := range p.Code {
					switch in := &p.Code[pc]; {
					case in.Kind == ir.KBarrier:
						barrier = int32(pc)
					case in.Op == table.Lanes["mul.lo.u32"].Op && product < 0:
						product = int32(pc)
					}
				}
				require.Positive(t, barrier)
				require.Positive(t, product)
				require.Equal(t, c.moved && !timed, product < barrier)
			}
		})
	}
}
