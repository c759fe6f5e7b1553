package lane

import "pvdrm/gpu/softgpu/exec/ir"

// Step runs an instruction that is not control flow for the active lanes only.
func Step(w *ir.Warp, in *ir.Inst) {
	switch in.Kind {
	case ir.KLane32:
		w.Old32 = w.R32[in.D]
		in.Fn(w, in)
		blend32(&w.R32[in.D], &w.Old32, w.Mask)
	case ir.KLane64:
		w.Old64 = w.R64[in.D]
		in.Fn(w, in)
		blend64(&w.R64[in.D], &w.Old64, w.Mask)
	case ir.KCompare:
		Compare(w, in)
	default:
		in.Fn(w, in)
	}
}

// Compare runs setp.
func Compare(w *ir.Warp, in *ir.Inst) {
	m := in.Cmp(w, in)
	if in.Combine == ir.BoolNone {
		w.SetPred(in.D, m)
		if in.E != ir.NoReg {
			w.SetPred(in.E, ^m)
		}
		return
	}
	c := w.Pr[in.C]
	op := in.Combine &^ ir.BoolNot
	if op != in.Combine {
		c = ^c
	}
	// The second result combines the complement.
	p := combine(op, m, c)
	q := combine(op, ^m, c)
	w.SetPred(in.D, p)
	if in.E != ir.NoReg {
		w.SetPred(in.E, q)
	}
}

func combine(op ir.BoolOp, a, b uint32) uint32 {
	switch op {
	case ir.BoolAnd:
		return a & b
	case ir.BoolOr:
		return a | b
	case ir.BoolXor:
		return a ^ b
	}
	return a
}
