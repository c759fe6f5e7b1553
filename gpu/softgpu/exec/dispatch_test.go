package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// A block may wait for the one before it, however many blocks its worker takes at a time: the first 500 do
// nothing, so that all workers take several, the others add 1 to what the one before has left.
func TestBlocksWaitForEarlierOnes(t *testing.T) {
	const idle, blocks = 500, 800
	m := exectest.NewMemory(4096)
	m.Map(exectest.BufA, 4*blocks)
	k := kernel(t, build(t, "k.ptx", source("", `
	setp.lt.u32 %p1, %r3, %r1;
	@%p1 bra END;
	mul.wide.u32 %rd5, %r3, 4;
	add.u64 %rd6, %rd1, %rd5;
WAIT:	ld.volatile.global.u32 %r4, [%rd6+-4];
	setp.eq.u32 %p2, %r4, 0;
	@%p2 bra WAIT;
	add.u32 %r4, %r4, 1;
	st.volatile.global.u32 [%rd6], %r4;
END:`), m), "k")
	for _, native := range []Native{NativeNever, NativeAtOnce} {
		for _, workers := range []int{1, 3} {
			cells := make([]uint32, blocks)
			cells[idle-1] = 1
			writeAll(m, exectest.BufA, cells)
			l := Launch{Grid: grid(blocks, 1, 1), Block: grid(1, 1, 1), Native: native, Params: params(uint64(exectest.BufA), uint64(0), uint32(idle))}
			runKernel(t, k, l, m, workers)
			for i, got := range readAll[uint32](m, exectest.BufA, blocks)[idle:] {
				require.Equal(t, uint32(i+2), got)
			}
		}
	}
}
