package lower

import (
	"slices"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
)

// basicBlock is a run of operations with one way in and out.
type basicBlock struct {
	first, last int32 // operations [first, last)
	succs       []int32
	preds       int   // number of edges that lead here
	pc          int32 // where it was laid out; -1: it is not reachable
}

// blocks divides the operations of b into basic blocks.
func (b *builder) blocks() (list []basicBlock, blockOf []int32) {
	b.spend(5 * (len(b.ops) + 1))
	leader := make([]bool, len(b.ops)+1)
	leader[0] = true
	mark := func(label int32) { leader[b.labels[label]] = true }
	for i := range b.ops {
		in := &b.ops[i]
		switch in.Kind {
		case ir.KJump:
			mark(in.Target)
		case ir.KBranch:
			mark(in.Target)
			mark(in.Other)
		case ir.KIndexed:
			b.c.effort.Steps(len(in.X.Targets))
			for _, t := range in.X.Targets {
				mark(t)
			}
		}
		if ir.EndsBlock(in.Kind) {
			leader[i+1] = true
		}
	}
	blockOf = make([]int32, len(b.ops))
	for i := range b.ops {
		if leader[i] {
			b.spend(basicBlockBytes)
			list = append(list, basicBlock{first: int32(i), pc: -1})
		}
		blockOf[i] = int32(len(list) - 1)
		list[len(list)-1].last = int32(i + 1)
	}
	return list, blockOf
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
			if in.Kind != ir.KJump || list[t].last-list[t].first != 1 {
				break
			}
			t = blockOf[b.labels[in.Target]]
		}
		return t
	}
	for i := range list {
		blk := &list[i]
		in := &b.ops[blk.last-1]
		switch in.Kind {
		case ir.KJump:
			blk.succs = []int32{target(in.Target)}
		case ir.KBranch:
			// The second is laid out next where that is possible.
			blk.succs = []int32{target(in.Target), target(in.Other)}
		case ir.KIndexed:
			b.spend(4 * len(in.X.Targets))
			blk.succs = make([]int32, 0, len(in.X.Targets))
			for _, t := range in.X.Targets {
				blk.succs = append(blk.succs, target(t))
			}
		case ir.KRet, ir.KExit, ir.KTrap:
		default:
			blk.succs = []int32{int32(i + 1)}
		}
	}
	list = b.together(list)
	order = weakOrder(b.c.effort, list)
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
	start := len(p.Code)
	b.fn.Entry = int32(start)
	for k, i := range order {
		blk := &list[i]
		b.c.effort.Steps(1 + int(blk.last-blk.first))
		blk.pc = int32(len(p.Code))
		if b.c.timed {
			b.appendOp(b.clock(blk), b.lines[blk.first])
		}
		ops := b.ops[blk.first:blk.last]
		last := &ops[len(ops)-1]
		switch last.Kind {
		case ir.KJump, ir.KBranch, ir.KIndexed:
		default:
			b.copy(ops, blk.first)
			if !ir.EndsBlock(last.Kind) {
				// Where others may wait for the end of this block, it must be a jump.
				s := blk.succs[0]
				if k+1 == len(order) || order[k+1] != s || list[s].preds > 1 {
					b.appendOp(ir.Inst{Kind: ir.KJump, Target: s, Other: -1}, b.lines[blk.last-1])
				}
			}
			continue
		}
		end := *last
		ops = ops[:len(ops)-1]
		line := b.lines[blk.last-1]
		switch end.Kind {
		case ir.KJump:
			b.copy(ops, blk.first)
			if s := blk.succs[0]; k+1 == len(order) || order[k+1] != s || list[s].preds > 1 {
				end.Target = s
				b.appendOp(end, line)
			}
			continue
		case ir.KIndexed:
			copy(end.X.Targets, blk.succs) // positions take the place of labels
		case ir.KBranch:
			end.Target, end.Other = blk.succs[0], blk.succs[1]
			if n := len(ops); n > 0 && fusible(&ops[n-1], &end) {
				cmp := ops[n-1]
				ops = ops[:n-1]
				end.Kind, end.Cmp, end.Op, end.D, end.A, end.B, end.Imm = ir.KCompareBranch, cmp.Cmp, cmp.Op, cmp.D, cmp.A, cmp.B, cmp.Imm
			}
			if len(blk.succs) > 2 {
				end.E = uint32(blk.succs[2])
			}
		}
		b.copy(ops, blk.first)
		b.appendOp(end, line)
	}
	for pc := start; pc < len(p.Code); pc++ {
		in := &p.Code[pc]
		switch in.Kind {
		case ir.KJump:
			in.Target = list[in.Target].pc
		case ir.KBranch, ir.KCompareBranch:
			in.Target, in.Other = list[in.Target].pc, list[in.Other].pc
			if in.E != 0 {
				in.E = uint32(list[in.E].pc)
			}
		case ir.KIndexed:
			for k, t := range in.X.Targets {
				in.X.Targets[k] = list[t].pc
			}
		}
	}
	b.fn.End = int32(len(p.Code))
	b.fn.FrameBytes = linkBytes + b.fn.LocalBytes + 4*b.fn.Regs32 + 8*b.fn.Regs64 + b.fn.Preds
}

// linkBytes is what a frame takes of the call stack beside memory and registers.
const linkBytes = 16

func fusible(cmp, branch *ir.Inst) bool {
	return cmp.Kind == ir.KCompare && cmp.Guard == 0 && cmp.Combine == ir.BoolNone && cmp.E == ir.NoReg && cmp.D == branch.A
}

func (b *builder) copy(ops []ir.Inst, first int32) {
	p := b.c.prog
	p.Code = append(ptx.Enlarge(b.c.effort, p.Code, ir.InstBytes+4, len(p.Code)+len(ops)), ops...)
	p.Lines = append(p.Lines, b.lines[first:int(first)+len(ops)]...)
}

func (b *builder) appendOp(in ir.Inst, line int32) {
	b.c.prog.Code = ptx.Append(b.c.effort, b.c.prog.Code, ir.InstBytes+4, in)
	b.c.prog.Lines = append(b.c.prog.Lines, line)
}

// maxLoopDepth bounds the nesting of loops that weakOrder follows; deeper ones
// stay in the order of the source, which only makes lanes meet later.
const maxLoopDepth = 64

// weakOrder is a weak topological order of the blocks that block 0 reaches
// (Bourdoncle, "Efficient chaotic iteration strategies with widenings", 1993).
func weakOrder(e *ptx.Effort, list []basicBlock) []int32 {
	o := &orderer{effort: e, list: list, state: make([]nodeState, len(list))}
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
	effort *ptx.Effort
	list   []basicBlock
	state  []nodeState
	order  []int32
	groups int32
}

// component appends, in weak topological order, all blocks of the present
// group that are reachable from roots and have no place yet.
func (o *orderer) component(roots []int32, depth int) {
	before := o.effort.Used()
	comps := o.tarjan(roots)
	defer func(bytes int) { o.effort.Free(bytes) }(o.effort.Used() - before)
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
		work = append(work, visit{node: n, next: 0})
	}
	for _, r := range roots {
		enter(r)
		for len(work) > 0 {
			o.effort.Step()
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
			o.effort.Memory(componentBytes + 4*(len(stack)-at))
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
