//go:build amd64 && linux

package jit

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// Sums with a carry are those of the interpreter, for all lanes and for some, also where the result is an operand.
func TestNativeCarries(t *testing.T) { eachISA(t, testNativeCarries) }

func testNativeCarries(t *testing.T, isa ISA) {
	r := rand.New(rand.NewPCG(20, 1))
	for n := range 2000 {
		op := ir.OpAddCarry + ir.Opcode(n%4)
		in := ir.Inst{Kind: ir.KMasked, Op: op, Fn: lane.CarryFuncs[op], A: r.Uint32N(5), B: r.Uint32N(5), D: r.Uint32N(5), E: r.Uint32N(5),
			Imm: r.Uint64N(4), Other: -1}
		if n%3 == 0 {
			in.Guard, in.GuardNeg = 1+r.Uint32N(5), r.IntN(2) == 0
		}
		want := exectest.FuzzWarp()
		exectest.RandomLanes(r, want)
		if n%5 == 0 {
			want.Mask = exectest.Masks[1+r.IntN(len(exectest.Masks)-1)]
		}
		got := exectest.Clone(want)
		nativeWarp(got)
		next := in
		next.A, next.Imm = in.D, 3
		require.EqualValues(t, 2, newMachine(isa).run(t, got, []ir.Inst{in, next, endOfCode}))
		interpret(want, &in)
		interpret(want, &next)
		require.True(t, exectest.EqualLanes(want, got), "%+v mask %x\nwant %x %x\ngot  %x %x", in, want.Mask, want.R32, want.Pr, got.R32, got.Pr)
	}
}
