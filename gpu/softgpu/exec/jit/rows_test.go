//go:build amd64 && linux

package jit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/table"
)

// A row gives what its lane function gives, bit for bit, on many warps of operands of a kind.
func testRow(t *testing.T, isa ISA, key string, rounds int, operand func(r *rand.Rand) float32) {
	r := rand.New(rand.NewPCG(9, uint64(len(key))))
	row := table.Lanes[key]
	in := ir.Inst{Fn: row.Fn, Op: row.Op, Kind: ir.KLane32, D: 4, A: 0, B: 1, C: 2, E: ir.NoReg, Other: -1}
	want := exectest.FuzzWarp()
	got := exectest.Clone(want)
	nativeWarp(got)
	for range rounds {
		for i := range 3 {
			for k := range 32 {
				want.R32[i][k] = math.Float32bits(operand(r))
			}
		}
		copy(got.R32, want.R32)
		interpret(want, &in)
		require.EqualValues(t, 1, newMachine(isa).run(t, got, []ir.Inst{in, endOfCode}), key)
		require.Equal(t, want.R32, got.R32, "%s of %x", key, want.R32[:3])
	}
}

// Approximations are those of package math, over their whole range.
func TestNativeApproximations(t *testing.T) { eachISA(t, testNativeApproximations) }

func testNativeApproximations(t *testing.T, isa ISA) {
	for _, key := range []string{"ex2.approx.f32", "lg2.approx.f32", "sin.approx.f32", "cos.approx.f32", "ex2.approx.ftz.f32"} {
		testRow(t, isa, key, 400, func(r *rand.Rand) float32 { return r.Float32()*300 - 150 })
		testRow(t, isa, key, 400, func(r *rand.Rand) float32 {
			return math.Float32frombits(r.Uint32N(0x4e000000) | r.Uint32()&(1<<31)) // below 2^29
		})
		testRow(t, isa, key, 100, func(r *rand.Rand) float32 { return float32(r.IntN(301)-150) / 2 })
	}
}

// .ftz flushes what is tiny before it is rounded as a subnormal, and not what only becomes
// the smallest normal number.
func TestNativeTiny(t *testing.T) { eachISA(t, testNativeTiny) }

func testNativeTiny(t *testing.T, isa ISA) {
	near := func(exponent int) func(r *rand.Rand) float32 {
		return func(r *rand.Rand) float32 {
			x := math.Ldexp(1, exponent)
			return math.Float32frombits(math.Float32bits(float32(x))+uint32(r.IntN(9))-4) * float32(1-2*r.IntN(2))
		}
	}
	for _, key := range []string{"mul.ftz.f32", "fma.ftz.f32", "fms.ftz.f32", "fnma.ftz.f32", "fnms.ftz.f32"} {
		testRow(t, isa, key, 200, near(-63))
	}
	testRow(t, isa, "rcp.ftz.f32", 200, near(126))
	testRow(t, isa, "div.ftz.f32", 200, func(r *rand.Rand) float32 {
		return near([]int{-63, 63}[r.IntN(2)])(r)
	})
	for _, key := range []string{"fma.ftz.f32", "fnms.ftz.f32"} { // sums of a product and what brings it to the limit
		testRow(t, isa, key, 400, func(r *rand.Rand) float32 { return near([]int{0, -126, -127, -125}[r.IntN(4)])(r) })
	}
}
