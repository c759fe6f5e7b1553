package lane

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/softgpu/exec/ir"
)

// A warp runs its part of a wgmma.mma_async when it comes to it, which PTX permits: none of its
// threads may touch d, a or shared memory before they have waited. One thing is
// left of the asynchrony: a warp which has waited knows that the others have read shared memory, too,
// since programs let one thread of a warpgroup tell that its buffer is free.

// groupMembers are the warps of the warpgroup of w.
func groupMembers(w *ir.Warp) []*ir.Warp {
	first := w.Index &^ (ir.GroupSize - 1)
	all := w.Block.Warps
	if len(all) < first+ir.GroupSize {
		w.Fail(gpu.LostInstruction, fmt.Sprintf("wgmma in the last %d warps of a block, which are no warpgroup", len(all)-first))
	}
	return all[first : first+ir.GroupSize]
}

// GroupCommit is wgmma.commit_group.
func GroupCommit(w *ir.Warp, in *ir.Inst) { w.Groups++ }

// GroupWait is wgmma.wait_group: predicate d says whether the other warps have come as far as
// this one, but for its latest groups.
func GroupWait(w *ir.Warp, in *ir.Inst) {
	done := true
	for _, o := range groupMembers(w) {
		if behind := int32(w.Groups - o.Groups); behind <= int32(in.Imm) {
			continue
		}
		if o.Live == 0 {
			w.Fail(gpu.LostInstruction, fmt.Sprintf("wgmma.wait_group, but warp %d of the warpgroup has exited", o.Index))
		}
		done = false
	}
	w.SetAll(in.D, done)
	if !done {
		w.Budget = 0 // the others have to run
	}
}

// GroupProduct is wgmma.mma_async.
func GroupProduct(w *ir.Warp, in *ir.Inst) {
	op, t := in.X.Group, tile(w)
	groupMembers(w)
	if w.Worker.Group == nil {
		w.Worker.Group = new(ir.GroupTile)
	}
	scale := w.Pr[op.Scale]>>w.First()&1 != 0 != op.Not
	t.Special = false
	groupA(w, op, t)
	special, number := t.Special, op.Columns/8
	for n := range number {
		t.Special = special
		groupB(w, op, t, n)
		groupSums(w, op, t, op.Sums[n*len(op.Sums)/number:][:len(op.Sums)/number], scale)
	}
	w.Budget -= MatrixCost * number
}

// fragment lists the registers of a file that holds one matrix.
var fragment = [...]uint32{0, 1, 2, 3}

// integerDepth is how many numbers a row of integers has, words of bits.
func integerDepth(e ir.Element, k int) int {
	if e == ir.ElementB1 {
		return k / 32
	}
	return k
}

// groupA reads the rows of a that the warp has.
func groupA(w *ir.Warp, op *ir.GroupOp, t *ir.Tile) {
	file, regs := w.R32, op.Regs[ir.MatrixA][:]
	if op.Memory {
		file, regs = w.Worker.Group.A[:], fragment[:]
		groupRows(w, op, ir.MatrixA, file, w.Index%ir.GroupSize*16, 16, op.K*op.A.Bits())
	}
	if op.D == ir.ElementS32 {
		integersA(file, &op.MatrixOp, t, integerDepth(op.A, op.K), regs)
		return
	}
	gatherA(file, &op.MatrixOp, t, regs)
	if !op.Negate {
		return
	}
	for i := range t.A {
		for k := range t.A[i][:op.K] {
			t.A[i][k] = -t.A[i][k]
		}
	}
}

// groupB reads eight columns of b.
func groupB(w *ir.Warp, op *ir.GroupOp, t *ir.Tile, n int) {
	file, whole := w.Worker.Group.B[:], op.MatrixOp
	if op.Sparse.Chunk != 0 {
		whole.K *= 2
	}
	groupRows(w, op, ir.MatrixB, file, 8*n, 8, whole.K*op.B.Bits())
	if op.D == ir.ElementS32 {
		integersB(file, &whole, t, integerDepth(op.B, whole.K), fragment[:])
	} else {
		gatherB(file, &whole, t, fragment[:])
	}
}

// groupSums adds the products of a tile to the registers of d that it has, or sets these.
func groupSums(w *ir.Warp, op *ir.GroupOp, t *ir.Tile, regs []uint32, scale bool) {
	var results [4][32]uint32
	file, c := w.R32, regs
	if !scale {
		file, c = results[:], fragment[:]
	}
	integer := op.D == ir.ElementS32
	if !integer {
		gatherC(file, &op.MatrixOp, t, c)
	}
	switch {
	case op.Sparse.Chunk != 0:
		sparseRows(w, &op.MatrixOp, t, op.Cut)
	case op.A == ir.ElementB1:
		countBits(t, op.Rows, integerDepth(op.A, op.K), op.And)
	case integer:
		addIntegers(t, op.Rows, op.K)
	default:
		t.Cut = op.Cut
		decodeSums(t, op.Rows, narrowSums(&op.MatrixOp))
		multiply(t, &op.MatrixOp)
		t.Cut = 0
	}
	if integer {
		sums := [4][32]uint32{}
		addSums(file, &op.MatrixOp, t, c, sums[:])
		results = sums
	} else {
		results = [4][32]uint32{}
		shorten(t, op)
		scatterD(&op.MatrixOp, t, results[:])
	}
	for r, reg := range regs {
		CopyLanes(&w.R32[reg], &results[r], w.Mask, ir.AllLanes)
	}
}

// shorten drops the bits of f32 sums that are fewer than those of an f32.
func shorten(t *ir.Tile, op *ir.GroupOp) {
	if op.Cut == 0 || op.D != ir.ElementF32 {
		return
	}
	const low = 1<<10 - 1
	for i := range t.C {
		for j, x := range &t.C[i] {
			if x&infF32 != infF32 {
				t.C[i][j] = x &^ low
			}
		}
	}
}
