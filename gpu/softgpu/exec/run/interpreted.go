package run

import (
	"cmp"
	"slices"

	"pvdrm/gpu/softgpu/exec/jit"
)

// Interpreted is what of a kernel is left to the interpreter where the rest is native code.
type Interpreted struct {
	Kernel     string
	Operations int     // of the kernel
	Lines      []int32 // of the source, one for each operation that is left; 0: none is known
}

// CompileAll compiles all kernels of a program to native code, where there is any, for blocks of both shapes, and returns their number.
func (p *Program) CompileAll() int {
	for _, k := range p.kernels {
		for _, block := range [][3]uint32{{1, 2, 1}, {32, 2, 1}} {
			k.native.For(block).Prepare(k.prog, k.fn, jit.NativeAtOnce)
		}
	}
	return len(p.kernels)
}

// Interpreted returns what of each kernel is left to the interpreter, by the kernels' names.
func (p *Program) Interpreted() []Interpreted {
	var all []Interpreted
	for name, k := range p.kernels {
		one := Interpreted{Kernel: name, Operations: int(k.fn.End - k.fn.Entry)}
		for _, pc := range jit.Left(k.prog, k.fn) {
			line := int32(0)
			if int(pc) < len(k.prog.Lines) {
				line = k.prog.Lines[pc]
			}
			one.Lines = append(one.Lines, line)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Interpreted) int { return cmp.Compare(a.Kernel, b.Kernel) })
	return all
}
