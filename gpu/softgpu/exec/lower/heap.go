package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// malloc and free decode calls of the CUDA run-time's functions of these names, which new and
// delete become, too.
func (b *builder) malloc(i *ptx.Instr, f *ptx.Func) {
	c := i.Call
	if len(f.Params) != 1 || len(f.Results) != 1 || f.Params[0].Size() != 8 || f.Results[0].Size() != 8 {
		b.fail(i, "malloc takes and returns 8 bytes")
		return
	}
	b.c.prog.Mallocs = true
	in := ir.Inst{Kind: ir.KMasked, Fn: lane.MallocLanes, A: b.pointerArgument(&c.Args[0]), Other: -1}
	o := &c.Results[0]
	if v, ok := o.Ref.(*ptx.Var); ok && o.Kind == ptx.OperandSymbol {
		in.D = b.temp64()
		b.emit(in)
		b.access(where{space: ir.SpaceLocal, frame: true, offset: uint64(b.offsets[v])}, in.D, 8, 8, true)
		return
	}
	in.D = b.dst(o, ir.In64)
	b.emit(in)
	b.finish(o, in.D, ptx.U64)
}

func (b *builder) free(i *ptx.Instr, f *ptx.Func) {
	c := i.Call
	if len(f.Params) != 1 || len(f.Results) != 0 || f.Params[0].Size() != 8 {
		b.fail(i, "free takes 8 bytes and returns nothing")
		return
	}
	b.emit(ir.Inst{Kind: ir.KMasked, Fn: lane.FreeLanes, A: b.pointerArgument(&c.Args[0]), Other: -1})
}
