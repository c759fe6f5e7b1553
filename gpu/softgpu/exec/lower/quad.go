package lower

import (
	"slices"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// Values of 128 bits. A register of that type is two of 64 bits: the lower half keeps its number, the
// upper one gets a number behind those of the source. Instructions on it become instructions on
// its halves, but for atomics.

// halve returns the function with its registers of 128 bits as halves, and the number of the upper
// half by that of the lower one.
func (c *compiler) halve(f *ptx.Func) (*ptx.Func, map[int32]int32) {
	var upper map[int32]int32
	for n, r := range f.Regs {
		if r.Type != ptx.B128 {
			continue
		}
		if upper == nil {
			halved := *f
			f, upper = &halved, map[int32]int32{}
			f.Regs = slices.Clone(f.Regs)
		}
		c.effort.Memory(registerBytes + ir.MapFactor*8)
		upper[int32(n)] = int32(len(f.Regs))
		f.Regs[n].Type, r.Type = ptx.B64, ptx.B64
		f.Regs = append(f.Regs, r)
	}
	return f, upper
}

// halves are the operands of 64 bits that one of 128 bits is made of: registers, constants, elements of a
// vector, or vectors of half as many.
func (b *builder) halves(o *ptx.Operand) [2]ptx.Operand {
	lo, hi := *o, *o
	switch {
	case o.Kind == ptx.OperandReg:
		hi.Reg = b.upper[o.Reg]
	case o.Kind == ptx.OperandVector && len(o.Elems) == 2:
		lo, hi = o.Elems[0], o.Elems[1]
	case o.Kind == ptx.OperandVector:
		lo.Elems, hi.Elems = o.Elems[:len(o.Elems)/2], o.Elems[len(o.Elems)/2:]
	case o.Kind == ptx.OperandImm:
		hi.Value = 0
	}
	return [2]ptx.Operand{lo, hi}
}

// quad decodes an instruction on a value of 128 bits. It reports false for others.
func (b *builder) quad(i *ptx.Instr) bool {
	if i.Mods.Type() != ptx.B128 || i.Op == ptx.OpRaw {
		return false
	}
	half := *i
	half.Mods.Types[0], half.Args = ptx.B64, slices.Clone(i.Args)
	switch i.Op {
	case ptx.OpMov:
		d, a := b.halves(&i.Args[0]), b.halves(&i.Args[1])
		for n := range d {
			if half.Args[0], half.Args[1] = d[n], a[n]; d[n].Kind != ptx.OperandSink {
				b.mov(&half)
			}
		}
	case ptx.OpLd, ptx.OpLdu, ptx.OpSt:
		data := &half.Args[0]
		if i.Op == ptx.OpSt {
			data = &half.Args[1]
		}
		elems := b.halves(data)
		*data = ptx.Operand{Kind: ptx.OperandVector, Elems: elems[:], Pos: data.Pos, Reg: ptx.NoReg, Target: -1}
		half.Mods.Vec = 2
		if i.Op == ptx.OpSt {
			b.st(&half)
		} else {
			b.ld(&half)
		}
	case ptx.OpAtom:
		b.atomPair(i)
	default:
		b.fail(i, "")
	}
	return true
}

// atomPair decodes atom.exch and atom.cas.
func (b *builder) atomPair(i *ptx.Instr) {
	at, ok := b.address(i, &i.Args[1])
	if !ok {
		return
	}
	at = b.wideBase(at)
	pair := func(o *ptx.Operand) (r [2]uint32) {
		for n, half := range b.halves(o) {
			r[n] = b.src64(&half, ptx.B64)
		}
		return r
	}
	op := &ir.PairOp{Old: [2]uint32{ir.NoReg, ir.NoReg}, Compare: i.Mods.Atomic == ptx.AtomicCas}
	op.B = pair(&i.Args[2])
	if op.Compare {
		op.C = pair(&i.Args[3])
	}
	if i.Args[0].Kind == ptx.OperandReg {
		for n, half := range b.halves(&i.Args[0]) {
			op.Old[n] = b.dst(&half, ir.In64)
		}
	}
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.AtomPairs, A: at.base, Imm: at.offset, Space: at.space, B: ir.NoReg, C: ir.NoReg, D: ir.NoReg, Other: -1, X: &ir.Extra{Pair: op}})
}
