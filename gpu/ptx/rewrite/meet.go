package rewrite

import (
	"slices"
	"strconv"

	"pvdrm/gpu/ptx"
)

// Where each round of each loop that may run for long meets a barrier, the threads of a block count the barriers that
// they come to. All of them come to the same number, at the same barrier or at different ones, so all know without a
// word of each other when a look is due, and only then they agree. In other kernels any thread may stop at any time, and
// the others look at a word in .shared behind each barrier.
//
//	     is a look due?  ──yes──► look, write down that this thread wants to stop, barrier, does any? ──► stop
//	back: the kernel's barrier         │ no
//	met: …  ◄──────────────────────────┘

// byBarriers makes points of all barriers of a kernel if its threads can count them, and reports whether they can; of none where
// a thread ends before a look is due. Loops
// of a kernel whose instructions work on warps may have none: those have no points either way, which some reports.
func (p *pauser) byBarriers() (can, some bool) {
	if p.mode == alone {
		return false, false
	}
	var list []int32
	meets := make([]bool, len(p.g.Blocks))
	for k, s := range p.f.Body {
		i, ok := s.(*ptx.Instr)
		if !ok || i.Op != ptx.OpBar && i.Op != ptx.OpBarrier || i.Mods.Mode == ptx.ModeWarp {
			continue
		}
		if i.Guard.Name != "" || i.Mods.Mode == ptx.ModeRed {
			return false, false
		}
		p.s.e.Memory(8)
		list, meets[p.g.Of[k]] = append(list, int32(k)), true
	}
	for _, h := range p.loops.Heads {
		if p.short(p.single[p.behindLabels(p.g.Blocks[h].First)]) || !p.around(h, meets) {
			continue
		}
		if some = true; p.mode == blocks {
			return false, false
		}
	}
	if !some && p.ends(list) {
		return len(list) > 0, false
	}
	for _, k := range list {
		if p.point(p.barriers, k) != "" {
			p.barriers, p.saves = map[int32]int{}, nil
			return false, false
		}
	}
	p.apart = p.between(meets, len(list))
	return len(list) > 0, some
}

// ends reports whether a thread runs so few instructions from the kernel's begin to its end that no look is due. All loops without
// barriers are short.
func (p *pauser) ends(barriers []int32) bool {
	if slices.ContainsFunc(barriers, func(k int32) bool { return p.loops.Of[p.g.Of[k]] >= 0 }) {
		return false
	}
	for _, s := range p.f.Body {
		if i, ok := s.(*ptx.Instr); ok && i.Op == ptx.OpCall {
			return false // of which nothing is known here
		}
	}
	n := barrierCost * len(barriers)
	for b := range p.g.Blocks {
		n += p.weightOf(b)
	}
	return n <= p.o.Interval
}

// weightOf is how many instructions a block has, with the rounds of a short loop.
func (p *pauser) weightOf(b int) int {
	first := p.behindLabels(p.g.Blocks[b].First)
	times := 1
	if s := p.single[first]; s != nil && p.short(s) {
		times = s.rounds
	}
	return times * int(p.g.Blocks[b].Last-first)
}

// around reports whether a loop leads from a block back to it past all barriers.
func (p *pauser) around(head int32, meets []bool) bool {
	if meets[head] {
		return false
	}
	p.s.e.Memory(2 * len(meets))
	seen := make([]bool, len(meets))
	for work := []int32{head}; len(work) > 0; {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		for _, to := range p.g.Blocks[b].Succs {
			p.s.e.Step()
			if to == head {
				return true
			}
			if !seen[to] && !meets[to] && p.loops.Of[to] == p.loops.Of[head] {
				seen[to] = true
				work = append(work, to)
			}
		}
	}
	return false
}

// barrierCost is how many instructions a barrier takes the time of, about.
const barrierCost = 16

// between is how many instructions a thread runs from one barrier to the next, about.
func (p *pauser) between(meets []bool, barriers int) int {
	loops := map[int32]bool{} // with barriers
	inside := 0
	for b, is := range meets {
		if is && p.loops.Of[b] >= 0 {
			p.s.e.Memory(16)
			loops[p.loops.Of[b]] = true
			inside++
		}
	}
	n := 0
	for b := range p.g.Blocks {
		if inside > 0 && !loops[p.loops.Of[b]] {
			continue
		}
		n += p.weightOf(b)
	}
	if inside > 0 {
		barriers = inside
	}
	return min(p.o.Interval, barrierCost+n/max(barriers, 1))
}

// met is the label behind a barrier that is counted.
func (p *pauser) met(n int) string { return p.s.prefix + "met" + strconv.Itoa(n) }

// count is what stands before a barrier that is counted.
func (p *pauser) count(n int) []ptx.Stmt {
	return []ptx.Stmt{p.check(n, p.apart), &ptx.Label{Name: p.s.prefix + "back" + strconv.Itoa(n)}}
}

// lookTogether is the look of all threads of a block at a barrier, which takes the barrier's place.
func (p *pauser) lookTogether(t *text, n int) {
	t.label("look" + strconv.Itoa(n))
	t.line("mov.u32 %%:left, %d", p.o.Interval)
	p.see(t, false)
	p.agreed(t)
	t.line("@!%%:p bra %s", p.met(n))
}

// agreed is a barrier of threads of which some may want to stop, those with q. Behind it p is whether any does.
func (p *pauser) agreed(t *text) {
	t.line("@%%:q st.volatile.shared.u32 [%swish], %%:phase", t.prefix)
	t.line("barrier.sync 0")
	t.line("ld.volatile.shared.u32 %%:t, [%swish]", t.prefix)
	t.line("setp.eq.u32 %%:p, %%:t, %%:phase")
	t.line("add.u32 %%:phase, %%:phase, 1")
}
