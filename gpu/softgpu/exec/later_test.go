package exec

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/jit"
)

// largeKernel is a loop of so many operations, run n times.
func largeKernel(operations int) []byte {
	return source("", "mov.u32 %r9, 0;\nL:\n"+strings.Repeat("mad.lo.u32 %r4, %r4, 5, %r2;\nxor.b32 %r2, %r4, %r3;\n", operations/2)+
		"add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p1, %r9, %r1;\n@%p1 bra L;\nst.global.u32 [%rd4], %r2;")
}

// A large function that is hot is compiled in the background: the launch that wanted it computes the same,
// those that follow run native code, and the time is charged.
func TestCompiledLater(t *testing.T) {
	if err := NativeCode(); err != nil {
		t.Skip(err)
	}
	const threads = 256
	m := exectest.NewMemory(4096)
	m.Map(exectest.BufA, 4*threads)
	src := largeKernel(5000)
	run := func(p *Program, native Native, to *Tally) []uint32 {
		writeAll(m, exectest.BufA, make([]uint32, threads))
		l := Launch{Grid: grid(1, 1, 1), Block: grid(threads, 1, 1), Native: native, Tally: to, Params: params(uint64(exectest.BufA), uint64(0), uint32(40))}
		require.NoError(t, Run(kernel(t, p, "k"), l, m, new(Control), 1))
		return readAll[uint32](m, exectest.BufA, threads)
	}
	want := run(build(t, "k.ptx", src, m), NativeNever, nil)

	var charged atomic.Int64
	var first, later Tally
	p := build(t, "k.ptx", src, m)
	p.ChargeTo(&charged)
	require.Equal(t, want, run(p, NativeHot, &first))
	require.NotZero(t, first.Rows()[0].Interpreted[jit.Cold])
	jit.Settle()
	require.NotZero(t, charged.Load())
	require.Equal(t, want, run(p, NativeHot, &later))
	require.Zero(t, later.Rows()[0].Interpreted[jit.Cold])
	require.NotZero(t, later.Rows()[0].Entered)

	charged.Store(0)
	p = build(t, "k.ptx", src, m)
	p.ChargeTo(&charged)
	require.Equal(t, want, run(p, NativeAtOnce, nil))
	jit.Settle()
	require.Zero(t, charged.Load(), "compiled by the launch itself")
}
