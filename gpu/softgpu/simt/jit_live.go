//go:build amd64 && linux

package simt

import "slices"

// flowBlock is a basic block of decoded code.
type flowBlock struct {
	first, last int32 // positions [first, last) in the code
	succs       []int32
	preds       int32
	live        []uint64 // registers alive at its start, as bits
	chained     bool     // falls to by its only predecessor, which has its code, too
}

// known reports whether an operation is compiled.
func known(in *inst) bool {
	switch in.kind {
	case kJump, kBranch:
		return true
	case kLane32, kLane64, kMasked, kCompare, kCompareBranch:
		return in.op != opNone && knownAccess(in)
	}
	return false
}

// registers calls visit with the registers that an operation reads and writes,
// predicates aside. It reports false for one of which this is not known: it may
// read any.
func registers(in *inst, visit func(file regKind, reg uint32, write bool)) bool {
	switch in.kind {
	case kJump, kBranch, kExit:
		return true
	case kBarrier:
		op := in.x.barrier
		visit(in32, op.id, false)
		if op.count != noReg {
			visit(in32, op.count, false)
		}
		return true
	}
	dst := in32
	if in.kind == kLane64 {
		dst = in64
	}
	switch op := in.op; {
	case op == opNone:
		return false
	case op >= opRow:
		form := rowOps[op-opRow].form
		for n, r := range []uint32{in.a, in.b, in.c, in.e}[:len(form)-2] {
			if file := fileOf(form[2+n]); file != inPred {
				visit(file, r, false)
			}
		}
		if form[0] != '?' {
			visit(dst, in.d, true)
		}
	case op == opTid || op == opBlock || op == opParam || op == opPredMask:
		visit(dst, in.d, true)
	case op >= opLoad && op <= opStoresWide:
		visit(addressFile(op), in.a, false)
		file, regs, n := accessRegs(in)
		for _, r := range regs[:n] {
			visit(file, r, !stores(op))
		}
	}
	return true
}

// fileOf is the register file of a letter in a form.
func fileOf(letter byte) regKind {
	switch letter {
	case 'q', 'g':
		return in64
	case 'p':
		return inPred
	}
	return in32
}

// bit is the number of a register in sets of them.
func (e *emitter) bit(file regKind, reg uint32) int {
	if file == in64 {
		return e.fn.regs32 + int(reg)
	}
	return int(reg)
}

// flow finds the basic blocks and what is alive between them. It reports false
// where that is too much.
func (e *emitter) flow() bool {
	base, n := e.fn.entry, e.fn.end-e.fn.entry
	code := e.code[base:e.fn.end]
	e.number = make([]int32, n+1)
	lead := func(pc int32) { e.number[pc-base] = 1 }
	lead(base)
	for i := range code {
		in := &code[i]
		switch in.kind {
		case kJump:
			lead(in.target)
		case kBranch, kCompareBranch:
			lead(in.target)
			lead(in.other)
		case kIndexed:
			for _, t := range in.x.targets {
				lead(t)
			}
		}
		if endsBlock(in.kind) || in.kind == kCompareBranch {
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
	e.blocks[len(e.blocks)-1].last = e.fn.end
	words := (e.fn.regs32 + e.fn.regs64 + 63) / 64
	if words*len(e.blocks) > maxNativeLive {
		return false
	}
	for i := range e.blocks {
		b := &e.blocks[i]
		in := &e.code[b.last-1]
		switch in.kind {
		case kJump:
			b.succs = []int32{e.block(in.target)}
		case kBranch, kCompareBranch:
			b.succs = []int32{e.block(in.target), e.block(in.other)}
		case kIndexed:
			for _, t := range in.x.targets {
				b.succs = append(b.succs, e.block(t))
			}
		case kRet, kExit, kTrap:
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
		falls := !endsBlock(in.kind) && in.kind != kCompareBranch && known(in) || in.kind == kCompareBranch && known(in) && in.other == b.first || in.kind == kBranch && in.other == b.first
		b.chained = b.preds == 1 && falls
	}
	return e.liveness(words)
}

func (e *emitter) block(pc int32) int32 { return e.number[pc-e.fn.entry] }

// liveness finds what is alive at the start of each block.
func (e *emitter) liveness(words int) bool {
	e.alive = make([]uint64, words)
	sets := newSets(len(e.blocks), words)
	for i := range e.blocks {
		e.blocks[i].live = sets[i]
	}
	for range maxLivePasses {
		changed := false
		for i := len(e.blocks) - 1; i >= 0; i-- {
			e.atEnd(i)
			b := &e.blocks[i]
			for pc := b.last - 1; pc >= b.first; pc-- {
				e.before(&e.code[pc], nil)
			}
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
	for _, s := range e.blocks[i].succs {
		for w, x := range e.blocks[s].live {
			e.alive[w] |= x
		}
	}
}

// before takes alive from behind an operation to before it. The registers that are
// not needed any more after it go to ends, if there is one.
func (e *emitter) before(in *inst, ends *[]register) {
	if in.kind == kRet && e.fn.kernel {
		clear(e.alive)
		return
	}
	if ends != nil {
		registers(in, func(file regKind, reg uint32, _ bool) {
			if !e.isAlive(e.alive, file, reg) {
				*ends = append(*ends, register{kind: file, index: reg})
			}
		})
	}
	registers(in, func(file regKind, reg uint32, write bool) {
		if n := e.bit(file, reg); write && in.guard == 0 {
			e.alive[n/64] &^= 1 << (n % 64)
		}
	})
	ok := registers(in, func(file regKind, reg uint32, write bool) {
		if n := e.bit(file, reg); !write {
			e.alive[n/64] |= 1 << (n % 64)
		}
	})
	if !ok {
		for w := range e.alive {
			e.alive[w] = 1<<64 - 1
		}
	}
}

// isAlive reports whether a register is in a set.
func (e *emitter) isAlive(set []uint64, file regKind, reg uint32) bool {
	n := e.bit(file, reg)
	return set[n/64]>>(n%64)&1 != 0
}
