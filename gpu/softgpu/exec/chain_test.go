package exec

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/jit"
)

// chained are kernels without barriers, whose warps run to their ends one after the other where nothing keeps one: the
// blocks, and what thread i of a grid of three of them gets.
var chained = map[string]struct {
	body    string
	threads uint32
	expect  func(i, threads uint32) uint32
}{
	"to the end":                 {body: "mad.lo.u32 %r6, %r2, 3, %r3;", threads: 256, expect: func(i, n uint32) uint32 { return i%n*3 + i/n }},
	"the last warp is not whole": {body: "add.u32 %r6, %r2, 5;", threads: 200, expect: func(i, n uint32) uint32 { return i%n + 5 }},
	"some lanes return": {body: "add.u32 %r6, %r2, 1; setp.eq.u32 %p1, %r2, 70; @%p1 bra S; setp.gt.u32 %p1, %r2, 64; @%p1 bra E; S:", threads: 128, expect: func(i, n uint32) uint32 {
		return pick(i%n > 64 && i%n != 70, 0, i%n+1)
	}},
	"a warp has a loop": {body: "mov.u32 %r6, 0; setp.lt.u32 %p1, %r2, 64; @%p1 bra S; setp.gt.u32 %p1, %r2, 95; @%p1 bra S; L: add.u32 %r6, %r6, 1; setp.lt.u32 %p2, %r6, 9; @%p2 bra L; S:", threads: 160, expect: func(i, n uint32) uint32 {
		return pick(i%n >= 64 && i%n < 96, 9, 0)
	}},
	// The first warp waits for the last one, which begins before the first has gone round its loop often.
	"warps wait for others": {body: ".shared .u32 f; setp.lt.u32 %p1, %r2, 96; @%p1 bra W; mov.u32 %r6, 1; st.volatile.shared.u32 [f], %r6; bra.uni S; W: ld.volatile.shared.u32 %r6, [f]; setp.eq.u32 %p2, %r6, 0; @%p2 bra W; S:", threads: 128,
		expect: func(uint32, uint32) uint32 { return 1 }},
}

// Warps of a block that begins run in a chain, with the results and the counts of warps that run by themselves.
func TestChains(t *testing.T) {
	for name, c := range chained {
		t.Run(name, func(t *testing.T) {
			m := exectest.NewMemory(4096)
			p := build(t, "k.ptx", source("", fmt.Sprintf("mad.lo.u32 %%r4, %%r3, %d, %%r2; mul.wide.u32 %%rd3, %%r4, 4; add.u64 %%rd4, %%rd1, %%rd3;", c.threads)+c.body+"st.global.u32 [%rd4], %r6;\nE:"), m)
			for _, when := range []Native{NativeNever, NativeAtOnce} {
				writeAll(m, exectest.BufA, make([]uint32, 3*c.threads))
				var to Tally
				require.NoError(t, Run(kernel(t, p, "k"), Launch{Grid: grid(3, 1, 1), Block: grid(c.threads, 1, 1), Native: when, Tally: &to, Params: params(uint64(exectest.BufA), uint64(0), uint32(0))}, m, new(Control), 1))
				for i, x := range readAll[uint32](m, exectest.BufA, int(3*c.threads)) {
					require.Equal(t, c.expect(uint32(i), c.threads), x, "thread %d", i)
				}
				if when == NativeAtOnce && NativeCode() == nil {
					require.GreaterOrEqual(t, to.Rows()[0].Interpreted[jit.Ends], uint64(3*((c.threads+31)/32)), "each warp ends")
				}
			}
		})
	}
}

// A fault in a chain is that of the warp that it meets first, and what warps before it wrote is there.
func TestChainFaults(t *testing.T) {
	for _, when := range []Native{NativeNever, NativeAtOnce} {
		m := exectest.NewMemory(4096)
		m.Map(exectest.BufA, 4096)
		k := kernel(t, build(t, "k.ptx", source("", "st.global.u32 [%rd4], %r2; setp.lt.u32 %p1, %r2, 75; @%p1 bra E; st.global.u32 [%rd2], %r2;\nE:"), m), "k")
		err := lost(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(160, 1, 1), Native: when, Params: params(uint64(exectest.BufA), uint64(exectest.BufB), uint32(0))}, m, new(Control), 1))
		require.Contains(t, err.Error(), "thread (75,0,0)")
		require.Equal(t, uint32(60), readAll[uint32](m, exectest.BufA, 96)[60])
	}
}
