package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// A kernel is short if it has no loop, waits for nothing, and has few operations and warps.
func TestShort(t *testing.T) {
	one, warps := grid(1, 1, 1), grid(64, 2, 1)
	for name, c := range map[string]struct {
		body        string
		grid, block [3]uint32
		want        bool
	}{
		"empty":            {body: "", grid: one, block: one, want: true},
		"four warps":       {body: "", grid: one, block: warps, want: true},
		"many blocks":      {body: "", grid: grid(1<<31, 1, 1), block: one},
		"blocks that wrap": {body: "", grid: grid(1<<31, 1<<16, 1<<16), block: grid(1<<31, 1<<31, 4)},
		"no block":         {body: "", grid: grid(0, 1, 1), block: one},
		"a branch":         {body: "setp.eq.u32 %p1, %r1, 0; @%p1 bra L; add.u32 %r1, %r1, 1; L:", grid: one, block: one, want: true},
		"a loop":           {body: "L: add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9; @%p1 bra L;", grid: one, block: one},
		"a barrier":        {body: "bar.sync 0;", grid: one, block: one},
		"a call":           {body: "call.uni f, ();", grid: one, block: one},
		"sleep":            {body: "nanosleep.u32 1000000;", grid: one, block: one},
		"a shuffle":        {body: "shfl.sync.bfly.b32 %r1, %r1, 1, 31, -1;", grid: one, block: one, want: true},
		"an atomic":        {body: "atom.shared.add.u32 %r1, [s], 1;", grid: one, block: one, want: true},
		"many operations":  {body: manyOps(100), grid: one, block: one},
		"its warps' work":  {body: manyOps(40), grid: one, block: grid(1024, 1, 1)},
	} {
		k := kernel(t, build(t, "k.ptx", source(".func f() { ret; }\n.shared .align 4 .b8 s[4];\n", c.body), exectest.NewMemory(4096)), "k")
		require.Equal(t, c.want, k.Short(c.grid, c.block), name)
	}
}

// manyOps is so many operations that depend on each other.
func manyOps(n int) (body string) {
	for range n {
		body += "mad.lo.u32 %r1, %r1, %r1, 3;"
	}
	return body
}

// A launch that is whole is not preempted.
func TestWhole(t *testing.T) {
	for _, whole := range []bool{true, false} {
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", source("", "st.global.u32 [%rd4], 7;"), m), "k")
		m.Map(exectest.BufA, 4096)
		c := &Control{Whole: whole, Yield: func() bool { return true }}
		c.Preempt()
		err := Run(k, Launch{Grid: grid(2, 1, 1), Block: grid(1, 1, 1), Params: params(uint64(exectest.BufA), uint64(0), uint32(1))}, m, c, 1)
		if !whole {
			var stopped *Preempted
			require.ErrorAs(t, err, &stopped)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, []uint32{7}, readAll[uint32](m, exectest.BufA, 1))
	}
}
