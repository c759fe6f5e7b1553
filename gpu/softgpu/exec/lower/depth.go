package lower

import "pvdrm/gpu/softgpu/exec/ir"

// maxCallChain bounds how deep depths looks.
const maxCallChain = 512

// depths finds the most that a thread may have of the call stack in each function, with
// those that it calls.
func depths(p *ir.Program) {
	const visiting = -1
	var visit func(fn *ir.Function, chain int) int
	visit = func(fn *ir.Function, chain int) int {
		switch {
		case fn.Depth == visiting || chain > maxCallChain:
			return ir.AnyDepth
		case fn.Depth != 0:
			return fn.Depth
		}
		deepest := fn.Depth // what alloca has made of it, or 0
		fn.Depth = visiting
		for i := fn.Entry; i < fn.End && deepest < ir.AnyDepth; i++ {
			if in := &p.Code[i]; in.Kind == ir.KCall {
				next := ir.AnyDepth
				if in.X.Call.Fn != nil {
					next = visit(in.X.Call.Fn, chain+1)
				}
				deepest = max(deepest, next)
			}
		}
		fn.Depth = min(deepest+fn.FrameBytes, ir.AnyDepth)
		return fn.Depth
	}
	for _, fn := range p.Funcs {
		visit(fn, 0)
	}
}
