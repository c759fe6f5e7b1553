package jit

import "pvdrm/gpu/softgpu/exec/ir"

// How often native code must be wanted before it is made: by a warp that starts or passes
// the head of a loop, or one of which not all lanes run. Code for AVX2 takes some six times as long
// to make. A function without loops is wanted once by each warp; where it is large, its code
// begins by looking for the pages of many accesses, too, and it takes a thousand warps or so
// until that pays.
const (
	hot         = 16
	hotPairs    = 128  // for AVX2, of functions with loops
	hotStraight = 1500 // and of those without, where they are large
)

// enough is how often the code of a function must be wanted.
func enough(p *ir.Program, fn *ir.Function, isa ISA) int32 {
	if isa == AVX512 {
		return hot
	}
	size := min(fn.End-fn.Entry, hotStraight)
	if hasLoops(p, fn) {
		return min(hot+size, hotPairs)
	}
	return min(hot+size*size/24, hotStraight)
}

// hasLoops reports whether a function may come back to an instruction, calls aside.
func hasLoops(p *ir.Program, fn *ir.Function) bool {
	for pc := fn.Entry; pc < fn.End; pc++ {
		switch in := &p.Code[pc]; in.Kind {
		case ir.KJump, ir.KBranch, ir.KCompareBranch:
			if in.Target <= pc || in.Kind != ir.KJump && in.Other <= pc {
				return true
			}
		case ir.KIndexed:
			return true
		}
	}
	return false
}
