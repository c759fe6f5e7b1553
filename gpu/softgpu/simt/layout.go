package simt

import "slices"

// basicBlock is a run of operations with one way in and out.
type basicBlock struct {
	first, last int32 // operations [first, last)
	succs       []int32
	preds       int   // number of edges that lead here
	pc          int32 // where it was laid out; -1: it is not reachable
}

// blocks divides the operations of b into basic blocks.
func (b *builder) blocks() (list []basicBlock, blockOf []int32) {
	leader := make([]bool, len(b.ops)+1)
	leader[0] = true
	mark := func(label int32) { leader[b.labels[label]] = true }
	for i := range b.ops {
		in := &b.ops[i]
		switch in.kind {
		case kJump:
			mark(in.target)
		case kBranch:
			mark(in.target)
			mark(in.other)
		case kIndexed:
			for _, t := range in.x.targets {
				mark(t)
			}
		}
		if endsBlock(in.kind) {
			leader[i+1] = true
		}
	}
	blockOf = make([]int32, len(b.ops))
	for i := range b.ops {
		if leader[i] {
			list = append(list, basicBlock{first: int32(i), pc: -1})
		}
		blockOf[i] = int32(len(list) - 1)
		list[len(list)-1].last = int32(i + 1)
	}
	return list, blockOf
}

func endsBlock(k kind) bool {
	switch k {
	case kJump, kBranch, kIndexed, kRet, kExit, kTrap:
		return true
	}
	return false
}

// graph finds the blocks, the edges between them, and their order.
//
// Blocks stand in a weak topological order: an edge leads forward, or back to
// the head of a loop that contains it, and the blocks of a loop stand together.
// The scheduling of fragments relies on it: while the lowest position runs
// first, lanes that have left a loop wait for those that are still in it, and
// lanes on both sides of a branch meet where the sides join.
func (b *builder) graph() (list []basicBlock, order []int32) {
	list, blockOf := b.blocks()
	target := func(label int32) int32 {
		t := blockOf[b.labels[label]]
		for range 16 { // follow blocks that only jump on; a few, since they may form a circle
			in := &b.ops[list[t].first]
			if in.kind != kJump || list[t].last-list[t].first != 1 {
				break
			}
			t = blockOf[b.labels[in.target]]
		}
		return t
	}
	for i := range list {
		blk := &list[i]
		in := &b.ops[blk.last-1]
		switch in.kind {
		case kJump:
			blk.succs = []int32{target(in.target)}
		case kBranch:
			// The second is laid out next where that is possible.
			blk.succs = []int32{target(in.target), target(in.other)}
		case kIndexed:
			for _, t := range in.x.targets {
				blk.succs = append(blk.succs, target(t))
			}
		case kRet, kExit, kTrap:
		default:
			blk.succs = []int32{int32(i + 1)}
		}
	}
	order = weakOrder(list)
	for _, i := range order {
		for _, s := range list[i].succs {
			list[s].preds++
		}
	}
	return list, order
}

// layout resolves labels, joins comparisons with the branches that follow them,
// and appends the blocks in the given order to the program's code.
func (b *builder) layout(list []basicBlock, order []int32) {
	p := b.c.prog
	start := len(p.code)
	b.fn.entry = int32(start)
	for k, i := range order {
		blk := &list[i]
		blk.pc = int32(len(p.code))
		if b.c.timed {
			b.appendOp(b.clock(blk), b.lines[blk.first])
		}
		ops := b.ops[blk.first:blk.last]
		last := &ops[len(ops)-1]
		switch last.kind {
		case kJump, kBranch, kIndexed:
		default:
			b.copy(ops, blk.first)
			if !endsBlock(last.kind) {
				// Where others may wait for the end of this block, it must be a jump.
				s := blk.succs[0]
				if k+1 == len(order) || order[k+1] != s || list[s].preds > 1 {
					b.appendOp(inst{kind: kJump, target: s, other: -1}, b.lines[blk.last-1])
				}
			}
			continue
		}
		end := *last
		ops = ops[:len(ops)-1]
		line := b.lines[blk.last-1]
		switch end.kind {
		case kJump:
			b.copy(ops, blk.first)
			if s := blk.succs[0]; k+1 == len(order) || order[k+1] != s || list[s].preds > 1 {
				end.target = s
				b.appendOp(end, line)
			}
			continue
		case kIndexed:
			end.x.targets = slices.Clone(blk.succs)
		case kBranch:
			end.target, end.other = blk.succs[0], blk.succs[1]
			if n := len(ops); n > 0 && fusible(&ops[n-1], &end) {
				cmp := ops[n-1]
				ops = ops[:n-1]
				end.kind, end.cmp, end.op, end.d, end.a, end.b, end.imm = kCompareBranch, cmp.cmp, cmp.op, cmp.d, cmp.a, cmp.b, cmp.imm
			}
		}
		b.copy(ops, blk.first)
		b.appendOp(end, line)
	}
	for pc := start; pc < len(p.code); pc++ {
		in := &p.code[pc]
		switch in.kind {
		case kJump:
			in.target = list[in.target].pc
		case kBranch, kCompareBranch:
			in.target, in.other = list[in.target].pc, list[in.other].pc
		case kIndexed:
			for k, t := range in.x.targets {
				in.x.targets[k] = list[t].pc
			}
		}
	}
	b.fn.end = int32(len(p.code))
	b.fn.frameBytes = linkBytes + b.fn.localBytes + 4*b.fn.regs32 + 8*b.fn.regs64 + b.fn.preds
}

// linkBytes is what a frame takes of the call stack beside memory and registers.
const linkBytes = 16

func fusible(cmp, branch *inst) bool {
	return cmp.kind == kCompare && cmp.guard == 0 && cmp.combine == boolNone && cmp.e == noReg && cmp.d == branch.a
}

func (b *builder) copy(ops []inst, first int32) {
	b.c.prog.code = append(b.c.prog.code, ops...)
	b.c.prog.lines = append(b.c.prog.lines, b.lines[first:int(first)+len(ops)]...)
}

func (b *builder) appendOp(in inst, line int32) {
	b.c.prog.code = append(b.c.prog.code, in)
	b.c.prog.lines = append(b.c.prog.lines, line)
}

// maxLoopDepth bounds the nesting of loops that weakOrder follows; deeper ones
// stay in the order of the source, which only makes lanes meet later.
const maxLoopDepth = 64

// weakOrder is a weak topological order of the blocks that block 0 reaches
// (Bourdoncle, "Efficient chaotic iteration strategies with widenings", 1993).
func weakOrder(list []basicBlock) []int32 {
	o := &orderer{list: list, state: make([]nodeState, len(list))}
	o.component([]int32{0}, 0)
	return o.order
}

type nodeState struct {
	index, low int32 // of Tarjan's algorithm; index 0: not visited
	onStack    bool
	placed     bool
	group      int32 // the component that is being ordered
}

type orderer struct {
	list   []basicBlock
	state  []nodeState
	order  []int32
	groups int32
}

// component appends, in weak topological order, all blocks of the present
// group that are reachable from roots and have no place yet.
func (o *orderer) component(roots []int32, depth int) {
	comps := o.tarjan(roots)
	// Tarjan's algorithm finds components in reverse topological order.
	for k := len(comps) - 1; k >= 0; k-- {
		comp := comps[k]
		head := comp[0]
		if len(comp) == 1 {
			o.put(head)
			continue
		}
		if depth == maxLoopDepth {
			slices.Sort(comp)
			for _, n := range comp {
				o.put(n)
			}
			continue
		}
		// The rest of the loop, without its head, in an order of its own.
		o.groups++
		for _, n := range comp {
			o.state[n].group = o.groups
			o.state[n].index = 0
		}
		o.put(head)
		o.component(o.list[head].succs, depth+1)
	}
}

func (o *orderer) put(n int32) {
	o.order = append(o.order, n)
	o.state[n].placed = true
}

// tarjan finds the strongly connected components of the blocks that are
// reachable from roots inside the group of the first root that is not placed.
// The first block of each component is the one it was entered through.
func (o *orderer) tarjan(roots []int32) (comps [][]int32) {
	type visit struct {
		node int32
		next int // successor to look at
	}
	group := o.groups
	var stack []int32
	var work []visit
	counter := int32(0)
	enter := func(n int32) {
		s := &o.state[n]
		if s.placed || s.group != group || s.index != 0 {
			return
		}
		counter++
		s.index, s.low, s.onStack = counter, counter, true
		stack = append(stack, n)
		work = append(work, visit{n, 0})
	}
	for _, r := range roots {
		enter(r)
		for len(work) > 0 {
			v := &work[len(work)-1]
			s := &o.state[v.node]
			succs := o.list[v.node].succs
			if v.next < len(succs) {
				t := succs[v.next]
				v.next++
				ts := &o.state[t]
				if ts.placed || ts.group != group {
					continue
				}
				if ts.index == 0 {
					enter(t)
				} else if ts.onStack {
					s.low = min(s.low, ts.index)
				}
				continue
			}
			n := v.node
			work = work[:len(work)-1]
			if len(work) > 0 {
				up := &o.state[work[len(work)-1].node]
				up.low = min(up.low, s.low)
			}
			if s.low != s.index {
				continue
			}
			at := len(stack) - 1
			for stack[at] != n {
				at--
			}
			comp := slices.Clone(stack[at:])
			stack = stack[:at]
			for _, m := range comp {
				o.state[m].onStack = false
			}
			comps = append(comps, comp)
		}
	}
	return comps
}
