package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// fewerBits is how many bits fewer than those of mma a wgmma of 8-bit floating point keeps of a
// sum (docs/ptx.md).
const fewerBits = 12

// wgmma decodes wgmma.
func (b *builder) wgmma(i *ptx.Instr) {
	sync := ir.Inst{Kind: ir.KWarpSync, Fn: lane.Nothing, Other: -1}
	switch i.Mods.Step {
	case ptx.StepMultiply:
		b.groupProduct(i)
	case ptx.StepCommit:
		sync.Fn = lane.GroupCommit
		sync.E = b.imm32(ir.AllLanes)
		b.emit(sync)
	case ptx.StepWait: // again and again until it holds
		again, next := b.newLabel(), b.newLabel()
		done := b.tempPred()
		b.place(again)
		sync.Fn, sync.D, sync.Imm = lane.GroupWait, done, i.Args[0].Value
		sync.E = b.imm32(ir.AllLanes)
		b.emit(sync)
		b.emit(ir.Inst{Kind: ir.KBranch, A: done, Neg: true, Target: again, Other: next})
		b.place(next)
	}
}

// groupProduct decodes wgmma.mma_async.
func (b *builder) groupProduct(i *ptx.Instr) {
	g := i.Group()
	op := &ir.GroupOp{Columns: i.Columns(), Memory: !g.Registers, Negate: g.NegateA != g.NegateB, Trans: [2]bool{g.TransA, g.TransB}}
	op.MatrixOp = *matrixOp(i)
	op.Rows, op.Swap = 16, false
	op.A, op.B = elementOf[i.Element(ptx.FragmentA)], elementOf[i.Element(ptx.FragmentB)]
	op.Depth, op.After = op.K, false
	if op.A == ir.ElementE4M3 || op.A == ir.ElementE5M2 {
		op.Cut, op.Bytes = fewerBits, true
	}
	if g.Registers {
		b.fragment(&op.MatrixOp, ir.MatrixA, g.A)
	} else {
		op.Place[ir.MatrixA] = b.src64(g.A, ptx.B64)
	}
	op.Place[ir.MatrixB] = b.src64(g.B, ptx.B64)
	if g.Metadata != nil {
		b.sparsity(i, &op.MatrixOp, g.Metadata, g.Selector)
	}
	op.Scale, op.Not = b.srcPred(g.Scale)
	op.Sums = make([]uint32, 0, len(i.Args[0].Elems))
	for n := range i.Args[0].Elems {
		b.use(i.Args[0].Elems[n].Reg)
	}
	for n := range i.Args[0].Elems {
		r := i.Args[0].Elems[n].Reg
		b.define(r)
		op.Sums = append(op.Sums, b.regs[r].index)
	}
	b.emit(ir.Inst{Kind: ir.KWarpSync, Fn: lane.GroupProduct, E: b.imm32(ir.AllLanes), X: &ir.Extra{Group: op}, Other: -1})
}
