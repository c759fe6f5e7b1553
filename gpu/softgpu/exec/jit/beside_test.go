//go:build amd64 && linux

package jit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane/table"
)

// Two loads of words beside each other are found by lanes that have parted, where nothing between them has to do with the second.
func TestBesideFound(t *testing.T) {
	load := func(d uint32, imm uint64) ir.Inst {
		return ir.Inst{Kind: ir.KMasked, Op: ir.OpLoadWide, D: d, A: 1, Imm: imm, Target: 4, Align: 3, Space: ir.SpaceGlobal, Other: -1}
	}
	add := func(d, a, b uint32) ir.Inst {
		return ir.Inst{Kind: ir.KLane32, Op: table.Lanes["add.u32"].Op, D: d, A: a, B: b, E: ir.NoReg, Other: -1}
	}
	guarded, store, narrow, spin := load(2, 4), load(5, 64), load(2, 4), ir.Inst{Kind: ir.KMasked, Op: ir.OpSpin, Other: -1}
	guarded.Guard = 1
	store.Op = ir.OpStoreWide
	narrow.Target = 2
	for name, c := range map[string]struct {
		code   []ir.Inst
		second int32
	}{
		"next":                {code: []ir.Inst{load(1, 0), load(2, 4)}, second: 1},
		"below":               {code: []ir.Inst{load(1, 0), load(2, ^uint64(3))}, second: 1},
		"behind computations": {code: []ir.Inst{load(1, 0), add(3, 1, 1), load(4, 8), add(3, 3, 4), load(2, 4)}, second: 4},
		"read":                {code: []ir.Inst{load(1, 0), add(3, 1, 2), load(2, 4)}},
		"written":             {code: []ir.Inst{load(1, 0), add(2, 1, 1), load(2, 4)}},
		"stored":              {code: []ir.Inst{load(1, 0), store, load(2, 4)}},
		"guarded":             {code: []ir.Inst{load(1, 0), guarded}},
		"narrow":              {code: []ir.Inst{load(1, 0), narrow}},
		"far":                 {code: []ir.Inst{load(1, 0), load(2, 8)}},
		"the same":            {code: []ir.Inst{load(1, 0), load(1, 4)}},
		"ordered":             {code: []ir.Inst{load(1, 0), spin, load(2, 4)}},
		"the second ordered":  {code: []ir.Inst{load(1, 0), load(2, 4), spin}},
	} {
		code := append(c.code, endOfCode)
		fn := &ir.Function{Kernel: true, End: int32(len(code)), Regs32: 8, Regs64: 4, Preds: 1}
		e := &emitter{fn: fn, code: code, cache: newCache(fn), masked: true, end: int32(len(code)), fixed32: make([]bool, 8), fixed64: make([]bool, 4)}
		second, ok := e.beside(0, &code[0])
		require.Equal(t, c.second != 0, ok, name)
		require.Equal(t, c.second, second, name)
		e.masked = false
		_, ok = e.beside(0, &code[0])
		require.False(t, ok, name)
	}
}
