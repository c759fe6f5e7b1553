package ref

import (
	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// malloc and free are those of the CUDA run-time; the context's heap decides.
func (t *thread) malloc(c *ptx.Call) {
	f := c.Callee.Ref.(*ptx.Func)
	if len(f.Params) != 1 || len(f.Results) != 1 || f.Params[0].Size() != 8 || f.Results[0].Size() != 8 {
		t.fail(gpu.LostInstruction, "malloc takes and returns 8 bytes")
	}
	addr := t.b.launch.Heap.Malloc(t.pointer(&c.Args[0]))
	o := &c.Results[0]
	if v, ok := o.Ref.(*ptx.Var); ok && o.Kind == ptx.OperandSymbol {
		write(t.local[t.base+t.fn.offsets[v]:][:8], addr)
	} else {
		t.set(o, addr, ptx.U64)
	}
}

func (t *thread) free(c *ptx.Call) {
	f := c.Callee.Ref.(*ptx.Func)
	if len(f.Params) != 1 || len(f.Results) != 0 || f.Params[0].Size() != 8 {
		t.fail(gpu.LostInstruction, "free takes 8 bytes and returns nothing")
	}
	if addr := t.pointer(&c.Args[0]); addr != 0 && !t.b.launch.Heap.Free(addr) {
		e := t.lost(gpu.LostAddress, "free of an address that malloc did not return")
		e.Addr, e.Write = addr, true
		panic(e)
	}
}
