package exec

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// keeper adds up what nobody has written yet: .shared memory, .local memory and a
// register. Then it leaves something in all of them.
const keeper = `.version 7.0
.target sm_70
.address_size 64
.extern .shared .align 4 .b8 s[];
.visible .entry k(.param .u64 a, .param .u32 n)
{
	.local .align 4 .b8 l[64];
	.reg .b64 %rd<4>; .reg .b32 %r<12>;
	ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2;
	mov.u32 %r3, s; mad.lo.u32 %r3, %r2, 4, %r3;
	ld.shared.u32 %r4, [%r3]; ld.local.u32 %r5, [l+60];
	add.u32 %r6, %r4, %r5; add.u32 %r6, %r6, %r7; add.u32 %r6, %r6, %r1;
	st.global.u32 [%rd1], %r6;
	st.shared.u32 [%r3], 100; st.local.u32 [l+60], 1000; mov.u32 %r7, 10000;
	ret;
}
`

// A worker that is used again knows nothing of the launches before: neither their
// sizes nor their address space nor what they left.
func TestWorkersAreUsedAgain(t *testing.T) {
	spaces := [2]*exectest.Memory{exectest.NewMemory(4096), exectest.NewMemory(4096)}
	k := kernel(t, build(t, "k.ptx", []byte(keeper), spaces[0]), "k")
	for _, m := range spaces {
		m.Map(exectest.BufA, 4096)
	}
	launch := func(m *exectest.Memory, at uint64, threads, shared, n uint32) error {
		return Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(threads, 1, 1), SharedBytes: shared, Params: params(at, n)}, m, new(Control), 1)
	}
	for i := range uint32(60) {
		m := spaces[i%2]
		threads := []uint32{32, 32, 64, 7, 64}[i%5]
		if i%7 == 6 {
			require.Equal(t, gpu.LostAddress, lost(t, launch(m, exectest.BufA+1<<20, threads, 256, i)).Cause)
			continue
		}
		require.NoError(t, launch(m, exectest.BufA, threads, 256+i%3/2*4, i))
		for j, got := range readAll[uint32](m, exectest.BufA, int(threads)) {
			require.Equal(t, i, got, "launch %d, thread %d", i, j)
		}
	}
}

// adder adds n ones to a[tid & 31]. With more than one warp it is a race, as in PolyBench's mvt. A
// GPU decides it in favour of the program: its warps begin together, so all read before one stores.
const adder = `.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n)
{
	.reg .b64 %rd<4>; .reg .b32 %r<8>; .reg .pred %p;
	ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n];
	mov.u32 %r2, %tid.x; and.b32 %r2, %r2, 31; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2;
	ld.global.u32 %r3, [%rd1];
	LOOP:
	add.u32 %r3, %r3, 1;
	add.u32 %r1, %r1, -1; setp.ne.u32 %p, %r1, 0;
	@%p bra LOOP;
	st.global.u32 [%rd1], %r3;
	ret;
}
`

// Each warp of a block has begun its first loop before one of them goes on with its own.
func TestWarpsBeginTogether(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", []byte(adder), m), "k")
	m.Map(exectest.BufA, 4096)
	for range 3 { // native code comes later than the first launch
		before := readAll[uint32](m, exectest.BufA, 32)
		require.NoError(t, Run(k, Launch{Grid: grid(1, 1, 1), Block: grid(256, 1, 1), Params: params(uint64(exectest.BufA), uint32(1000))}, m, new(Control), 1))
		for i, got := range readAll[uint32](m, exectest.BufA, 32) {
			require.Equal(t, before[i]+1000, got, "element %d", i)
		}
	}
}

// Launches of one kernel do not make workers anew, whose garbage would keep the
// collector busy.
func TestWorkersAreKept(t *testing.T) {
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", []byte(keeper), m), "k")
	m.Map(exectest.BufA, 4096)
	l := Launch{Grid: grid(4, 1, 1), Block: grid(1024, 1, 1), SharedBytes: 4096, Params: params(uint64(exectest.BufA), uint32(1))}
	run := func() uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		require.NoError(t, Run(k, l, m, new(Control), 1))
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	first := run()
	least := first
	for range 20 { // the collector, and the race detector, may take a worker now and then
		least = min(least, run())
	}
	require.Less(t, least, first/20)
}
