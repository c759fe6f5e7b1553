//go:build goexperiment.simd && amd64

package lane

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
)

// rounds is how many sets of registers each operation is tried on.
const rounds = 1000

// The SIMD twins of blend and FillEach give what those give.
func TestSIMDBlend(t *testing.T) {
	exectest.NeedSIMD(t)
	r := rand.New(rand.NewPCG(3, 3))
	for n := range rounds {
		mask := r.Uint32()
		if n < len(exectest.Masks) {
			mask = exectest.Masks[n]
		}
		want := exectest.FuzzWarp()
		exectest.RandomLanes(r, want)
		got := exectest.Clone(want)
		blend(&want.R32[0], &want.R32[1], mask)
		blend(&want.R64[0], &want.R64[1], mask)
		blendW(&got.R32[0], &got.R32[1], mask)
		blendQ(&got.R64[0], &got.R64[1], mask)
		FillEach(&want.R32[2], r.Uint32())
		FillEach(&want.R64[2], r.Uint64())
		fillW(&got.R32[2], want.R32[2][31])
		fillQ(&got.R64[2], want.R64[2][0])
		require.True(t, exectest.EqualLanes(want, got), "%#x", mask)
	}
}
