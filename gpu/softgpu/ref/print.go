package ref

import (
	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/internal/cprintf"
)

// print is vprintf: it prints the arguments at args in the given format and
// returns how many there are.
func (t *thread) print(format, args uint64) uint64 {
	read := func(addr, size uint64) uint64 { return read(t.bytes(ptx.SpaceGeneric, addr, size, false)) }
	text, n := cprintf.Format(read, format, args)
	if t.b.launch.Print != nil {
		t.b.launch.Print(text)
	}
	return uint64(n)
}

// assertion is __assertfail: it prints and ends the kernel.
func (t *thread) assertion(c *ptx.Call) {
	f := c.Callee.Ref.(*ptx.Func)
	if p := f.Params; t.b.launch.Print != nil && len(p) >= 4 && p[0].Size() == 8 && p[1].Size() == 8 && p[2].Size() == 4 && p[3].Size() == 8 {
		a := cprintf.Assert{Message: t.pointer(&c.Args[0]), File: t.pointer(&c.Args[1]), Line: t.word(&c.Args[2]),
			Function: t.pointer(&c.Args[3]), Block: t.b.id, Thread: t.tid}
		read := func(addr, size uint64) uint64 { return read(t.bytes(ptx.SpaceGeneric, addr, size, false)) }
		t.b.launch.Print(gpu.StderrMark + a.Text(read))
	}
	t.fail(gpu.LostTrap, "assertion failed")
}

// word is the value of an argument of 4 bytes.
func (t *thread) word(o *ptx.Operand) uint32 {
	v, ok := o.Ref.(*ptx.Var)
	if !ok || o.Kind != ptx.OperandSymbol {
		return uint32(t.get(o, ptx.B32))
	}
	return uint32(read(t.local[t.base+t.fn.offsets[v]:][:4]))
}
