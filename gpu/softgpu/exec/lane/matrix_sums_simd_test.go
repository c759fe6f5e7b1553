//go:build goexperiment.simd && amd64

package lane

import (
	"math/rand/v2"
	"simd/archsimd"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/ir"
)

// someF32 is an f32 of any kind: zeros, subnormals, infinities and NaNs are frequent.
func someF32(r *rand.Rand) uint32 {
	x := r.Uint32()
	switch r.IntN(6) {
	case 0:
		x &= 1 << 31
	case 1:
		x &^= 0xff << 23
	case 2:
		x |= 0xff << 23
	case 3:
		x = x&(1<<31) | 0xff<<23
	}
	return x
}

// TestSumsVector compares the sums of a row at once with those of single elements.
func TestSumsVector(t *testing.T) {
	if !archsimd.X86.AVX2() || !archsimd.X86.FMA() {
		t.Skip("the processor lacks AVX2 or FMA")
	}
	r := rand.New(rand.NewPCG(3, 4))
	encoded := 0
	for range 4000 {
		var want ir.Tile
		for i := range want.C {
			for j := range want.C[i] {
				want.C[i][j] = someF32(r)
			}
		}
		got := want
		decodePortable(&want, 16)
		decodeVector(&got, 16)
		require.Equal(t, want.CSig, got.CSig)
		require.Equal(t, want.CExp, got.CExp)
		require.Equal(t, want.Special, got.Special)

		spread := int32(1 + r.IntN(280))
		for j := range 8 {
			got.Sum[0][j] = int32(r.Uint32()) >> r.IntN(32)
			got.Start[0][j] = int32(r.Uint32()) >> (4 + r.IntN(28))
			got.Max[0][j] = r.Int32N(spread) - spread/2
			switch r.IntN(6) {
			case 0:
				got.Sum[0][j], got.Start[0][j], got.Max[0][j] = 0, 0, zeroExp
			case 1:
				got.Start[0][j] = -got.Sum[0][j] >> 4 << 4
			}
		}
		before := got.C
		if !encodeVector(&got, 0) {
			require.Equal(t, before, got.C)
			continue
		}
		encoded++
		for j, x := range got.C[0] {
			require.Equal(t, encodeF32(int64(got.Sum[0][j])+int64(got.Start[0][j]), got.Max[0][j]-sumFraction), x)
		}
	}
	require.Greater(t, encoded, 1000)
}
