package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
)

// declare places variables and parameters, and reads the function's directives.
func (b *builder) declare() {
	f, fn := b.f, b.fn
	if f.Entry {
		fn.Kernel = true
		for _, v := range f.Params {
			fn.ParamBytes = alignUp(fn.ParamBytes, int(v.Alignment()))
			b.params[v] = fn.ParamBytes
			fn.ParamBytes += int(v.Size())
		}
		fn.ReqBlock, fn.ReqCluster, fn.MaxCluster = f.ReqNTid, f.Cluster.Required, f.Cluster.MaxRank
		fn.MaxThreads = int(min(threadsOf(f.MaxNTid), 1<<20))
		if f.ReqNTid != [3]uint32{} {
			for i := range fn.ReqBlock {
				fn.ReqBlock[i] = max(fn.ReqBlock[i], 1)
			}
		}
	} else {
		next := 0 // parameters in .reg come first in Regs, results before them
		formals := func(list []*ptx.Var, places []ir.Formal, isResult bool) {
			for i, v := range list {
				if places[i].Kind == ir.InMemory {
					b.offsets[v] = places[i].Offset
					continue
				}
				if places[i].Kind == ir.InPred || v.Vec > 0 || v.Type == ptx.B128 {
					b.c.fail(v.Pos, "parameter '%s' of type .%s in a register is not supported", v.Name, v.Type)
				}
				if next < len(b.regs) {
					places[i].Reg = b.regs[next].index
				}
				if isResult {
					b.results = append(b.results, int32(next))
				} else {
					b.use(int32(next)) // it is written before the function begins
				}
				next++
			}
		}
		formals(f.Results, fn.Results, true)
		formals(f.Params, fn.Params, false)
	}
	for _, v := range f.Locals {
		switch v.Space {
		case ptx.SpaceLocal, ptx.SpaceParam:
			if v.Size() > maxFrame || v.Alignment() > maxFrame || fn.LocalBytes > maxFrame {
				b.c.fail(v.Pos, "variable '%s': the local variables of a function may take %d bytes at most", v.Name, maxFrame)
				return
			}
			b.offsets[v] = allocate(fn, v)
		case ptx.SpaceGlobal, ptx.SpaceConst:
			b.c.fail(v.Pos, ".%s variable '%s' inside a function is not supported", v.Space, v.Name)
		}
	}
	fn.LocalBytes = alignUp(fn.LocalBytes, 16)
}

// maxFrame bounds the local memory of one function, bytes of one thread.
const maxFrame = 1 << 20
