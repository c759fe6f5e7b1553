package simt

import "pvdrm/gpu/ptx"

// declare places variables and parameters, and reads the function's directives.
func (b *builder) declare() {
	f, fn := b.f, b.fn
	if f.Entry {
		fn.kernel = true
		for _, v := range f.Params {
			fn.paramBytes = alignUp(fn.paramBytes, int(v.Alignment()))
			b.params[v] = fn.paramBytes
			fn.paramBytes += int(v.Size())
		}
		fn.reqBlock = f.ReqNTid
		fn.maxThreads = int(min(threadsOf(f.MaxNTid), 1<<20))
		if f.ReqNTid != [3]uint32{} {
			for i := range fn.reqBlock {
				fn.reqBlock[i] = max(fn.reqBlock[i], 1)
			}
		}
	} else {
		next := 0 // parameters in .reg come first in Regs, results before them
		formals := func(list []*ptx.Var, places []formal, isResult bool) {
			for i, v := range list {
				if places[i].kind == inMemory {
					b.offsets[v] = places[i].offset
					continue
				}
				if places[i].kind == inPred || v.Vec > 0 {
					b.c.fail(v.Pos, "parameter '%s' of type .%s in a register is not supported", v.Name, v.Type)
				}
				if next < len(b.regs) {
					places[i].reg = b.regs[next].index
				}
				if isResult {
					b.results = append(b.results, int32(next))
				} else {
					b.use(int32(next)) // it is written before the function begins
				}
				next++
			}
		}
		formals(f.Results, fn.results, true)
		formals(f.Params, fn.params, false)
	}
	for _, v := range f.Locals {
		switch v.Space {
		case ptx.SpaceLocal, ptx.SpaceParam:
			if v.Size() > maxFrame || v.Alignment() > maxFrame || fn.localBytes > maxFrame {
				b.c.fail(v.Pos, "variable '%s': the local variables of a function may take %d bytes at most", v.Name, maxFrame)
				return
			}
			b.offsets[v] = fn.allocate(v)
		case ptx.SpaceGlobal, ptx.SpaceConst:
			b.c.fail(v.Pos, ".%s variable '%s' inside a function is not supported", v.Space, v.Name)
		}
	}
	fn.localBytes = alignUp(fn.localBytes, 16)
}

// maxFrame bounds the local memory of one function, bytes of one thread.
const maxFrame = 1 << 20
