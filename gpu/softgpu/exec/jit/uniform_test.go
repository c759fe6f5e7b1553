//go:build amd64 && linux

package jit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/table"
)

// Registers that the first block computes of parameters are the same in all lanes; those of threads, under
// a guard, written twice, or in another block, may differ.
func TestUniform(t *testing.T) {
	add := table.Lanes["add.u32"].Op
	row := func(d, a, b uint32) ir.Inst {
		return ir.Inst{Kind: ir.KLane32, Op: add, D: d, A: a, B: b, E: ir.NoReg, Other: -1}
	}
	guarded := row(4, 0, 1)
	guarded.Guard = 1
	code := []ir.Inst{
		{Kind: ir.KLane32, Op: ir.OpParam, D: 0, C: 4, Other: -1},
		{Kind: ir.KLane32, Op: ir.OpTid, D: 1, Other: -1},
		row(2, 0, 7), row(3, 0, 1), guarded, row(5, 0, 0),
		{Kind: ir.KJump, Target: 7, Other: -1},
		row(6, 0, 2), endOfCode,
	}
	fn := &ir.Function{Kernel: true, End: int32(len(code)), Regs32: 8, Preds: 1, Once32: []uint32{0, 1, 2, 3, 6}, Const32: []ir.Const32{{Reg: 7, Value: 3}}}
	e := &emitter{fn: fn, code: code, cache: newCache(fn)}
	e.fixed32 = make([]bool, fn.Regs32)
	e.fixed32[7] = true
	require.True(t, e.flow())
	e.findUniform()
	require.Equal(t, []bool{true, false, true, false, false, false, false, true}, e.fixed32)
}
