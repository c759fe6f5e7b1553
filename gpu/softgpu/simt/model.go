package simt

import (
	"sync/atomic"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// Model is the time of a launch of a program that CompileTimed made: not what
// the host took, but cycles by the class of each instruction that a warp runs.
// It depends on neither the host nor the number of workers, but for kernels
// whose blocks or warps wait for each other in loops.
//
// Each basic block that a warp enters costs what the table below says for all
// its instructions; warps of a multiprocessor take turns and hide nothing.
// Block n runs on multiprocessor n mod SMs, and the launch takes as long as the
// one that has most to do. The numbers are round ones, in the proportions of
// throughputs that the CUDA C++ Programming Guide gives for compute capability
// 7.0 ("Arithmetic Instructions"); they are for tests, not for predictions.
type Model struct {
	// Limit ends the kernel with gpu.LostTimeout when a multiprocessor has used
	// more cycles; 0 for none.
	Limit uint64

	sms []atomic.Uint64 // cycles so far
}

// NewModel makes a model of a device with so many multiprocessors, for one launch.
func NewModel(sms int, limit uint64) *Model {
	return &Model{Limit: limit, sms: make([]atomic.Uint64, max(sms, 1))}
}

// Cycles is how long the launch took.
func (m *Model) Cycles() (most uint64) {
	for i := range m.sms {
		most = max(most, m.sms[i].Load())
	}
	return most
}

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
	cyclesLanes   = 2 // shfl, vote, match, redux
	cyclesBarrier = 8
	cyclesBranch  = 1
	cyclesCall    = 4
	cyclesPrint   = 1000
)

// cycles is the cost of an instruction.
func cycles(i *ptx.Instr) uint64 {
	m := &i.Mods
	double := m.Types[0] == ptx.F64 || m.Types[1] == ptx.F64
	switch i.Op {
	case ptx.OpLd, ptx.OpLdu, ptx.OpSt:
		switch m.Space {
		case ptx.SpaceParam, ptx.SpaceParamEntry, ptx.SpaceParamFunc, ptx.SpaceConst:
			return cyclesParam
		case ptx.SpaceShared, ptx.SpaceSharedCTA:
			return cyclesShared
		}
		return cyclesMemory
	case ptx.OpAtom, ptx.OpRed:
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
			return cyclesPrint
		}
		return cyclesCall
	}
	if double {
		return cyclesDouble
	}
	return cyclesPlain
}

// CompileTimed is Compile for launches with a Model. The program is slower.
func CompileTimed(m *ptx.Module) (*Program, error) { return compile(m, true) }

// clock makes the operation at the head of a basic block that counts its cycles.
func (b *builder) clock(blk *basicBlock) inst {
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
	return inst{kind: kMasked, fn: tick, imm: sum, other: -1}
}

// tick counts cycles of the running block.
func tick(w *warp, in *inst) {
	m := w.worker.run.launch.Model
	if m == nil {
		return
	}
	w.worker.cycles += in.imm
	if m.Limit != 0 && w.worker.cycles > m.Limit {
		panic(&gpu.LostError{Cause: gpu.LostTimeout, Kernel: w.worker.run.kernel.attrs.Name, Detail: "by modelled time"})
	}
}

// account adds the cycles of block n to those of its multiprocessor.
func (w *worker) account(n uint64) {
	m := w.run.launch.Model
	if m == nil {
		return
	}
	sum := m.sms[n%uint64(len(m.sms))].Add(w.cycles)
	w.cycles = 0
	if m.Limit != 0 && sum > m.Limit {
		panic(&gpu.LostError{Cause: gpu.LostTimeout, Kernel: w.run.kernel.attrs.Name, Detail: "by modelled time"})
	}
}
