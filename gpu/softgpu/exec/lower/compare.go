package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
	"pvdrm/gpu/softgpu/exec/lane/table"
)

// compareRow finds the comparison of an instruction on type t.
func (b *builder) compareRow(i *ptx.Instr, t ptx.Type) (table.Compare, bool) {
	key := i.Mods.Cmp.String() + "."
	if i.Mods.Has(ptx.FTZ) {
		key += "ftz."
	}
	row, ok := table.Compares[key+t.String()]
	if !ok {
		b.fail(i, "")
	}
	return row, ok
}

// compareInst makes a comparison of args[0] and args[1], combined with args[2]
// if there is one; the destinations are still to be set.
func (b *builder) compareInst(i *ptx.Instr, row table.Compare, t ptx.Type, args []ptx.Operand) ir.Inst {
	in := ir.Inst{Kind: ir.KCompare, Cmp: row.Fn, Op: row.Op, E: ir.NoReg, Other: -1}
	in.A = b.compared(&args[0], row.Args[0], t)
	if len(row.Args) > 1 {
		in.B = b.compared(&args[1], row.Args[1], t)
	}
	b.combined(i, &in, args)
	return in
}

// combined adds the predicate args[2] that a comparison is combined with.
func (b *builder) combined(i *ptx.Instr, in *ir.Inst, args []ptx.Operand) {
	if i.Mods.Bool != ptx.BoolNone {
		in.Combine = map[ptx.Bool]ir.BoolOp{ptx.BoolAnd: ir.BoolAnd, ptx.BoolOr: ir.BoolOr, ptx.BoolXor: ir.BoolXor}[i.Mods.Bool]
		var neg bool
		if in.C, neg = b.srcPred(&args[2]); neg {
			in.Combine |= ir.BoolNot
		}
	}
}

func (b *builder) compared(o *ptx.Operand, letter byte, t ptx.Type) uint32 {
	if letter == 'q' || letter == 'g' {
		return b.src64(o, t)
	}
	return b.src32(o, t)
}

func (b *builder) setp(i *ptx.Instr) {
	t := i.Mods.Type()
	p, q := pair(&i.Args[0])
	if half, packed := halves[t]; packed {
		// P is the comparison of the low halves, q of the high ones.
		row, ok := b.compareRow(i, half)
		if !ok {
			return
		}
		lo := b.compareHalf(i, row, half, i.Args[1:], 0)
		hi := b.compareHalf(i, row, half, i.Args[1:], 16)
		for n, o := range []*ptx.Operand{p, q} {
			if d := b.dstPred(o); d != ir.NoReg {
				b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.PredMov, Op: ir.OpPredMov, D: d, A: [2]uint32{lo, hi}[n], Other: -1})
			}
		}
		return
	}
	row, ok := b.compareRow(i, t)
	if !ok {
		return
	}
	in := b.compareInst(i, row, t, i.Args[1:])
	in.D, in.E = b.dstPred(p), b.dstPred(q)
	if in.D == ir.NoReg {
		in.D = b.tempPred()
	}
	b.emit(in)
}

// halves are the packed types and what they pack.
var halves = map[ptx.Type]ptx.Type{ptx.F16x2: ptx.F16, ptx.BF16x2: ptx.BF16}

// compareHalf compares one half of packed operands; the result is a temporary.
func (b *builder) compareHalf(i *ptx.Instr, row table.Compare, t ptx.Type, args []ptx.Operand, shift uint64) uint32 {
	in := ir.Inst{Kind: ir.KCompare, Cmp: row.Fn, Op: row.Op, E: ir.NoReg, Other: -1}
	half := func(o *ptx.Operand) uint32 {
		d := b.temp32()
		b.lane("field.b32", d, b.src32(o, ptx.B32)).Imm = shift | 0xffff<<32
		return d
	}
	in.A, in.B = half(&args[0]), half(&args[1])
	b.combined(i, &in, args)
	in.D = b.tempPred()
	b.emit(in)
	return in.D
}

// set is a comparison whose result is all ones, or 1.0.
func (b *builder) set(i *ptx.Instr) {
	to, t := i.Mods.Types[0], i.Mods.Types[1]
	half, packed := halves[t]
	if packed {
		t = half
	}
	row, ok := b.compareRow(i, t)
	if !ok {
		return
	}
	yes := map[ptx.Type]uint64{ptx.U32: 1<<32 - 1, ptx.S32: 1<<32 - 1, ptx.U16: 0xffff, ptx.S16: 0xffff,
		ptx.F32: 0x3f800000, ptx.F16: 0x3c00, ptx.BF16: 0x3f80, ptx.F16x2: 0x3c00, ptx.BF16x2: 0x3f80}[to]
	if packed {
		lo, hi := b.temp32(), b.temp32()
		for n, d := range []uint32{lo, hi} {
			p := b.compareHalf(i, row, t, i.Args[1:], uint64(16*n))
			b.emit(ir.Inst{Kind: ir.KLane32, Fn: lane.PredMask, Op: ir.OpPredMask, D: d, A: p, Imm: yes & 0xffff << (16 * n), Other: -1})
		}
		b.lane("or.b32", b.dst(&i.Args[0], ir.In32), lo, hi)
		return
	}
	in := b.compareInst(i, row, t, i.Args[1:])
	in.D = b.tempPred()
	b.emit(in)
	b.emit(ir.Inst{Kind: ir.KLane32, Fn: lane.PredMask, Op: ir.OpPredMask, D: b.dst(&i.Args[0], ir.In32), A: in.D, Imm: yes, Other: -1})
}

func (b *builder) testp(i *ptx.Instr) {
	row, ok := table.Compares["testp."+i.Mods.Mode.String()+"."+i.Mods.Type().String()]
	if !ok {
		b.fail(i, "")
		return
	}
	in := b.compareInst(i, row, i.Mods.Type(), i.Args[1:])
	in.D = b.dst(&i.Args[0], ir.InPred)
	b.emit(in)
}
