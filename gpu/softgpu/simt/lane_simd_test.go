//go:build goexperiment.simd && amd64

package simt

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"simd/archsimd"

	"github.com/stretchr/testify/require"
)

// The tables as they are before init replaces rows: variables of a package,
// its tests' included, are initialised first.
var (
	portableLanes    = maps.Clone(laneRows)
	portableCompares = maps.Clone(compareRows)
)

func needSIMD(t testing.TB) {
	if !archsimd.X86.AVX2() || !archsimd.X86.FMA() {
		t.Skip("the processor lacks AVX2 or FMA: the portable functions are in use")
	}
}

// rounds is how many sets of registers each operation is tried on.
const rounds = 1000

// Every SIMD function gives the registers that the portable one gives,
// whichever of its registers are the same.
func TestSIMDLanes(t *testing.T) {
	needSIMD(t)
	require.NotEmpty(t, simdLanes)
	for key, fn := range simdLanes {
		row, ok := portableLanes[key]
		require.True(t, ok, key)
		r := rand.New(rand.NewPCG(1, uint64(len(key))))
		for n := range rounds {
			want := fuzzWarp()
			randomLanes(r, want)
			in := &inst{d: 0, a: 1, b: 2, c: 3, e: 4, imm: r.Uint64()}
			if n%4 == 0 { // some are the same register
				in.d, in.a, in.b, in.c = r.Uint32N(3), r.Uint32N(3), r.Uint32N(3), r.Uint32N(3)
			}
			before, got := clone(want), clone(want)
			row.fn(want, in)
			fn(got, in)
			if !equalLanes(want, got) {
				t.Fatal(difference(key, in, before, want, got))
			}
		}
	}
}

func difference(key string, in *inst, before, want, got *warp) string {
	for k := range 32 {
		if a, b := want.r32[in.d][k], got.r32[in.d][k]; a != b {
			return fmt.Sprintf("%s %+v lane %d: of %#x %#x %#x is %#x, want %#x; 64-bit %#x %#x", key, *in, k,
				before.r32[in.a][k], before.r32[in.b][k], before.r32[in.c][k], b, a, before.r64[in.a][k], before.r64[in.b][k])
		}
		if a, b := want.r64[in.d][k], got.r64[in.d][k]; a != b {
			return fmt.Sprintf("%s %+v lane %d: of %#x %#x %#x is %#x, want %#x; 32-bit %#x %#x", key, *in, k,
				before.r64[in.a][k], before.r64[in.b][k], before.r64[in.c][k], b, a, before.r32[in.a][k], before.r32[in.b][k])
		}
	}
	return key + ": another register than the result differs"
}

func TestSIMDCompares(t *testing.T) {
	needSIMD(t)
	require.NotEmpty(t, simdCompares)
	for key, fn := range simdCompares {
		row, ok := portableCompares[key]
		require.True(t, ok, key)
		r := rand.New(rand.NewPCG(2, uint64(len(key))))
		for range rounds {
			w := fuzzWarp()
			randomLanes(r, w)
			in := &inst{a: 1, b: 1 + r.Uint32N(2)}
			require.Equal(t, row.fn(w, in), fn(w, in), "%s\n%x\n%x", key, w.r32, w.r64)
		}
	}
}

func TestSIMDBlend(t *testing.T) {
	needSIMD(t)
	r := rand.New(rand.NewPCG(3, 3))
	for n := range rounds {
		mask := r.Uint32()
		if n < len(masks) {
			mask = masks[n]
		}
		want := fuzzWarp()
		randomLanes(r, want)
		got := clone(want)
		blend(&want.r32[0], &want.r32[1], mask)
		blend(&want.r64[0], &want.r64[1], mask)
		blendW(&got.r32[0], &got.r32[1], mask)
		blendQ(&got.r64[0], &got.r64[1], mask)
		fillEach(&want.r32[2], r.Uint32())
		fillEach(&want.r64[2], r.Uint64())
		fillW(&got.r32[2], want.r32[2][31])
		fillQ(&got.r64[2], want.r64[2][0])
		require.True(t, equalLanes(want, got), "%#x", mask)
	}
}

// Init puts the SIMD functions to use.
func TestSIMDInUse(t *testing.T) {
	needSIMD(t)
	for key := range simdLanes {
		require.NotEqual(t, fmt.Sprintf("%p", portableLanes[key].fn), fmt.Sprintf("%p", laneRows[key].fn), key)
		require.Equal(t, portableLanes[key].form, laneRows[key].form, key)
	}
	for key := range simdCompares {
		require.NotEqual(t, fmt.Sprintf("%p", portableCompares[key].fn), fmt.Sprintf("%p", compareRows[key].fn), key)
	}
}
