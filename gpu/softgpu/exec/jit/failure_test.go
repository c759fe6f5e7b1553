//go:build amd64 && linux

package jit

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/table"
)

// A function on which the compiler panics, at once or in the background, stays interpreted; the panic is counted,
// and told with the function's name and the place.
func TestCompilerFails(t *testing.T) {
	if best() == Interpreted {
		t.Skip("the processor lacks SSE4.2: kernels are interpreted")
	}
	var mu sync.Mutex
	var told []string
	OnFailure(func(function, fault string) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, function+": "+fault)
	})
	defer OnFailure(nil)
	bad := ir.Inst{Kind: ir.KLane32, Op: table.Lanes["add.u32"].Op, A: 9, Other: -1} // the function has two registers
	for n, size := range []int{1, smallFunction + 1} {
		code := make([]ir.Inst, size, size+1)
		for i := range code {
			code[i] = bad
		}
		p := &ir.Program{Code: append(code, endOfCode)}
		fn := &ir.Function{Name: "broken", Kernel: true, Regs32: 2, End: int32(size) + 1}
		before := Failures()
		c := new(Code).Prepare(p, fn, NativeHot)
		for range c.enough {
			c.Warm()
		}
		Settle()
		require.Equal(t, before+1, Failures())
		require.Len(t, told, n+1)
		require.Regexp(t, `^broken: runtime error: index out of range .* at \w+\.go:\d+$`, told[n])
		_, at := c.EntryAt(0, ir.AllLanes)
		require.Zero(t, at)
		require.Equal(t, Failed, c.Why(0, ir.AllLanes))
		require.Equal(t, "the compiler failed", c.Why(0, ir.AllLanes).String())
	}
}
