//go:build amd64 && linux

package jit

import "pvdrm/gpu/softgpu/exec/ir"

// findUniform finds registers that have the same value in all lanes from where a kernel begins to its end,
// wherever lanes are: those that one operation writes, in the first block as far as all lanes run it together and
// once, of others of this kind, of constants, parameters and the block's place. They are like constants: one
// lane in memory stands for all.
func (e *emitter) findUniform() {
	if !e.fn.Kernel || e.blocks[0].preds != 0 {
		return
	}
	once32, once64 := map[uint32]bool{}, map[uint32]bool{}
	for _, r := range e.fn.Once32 {
		once32[r] = true
	}
	for _, r := range e.fn.Once64 {
		once64[r] = true
	}
	for pc := e.blocks[0].first; pc < e.blocks[0].last; pc++ {
		in := &e.code[pc]
		if in.Kind == ir.KCall || in.Kind == ir.KWarpSync && !e.constant(ir.In32, in.E) {
			return // lanes may go on before others, which a function or another mask keeps
		}
		if in.Guard != 0 || !e.isUniform(in) {
			continue
		}
		if in.Kind == ir.KLane64 && once64[in.D] {
			e.fixed64[in.D] = true
		}
		if in.Kind == ir.KLane32 && once32[in.D] {
			e.fixed32[in.D] = true
		}
	}
}

// isUniform reports whether an operation computes the same for all lanes.
func (e *emitter) isUniform(in *ir.Inst) bool {
	if in.Kind != ir.KLane32 && in.Kind != ir.KLane64 || !known(in) {
		return false
	}
	switch {
	case in.Op == ir.OpBlock || in.Op == ir.OpOfWarp || in.Op == ir.OpDynamic || in.Op == ir.OpParam || in.Op == ir.OpLocalAddr:
		return true
	case in.Op < ir.OpRow:
		return false
	}
	same := true
	for n, letter := range rowOps[in.Op-ir.OpRow].form[2:] {
		file := fileOf(byte(letter))
		same = same && file != ir.InPred && e.constant(file, [4]uint32{in.A, in.B, in.C, in.E}[n])
	}
	return same
}
