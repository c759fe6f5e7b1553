//go:build amd64 && linux

package jit

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
)

// Claims: what is known of registers at the begin of a block of operations, and behind barriers, whichever lanes have come
// there when. A register whose lanes are all the same there is like a constant, and of one whose lanes follow one another
// memory is read for the first part alone.
//
// A claim is of one operation that is in no loop, so that each lane runs it once, and of the register that it writes, as far
// as that value comes. Its operands are such registers, too, or constants, parameters and the thread's place, so that it
// does not matter which lanes were there together. Code for all lanes uses claims; where all lanes run, all have been there.

// maxClaims bounds the claims of a function: bits of a word; maxRounds how often all operations are looked at for claims of
// which operands are claimed.
const (
	maxClaims = 64
	maxRounds = 8
)

// claim is what the value of a register is that one operation writes.
type claim struct {
	regRef
	operand
	pc int32
}

// claims are those of a function.
type claims struct {
	list     []claim
	of32     []uint64 // by register: the claims of it
	of64     []uint64
	at       map[int32]int // by position
	begin    []uint64      // by block: what holds there
	holds    uint64        // where code is being made
	heldTo   int32         // the position of that
	cyclic   []int32       // by position: in how many loops
	inBlock  map[regRef]operand
	barriers bool // the block has some
}

// findClaims finds the claims of a kernel, for code that all lanes run.
func (e *emitter) findClaims() {
	c := &e.claims
	c.begin = make([]uint64, len(e.blocks))
	c.of32, c.of64, c.at, c.inBlock = make([]uint64, e.fn.Regs32), make([]uint64, e.fn.Regs64), map[int32]int{}, map[regRef]operand{}
	if e.masked || !e.fn.Kernel || e.blocks[0].preds != 0 {
		return
	}
	c.cyclic = e.loops()
	for range maxRounds {
		had := len(c.list)
		for i := range e.blocks {
			if c.cyclic[e.blocks[i].first-e.fn.Entry] == 0 {
				e.claimIn(i)
			}
		}
		if len(c.list) == had {
			return
		}
		if !e.spreadClaims() {
			*c = claims{begin: make([]uint64, len(e.blocks)), of32: make([]uint64, e.fn.Regs32), of64: make([]uint64, e.fn.Regs64)}
			return
		}
	}
}

// claimIn finds claims in a block, of what is alive at its end, or where it has barriers.
func (e *emitter) claimIn(i int) {
	c, b := &e.claims, &e.blocks[i]
	c.holds, c.barriers = c.begin[i], false
	clear(c.inBlock)
	e.atEnd(i)
	for pc := b.first; pc < b.last; pc++ {
		c.barriers = c.barriers || e.code[pc].Kind == ir.KBarrier
	}
	for pc := b.first; pc < b.last; pc++ {
		in := &e.code[pc]
		o := e.resultOf(in)
		e.pass(pc)
		ok := registers(in, func(file ir.RegKind, reg uint32, write bool) {
			if write {
				delete(c.inBlock, regRef{file, reg})
			}
		})
		if !ok {
			clear(c.inBlock)
		}
		if !o.same && o.stride == 0 {
			continue
		}
		ref := regRef{kind: ir.In32, index: in.D}
		if in.Kind == ir.KLane64 {
			ref.kind = ir.In64
		}
		c.inBlock[ref] = o
		if _, known := c.at[pc]; !known && len(c.list) < maxClaims && (c.barriers || e.isAlive(e.alive, ref.kind, ref.index)) {
			c.at[pc] = len(c.list)
			c.of(ref.kind)[ref.index] |= 1 << len(c.list)
			c.list = append(c.list, claim{regRef: ref, operand: o, pc: pc})
		}
	}
}

// resultOf is what is known of the result of an operation in the block that claimIn looks at.
func (e *emitter) resultOf(in *ir.Inst) operand {
	know := func(file ir.RegKind, reg uint32) operand {
		if file == ir.InPred {
			return operand{}
		}
		if o := e.numberIn(file, reg); o.same {
			return o
		}
		if o, ok := e.claims.inBlock[regRef{file, reg}]; ok {
			return o
		}
		return e.claims.find(file, reg)
	}
	switch {
	case in.Kind != ir.KLane32 && in.Kind != ir.KLane64 || in.Guard != 0 || !known(in):
		return operand{}
	case in.Op == ir.OpBlock || in.Op == ir.OpDynamic || in.Op == ir.OpParam || in.Op == ir.OpLocalAddr:
		return operand{same: true}
	case in.Op == ir.OpTid && e.inRows && in.Imm != 0:
		return operand{same: true}
	case in.Op == ir.OpTid && e.inRows:
		return operand{shape: shape{stride: 1, sure: true, small: true}}
	case in.Op < ir.OpRow:
		return operand{}
	}
	o, same := operandsOf(in, know), true
	for n := range rowOps[in.Op-ir.OpRow].form[2:] {
		same = same && n < len(o) && o[n].same
	}
	if same {
		return operand{same: true}
	}
	res, wide := ruleOf(in).result(o)
	if !res.sure || res.same || wide >= 0 && !o[wide].small {
		return operand{}
	}
	return res
}

// of are the claims of the registers of a file.
func (c *claims) of(file ir.RegKind) []uint64 {
	if file == ir.In64 {
		return c.of64
	}
	return c.of32
}

// find is what is claimed of a register where code is being made.
func (c *claims) find(file ir.RegKind, reg uint32) operand {
	if m := c.of(file)[reg] & c.holds; m != 0 {
		return c.list[bits.TrailingZeros64(m)].operand
	}
	return operand{}
}

// pass takes what holds from before an operation to behind it.
func (e *emitter) pass(pc int32) {
	c := &e.claims
	if len(c.list) == 0 {
		return
	}
	ok := registers(&e.code[pc], func(file ir.RegKind, reg uint32, write bool) {
		if write {
			c.holds &^= c.of(file)[reg]
		}
	})
	if !ok {
		c.holds = 0
	}
	if n, ok := c.at[pc]; ok {
		c.holds |= 1 << n
	}
}

// holdAt takes what holds to an operation of the block that is compiled.
func (e *emitter) holdAt(pc int32) {
	for ; e.claims.heldTo < pc; e.claims.heldTo++ {
		e.pass(e.claims.heldTo)
	}
}

// operationAt is the next operation that is compiled.
func (e *emitter) operationAt(pc int32) *ir.Inst {
	e.holdAt(pc)
	return &e.code[pc]
}

// spreadClaims finds which claims hold where blocks begin: those that all blocks before have at their ends. It reports
// false where that does not settle.
func (e *emitter) spreadClaims() bool {
	c := &e.claims
	const all = 1<<64 - 1
	gen, keep := make([]uint64, len(e.blocks)), make([]uint64, len(e.blocks))
	for i := range e.blocks {
		for n, in := range []uint64{0, all} {
			c.holds = in
			for pc := e.blocks[i].first; pc < e.blocks[i].last; pc++ {
				e.pass(pc)
			}
			[2][]uint64{gen, keep}[n][i] = c.holds
		}
		if c.begin[i] = 0; i != 0 && e.blocks[i].preds != 0 {
			c.begin[i] = all
		}
	}
	for range ir.MaxLivePasses {
		changed := false
		for i := range e.blocks {
			out := c.begin[i]&keep[i] | gen[i]
			for _, s := range e.blocks[i].succs {
				if c.begin[s]&^out != 0 {
					c.begin[s] &= out
					changed = true
				}
			}
		}
		if !changed {
			return true
		}
	}
	return false
}

// isSame reports whether all lanes are claimed to have the same in a register.
func (e *emitter) isSame(file ir.RegKind, reg uint32) bool { return e.claims.find(file, reg).same }
