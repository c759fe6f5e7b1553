//go:build amd64 && linux

package jit

import (
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
)

// flowBlock is a basic block of decoded code.
type flowBlock struct {
	first, last int32 // positions [first, last) in the code
	succs       []int32
	preds       int32
	live        []uint64 // registers alive at its start, as bits
	chained     bool     // falls to by its only predecessor, which has its code, too
}

// known reports whether an operation is compiled.
func known(in *ir.Inst) bool {
	switch in.Kind {
	case ir.KJump, ir.KBranch, ir.KIndexed:
		return true
	case ir.KLane32, ir.KLane64, ir.KMasked, ir.KCompare, ir.KCompareBranch:
		return in.Op != ir.OpNone && in.Op != ir.OpRestore && (in.Op < ir.OpRow || rowOps[in.Op-ir.OpRow] != nil) && knownAccess(in)
	}
	return false
}

// controlRegisters is registers for control flow. It reports false for anything else.
func controlRegisters(in *ir.Inst, visit func(file ir.RegKind, reg uint32, write bool)) bool {
	switch in.Kind {
	case ir.KJump, ir.KBranch, ir.KExit:
		return true
	case ir.KIndexed:
		visit(ir.In32, in.A, false)
		return true
	case ir.KCall:
		callRegisters(in, visit)
		return true
	case ir.KBarrier:
		op := in.X.Barrier
		if op.Cluster { // it has no number, and the function may have no registers at all
			return true
		}
		visit(ir.In32, op.ID, false)
		if op.Count != ir.NoReg {
			visit(ir.In32, op.Count, false)
		}
		if op.Popc && in.D != ir.NoReg {
			visit(ir.In32, in.D, true)
		}
		return true
	}
	return false
}

// callRegisters is registers for a call.
func callRegisters(in *ir.Inst, visit func(file ir.RegKind, reg uint32, write bool)) {
	site := in.X.Call
	if site.Fn == nil {
		visit(ir.In64, in.A, false)
	}
	each := func(list []ir.Actual, write bool) {
		for _, a := range list {
			if a.Kind == ir.In32 || a.Kind == ir.In64 {
				visit(a.Kind, a.Reg, write)
			}
		}
	}
	each(site.Args, false)
	each(site.Results, true)
}

// registers calls visit with the registers that an operation reads and writes,
// predicates aside. It reports false for one of which this is not known: it may
// read any.
func registers(in *ir.Inst, visit func(file ir.RegKind, reg uint32, write bool)) bool {
	if controlRegisters(in, visit) {
		return true
	}
	dst := ir.In32
	if in.Kind == ir.KLane64 {
		dst = ir.In64
	}
	switch op := in.Op; {
	case op == ir.OpNone || op == ir.OpRestore || op >= ir.OpRow && rowOps[op-ir.OpRow] == nil:
		return false
	case op >= ir.OpRow:
		form := rowOps[op-ir.OpRow].form
		for n, r := range []uint32{in.A, in.B, in.C, in.E}[:len(form)-2] {
			if file := fileOf(form[2+n]); file != ir.InPred {
				visit(file, r, false)
			}
		}
		if form[0] != '?' {
			visit(dst, in.D, true)
		}
	case op == ir.OpMatrix:
		if !knownMatrix(in) {
			return false
		}
		matrixRegs(in.X.Matrix, visit)
	case op >= ir.OpCopy && op <= ir.OpTransferOut:
		if op >= ir.OpTransfer && shapeOfTransfer(in) == transferNone {
			return false
		}
		copyRegisters(in, visit)
	case op == ir.OpShfl:
		for _, r := range []uint32{in.A, in.B, in.C, in.E} {
			visit(ir.In32, r, false)
		}
		visit(ir.In32, in.D, true)
	case exchanges(op):
		visit(ir.In32, in.E, false)
		switch {
		case op == ir.OpRedux, op == ir.OpMatchAny, op == ir.OpMatchAll:
			visit(exchangedFile(in), in.A, false)
		case op != ir.OpBallot && op != ir.OpElect:
			return true
		}
		if in.D != ir.NoReg {
			visit(ir.In32, in.D, true)
		}
	case carries(op):
		file := carried(op)
		visit(file, in.A, false)
		visit(file, in.B, false)
		visit(file, in.D, true)
	case op == ir.OpStoreFrame:
		if dst = ir.In32; in.C == 8 {
			dst = ir.In64
		}
		visit(dst, in.D, false)
	case op == ir.OpLocalAddr || op == ir.OpLoadFrame || op == ir.OpActiveMask || op == ir.OpOfLane || op == ir.OpOfWarp || op == ir.OpTid || op == ir.OpBlock || op == ir.OpDynamic || op == ir.OpParam || op == ir.OpPredMask:
		visit(dst, in.D, true)
	case op == ir.OpAtom:
		visit(ir.In64, in.A, false)
		file, b, c, d := atomRegs(in)
		for _, r := range []uint32{b, c} {
			if r != ir.NoReg {
				visit(file, r, false)
			}
		}
		if d != ir.NoReg {
			visit(file, d, true)
		}
	case op >= ir.OpLoad && op <= ir.OpStoresWide:
		visit(addressFile(op), in.A, false)
		file, regs, n := accessRegs(in)
		for _, r := range regs[:n] {
			visit(file, r, !stores(op))
		}
	}
	return true
}

// copyRegisters is registers for copies and what loads and stores matrices.
func copyRegisters(in *ir.Inst, visit func(file ir.RegKind, reg uint32, write bool)) {
	if in.Op == ir.OpTurn {
		visit(ir.In32, in.A, false)
		visit(ir.In32, in.D, true)
		return
	}
	visit(ir.In64, in.A, false)
	switch in.Op {
	case ir.OpCopy:
		visit(ir.In64, in.B, false)
		if r := in.X.Copy.Source; r != ir.NoReg {
			visit(ir.In32, r, false)
		}
	case ir.OpRows, ir.OpRowsOut:
		for _, r := range matrixRegisters(in) {
			visit(ir.In32, r, in.Op == ir.OpRows)
		}
	default:
		if r := in.X.Matrix.Stride; r != ir.NoReg {
			visit(ir.In32, r, false)
		}
		for _, r := range transferRegisters(in) {
			visit(ir.In32, r, in.Op == ir.OpTransfer)
		}
	}
}

// fileOf is the register file of a letter in a form.
func fileOf(letter byte) ir.RegKind {
	switch letter {
	case 'q', 'g':
		return ir.In64
	case 'p':
		return ir.InPred
	}
	return ir.In32
}

// bit is the number of a register in sets of them.
func (e *emitter) bit(file ir.RegKind, reg uint32) int {
	if file == ir.In64 {
		return e.fn.Regs32 + int(reg)
	}
	return int(reg)
}

// flow finds the basic blocks and what is alive between them. It reports false
// where that is too much.
func (e *emitter) flow() bool {
	base, n := e.fn.Entry, e.fn.End-e.fn.Entry
	code := e.code[base:e.fn.End]
	e.number = make([]int32, n+1)
	lead := func(pc int32) { e.number[pc-base] = 1 }
	lead(base)
	for i := range code {
		in := &code[i]
		switch in.Kind {
		case ir.KJump:
			lead(in.Target)
		case ir.KBranch, ir.KCompareBranch:
			lead(in.Target)
			lead(in.Other)
			if in.E != 0 {
				lead(int32(in.E))
			}
		case ir.KIndexed:
			for _, t := range in.X.Targets {
				lead(t)
			}
		}
		if ir.EndsBlock(in.Kind) || in.Kind == ir.KCompareBranch {
			e.number[i+1] = 1
		}
	}
	for i := range n {
		if e.number[i] != 0 {
			if k := len(e.blocks); k > 0 {
				e.blocks[k-1].last = base + i
			}
			e.blocks = append(e.blocks, flowBlock{first: base + i})
		}
		e.number[i] = int32(len(e.blocks)) - 1
	}
	e.blocks[len(e.blocks)-1].last = e.fn.End
	words := (e.fn.Regs32 + e.fn.Regs64 + 63) / 64
	if words*len(e.blocks) > maxNativeLive {
		return false
	}
	for i := range e.blocks {
		b := &e.blocks[i]
		in := &e.code[b.last-1]
		switch in.Kind {
		case ir.KJump:
			b.succs = []int32{e.block(in.Target)}
		case ir.KBranch, ir.KCompareBranch:
			b.succs = []int32{e.block(in.Target), e.block(in.Other)}
			if in.E != 0 {
				b.succs = append(b.succs, e.block(int32(in.E)))
			}
		case ir.KIndexed:
			for _, t := range in.X.Targets {
				b.succs = append(b.succs, e.block(t))
			}
		case ir.KRet, ir.KExit, ir.KTrap:
		default:
			if i+1 < len(e.blocks) {
				b.succs = []int32{int32(i + 1)}
			}
		}
		for _, s := range b.succs {
			e.blocks[s].preds++
		}
	}
	for i := 1; i < len(e.blocks); i++ {
		b, before := &e.blocks[i], &e.blocks[i-1]
		in := &e.code[before.last-1]
		falls := !ir.EndsBlock(in.Kind) && in.Kind != ir.KCompareBranch && e.known(in) || in.Kind == ir.KCompareBranch && e.known(in) && in.Other == b.first || in.Kind == ir.KBranch && in.Other == b.first
		b.chained = b.preds == 1 && falls
	}
	return e.liveness(words)
}

func (e *emitter) block(pc int32) int32 { return e.number[pc-e.fn.Entry] }

// liveness finds what is alive at the start of each block.
func (e *emitter) liveness(words int) bool {
	e.alive, e.guarded = make([]uint64, words), guardedReads{}
	sets := ir.NewSets(len(e.blocks), words)
	for i := range e.blocks {
		e.blocks[i].live = sets[i]
	}
	for range ir.MaxLivePasses {
		changed := false
		for i := len(e.blocks) - 1; i >= 0; i-- {
			e.atEnd(i)
			b := &e.blocks[i]
			for pc := b.last - 1; pc >= b.first; pc-- {
				e.before(&e.code[pc], nil)
			}
			e.endGuarded()
			if !slices.Equal(b.live, e.alive) {
				copy(b.live, e.alive)
				changed = true
			}
		}
		if !changed {
			return true
		}
	}
	// Not settled: everything counts as alive.
	for i := range sets {
		for w := range sets[i] {
			sets[i][w] = 1<<64 - 1
		}
	}
	return true
}

// atEnd sets alive to what is alive at the end of a block.
func (e *emitter) atEnd(i int) {
	clear(e.alive)
	clear(e.guarded)
	for _, s := range e.blocks[i].succs {
		for w, x := range e.blocks[s].live {
			e.alive[w] |= x
		}
	}
}

// before takes alive from behind an operation to before it. The registers that are
// not needed any more after it go to ends, if there is one.
func (e *emitter) before(in *ir.Inst, ends *[]regRef) {
	if in.Kind == ir.KRet {
		clear(e.alive)
		clear(e.guarded)
		for _, r := range e.fn.Results { // a kernel has none
			if r.Kind == ir.In32 || r.Kind == ir.In64 {
				n := e.bit(r.Kind, r.Reg)
				e.alive[n/64] |= 1 << (n % 64)
			}
		}
		return
	}
	e.reviveAll(in)
	if ends != nil {
		registers(in, func(file ir.RegKind, reg uint32, _ bool) {
			if ref := (regRef{kind: file, index: reg}); !e.isNeeded(ref) {
				*ends = append(*ends, ref)
			}
		})
	}
	registers(in, func(file ir.RegKind, reg uint32, write bool) {
		if write {
			e.written(in, regRef{kind: file, index: reg})
		}
	})
	ok := registers(in, func(file ir.RegKind, reg uint32, write bool) {
		if !write {
			e.reads(in, regRef{kind: file, index: reg})
		}
	})
	if !ok {
		for w := range e.alive {
			e.alive[w] = 1<<64 - 1
		}
	}
}

// isAlive reports whether a register is in a set.
func (e *emitter) isAlive(set []uint64, file ir.RegKind, reg uint32) bool {
	n := e.bit(file, reg)
	return set[n/64]>>(n%64)&1 != 0
}
