package jit

import "pvdrm/gpu/softgpu/exec/ir"

// Left returns the positions of a function's operations of which native code has no form: it has them done by
// their functions (help.go), or leaves for the interpreter. Ends, barriers and sleeps are none: there a warp stops. A
// call is one if native code can make it of no function (calls.go).
func Left(p *ir.Program, fn *ir.Function) (list []int32) {
	calls := nativeCalls(p, fn)
	for pc := fn.Entry; pc < fn.End; pc++ {
		switch in := &p.Code[pc]; in.Kind {
		case ir.KRet, ir.KExit, ir.KTrap, ir.KBarrier, ir.KSleep, ir.KPass:
		default:
			if !compiles(in, InUse()) && len(calls[in]) == 0 {
				list = append(list, pc)
			}
		}
	}
	return list
}
