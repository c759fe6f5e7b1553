//go:build amd64 && linux

package jit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// Atomic operations leave the registers, the memory, the fault and what is left of the warp's turn that the
// interpreter leaves, also where lanes update the same word, and most do not need it.
func TestNativeAtoms(t *testing.T) { eachISA(t, testNativeAtoms) }

func testNativeAtoms(t *testing.T, isa ISA) {
	names := []string{"add.f64"}
	for name := range lane.AtomKinds {
		names = append(names, name)
	}
	for n, name := range names {
		size := 4
		if name[len(name)-2:] == "64" {
			size = 8
		}
		for variant := range 4 {
			op, ok := lane.AtomOf(name, size)
			require.True(t, ok)
			in := ir.Inst{Kind: ir.KMasked, Op: ir.OpAtom, Fn: lane.AtomLanes, B: 2, C: ir.NoReg, D: ir.NoReg, Align: uint8(size - 1), X: &ir.Extra{Atom: &op}, Other: -1}
			if op.Kind == ir.AtomCas {
				in.C = 3
			}
			if op.Result = variant%2 != 0; op.Result {
				in.D = uint32(n) % 4 // the address or an operand, too
			}
			if variant >= 2 {
				in.Guard, in.GuardNeg = 2, variant == 3
			}
			testNativeAtom(t, isa, name, in)
		}
	}
}

func testNativeAtom(t *testing.T, isa ISA, name string, in ir.Inst) {
	round, budget, native, all := 0, 0, 0, 0
	size := int(in.X.Atom.Size)
	fixed := func(w *ir.Warp) (list []ir.Const32) {
		if round%3 == 0 && size == 4 && in.D != 2 { // all lanes have the same operand
			list = append(list, ir.Const32{Reg: 2, Value: w.R32[2][0]})
			lane.FillEach(&w.R32[2], w.R32[2][0])
		}
		return list
	}
	want := func(w *ir.Warp, in *ir.Inst) {
		round++
		w.Budget = 1000
		fixed(w)
		defer func() { budget = w.Budget }()
		interpret(w, in)
	}
	exectest.TestAccess(t, ir.AccessKey{Size: size, Wide: true, Writes: true}, in, want, func(w *ir.Warp, in *ir.Inst) {
		nativeWarp(w)
		w.Budget = 1000
		same := fixed(w)
		defer func() { require.Equal(t, budget, w.Budget) }()
		m := newMachine(isa)
		all++
		for range 2 { // the second time it knows the page
			if known(in) && m.run(t, w, []ir.Inst{*in, endOfCode}, same...) == 1 {
				native++
				return
			}
		}
		w.PC = 0
		interpret(w, in)
	})
	if in.X.Atom.Kind != ir.AtomOther {
		require.Greater(t, native, all/8, "%s: hardly any is native", name)
	}
}
