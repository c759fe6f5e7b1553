package lower

import (
	"cmp"
	"container/heap"
	"math/bits"
	"slices"

	"pvdrm/gpu/ptx"
	"pvdrm/gpu/softgpu/exec/ir"
)

// maxLiveWords bounds the sets of liveness, and MaxLivePasses how often it goes over them.
const maxLiveWords = 1 << 22

// liveness returns the set of registers of the source, as bits, that are alive
// where each block begins, or nil where finding out would take too long.
func (b *builder) liveness(list []basicBlock, order []int32) [][]uint64 {
	words := (len(b.regs) + 63) / 64
	if bytes := 2 * len(list) * (24 + 8*words); words*len(list) > maxLiveWords || !b.c.effort.Fits(bytes+len(b.regs)*spanBytes) {
		return nil
	} else {
		b.spend(bytes)
	}
	reads, writes := ir.NewSets(len(list), words), ir.NewSets(len(list), words)
	blk, guards := 0, guardedWrites{by: map[int32]guard{}, changes: map[uint32]int{}}
	for _, m := range b.mentions {
		if at := stepTo(list, blk, m.op); at != blk {
			blk = at
			clear(guards.by)
		}
		w, bit := m.reg/64, uint64(1)<<(m.reg%64)
		in := &b.ops[m.op]
		if m.write || m.some {
			guards.write(m.reg, b.regs[m.reg], in)
		}
		switch {
		case m.write:
			writes[blk][w] |= bit
		case !m.some && writes[blk][w]&bit == 0 && !guards.have(m.reg, in):
			reads[blk][w] |= bit
		}
	}
	// reads grows into what is alive.
	for range ir.MaxLivePasses {
		changed := false
		for k := len(order) - 1; k >= 0; k-- {
			at := order[k]
			for _, s := range list[at].succs {
				b.c.effort.Steps(1 + words/4)
				for w := range words {
					x := reads[at][w] | reads[s][w]&^writes[at][w]
					changed = changed || x != reads[at][w]
					reads[at][w] = x
				}
			}
		}
		if !changed {
			return reads
		}
	}
	return nil
}

// guardedWrites has the guards of the operations of a block that wrote a register of the source last. Lanes that
// another operation with such a guard lets run read what these wrote, as long as the predicate is what it was.
type guardedWrites struct {
	by      map[int32]guard
	changes map[uint32]int // of predicates, by their numbers
}

// guard is a predicate, counted from 1, whether its lanes run or the others, and how often it has changed before.
type guard struct {
	pred   uint32
	neg    bool
	change int
}

// of is the guard of an operation that has one.
func (g *guardedWrites) of(in *ir.Inst) guard {
	return guard{in.Guard, in.GuardNeg, g.changes[in.Guard-1]}
}

// have reports whether the lanes that an operation lets run have all written a register before.
func (g *guardedWrites) have(reg int32, in *ir.Inst) bool {
	by, ok := g.by[reg]
	return ok && in.Guard != 0 && by == g.of(in)
}

// write notes that an operation writes a register of the source, which has its place at r.
func (g *guardedWrites) write(reg int32, r register, in *ir.Inst) {
	if in.Guard != 0 {
		g.by[reg] = g.of(in)
	}
	if r.kind == ir.InPred {
		g.changes[r.index]++
	}
}

// stepTo returns the block that holds an operation, coming from a block near it.
func stepTo(list []basicBlock, blk int, op int32) int {
	for op >= list[blk].last && blk+1 < len(list) {
		blk++
	}
	for op < list[blk].first {
		blk--
	}
	return blk
}

// zeroUnwritten makes the registers start as zero that may be read before they
// are written: those alive where the function begins. Results of a program then
// do not depend on what ran before. All do if live is nil.
func (b *builder) zeroUnwritten(live [][]uint64) {
	done := map[register]bool{}
	for i, r := range b.regs {
		r.typ = 0
		if done[r] || live != nil && live[0][i/64]>>(i%64)&1 == 0 {
			continue
		}
		done[r] = true
		switch r.kind {
		case ir.In64:
			b.fn.Zero64 = append(b.fn.Zero64, r.index)
		case ir.In32:
			b.fn.Zero32 = append(b.fn.Zero32, r.index)
		default:
			b.fn.ZeroPr = append(b.fn.ZeroPr, r.index)
		}
	}
}

// findOnce lists the registers of a kernel that one operation writes, for all lanes that run it.
func (b *builder) findOnce() {
	if !b.fn.Kernel {
		return
	}
	b.spend(len(b.regs) * spanBytes)
	writes := make(map[register]int, len(b.regs))
	for _, m := range b.mentions {
		r := b.regs[m.reg]
		r.typ = 0
		if m.write {
			writes[r]++
		}
		if m.some {
			writes[r] += 2
		}
	}
	for _, r := range b.regs {
		r.typ = 0
		if writes[r] != 1 {
			continue
		}
		writes[r] = 0 // once in the list
		switch r.kind {
		case ir.In64:
			b.fn.Once64 = append(b.fn.Once64, r.index)
		case ir.In32:
			b.fn.Once32 = append(b.fn.Once32, r.index)
		}
	}
}

// interval is where a register is alive, in positions of the layout.
type interval struct {
	reg        int
	start, end int
}

// allocate gives each register of the source a place, by its file, such that
// registers that are alive at the same time have different ones (linear scan
// over the blocks in order). Lanes that run apart do not matter: each has its
// own column of every register.
func (b *builder) allocate(list []basicBlock, order []int32, live [][]uint64) []uint32 {
	b.spend(len(b.regs) * spanBytes)
	spans := make([]interval, len(b.regs))
	for i := range spans {
		spans[i] = interval{reg: i, start: -1, end: -1}
	}
	extend := func(reg, pos int) {
		s := &spans[reg]
		if s.start < 0 {
			s.start = pos
		}
		s.start, s.end = min(s.start, pos), max(s.end, pos)
	}
	// Positions count operations in layout order. A register is alive to the
	// end of the statement that mentions it, so that no result takes the place
	// of an operand.
	start := make([]int, len(list))
	pos := 1
	for _, at := range order {
		start[at] = pos
		pos += int(list[at].last-list[at].first) + 1
	}
	each := func(set []uint64, visit func(reg int)) {
		for w, x := range set {
			b.c.effort.Steps(1 + bits.OnesCount64(x)/4)
			for ; x != 0; x &= x - 1 {
				visit(64*w + bits.TrailingZeros64(x))
			}
		}
	}
	for _, at := range order {
		each(live[at], func(r int) { extend(r, start[at]) })
		end := start[at] + int(list[at].last-list[at].first)
		for _, s := range list[at].succs {
			each(live[s], func(r int) { extend(r, end) })
		}
	}
	blk := 0
	for _, m := range b.mentions {
		blk = stepTo(list, blk, m.op)
		last := m.op
		for last+1 < list[blk].last && b.stmts[last+1] == m.stmt {
			last++
		}
		extend(int(m.reg), start[blk]+int(m.op-list[blk].first))
		extend(int(m.reg), start[blk]+int(last-list[blk].first))
	}
	for _, r := range b.uniforms() {
		extend(int(r), 0)
		extend(int(r), pos)
	}
	return b.scan(spans)
}

// maxUniforms bounds the registers that have a place of their own because all threads of a block have the same there.
const maxUniforms = 64

// uniforms are registers of a kernel that are written once, where it begins, with what all threads of a block have in
// common: parameters, the block's place, and what is computed of them. Native code takes one lane of such a
// register for all, as long as nothing else is in its place.
func (b *builder) uniforms() (list []int32) {
	if !b.f.Entry {
		return nil
	}
	writes, same := make([]uint8, len(b.regs)), map[int32]bool{}
	for _, m := range b.mentions {
		if m.write {
			writes[m.reg] = min(writes[m.reg]+1, 2)
		}
	}
	for _, s := range b.f.Body {
		b.c.effort.Step()
		if _, label := s.(*ptx.Label); label || len(list) == maxUniforms {
			break
		}
		i, ok := s.(*ptx.Instr)
		if !ok {
			continue
		}
		if endsFusing(i) {
			break
		}
		if r := uniformResult(i, same); r >= 0 && writes[r] == 1 && b.regs[r].kind != ir.InPred {
			same[r] = true
			list = append(list, r)
		}
	}
	return list
}

// uniformResult is the register that an instruction writes with what is the same for all threads of a block, as the
// registers in same are, or NoReg.
func uniformResult(i *ptx.Instr, same map[int32]bool) int32 {
	if i.Guard.Name != "" || len(i.Args) < 2 || i.Args[0].Kind != ptx.OperandReg {
		return ptx.NoReg
	}
	if i.Op == ptx.OpLd {
		if v, ok := i.Args[1].Ref.(*ptx.Var); ok && (v.Space == ptx.SpaceParam || v.Space == ptx.SpaceParamEntry) && i.Args[1].Reg == ptx.NoReg {
			return i.Args[0].Reg
		}
		return ptx.NoReg
	}
	if !removable(i) {
		return ptx.NoReg
	}
	for k := 1; k < len(i.Args); k++ {
		switch o := &i.Args[k]; o.Kind {
		case ptx.OperandReg:
			if !same[o.Reg] {
				return ptx.NoReg
			}
		case ptx.OperandImm, ptx.OperandSymbol:
		case ptx.OperandSpecial:
			switch o.Special {
			case ptx.CTAIDX, ptx.CTAIDY, ptx.CTAIDZ, ptx.NTidX, ptx.NTidY, ptx.NTidZ, ptx.NCTAIDX, ptx.NCTAIDY, ptx.NCTAIDZ:
			default:
				return ptx.NoReg
			}
		default:
			return ptx.NoReg
		}
	}
	return i.Args[0].Reg
}

// scan assigns places to intervals.
func (b *builder) scan(spans []interval) []uint32 {
	slices.SortFunc(spans, func(x, y interval) int {
		return cmp.Or(cmp.Compare(x.start, y.start), cmp.Compare(x.reg, y.reg))
	})
	places := make([]uint32, len(b.regs))
	var files [ir.InPred + 1]struct {
		next   uint32
		free   []uint32
		active endHeap
	}
	for _, s := range spans {
		f := &files[b.regs[s.reg].kind]
		for len(f.active) > 0 && f.active[0].end < s.start {
			f.free = append(f.free, places[heap.Pop(&f.active).(interval).reg])
		}
		if n := len(f.free); n > 0 {
			places[s.reg] = f.free[n-1]
			f.free = f.free[:n-1]
		} else {
			places[s.reg] = f.next
			f.next++
		}
		heap.Push(&f.active, s)
	}
	return places
}

// endHeap holds intervals, the one that ends first on top.
type endHeap []interval

func (h endHeap) Len() int { return len(h) }

func (h endHeap) Less(i, j int) bool { return h[i].end < h[j].end }

func (h endHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *endHeap) Push(x any) { *h = append(*h, x.(interval)) }

func (h *endHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
