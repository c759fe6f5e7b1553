package lower

import (
	"sort"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
)

// maxTogether is how many operations of a side of a branch lanes that part run together. Sides of some
// twenty with accesses of memory cost more with guards than apart: those take each lane for itself.
const maxTogether = 8

// together finds branches whose sides are short, meet at once, and need no lane to be apart from
// others. Where lanes disagree on one of them they run, all together, a copy of each side in which
// the branch's predicate guards every operation; that costs less than to part and meet.
func (b *builder) together(list []basicBlock) []basicBlock {
	preds := make([]int, len(list))
	b.spend(8 * len(list))
	for i := range list {
		b.c.effort.Steps(1 + len(list[i].succs))
		for _, s := range list[i].succs {
			preds[s]++
		}
	}
	mention := 0
	for i := range list {
		blk := &list[i]
		for mention < len(b.mentions) && b.mentions[mention].op < blk.last-1 {
			mention++
		}
		in := &b.ops[blk.last-1]
		if in.Kind != ir.KBranch || mention == len(b.mentions) || b.mentions[mention].op != blk.last-1 || blk.succs[0] == blk.succs[1] {
			continue
		}
		reg := b.mentions[mention].reg // of the predicate, which must live on
		if r := b.regs[reg]; r.kind != ir.InPred || r.index != in.A {
			continue
		}
		taken, other := blk.succs[0], blk.succs[1]
		side := func(s, join int32) bool { // s is a side, from which the branch's lanes come to join
			x := &list[s]
			return s != join && preds[s] == 1 && len(x.succs) == 1 && x.succs[0] == join && b.mayGuard(x, in.A)
		}
		var sides []int32
		join := taken
		switch {
		case side(other, taken):
			sides = []int32{other}
		case side(taken, other):
			sides, join = []int32{taken}, other
		case len(list[taken].succs) == 1 && side(taken, list[taken].succs[0]) && side(other, list[taken].succs[0]):
			sides, join = []int32{taken, other}, list[taken].succs[0]
		default:
			continue
		}
		if join == int32(i) { // the branch is a loop of its own: its head is where lanes meet
			continue
		}
		first, neg := int32(len(b.ops)), in.Neg
		for _, s := range sides {
			b.guardedCopy(&list[s], 1+in.A, neg != (s == other), reg)
		}
		b.spend(basicBlockBytes)
		list[i].succs = append(list[i].succs, int32(len(list)))
		list = append(list, basicBlock{first: first, last: int32(len(b.ops)), succs: []int32{join}, pc: -1})
		preds = append(preds, 1)
	}
	return list
}

// work are the operations of a block without the jump at its end.
func (b *builder) work(x *basicBlock) []ir.Inst {
	ops := b.ops[x.first:x.last]
	if n := len(ops); ops[n-1].Kind == ir.KJump {
		ops = ops[:n-1]
	}
	return ops
}

// mayGuard reports whether all operations of a block may get a guard: predicate p, which they leave
// as it is.
func (b *builder) mayGuard(x *basicBlock, p uint32) bool {
	ops := b.work(x)
	if len(ops) == 0 || len(ops) > maxTogether {
		return false
	}
	b.c.effort.Steps(len(ops))
	for i := range ops {
		in := &ops[i]
		switch {
		case in.Guard != 0 || in.Op == ir.OpNone:
			return false
		case in.Kind == ir.KLane32 || in.Kind == ir.KLane64:
		case in.Kind == ir.KCompare && in.D != p && in.E != p:
		case in.Kind == ir.KMasked && in.Op >= ir.OpLoad && in.Op <= ir.OpStoresWide:
		default:
			return false
		}
	}
	return true
}

// guardedCopy appends the operations of a block with a guard, the predicate in register reg of the
// source, and what they mention.
func (b *builder) guardedCopy(x *basicBlock, guard uint32, neg bool, reg int32) {
	line, stmt := b.line, b.stmt
	k := sort.Search(len(b.mentions), func(k int) bool { return b.mentions[k].op >= x.first })
	for n := range len(b.work(x)) {
		from, to := x.first+int32(n), int32(len(b.ops))
		b.line, b.stmt = b.lines[from], b.stmts[from]
		b.use(reg)
		for ; k < len(b.mentions) && b.mentions[k].op == from; k++ {
			// Lanes that the guard leaves out keep what they had.
			m := b.mentions[k]
			m.op, m.some, m.write = to, m.some || m.write, false
			b.mentions = ptx.Append(b.c.effort, b.mentions, mentionBytes, m)
		}
		in := b.ops[from]
		in.Guard, in.GuardNeg = guard, neg
		b.emit(in)
	}
	b.line, b.stmt = line, stmt
}
