package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

var elementOf = map[ptx.Type]ir.Element{
	ptx.F16: ir.ElementF16, ptx.BF16: ir.ElementBF16, ptx.TF32: ir.ElementTF32, ptx.F32: ir.ElementF32, ptx.F64: ir.ElementF64,
	ptx.E4M3: ir.ElementE4M3, ptx.E5M2: ir.ElementE5M2, ptx.S32: ir.ElementS32, ptx.S8: ir.ElementS8, ptx.U8: ir.ElementU8,
	ptx.S4: ir.ElementS4, ptx.U4: ir.ElementU4, ptx.B1: ir.ElementB1,
}

var matrixOf = map[ptx.Fragment]int{ptx.FragmentA: ir.MatrixA, ptx.FragmentB: ir.MatrixB, ptx.FragmentC: ir.MatrixC, ptx.FragmentD: ir.MatrixD}

// matrixOp begins the operation of an instruction on matrices.
func matrixOp(i *ptx.Instr) *ir.MatrixOp {
	m, n, k := i.Mods.Shape.Size()
	op := &ir.MatrixOp{
		Rows: min(m, 16), K: k, Tiles: ir.Tiles{Number: 1}, Tall: m, Wide: n, Stride: ir.NoReg,
		A: elementOf[i.Element(ptx.FragmentA)], B: elementOf[i.Element(ptx.FragmentB)],
		C: elementOf[i.Element(ptx.FragmentC)], D: elementOf[i.Element(ptx.FragmentD)],
		Saturate: i.Mods.Has(ptx.SatFinite), And: i.Mods.Bool == ptx.BoolAnd,
	}
	if i.Mods.Sparse() {
		op.K /= 2
	}
	op.Depth, op.After = sums(i, op)
	if n == 32 {
		op.Swap, op.Rows, op.Tall, op.Wide = true, 16, n, m
		op.A, op.B = op.B, op.A
	}
	return op
}

// sums is how an H100 forms the sums of a product (docs/ptx.md).
func sums(i *ptx.Instr, op *ir.MatrixOp) (depth int, after bool) {
	switch {
	case op.A == ir.ElementE4M3 || op.A == ir.ElementE5M2:
		if op.K == 16 {
			return 8, true
		}
		return 16, true
	case i.Op == ptx.OpWmma && op.A == ir.ElementTF32:
		return 4, false
	}
	return 16, false
}

// tiles finds the steps of an operation on more than one tile.
func tiles(op *ir.MatrixOp) {
	if op.Wide == 16 {
		op.Number, op.StepB = 2, op.K/(4*op.B.PerRegister())
	} else if op.Tall == 32 {
		op.Number, op.StepA = 2, op.K/(4*op.A.PerRegister())*2
	} else {
		return
	}
	op.StepC, op.StepD = 4/op.C.PerRegister(), 4/op.D.PerRegister()
}

// fragment notes the registers of an operand, which are read.
func (b *builder) fragment(op *ir.MatrixOp, at int, o *ptx.Operand) {
	list := vector(o)
	op.Count[at] = len(list)
	for n := range list {
		b.use(list[n].Reg)
		op.Regs[at][n] = b.regs[list[n].Reg].index
	}
}

// fragmentResults notes the registers of an operand that are written. Precondition: those
// that are read have been noted.
func (b *builder) fragmentResults(op *ir.MatrixOp, at int, o *ptx.Operand) {
	list := vector(o)
	op.Count[at] = len(list)
	for n := range list {
		b.define(list[n].Reg)
		op.Regs[at][n] = b.regs[list[n].Reg].index
	}
}

// emitMatrix emits an operation that all lanes of a warp run together.
func (b *builder) emitMatrix(op *ir.MatrixOp, in ir.Inst) {
	in.Kind, in.E, in.Other = ir.KWarpSync, b.imm32(ir.AllLanes), -1
	in.X = &ir.Extra{Matrix: op}
	b.emit(in)
}

// mma decodes mma and wmma.mma.
func (b *builder) mma(i *ptx.Instr) {
	op := matrixOp(i)
	tiles(op)
	op.Quads = i.Op == ptx.OpMma && i.Mods.Shape == ptx.ShapeM8N8K4 && op.A == ir.ElementF16
	first, second := ir.MatrixA, ir.MatrixB
	if op.Swap {
		first, second = second, first
	}
	b.fragment(op, first, &i.Args[1])
	b.fragment(op, second, &i.Args[2])
	b.fragment(op, ir.MatrixC, &i.Args[3])
	b.fragmentResults(op, ir.MatrixD, &i.Args[0])
	fn, known := lane.MatrixFloat, ir.OpMatrix
	switch {
	case i.Mods.Sparse():
		fn, known = lane.MatrixSparse, ir.OpNone
		b.sparsity(i, op, &i.Args[4], i.Args[5].Value)
	case op.Quads:
		op.Columns = [2]bool{i.Mods.Layouts[0] == ptx.LayoutCol, i.Mods.Layouts[1] == ptx.LayoutRow}
		fn, known = lane.MatrixQuads, ir.OpNone
	case op.D == ir.ElementF64:
		fn, known = lane.MatrixDouble, ir.OpNone
	case op.D == ir.ElementS32:
		fn = lane.MatrixInteger
	}
	b.emitMatrix(op, ir.Inst{Fn: fn, Op: known})
}

// sparsity decodes what tells the places of the elements of a.
func (b *builder) sparsity(i *ptx.Instr, op *ir.MatrixOp, meta *ptx.Operand, selector uint64) {
	op.Sparse = ir.Sparsity{Meta: b.src32(meta, ptx.B32), Run: 1}
	_, op.Sparse.Chunk = i.MetadataBits()
	switch op.A {
	case ir.ElementS4, ir.ElementU4:
		op.Sparse.Run = 2
		op.Sparse.Rows = true
	case ir.ElementS8, ir.ElementU8, ir.ElementE4M3, ir.ElementE5M2:
		op.Sparse.Rows = true
	}
	op.Sparse.First = int(selector * 4 / i.Selectors())
}

// wmma decodes wmma.
func (b *builder) wmma(i *ptx.Instr) {
	if i.Mods.Mode == ptx.ModeMMA {
		b.mma(i)
		return
	}
	op := matrixOp(i)
	address, registers := &i.Args[1], &i.Args[0]
	if i.Mods.Mode == ptx.ModeStore {
		address, registers = registers, address
	}
	op.Fragment, op.Column = matrixOf[i.Mods.Fragment], i.Mods.Layouts[0] == ptx.LayoutCol
	if op.Swap && op.Fragment <= ir.MatrixB {
		op.Fragment = ir.MatrixB - op.Fragment
	}
	matrixExtent(op)
	at, ok := b.address(i, address)
	if !ok {
		return
	}
	at = b.wideBase(at)
	if len(i.Args) > 2 {
		op.Stride = b.src32(&i.Args[2], ptx.U32)
	}
	in := ir.Inst{Fn: lane.MatrixLoad, Op: ir.OpTransfer, A: at.base, Imm: at.offset, Space: at.space}
	if i.Mods.Mode == ptx.ModeStore {
		in.Fn, in.Op = lane.MatrixStore, ir.OpTransferOut
		b.fragment(op, op.Fragment, registers)
	} else {
		b.fragmentResults(op, op.Fragment, registers)
	}
	lane.PlaceMatrix(op)
	b.emitMatrix(op, in)
}

// matrixExtent sets the size of the matrix that is transferred, and the leading dimension
// that it has if the instruction names none.
func matrixExtent(op *ir.MatrixOp) {
	switch op.Fragment {
	case ir.MatrixA:
		op.Wide = op.K
	case ir.MatrixB:
		op.Tall = op.K
	}
	op.Pitch = uint32(op.Wide)
	if op.Column != op.Swap {
		op.Pitch = uint32(op.Tall)
	}
}

// ldmatrix decodes ldmatrix and stmatrix.
func (b *builder) ldmatrix(i *ptx.Instr) {
	op := &ir.MatrixOp{Trans: i.Mods.Has(ptx.Trans)}
	address, registers := &i.Args[1], &i.Args[0]
	if i.Op == ptx.OpStmatrix {
		address, registers = registers, address
	}
	at, ok := b.address(i, address)
	if !ok {
		return
	}
	at = b.wideBase(at)
	in := ir.Inst{Fn: lane.LoadMatrix, Op: ir.OpRows, A: at.base, Imm: at.offset, Space: at.space}
	if i.Op == ptx.OpStmatrix {
		in.Fn, in.Op = lane.StoreMatrix, ir.OpRowsOut
		b.fragment(op, ir.MatrixD, registers)
	} else {
		b.fragmentResults(op, ir.MatrixD, registers)
	}
	b.emitMatrix(op, in)
}

func (b *builder) movmatrix(i *ptx.Instr) {
	in := ir.Inst{Fn: lane.MoveMatrix, Op: ir.OpTurn, A: b.src32(&i.Args[1], ptx.B32)}
	in.D = b.dst(&i.Args[0], ir.In32)
	b.emitMatrix(nil, in)
}
