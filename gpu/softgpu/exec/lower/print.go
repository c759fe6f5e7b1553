package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// vprintf decodes a call of the CUDA run-time's function of this name, which
// printf becomes: the format and a buffer with the arguments.
func (b *builder) vprintf(i *ptx.Instr) {
	c := i.Call
	if len(c.Args) != 2 || len(c.Results) > 1 {
		b.fail(i, "vprintf takes a format and a buffer")
		return
	}
	in := ir.Inst{Kind: ir.KMasked, Fn: lane.PrintLanes, A: b.pointerArgument(&c.Args[0]), B: b.pointerArgument(&c.Args[1]), D: b.temp32(), Other: -1}
	b.emit(in)
	b.emit(ir.Inst{Kind: ir.KPass, Other: -1})
	if len(c.Results) == 0 {
		return
	}
	o := &c.Results[0]
	if v, ok := o.Ref.(*ptx.Var); ok && o.Kind == ptx.OperandSymbol {
		b.access(where{space: ir.SpaceLocal, frame: true, offset: uint64(b.offsets[v])}, in.D, 4, 4, true)
		return
	}
	r := b.dst(o, ir.In32)
	b.lane("mov.32", r, in.D)
	b.finish(o, r, ptx.S32)
}

// assertion decodes a call of the function that assert calls when it fails, which prints and ends
// the kernel: the message, the file, the line, the function, and the size of a character.
func (b *builder) assertion(i *ptx.Instr, f *ptx.Func) {
	c := i.Call
	if len(f.Params) >= 4 && f.Params[0].Size() == 8 && f.Params[1].Size() == 8 && f.Params[2].Size() == 4 && f.Params[3].Size() == 8 {
		b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.AssertLanes, A: b.pointerArgument(&c.Args[0]), B: b.pointerArgument(&c.Args[1]),
			C: b.wordArgument(&c.Args[2]), E: b.pointerArgument(&c.Args[3]), Other: -1})
	}
	b.emit(ir.Inst{Kind: ir.KTrap, X: &ir.Extra{Detail: "assertion failed"}, Other: -1})
}

// wordArgument is a 32-bit register with the value of an argument.
func (b *builder) wordArgument(o *ptx.Operand) uint32 {
	v, ok := o.Ref.(*ptx.Var)
	if !ok || o.Kind != ptx.OperandSymbol {
		return b.src32(o, ptx.B32)
	}
	r := b.temp32()
	b.access(where{space: ir.SpaceLocal, frame: true, offset: uint64(b.offsets[v])}, r, 4, 4, false)
	return r
}

// pointerArgument is a 64-bit register with the value of an argument.
func (b *builder) pointerArgument(o *ptx.Operand) uint32 {
	v, ok := o.Ref.(*ptx.Var)
	if !ok || o.Kind != ptx.OperandSymbol {
		return b.src64(o, ptx.B64)
	}
	r := b.temp64()
	b.access(where{space: ir.SpaceLocal, frame: true, offset: uint64(b.offsets[v])}, r, 8, 8, false)
	return r
}
