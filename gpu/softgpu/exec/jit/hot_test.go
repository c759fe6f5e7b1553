package jit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/ir"
)

// Code that takes long to make is wanted more often before it is made, and that of large
// functions without loops most.
func TestEnough(t *testing.T) {
	straight := func(n int32) (*ir.Program, *ir.Function) {
		return &ir.Program{Code: make([]ir.Inst, n)}, &ir.Function{End: n}
	}
	loop := func(n int32, kind ir.Kind) (*ir.Program, *ir.Function) {
		p, fn := straight(n)
		p.Code[n-1] = ir.Inst{Kind: kind, Target: 0, Other: n - 1}
		return p, fn
	}
	for _, kind := range []ir.Kind{ir.KJump, ir.KBranch, ir.KCompareBranch, ir.KIndexed} {
		p, fn := loop(400, kind)
		require.EqualValues(t, hot, enough(p, fn, AVX512))
		require.EqualValues(t, hotPairs, enough(p, fn, AVX2))
		p, fn = loop(20, kind)
		require.EqualValues(t, hot+20, enough(p, fn, AVX2))
	}
	p, fn := straight(400)
	require.EqualValues(t, hot, enough(p, fn, AVX512))
	require.EqualValues(t, hotStraight, enough(p, fn, AVX2))
	p, fn = straight(48)
	require.EqualValues(t, hot+96, enough(p, fn, AVX2))
	p, fn = straight(1 << 16)
	require.EqualValues(t, hotStraight, enough(p, fn, AVX2))
}

// An at-once launch makes code that earlier launches had wanted, but not often enough.
func TestAtOnceAfterHot(t *testing.T) {
	if InUse() == Interpreted {
		t.Skip("the processor lacks SSE4.2: kernels are interpreted")
	}
	p, fn, n := &ir.Program{Code: []ir.Inst{{Kind: ir.KTrap, Other: -1}}}, &ir.Function{End: 1}, &Code{}
	require.NotNil(t, n.Prepare(p, fn, NativeHot))
	n.Warm()
	require.Nil(t, n.full.code.Load())
	n.Prepare(p, fn, NativeAtOnce)
	require.NotNil(t, n.full.code.Load())
}
