package jit

import "pvdrm/gpu/softgpu/exec/ir"

// Left returns the positions of a function's operations of which native code has no form: it has them done by
// their functions (help.go), or leaves for the interpreter. Ends, barriers and sleeps are none: there a warp stops. A
// call is one: the interpreter makes the frame of what is called, which has code of its own.
func Left(p *ir.Program, fn *ir.Function) (list []int32) {
	for pc := fn.Entry; pc < fn.End; pc++ {
		switch in := &p.Code[pc]; in.Kind {
		case ir.KRet, ir.KExit, ir.KTrap, ir.KBarrier, ir.KSleep, ir.KPass:
		default:
			if !compiles(in) {
				list = append(list, pc)
			}
		}
	}
	return list
}
