package lower

import (
	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/lane"
)

// Cycles of one instruction of a warp.
const (
	cyclesPlain   = 1  // integers, logic, f32, half precision, moves, comparisons
	cyclesDouble  = 2  // f64
	cyclesConvert = 4  // cvt, popc, clz, bfe and the like
	cyclesApprox  = 4  // rcp, sqrt, sin and others of the special function unit
	cyclesDivide  = 32 // div, rem, and rounded rcp and sqrt: sequences
	cyclesParam   = 1  // parameters and constants
	cyclesShared  = 2
	cyclesMemory  = 8 // global, local and generic
	cyclesAtomic  = 16
	cyclesTexture = 16
	cyclesMatrix  = 16 // mma, and transfers of matrices
	cyclesLanes   = 2  // shfl, vote, match, redux
	cyclesBarrier = 8
	cyclesBranch  = 1
	cyclesCall    = 4
	cyclesExtern  = 1000 // printf, malloc and free
)

// cycles is the cost of an instruction.
func cycles(i *ptx.Instr) uint64 {
	m := &i.Mods
	double := m.Types[0] == ptx.F64 || m.Types[1] == ptx.F64
	switch i.Op {
	case ptx.OpCp:
		if m.Mode != ptx.ModeNone {
			return cyclesPlain
		}
		return cyclesMemory
	case ptx.OpLd, ptx.OpLdu, ptx.OpSt:
		switch m.Space {
		case ptx.SpaceParam, ptx.SpaceParamEntry, ptx.SpaceParamFunc, ptx.SpaceConst:
			return cyclesParam
		case ptx.SpaceShared, ptx.SpaceSharedCTA, ptx.SpaceSharedCluster:
			return cyclesShared
		}
		return cyclesMemory
	case ptx.OpTex, ptx.OpTld4, ptx.OpSuld, ptx.OpSust:
		return cyclesTexture
	case ptx.OpMma, ptx.OpWmma, ptx.OpLdmatrix, ptx.OpStmatrix, ptx.OpMovmatrix:
		return cyclesMatrix
	case ptx.OpAtom, ptx.OpRed, ptx.OpMbarrier:
		return cyclesAtomic
	case ptx.OpDiv, ptx.OpRem:
		if m.Has(ptx.Approx) {
			return cyclesApprox
		}
		return cyclesDivide
	case ptx.OpRcp, ptx.OpSqrt, ptx.OpRsqrt:
		if m.Has(ptx.Approx) && !double {
			return cyclesApprox
		}
		return cyclesDivide
	case ptx.OpSin, ptx.OpCos, ptx.OpLg2, ptx.OpEx2, ptx.OpTanh:
		return cyclesApprox
	case ptx.OpVmad:
		return cyclesConvert
	case ptx.OpCvt, ptx.OpPopc, ptx.OpClz, ptx.OpBfind, ptx.OpBrev, ptx.OpBfe, ptx.OpBfi, ptx.OpFns:
		return cyclesConvert
	case ptx.OpShfl, ptx.OpVote, ptx.OpMatch, ptx.OpRedux, ptx.OpActivemask, ptx.OpElect:
		return cyclesLanes
	case ptx.OpBar, ptx.OpBarrier, ptx.OpMembar, ptx.OpFence:
		return cyclesBarrier
	case ptx.OpBra, ptx.OpBrx, ptx.OpRet, ptx.OpExit:
		return cyclesBranch
	case ptx.OpCall:
		if f, ok := i.Call.Callee.Ref.(*ptx.Func); ok && f.Def == nil {
			return cyclesExtern
		}
		return cyclesCall
	}
	if double {
		return cyclesDouble
	}
	return cyclesPlain
}

// clock makes the operation at the head of a basic block that counts its cycles.
func (b *builder) clock(blk *basicBlock) ir.Inst {
	var sum uint64
	last := -1
	for at := blk.first; at < blk.last; at++ {
		if n := b.stmts[at]; n >= 0 && int(n) != last {
			last = int(n)
			if i, ok := b.f.Body[n].(*ptx.Instr); ok {
				sum += cycles(i)
			}
		}
	}
	return ir.Inst{Kind: ir.KMasked, Fn: lane.Tick, Imm: sum, Other: -1}
}
