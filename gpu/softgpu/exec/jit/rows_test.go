//go:build amd64 && linux

package jit

import (
	"math"
	"math/rand/v2"
	"strings"
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
	for _, mode := range []string{".rz", ".rm", ".rp"} {
		testRow(t, isa, "mul"+mode+".ftz.f32", 200, near(-63))
		testRow(t, isa, "rcp"+mode+".ftz.f32", 200, near(126))
		testRow(t, isa, "div"+mode+".ftz.f32", 200, func(r *rand.Rand) float32 { return near([]int{-63, 63}[r.IntN(2)])(r) })
		for _, op := range []string{"add", "sub"} {
			testRow(t, isa, op+mode+".ftz.f32", 200, near(-126))
		}
	}
	for _, key := range []string{"fma.ftz.f32", "fnms.ftz.f32"} { // sums of a product and what brings it to the limit
		testRow(t, isa, key, 400, func(r *rand.Rand) float32 { return near([]int{0, -126, -127, -125}[r.IntN(4)])(r) })
	}
}

// Operations of 16 bits give what their lane functions give at the edges of the formats, too.
func TestNativeHalves(t *testing.T) { eachISA(t, testNativeHalves) }

func testNativeHalves(t *testing.T, isa ISA) {
	edges := []uint32{0, 1, 0x3ff, 0x400, 0x401, 0x3bff, 0x3c00, 0x3c01, 0x3f80, 0x3f81, 0x3f7f, 0x7bff, 0x7c00, 0x7c01, 0x7f7f, 0x7f80, 0x7f81, 0x7fff, 0x7ff7, 0x7f, 0x80, 0x5bff, 0x5c00}
	edge := func(r *rand.Rand) uint32 {
		return edges[r.IntN(len(edges))] + uint32(r.IntN(3)-1)&0xffff ^ uint32(r.IntN(2))<<15
	}
	for _, key := range nativeKeys() {
		if strings.Contains(key, "f16") && table.Lanes[key].Form != "" && table.Lanes[key].Form[0] == 'w' && !strings.ContainsAny(table.Lanes[key].Form, "qg") {
			testRow(t, isa, key, 20, func(r *rand.Rand) float32 { return math.Float32frombits(edge(r)&0xffff | edge(r)<<16) })
		}
	}
}

// Quotients of 64 bits are right where they are nearly whole, and where operands are at the ends of their range.
func TestNativeQuotients(t *testing.T) { eachISA(t, testNativeQuotients) }

func testNativeQuotients(t *testing.T, isa ISA) {
	r := rand.New(rand.NewPCG(10, 1))
	ends := []uint64{0, 1, 2, 3, 1<<32 - 1, 1 << 32, 1<<32 + 1, 1<<52 - 1, 1 << 53, 1<<53 + 1, 1<<63 - 1, 1 << 63, 1<<63 + 1, 1<<64 - 1, 1<<64 - 2}
	for _, key := range []string{"div.u64", "rem.u64", "div.s64", "rem.s64"} {
		row := table.Lanes[key]
		in := ir.Inst{Fn: row.Fn, Op: row.Op, Kind: ir.KLane64, D: 2, A: 0, B: 1, E: ir.NoReg, Other: -1}
		want := exectest.FuzzWarp()
		got := exectest.Clone(want)
		nativeWarp(got)
		for range 600 {
			for k := range 32 {
				b := r.Uint64() >> r.IntN(64)
				a := r.Uint64() >> r.IntN(64)
				switch r.IntN(4) {
				case 0:
					a, b = ends[r.IntN(len(ends))], ends[r.IntN(len(ends))]
				case 1:
					a = ends[r.IntN(len(ends))]
				case 2: // a multiple, or beside one
					if b != 0 {
						a -= a%b + uint64(r.IntN(3)) - 1
					}
				}
				want.R64[0][k], want.R64[1][k] = a, b
			}
			copy(got.R64, want.R64)
			interpret(want, &in)
			require.EqualValues(t, 1, newMachine(isa).run(t, got, []ir.Inst{in, endOfCode}), key)
			require.Equal(t, want.R64, got.R64, key)
		}
	}
}
