package exec

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// clusterKernel is a kernel with shared memory whose body may use the rank and size of its cluster in
// %r1 and %r2, the thread in %r3, the address of its word in %r4, that of the same word in the next block
// in %r6, and the place of the thread in the results in %rd1.
func clusterKernel(t testing.TB, directives, body string) (*Kernel, *exectest.Memory) {
	source := `.version 8.1
.target sm_90
.address_size 64
.shared .align 8 .b8 words[512];
.visible .entry k(.param .u64 out) ` + directives + `
{
	.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<8>;
	mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, %cluster_nctarank; mov.u32 %r3, %tid.x;
	mov.u32 %r4, words; mad.lo.u32 %r4, %r3, 4, %r4;
	add.u32 %r5, %r1, 1; rem.u32 %r5, %r5, %r2; mapa.shared::cluster.u32 %r6, %r4, %r5;
	mov.u32 %r7, %ctaid.x; mov.u32 %r8, %ntid.x; mad.lo.u32 %r9, %r7, %r8, %r3;
	ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r9, 4, %rd1;
` + body + `
	ret;
}
`
	m := exectest.NewMemory(4096)
	k := kernel(t, build(t, "k.ptx", []byte(source), m), "k")
	m.Map(exectest.BufA, 64<<10)
	return k, m
}

// clusterRelay hands the words of each block round its cluster, in rounds.
const clusterRelay = `
	mov.u32 %r10, 0; mov.u32 %r11, %r9;
L:	st.shared.u32 [%r4], %r11;
	barrier.cluster.arrive.release; and.b32 %r12, %r3, 3;
W:	setp.eq.u32 %p1, %r12, 0; @%p1 bra V; sub.u32 %r12, %r12, 1; bra W;
V:	barrier.cluster.wait.acquire;
	ld.shared::cluster.u32 %r13, [%r6]; mad.lo.u32 %r11, %r11, 3, %r13;
	barrier.cluster.arrive; barrier.cluster.wait;
	add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, 40; @%p2 bra L;
	st.global.u32 [%rd1], %r11;`

// clusterRelayed is what it leaves.
func clusterRelayed(clusters, size, threads int) (all []uint32) {
	for c := range clusters {
		v := relayed(size, threads, 0)
		for i := range v {
			v[i] += uint32(c * size * threads)
		}
		for range 40 {
			next := make([]uint32, len(v))
			for i := range v {
				next[i] = 3*v[i] + v[(i+threads)%len(v)]
			}
			v = next
		}
		all = append(all, v...)
	}
	return all
}

// TestClusters checks that blocks of a cluster wait for each other and read each other's memory, however
// many workers there are, interpreted and compiled, in one piece and in many.
func TestClusters(t *testing.T) {
	k, m := clusterKernel(t, "", clusterRelay)
	for _, shape := range [][3]int{{1, 1, 32}, {3, 2, 64}, {2, 8, 40}, {1, 16, 96}, {5, 3, 1}} {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			l := Launch{Grid: grid(uint32(shape[0]*shape[1]), 1, 1), Cluster: grid(uint32(shape[1]), 1, 1), Block: grid(uint32(shape[2]), 1, 1), Params: params(uint64(exectest.BufA))}
			want := clusterRelayed(shape[0], shape[1], shape[2])
			for _, native := range []Native{NativeNever, NativeAtOnce} {
				for _, workers := range []int{1, 3} {
					l.Native = native
					m.Write(exectest.BufA, make([]byte, 4*len(want)))
					require.NoError(t, Run(k, l, m, new(Control), workers))
					require.Equal(t, want, readAll[uint32](m, exectest.BufA, len(want)))
				}
			}
			m.Write(exectest.BufA, make([]byte, 4*len(want)))
			require.NoError(t, runPreempted(k, l, m, 2, 1000))
			require.Equal(t, want, readAll[uint32](m, exectest.BufA, len(want)))
		})
	}
}

// TestClustersPreempted checks clusters that stop at heads of loops and go on from what was encoded.
func TestClustersPreempted(t *testing.T) {
	k, m := clusterKernel(t, "", clusterRelay)
	l := Launch{Grid: grid(6, 1, 1), Cluster: grid(3, 1, 1), Block: grid(48, 1, 1), Params: params(uint64(exectest.BufA)), Native: NativeNever}
	stops := 0
	for {
		err := Run(k, l, m, &Control{Yield: func() bool { return true }}, 1)
		var stopped *Preempted
		if !errors.As(err, &stopped) {
			require.NoError(t, err)
			break
		}
		stops++
		code, err := stopped.State.MarshalBinary()
		require.NoError(t, err)
		l.From = new(State)
		require.NoError(t, l.From.UnmarshalBinary(code))
		other := l
		other.Cluster = grid(2, 1, 1)
		require.ErrorIs(t, Run(k, other, m, new(Control), 1), gpu.ErrInvalid, "a state of other clusters")
	}
	require.Positive(t, stops)
	require.Equal(t, clusterRelayed(2, 3, 48), readAll[uint32](m, exectest.BufA, 6*48))
}

// TestClustersRefused checks launches whose clusters are not possible.
func TestClustersRefused(t *testing.T) {
	for name, c := range map[string]struct {
		directives    string
		grid, cluster [3]uint32
		bad           bool
	}{
		"none":             {grid: grid(3, 1, 1)},
		"as required":      {directives: ".reqnctapercluster 2", grid: grid(4, 1, 1)},
		"required, named":  {directives: ".reqnctapercluster 2", grid: grid(4, 1, 1), cluster: grid(2, 1, 1)},
		"another":          {directives: ".reqnctapercluster 2", grid: grid(4, 1, 1), cluster: grid(4, 1, 1), bad: true},
		"does not divide":  {grid: grid(5, 1, 1), cluster: grid(2, 1, 1), bad: true},
		"required, either": {directives: ".reqnctapercluster 2, 2", grid: grid(4, 1, 1), bad: true},
		"zero":             {grid: grid(4, 1, 1), cluster: grid(2, 0, 1), bad: true},
		"too large":        {grid: grid(32, 1, 1), cluster: grid(32, 1, 1), bad: true},
		"overflows":        {grid: grid(1<<16, 1<<15, 1), cluster: grid(1<<16, 1<<15, 1), bad: true},
		"beyond its rank":  {directives: ".maxclusterrank 4", grid: grid(8, 1, 1), cluster: grid(8, 1, 1), bad: true},
		"at its rank":      {directives: ".maxclusterrank 4", grid: grid(8, 1, 1), cluster: grid(4, 1, 1)},
	} {
		k, m := clusterKernel(t, c.directives, "")
		l := Launch{Grid: c.grid, Cluster: c.cluster, Block: grid(1, 1, 1), Params: params(uint64(exectest.BufA))}
		if err := Run(k, l, m, new(Control), 2); c.bad {
			require.ErrorIs(t, err, gpu.ErrCluster, name)
			require.Zero(t, k.StateBytes(&l, 2), name)
		} else {
			require.NoError(t, err, name)
		}
	}
	// Each block may have a stack of 32 KiB a thread, of which a cluster has too many.
	k, m := clusterKernel(t, "", "LOOP: alloca.u64 %rd2, 16; setp.eq.u32 %p1, %r3, 5000; @%p1 bra LOOP;")
	l := Launch{Grid: grid(8, 1, 1), Block: grid(1024, 1, 1), Params: params(uint64(exectest.BufA))}
	require.NoError(t, Run(k, l, m, new(Control), 1))
	l.Cluster = grid(8, 1, 1)
	require.ErrorIs(t, Run(k, l, m, new(Control), 1), gpu.ErrCluster)
}

// TestClusterFaults checks accesses that no cluster allows: they end the kernel, and say why.
func TestClusterFaults(t *testing.T) {
	const meet = "barrier.cluster.arrive; barrier.cluster.wait; "
	for name, c := range map[string]struct {
		body   string
		cause  gpu.LostCause
		detail string
	}{
		"another's, as its own":  {body: meet + "ld.shared.u32 %r10, [%r6]; " + meet, cause: gpu.LostInstruction, detail: "another block"},
		"stored as its own":      {body: meet + "st.shared.u32 [%r6], 1; " + meet, cause: gpu.LostInstruction, detail: "another block"},
		"beyond another's":       {body: meet + "ld.shared::cluster.u32 %r10, [%r6+512]; " + meet, cause: gpu.LostAddress, detail: ".shared"},
		"no such block":          {body: "mapa.shared::cluster.u32 %r10, %r4, 7; ld.shared::cluster.u32 %r11, [%r10];", cause: gpu.LostAddress, detail: "does not have"},
		"no such rank":           {body: "mapa.shared::cluster.u32 %r10, %r4, 1000; atom.shared::cluster.add.u32 %r11, [%r10], 1;", cause: gpu.LostAddress, detail: "does not have"},
		"misaligned":             {body: "add.u32 %r10, %r6, 2; red.shared::cluster.add.u32 [%r10], 1; " + meet, cause: gpu.LostAlign, detail: ""},
		"ended":                  {body: "setp.eq.u32 %p1, %r1, 1; @%p1 ret; L: ld.volatile.shared::cluster.u32 %r10, [%r6]; bra L;", cause: gpu.LostAddress, detail: "has ended"},
		"st.async to global":     {body: "st.async.mbarrier::complete_tx::bytes.b32 [%rd1], %r1, [%rd1];", cause: gpu.LostAddress, detail: "outside of .shared"},
		"more bytes than it can": {body: "mov.u32 %r10, words; L: st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r10+8], %r1, [%r10]; bra L;", cause: gpu.LostInstruction, detail: "mbarrier"},
		"never together": {body: "setp.eq.u32 %p1, %r1, 0; @%p1 bra M; setp.lt.u32 %p1, %r3, 16; @%p1 bra A; bar.sync 1; bra M; A: bar.sync 2; M: " + meet,
			cause: gpu.LostInstruction, detail: "never complete: 16 threads at barrier 1, 16 threads at barrier 2, 32 threads at that of the cluster"},
	} {
		k, m := clusterKernel(t, ".reqntid 32, 1, 1 .reqnctapercluster 2, 1, 1", c.body)
		l := Launch{Grid: grid(2, 1, 1), Block: grid(32, 1, 1), Params: params(uint64(exectest.BufA))}
		e := lost(t, Run(k, l, m, new(Control), 2))
		require.Equal(t, c.cause, e.Cause, "%s: %v", name, e)
		require.Contains(t, e.Detail, c.detail, name)
		if at := atomicFaults[name]; at != 0 {
			require.Equal(t, at, e.Addr, name)
			require.True(t, e.Write, name)
		}
	}
}

// atomicFaults are the addresses of faults of atomics, which count as stores.
var atomicFaults = map[string]uint64{"no such rank": 0xff << ClusterShift, "misaligned": 1<<ClusterShift + 2}
