package exec

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// halves lets half of each warp wait for the other block of its cluster before it meets the other
// half at a shuffle.
const halves = `.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a)
.reqnctapercluster 2, 1, 1
{
	.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p;
	ld.param.u64 %rd1, [a]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
	mad.lo.u32 %r3, %r2, 32, %r1; mad.wide.u32 %rd1, %r3, 4, %rd1;
	add.u32 %r4, %r3, 100;
	barrier.cluster.arrive;
	setp.ge.u32 %p, %r1, 16;
	@%p bra MEET;
	barrier.cluster.wait;
MEET:	shfl.sync.idx.b32 %r5, %r4, 0, 31, -1;
	st.global.u32 [%rd1], %r5;
	@!%p bra END;
	barrier.cluster.wait;
END:	ret;
}
`

// Lanes that wait for other blocks come yet: those that wait for them do not go on without.
func TestLanesAtTheBarrierOfTheCluster(t *testing.T) {
	for _, native := range []Native{NativeNever, NativeAtOnce} {
		m := exectest.NewMemory(4096)
		k := kernel(t, build(t, "k.ptx", []byte(halves), m), "k")
		m.Map(exectest.BufA, 4096)
		require.NoError(t, Run(k, Launch{Grid: grid(2, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA)), Native: native}, m, new(Control), 1))
		for i, got := range readAll[uint32](m, exectest.BufA, 64) {
			require.EqualValues(t, 100+i/32*32, got, "thread %d", i)
		}
	}
}

// waitForWaiting has lanes that wait for others, which wait for them at the barrier of the cluster.
const waitForWaiting = `.version 8.0
.target sm_90
.address_size 64
.visible .entry k()
{
	.reg .b32 %r; .reg .pred %p;
	mov.u32 %r, %tid.x; setp.ge.u32 %p, %r, 16;
	@%p bra MEET;
	barrier.cluster.arrive;
	barrier.cluster.wait;
	ret;
MEET:	bar.warp.sync -1;
	barrier.cluster.arrive;
	ret;
}
`

// Where no other block can let them come, those that wait for them go on, as in a block.
func TestLanesThatCannotCome(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", []byte(waitForWaiting), m), "k")
	require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(32, 1, 1)}, m, new(Control), 1))
}
