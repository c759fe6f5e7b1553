package lane

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/tlb"
)

// rowsWarp is a warp of a block with some .shared memory, and matrices whose rows lie there anywhere.
func rowsWarp(r *rand.Rand, count int, trans, generic bool) (*ir.Warp, *ir.Inst) {
	const bytes = 384
	b := &ir.Block{Shared: make([]byte, bytes), Fn: &ir.Function{}, Prog: &ir.Program{}}
	b.Place.Rank = r.Uint32N(3)
	w := &ir.Warp{Block: b, Worker: &ir.Worker{}, R32: make([][32]uint32, 4), R64: make([][32]uint64, 1), Mask: ir.AllLanes, Live: ir.AllLanes}
	for i := range b.Shared {
		b.Shared[i] = byte(r.Uint32())
	}
	in := &ir.Inst{Space: ir.SpaceShared, Imm: 16, X: &ir.Extra{Matrix: &ir.MatrixOp{Trans: trans, Stride: ir.NoReg}}}
	from := b.Own()
	if generic {
		in.Space, from = ir.SpaceGeneric, from+tlb.SharedBase
	}
	for i := range 32 {
		w.R64[0][i] = from + 16*r.Uint64N(bytes/16) - in.Imm
		for k := range w.R32 {
			w.R32[k][i] = r.Uint32()
		}
	}
	in.X.Matrix.Count[ir.MatrixD] = count
	in.X.Matrix.Regs[ir.MatrixD] = [8]uint32{2, 0, 3, 1}
	return w, in
}

// Rows that are moved at once are those that are moved lane by lane.
func TestMatrixRows(t *testing.T) {
	r := rand.New(rand.NewPCG(14, 1))
	for n := range 400 {
		count := 1 << (n % 3)
		w, in := rowsWarp(r, count, n%2 == 0, n%5 == 0)
		offsets, ok := ownRows(w, in, count)
		require.True(t, ok)
		before := append([]byte(nil), w.Block.Shared...)
		var rows [32][4]uint32
		for q, reg := range in.X.Matrix.Regs[ir.MatrixD][:count] {
			for lane := range 32 {
				spread((*[8][4]uint32)(rows[8*q:]), lane, w.R32[reg][lane], in.X.Matrix.Trans)
			}
		}
		want := append([]byte(nil), before...)
		for i, at := range offsets[:8*count] {
			for k := range 16 {
				want[int(at)+k] = byte(rows[i][k/4] >> (8 * (k % 4)))
			}
		}
		StoreMatrix(w, in)
		require.Equal(t, want, w.Block.Shared)
		LoadMatrix(w, in)
		for i, at := range offsets[:8*count] {
			for k := range rows[i] {
				rows[i][k] = uint32(loadBytes(want[int(at)+4*k:], 4))
			}
		}
		for q, reg := range in.X.Matrix.Regs[ir.MatrixD][:count] {
			for lane := range 32 {
				require.Equal(t, fragmentOf((*[8][4]uint32)(rows[8*q:]), lane, in.X.Matrix.Trans), w.R32[reg][lane])
			}
		}
	}
}

// A row that is not whole in .shared, or not aligned, faults as it does lane by lane.
func TestMatrixRowsOutside(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 1))
	for _, move := range []ir.Func{LoadMatrix, StoreMatrix} {
		for _, apart := range []uint64{384, 376, 8, 1 << 20, 1 << 24, 1 << 40, 1 << 63, ^uint64(0), ^uint64(15)} {
			w, in := rowsWarp(r, 4, false, false)
			w.R64[0][17] = w.Block.Own() + apart - in.Imm
			_, ok := ownRows(w, in, 4)
			require.False(t, ok, "%#x", apart)
			require.Panics(t, func() { move(w, in) }, "%#x", apart)
		}
	}
	var fault *gpu.LostError
	w, in := rowsWarp(r, 1, false, false)
	w.R64[0][7] = w.Block.Own() + 384 - in.Imm
	func() {
		defer func() { fault, _ = recover().(*gpu.LostError) }()
		LoadMatrix(w, in)
	}()
	require.Equal(t, gpu.LostAddress, fault.Cause)
}
