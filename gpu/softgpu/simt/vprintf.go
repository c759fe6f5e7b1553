package simt

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/internal/cprintf"
)

// vprintf decodes a call of the CUDA run-time's function of this name, which
// printf becomes: the format and a buffer with the arguments.
func (b *builder) vprintf(i *ptx.Instr) {
	c := i.Call
	if len(c.Args) != 2 || len(c.Results) > 1 {
		b.fail(i, "vprintf takes a format and a buffer")
		return
	}
	in := inst{kind: kMasked, fn: printLanes, a: b.pointerArgument(&c.Args[0]), b: b.pointerArgument(&c.Args[1]), d: b.temp32(), other: -1}
	b.emit(in)
	if len(c.Results) == 0 {
		return
	}
	o := &c.Results[0]
	if v, ok := o.Ref.(*ptx.Var); ok && o.Kind == ptx.OperandSymbol {
		b.access(where{space: spaceLocal, frame: true, offset: uint64(b.offsets[v])}, in.d, 4, 4, true)
		return
	}
	r := b.dst(o, in32)
	b.lane("mov.32", r, in.d)
	b.finish(o, r, ptx.S32)
}

// pointerArgument is a 64-bit register with the value of an argument.
func (b *builder) pointerArgument(o *ptx.Operand) uint32 {
	v, ok := o.Ref.(*ptx.Var)
	if !ok || o.Kind != ptx.OperandSymbol {
		return b.src64(o, ptx.B64)
	}
	r := b.temp64()
	b.access(where{space: spaceLocal, frame: true, offset: uint64(b.offsets[v])}, r, 8, 8, false)
	return r
}

// printLanes prints for each active lane, in order, and gives the number of
// arguments. A fault in the format or in what it names is one of the kernel.
func printLanes(w *warp, in *inst) {
	for m := w.mask; m != 0; m &= m - 1 {
		lane := firstOf(m)
		read := func(addr, size uint64) uint64 { return w.loadLane(spaceGeneric, lane, addr, size, size) }
		text, n := cprintf.Format(read, w.r64[in.a][lane], w.r64[in.b][lane])
		if print := w.worker.run.launch.Print; print != nil {
			print(text)
		}
		w.r32[in.d][lane] = uint32(n)
	}
}
