//go:build goexperiment.simd && amd64

package table

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
)

// The tables as they are before init replaces rows: variables of a package,
// its tests' included, are initialised first.
var (
	portableLanes    = maps.Clone(Lanes)
	portableCompares = maps.Clone(Compares)
)

// rounds is how many sets of registers each operation is tried on.
const rounds = 1000

// Every SIMD function gives the registers that the portable one gives,
// whichever of its registers are the same.
func TestSIMDLanes(t *testing.T) {
	exectest.NeedSIMD(t)
	require.NotEmpty(t, simdLanes)
	for key, fn := range simdLanes {
		row, ok := portableLanes[key]
		require.True(t, ok, key)
		r := rand.New(rand.NewPCG(1, uint64(len(key))))
		for n := range rounds {
			want := exectest.FuzzWarp()
			exectest.RandomLanes(r, want)
			in := &ir.Inst{D: 0, A: 1, B: 2, C: 3, E: 4, Imm: r.Uint64()}
			if n%4 == 0 { // some are the same register
				in.D, in.A, in.B, in.C = r.Uint32N(3), r.Uint32N(3), r.Uint32N(3), r.Uint32N(3)
			}
			before, got := exectest.Clone(want), exectest.Clone(want)
			row.Fn(want, in)
			fn(got, in)
			if !exectest.EqualLanes(want, got) {
				t.Fatal(difference(key, in, before, want, got))
			}
		}
	}
}

func difference(key string, in *ir.Inst, before, want, got *ir.Warp) string {
	for k := range 32 {
		if a, b := want.R32[in.D][k], got.R32[in.D][k]; a != b {
			return fmt.Sprintf("%s %+v lane %d: of %#x %#x %#x is %#x, want %#x; 64-bit %#x %#x", key, *in, k,
				before.R32[in.A][k], before.R32[in.B][k], before.R32[in.C][k], b, a, before.R64[in.A][k], before.R64[in.B][k])
		}
		if a, b := want.R64[in.D][k], got.R64[in.D][k]; a != b {
			return fmt.Sprintf("%s %+v lane %d: of %#x %#x %#x is %#x, want %#x; 32-bit %#x %#x", key, *in, k,
				before.R64[in.A][k], before.R64[in.B][k], before.R64[in.C][k], b, a, before.R32[in.A][k], before.R32[in.B][k])
		}
	}
	return key + ": another register than the result differs"
}

func TestSIMDCompares(t *testing.T) {
	exectest.NeedSIMD(t)
	require.NotEmpty(t, simdCompares)
	for key, fn := range simdCompares {
		row, ok := portableCompares[key]
		require.True(t, ok, key)
		r := rand.New(rand.NewPCG(2, uint64(len(key))))
		for range rounds {
			w := exectest.FuzzWarp()
			exectest.RandomLanes(r, w)
			in := &ir.Inst{A: 1, B: 1 + r.Uint32N(2)}
			require.Equal(t, row.Fn(w, in), fn(w, in), "%s\n%x\n%x", key, w.R32, w.R64)
		}
	}
}

// Init puts the SIMD functions to use.
func TestSIMDInUse(t *testing.T) {
	exectest.NeedSIMD(t)
	for key := range simdLanes {
		require.NotEqual(t, fmt.Sprintf("%p", portableLanes[key].Fn), fmt.Sprintf("%p", Lanes[key].Fn), key)
		require.Equal(t, portableLanes[key].Form, Lanes[key].Form, key)
	}
	for key := range simdCompares {
		require.NotEqual(t, fmt.Sprintf("%p", portableCompares[key].Fn), fmt.Sprintf("%p", Compares[key].Fn), key)
	}
}
