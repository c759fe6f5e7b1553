//go:build amd64 && linux

package jit

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// products are the products that are compiled: elements, k, and what the hardware adds up at once.
var products = []ir.MatrixOp{
	{A: ir.ElementF16, C: ir.ElementF32, D: ir.ElementF32, K: 16, Depth: 16},
	{A: ir.ElementF16, C: ir.ElementF32, D: ir.ElementF32, K: 8, Depth: 16},
	{A: ir.ElementF16, C: ir.ElementF16, D: ir.ElementF16, K: 16, Depth: 16},
	{A: ir.ElementF16, C: ir.ElementF16, D: ir.ElementF16, K: 8, Depth: 16},
	{A: ir.ElementF16, C: ir.ElementF16, D: ir.ElementF32, K: 16, Depth: 16},
	{A: ir.ElementF16, C: ir.ElementF32, D: ir.ElementF16, K: 16, Depth: 16},
	{A: ir.ElementBF16, C: ir.ElementF32, D: ir.ElementF32, K: 16, Depth: 16},
	{A: ir.ElementBF16, C: ir.ElementF32, D: ir.ElementF32, K: 8, Depth: 16},
	{A: ir.ElementTF32, C: ir.ElementF32, D: ir.ElementF32, K: 8, Depth: 16},
	{A: ir.ElementTF32, C: ir.ElementF32, D: ir.ElementF32, K: 4, Depth: 16},
	{A: ir.ElementS8, B: ir.ElementS8, C: ir.ElementS32, D: ir.ElementS32, K: 32},
	{A: ir.ElementS8, B: ir.ElementU8, C: ir.ElementS32, D: ir.ElementS32, K: 16, Saturate: true},
	{A: ir.ElementU8, B: ir.ElementS8, C: ir.ElementS32, D: ir.ElementS32, K: 32, Saturate: true},
	{A: ir.ElementU8, B: ir.ElementU8, C: ir.ElementS32, D: ir.ElementS32, K: 16},
}

// matrixInst makes an operation on random registers; tiles: 0 for one, 1 for two of b, 2 for two of a.
func matrixInst(r *rand.Rand, w *ir.Warp, op ir.MatrixOp, tiles int) ir.Inst {
	op.Rows, op.Number = 16, 1
	fn := lane.MatrixInteger
	if !isWhole(&op) {
		op.B, fn = op.A, lane.MatrixFloat
	}
	groups := op.K / (4 * op.A.PerRegister())
	counts := [4]int{2 * groups, groups, 4 / op.C.PerRegister(), 4 / op.D.PerRegister()}
	if tiles != 0 {
		op.Number, op.StepC, op.StepD = 2, counts[2], counts[3]
		counts[2], counts[3] = 2*counts[2], 2*counts[3]
		if tiles == 1 {
			op.StepB, counts[1] = counts[1], 2*counts[1]
		} else {
			op.StepA, counts[0] = counts[0], 2*counts[0]
		}
	}
	for at := range op.Regs {
		op.Count[at] = counts[at]
		for i, n := range r.Perm(len(w.R32))[:counts[at]] {
			op.Regs[at][i] = uint32(n)
		}
	}
	return ir.Inst{Kind: ir.KWarpSync, Op: ir.OpMatrix, Fn: fn, Other: -1, X: &ir.Extra{Matrix: &op}}
}

// operands are bits for elements: any, of like exponents, sparse, and of the edges of formats.
var matrixOperands = []func(r *rand.Rand) uint32{
	func(r *rand.Rand) uint32 { return r.Uint32() },
	func(r *rand.Rand) uint32 { return r.Uint32()&0xbfffbfff&^0x40004000 | 0x20002000 },
	func(r *rand.Rand) uint32 { return r.Uint32()&0x87ff87ff | 0x3c003c00 },
	func(r *rand.Rand) uint32 { return r.Uint32()&0x807f807f | uint32(0x3f80-r.IntN(4)*0x80)*0x10001 },
	func(r *rand.Rand) uint32 { return 0x7bff7bff ^ r.Uint32()&0x80008000&uint32(-r.IntN(2)) },
	func(r *rand.Rand) uint32 { return r.Uint32() & 0x83ff83ff },
	func(r *rand.Rand) uint32 {
		return []uint32{0, 0x80000000, 0x3c00, 0x3f803f80, 0xbc00bc00, 1, 0x00010001}[r.IntN(7)]
	},
	func(r *rand.Rand) uint32 { return r.Uint32()&0x80ffffff | uint32(0x30+r.IntN(30))<<24 },
}

// Products give the registers that their functions give, whatever the elements are.
func TestNativeMatrix(t *testing.T) { eachISA(t, testNativeMatrix) }

func testNativeMatrix(t *testing.T, isa ISA) {
	for i, op := range products {
		for tiles := range 3 {
			t.Run(fmt.Sprint(i, tiles), func(t *testing.T) {
				r := rand.New(rand.NewPCG(12, uint64(3*i+tiles)))
				for range 60 {
					want := &ir.Warp{R32: make([][32]uint32, 24), R64: make([][32]uint64, 1), Pr: make([]uint32, 1), Mask: ir.AllLanes, Live: ir.AllLanes}
					nativeWarp(want)
					for n := range want.R32 {
						operand := matrixOperands[r.IntN(len(matrixOperands))]
						for k := range 32 {
							want.R32[n][k] = operand(r)
						}
					}
					in := matrixInst(r, want, op, tiles)
					require.True(t, knownMatrix(&in))
					got := exectest.Clone(want)
					in.Fn(want, &in)
					require.EqualValues(t, 1, newMachine(isa).run(t, got, []ir.Inst{in, endOfCode}))
					for n := range want.R32 {
						require.Equal(t, want.R32[n], got.R32[n], "register %d of %+v", n, in.X.Matrix)
					}
					require.Equal(t, want.Budget, got.Budget)
				}
			})
		}
	}
}

// Of numbers as programs have them none is left to the function.
func TestNativeMatrixUsual(t *testing.T) { eachISA(t, testNativeMatrixUsual) }

func testNativeMatrixUsual(t *testing.T, isa ISA) {
	r := rand.New(rand.NewPCG(13, 1))
	for _, op := range products {
		w := &ir.Warp{R32: make([][32]uint32, 24), R64: make([][32]uint64, 1), Pr: make([]uint32, 1), Mask: ir.AllLanes, Live: ir.AllLanes}
		nativeWarp(w)
		for n := range w.R32 {
			for k := range 32 {
				kind := 2
				if op.A != ir.ElementF16 {
					kind = 3
				}
				w.R32[n][k] = matrixOperands[kind](r)
			}
		}
		in := matrixInst(r, w, op, 0)
		in.Fn = func(*ir.Warp, *ir.Inst) { t.Errorf("%+v is left", in.X.Matrix) }
		require.EqualValues(t, 1, newMachine(isa).run(t, w, []ir.Inst{in, endOfCode}))
	}
}
