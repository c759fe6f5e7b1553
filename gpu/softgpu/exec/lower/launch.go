package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// deviceRuntime are the functions on which PVDRM's device runtime stands, which launches kernels
// from kernels: the sizes of their arguments; each returns 4 bytes.
var deviceRuntime = map[string]struct {
	args []uint64
	do   func(w *ir.Warp, in *ir.Inst) // nil: the function waits for what the kernel has launched
}{
	"__pvdrm_parameter_bytes":  {args: []uint64{8}, do: lane.ParameterBytesLanes},
	"__pvdrm_kernel_attribute": {args: []uint64{8, 4}, do: lane.KernelAttributeLanes},
	"__pvdrm_launch":           {args: []uint64{8, 8}, do: lane.LaunchLanes},
	"__pvdrm_synchronize":      {args: []uint64{4}},
	"__pvdrm_last_error":       {args: []uint64{4, 4}, do: lane.LastErrorLanes},
}

// runtimeCall decodes the call of a function of deviceRuntime.
func (b *builder) runtimeCall(i *ptx.Instr, f *ptx.Func) {
	c, d := i.Call, deviceRuntime[f.Name]
	if len(f.Params) != len(d.args) || len(c.Args) != len(d.args) || len(f.Results) != 1 || f.Results[0].Size() != 4 {
		b.fail(i, f.Name+" has other arguments or results")
		return
	}
	b.c.prog.Launches = true
	in := ir.Inst{Kind: ir.KMasked, Fn: d.do, D: b.temp32(), Other: -1}
	if d.do == nil {
		in.Kind = ir.KChildren
	}
	for n, to := range []*uint32{&in.A, &in.B}[:len(d.args)] {
		switch {
		case f.Params[n].Size() != d.args[n]:
			b.fail(i, f.Name+" has other arguments or results")
			return
		case d.args[n] == 8:
			*to = b.pointerArgument(&c.Args[n])
		default:
			*to = b.wordArgument(&c.Args[n])
		}
	}
	b.emit(in)
	b.emit(ir.Inst{Kind: ir.KPass, Other: -1})
	o := &c.Results[0]
	if v, ok := o.Ref.(*ptx.Var); ok && o.Kind == ptx.OperandSymbol {
		b.access(where{space: ir.SpaceLocal, frame: true, offset: uint64(b.offsets[v])}, in.D, 4, 4, true)
		return
	}
	r := b.dst(o, ir.In32)
	b.lane("mov.32", r, in.D)
	b.finish(o, r, ptx.S32)
}
