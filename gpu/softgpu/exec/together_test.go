package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
)

// together are kernels of which the lanes part at a branch: what thread i of 96 gets, and how many of the
// branches have code that all lanes run together. %r2 is the thread, %r10 its lowest bit, %r6 the result.
var together = map[string]struct {
	body     string
	expect   func(i uint32) uint32
	branches int
}{
	"one side": {body: "setp.eq.u32 %p1, %r10, 1; @%p1 bra B; mad.lo.u32 %r6, %r2, 3, 7; B: ",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, i, 3*i+7) }, branches: 1},
	"the side that is branched to": {body: "setp.eq.u32 %p1, %r10, 1; @!%p1 bra A; bra.uni B; A: mad.lo.u32 %r6, %r2, 3, 7; B: ",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, i, 3*i+7) }, branches: 1},
	"both sides": {body: "setp.eq.u32 %p1, %r10, 1; @%p1 bra A; mad.lo.u32 %r6, %r2, 3, 7; bra.uni B; A: xor.b32 %r6, %r2, 85; mul.lo.u32 %r6, %r6, 5; B: ",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, 5*(i^85), 3*i+7) }, branches: 1},
	"the branch's predicate is written": {body: "setp.eq.u32 %p1, %r10, 1; @%p1 bra B; setp.gt.u32 %p1, %r2, 40; add.u32 %r6, %r2, 5; B: @%p1 add.u32 %r6, %r6, 1000;",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, i+1000, pick(i > 40, i+1005, i+5)) }, branches: 0},
	"another predicate is written": {body: "setp.eq.u32 %p2, %r2, %r2; setp.eq.u32 %p1, %r10, 1; @%p1 bra B; setp.gt.u32 %p2, %r2, 40; add.u32 %r6, %r2, 5; B: @%p2 add.u32 %r6, %r6, 1000;",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, i+1000, pick(i > 40, i+1005, i+5)) }, branches: 1},
	"memory": {body: ".shared .align 4 .b8 s[384]; mov.u32 %r11, s; mad.lo.u32 %r11, %r2, 4, %r11; st.shared.u32 [%r11], %r2; " +
		"setp.eq.u32 %p1, %r10, 1; @%p1 bra B; ld.shared.u32 %r7, [%r11]; add.u32 %r7, %r7, 9; st.shared.u32 [%r11], %r7; B: ld.shared.u32 %r6, [%r11];",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, i, i+9) }, branches: 1},
	"in a loop": {body: "mov.u32 %r5, 0; L: add.u32 %r7, %r5, %r2; and.b32 %r7, %r7, 3; setp.ne.u32 %p1, %r7, 0; @%p1 bra B; add.u32 %r6, %r6, %r5; B: " +
		"add.u32 %r5, %r5, 1; setp.lt.u32 %p2, %r5, 50; @%p2 bra L;",
		expect: func(i uint32) (x uint32) {
			x = i
			for k := range uint32(50) {
				if (k+i)&3 == 0 {
					x += k
				}
			}
			return x
		}, branches: 1},
	"a register of the side alone": {body: "mul.lo.u32 %r7, %r2, 11; add.u32 %r6, %r6, %r7; setp.eq.u32 %p1, %r10, 1; bar.sync 0; @%p1 bra B; add.u32 %r7, %r2, 1; mad.lo.u32 %r6, %r7, 5, %r6; B: bar.sync 0; add.u32 %r6, %r6, 1;",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, 12*i+1, 17*i+6) }, branches: 1},
	"a register that other lanes keep": {body: "mul.lo.u32 %r7, %r2, 11; setp.eq.u32 %p1, %r10, 1; bar.sync 0; @%p1 bra B; add.u32 %r7, %r2, 1; mad.lo.u32 %r6, %r7, 5, %r6; B: bar.sync 0; add.u32 %r6, %r6, %r7;",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, 12*i, 7*i+6) }, branches: 1},
	"a register that other lanes read first": {body: "mul.lo.u32 %r7, %r2, 11; setp.eq.u32 %p1, %r10, 1; bar.sync 0; @%p1 mov.u32 %r7, 5; bar.sync 0; @!%p1 add.u32 %r6, %r6, %r7; @%p1 mad.lo.u32 %r6, %r7, 3, %r6;",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, i+15, 12*i) }},
	"a register of lanes that change": {body: "mul.lo.u32 %r7, %r2, 11; setp.eq.u32 %p1, %r10, 1; bar.sync 0; @%p1 mov.u32 %r7, 5; setp.lt.u32 %p1, %r2, 40; bar.sync 0; @%p1 add.u32 %r6, %r6, %r7;",
		expect: func(i uint32) uint32 { return pick(i >= 40, i, pick(i&1 == 1, i+5, 12*i)) }},
	"a register of lanes that come back": {body: "mul.lo.u32 %r7, %r2, 11; mov.u32 %r8, 0; setp.eq.u32 %p1, %r10, 1; L: bar.sync 0; @%p1 add.u32 %r6, %r6, %r7; @%p1 mov.u32 %r7, 5; add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, 3; @%p2 bra L;",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, 12*i+10, i) }},
	"too long": {body: "setp.eq.u32 %p1, %r10, 1; @%p1 bra B; add.u32 %r6, %r6, 1; add.u32 %r6, %r6, 1; add.u32 %r6, %r6, 1; add.u32 %r6, %r6, 1; " +
		"add.u32 %r6, %r6, 1; add.u32 %r6, %r6, 1; add.u32 %r6, %r6, 1; add.u32 %r6, %r6, 1; add.u32 %r6, %r6, 1; B: ",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, i, i+9) }, branches: 0},
	"which lanes run": {body: "setp.eq.u32 %p1, %r10, 1; @%p1 bra B; activemask.b32 %r6; B: ",
		expect: func(i uint32) uint32 { return pick(i&1 == 1, i, 0x55555555) }, branches: 0},
}

func pick(p bool, yes, no uint32) uint32 {
	if p {
		return yes
	}
	return no
}

// Lanes that part for a few operations run them together; results are those of lanes that run apart.
func TestTogether(t *testing.T) {
	for name, c := range together {
		t.Run(name, func(t *testing.T) {
			for _, when := range []Native{NativeNever, NativeAtOnce} {
				m := exectest.NewMemory(4096)
				p := build(t, "k.ptx", source("", "and.b32 %r10, %r2, 1; mov.u32 %r6, %r2; "+c.body+" st.global.u32 [%rd4], %r6;"), m)
				n := 0
				for i := range p.Code {
					if k := p.Code[i].Kind; (k == ir.KBranch || k == ir.KCompareBranch) && p.Code[i].E != 0 {
						n++
					}
				}
				require.Equal(t, c.branches, n)
				m.Map(exectest.BufA, 4096)
				require.NoError(t, Run(kernel(t, p, "k"), Launch{Grid: grid(1, 1, 1), Block: grid(96, 1, 1), Native: when,
					Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}, m, new(Control), 1))
				for i, x := range readAll[uint32](m, exectest.BufA, 96) {
					require.Equal(t, c.expect(uint32(i)), x, "thread %d", i)
				}
			}
		})
	}
}

// A fault in such code is that of the first lane that faults, at the line of the source.
func TestTogetherFault(t *testing.T) {
	var errs []*gpu.LostError
	for _, when := range []Native{NativeNever, NativeAtOnce} {
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", source("", "setp.lt.u32 %p1, %r2, 40;\n@%p1 bra B;\nst.global.u32 [%rd2], %r2;\nB:"), m), "k")
		err := lost(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(64, 1, 1), Native: when, Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(0))}, m, new(Control), 1))
		require.Contains(t, err.Error(), "thread (40,0,0)")
		errs = append(errs, err)
	}
	require.Equal(t, errs[0], errs[1])
}
