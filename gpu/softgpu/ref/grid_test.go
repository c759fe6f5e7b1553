package ref

import (
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec"
)

// TestGridBarrier runs a kernel whose blocks wait for each other, which the other engine has too.
func TestGridBarrier(t *testing.T) {
	const blocks, threads, rounds = 5, 33, 4
	src, err := os.ReadFile("../exec/testdata/ptx/grid.ptx")
	require.NoError(t, err)
	m := &memory{pages: map[uint64][]byte{bufA / pageSize: make([]byte, pageSize)}}
	p, err := compile(t, string(src), m)
	require.NoError(t, err)
	k, ok := p.Kernel("relay")
	require.True(t, ok)
	l := exec.Launch{Grid: [3]uint32{blocks, 1, 1}, Block: [3]uint32{threads, 1, 1}, Cooperative: true,
		Params: binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(nil, bufA), rounds)}
	require.NoError(t, Run(k, l, m, plenty))
	want := make([]uint32, blocks*threads)
	for i := range want {
		want[i] = uint32(i)
	}
	for range rounds {
		next := make([]uint32, len(want))
		for i := range want {
			next[i] = 3*want[i] + want[(i+threads)%len(want)]
		}
		want = next
	}
	require.Equal(t, want, m.words(bufA, len(want)))

	l.Grid[0] = maxTogether + 1
	require.ErrorIs(t, Run(k, l, m, plenty), gpu.ErrGridTooLarge)

	k, _ = p.Kernel("alone")
	l.Grid[0] = 2
	var lost *gpu.LostError
	require.ErrorAs(t, Run(k, l, m, plenty), &lost)
	require.Equal(t, gpu.LostTimeout, lost.Cause)
}
