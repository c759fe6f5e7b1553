//go:build amd64 && linux

package jit

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu/softgpu/exec/internal/exectest"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// exchangeInst makes a shuffle or vote on random registers; register 4 is the mask.
func exchangeInst(r *rand.Rand) ir.Inst {
	in := ir.Inst{Kind: ir.KWarpSync, A: r.Uint32N(4), B: r.Uint32N(4), C: r.Uint32N(4), D: r.Uint32N(4), E: 4, Other: -1, Neg: r.IntN(2) == 0}
	switch in.Op = ir.OpShfl + ir.Opcode(r.IntN(int(ir.OpMeet-ir.OpShfl)+1)); in.Op {
	case ir.OpShfl:
		in.Fn, in.X = lane.ShflLanes, &ir.Extra{Shfl: &ir.ShflOp{Mode: ir.ShflMode(r.IntN(4))}}
		if r.IntN(2) == 0 {
			in.Other = int32(r.IntN(4))
		}
	case ir.OpBallot:
		in.Fn = lane.VoteBallot
	case ir.OpMeet:
		in.Fn, in.D = lane.Nothing, ir.NoReg
	case ir.OpVoteAll:
		in.Fn = lane.VoteAll
	case ir.OpVoteUni:
		in.Fn = lane.VoteUni
	case ir.OpElect:
		in.Fn, in.Other = lane.ElectLanes, int32(r.IntN(5))-1
	case ir.OpMatchAny:
		in.Fn, in.Imm = lane.MatchAny, 4+4*r.Uint64N(2)
	case ir.OpMatchAll:
		in.Fn, in.Imm, in.Other = lane.MatchAll, 4+4*r.Uint64N(2), int32(r.IntN(5))-1
	case ir.OpRedux:
		names := slices.Sorted(maps.Keys(lane.ReduxOps))
		op := lane.ReduxOps[names[r.IntN(len(names))]]
		in.Fn, in.Imm = lane.Redux(op.Fn), uint64(op.Kind)
	default:
		in.Fn = lane.VoteAny
	}
	if (in.Op >= ir.OpVoteAll && in.Op <= ir.OpVoteUni || in.Op == ir.OpMatchAll) && r.IntN(8) == 0 {
		in.D = ir.NoReg
	}
	return in
}

// Shuffles and votes give what the interpreter gives, also to groups of lanes that name masks of their own; those of lanes that
// do not run and have not exited are left to it.
func TestNativeExchanges(t *testing.T) { eachISA(t, testNativeExchanges) }

func testNativeExchanges(t *testing.T, isa ISA) {
	r := rand.New(rand.NewPCG(10, 1))
	for n := range 3000 {
		want := exectest.FuzzWarp()
		exectest.RandomLanes(r, want)
		if n%3 == 0 {
			for i := range 3 { // what programs use: the same in all lanes
				lane.FillEach(&want.R32[1+i], []uint32{0x1f, 0x1c03, 0x101f, 16, 1, 0}[r.IntN(6)])
			}
		}
		if n%2 == 0 { // values that some lanes have in common, or all
			for i := range want.R32[:4] {
				few := r.Uint32N(5) + 1
				for l := range want.R32[i] {
					want.R32[i][l] %= few
					want.R64[i][l] = uint64(want.R32[i][l]) << 40
				}
			}
		}
		if n%5 == 0 {
			want.Pr = []uint32{0, ir.AllLanes, 1, 1 << 31, ir.AllLanes}
		}
		mask := r.Uint32()
		lane.FillEach(&want.R32[4], mask)
		if n%4 == 0 {
			want.Mask = exectest.Masks[1+r.IntN(len(exectest.Masks)-1)]
			want.Live = []uint32{want.Mask, want.Mask | r.Uint32(), ir.AllLanes}[r.IntN(3)]
			if n%8 == 0 {
				mask &= want.Mask
				lane.FillEach(&want.R32[4], mask)
			}
		}
		if n%6 == 0 { // tiles
			shift := 1 << r.IntN(5)
			for l := range 32 {
				want.R32[4][l] = uint32(1<<shift-1) << (l / shift * shift)
			}
		}
		other := r.IntN(32)
		if n%7 == 0 {
			want.R32[4][other] ^= 1 << r.IntN(32)
		}
		in := exchangeInst(r)
		got := exectest.Clone(want)
		nativeWarp(got)
		at := newMachine(isa).run(t, got, []ir.Inst{in, endOfCode})
		groups, n, complete := lane.Groups(&want.R32[4], want.Mask, want.Live)
		if !complete {
			require.Zero(t, at)
			require.True(t, exectest.EqualLanes(want, got), "%+v", in)
			continue
		}
		all := want.Mask
		for _, want.Mask = range groups[:n] {
			in.Fn(want, &in)
		}
		want.Mask = all
		require.EqualValues(t, 1, at)
		require.True(t, exectest.EqualLanes(want, got), "%+v of %x\nwant %x %x\ngot  %x %x", in, groups[:n], want.R32, want.Pr, got.R32, got.Pr)
	}
}
