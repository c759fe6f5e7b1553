package rewrite

import (
	"strings"

	"pvdrm/gpu/ptx"
)

// choose finds the points: heads of loops, and barriers.
func (p *pauser) choose() {
	p.looks, p.barriers = map[int32]int{}, map[int32]int{}
	p.single = p.singles()
	together, some := p.byBarriers()
	if p.together = together; together {
		p.out.Points = len(p.saves)
		p.refuseWaits(some)
		return
	}
	without, short := "", false // why a head is none
	for _, h := range p.loops.Heads {
		at := p.behindLabels(p.g.Blocks[h].First)
		if p.short(p.single[at]) {
			short = true
			continue
		}
		if p.mode == warps {
			without = "its loops are without barriers, and their instructions work on whole warps"
			continue
		}
		if why := p.point(p.looks, at); why != "" {
			without = why
		}
	}
	if p.mode != alone {
		p.barrierPoints()
	}
	p.out.Points = len(p.saves)
	p.refuseWaits(without != "")
	if p.out.Points == 0 && p.out.Loops > 0 && (without != "" || !short) {
		if without == "" {
			without = "its loops have no place where it can stop"
		}
		p.no("cannot stop: %s", without)
	}
}

// refuseWaits refuses a kernel that may wait, where it cannot stop, for a thread that has stopped: in a
// function that it calls or, with some, in a loop of its own without a point.
func (p *pauser) refuseWaits(some bool) {
	list, indirect := p.s.reach(p.f)
	if indirect {
		list = append(list[:len(list):len(list)], p.s.order...)
	}
	for _, f := range list {
		if f == p.f && !some || f != p.f && f.Entry {
			continue
		}
		if why := waits(p.s.e, f, p.s.facts[f].known, true, func(*ptx.Func) bool { return false }); why != "" {
			p.no("may wait, where it cannot stop, for threads that have: %s %s", ptx.Clip(f.Name), why)
			return
		}
	}
}

// barrierPoints makes points of barriers, at which threads that do not stop learn that others do. Where
// instructions work on warps, those in loops look themselves.
func (p *pauser) barrierPoints() {
	for k, s := range p.f.Body {
		i, ok := s.(*ptx.Instr)
		if !ok || i.Op != ptx.OpBar && i.Op != ptx.OpBarrier || i.Mods.Mode == ptx.ModeWarp {
			continue
		}
		if p.mode == warps && (p.loops.Of[p.g.Of[k]] < 0 || i.Mods.Mode == ptx.ModeRed || i.Guard.Name != "") {
			continue
		}
		why := p.point(p.barriers, int32(k))
		if p.mode == blocks && i.Guard.Name != "" {
			why = "it has a barrier with a guard"
		}
		if why != "" && p.mode == blocks { // a thread that has stopped would wait there for ever
			p.no("cannot stop: %s", why)
			return
		}
	}
}

// point makes a point before a statement, or says why not.
func (p *pauser) point(kind map[int32]int, at int32) string {
	if int(at) >= len(p.f.Body) || p.depth[at] > 0 || p.f.Body[at] == nil {
		return "a loop is in inner braces"
	}
	if _, decl := p.f.Body[at].(*ptx.Var); decl {
		return "a loop begins with a declaration"
	}
	regs, carry := p.live.Before(at)
	if carry {
		return "the carry flag is alive at the head of a loop"
	}
	const most = 4096
	if len(regs) > most {
		return "too many registers are alive in a loop"
	}
	p.s.e.Memory(4*len(regs) + 64)
	var save []int32
	for _, r := range regs {
		yes, known := p.nameable(r)
		switch {
		case !known:
			return "a register of inner braces is alive in a loop"
		case !yes:
			continue
		case p.f.Regs[r].Type.Size() > 8:
			return "a register of 128 bits is alive in a loop"
		case strings.ContainsAny(p.f.Regs[r].Name, "."):
			return "a register of vector type is alive in a loop"
		case p.want(r):
			continue
		}
		save = append(save, r)
	}
	kind[at] = len(p.saves)
	p.saves = append(p.saves, save)
	return ""
}

// weight is how many instructions a round of a loop has, about, from its head to the last branch back to
// it, with those of loops inside that are not looked in.
func (p *pauser) weight(at int32) int {
	switch s := p.single[at]; {
	case s != nil && s.strip != nil:
		return s.weight * p.ahead(s)
	case s != nil:
		return s.weight * s.times
	}
	h := p.g.Of[at]
	last := at
	for _, b := range p.g.Blocks[h].Preds {
		if b >= h {
			last = max(last, p.g.Blocks[b].Last)
		}
	}
	n := max(1, int(last-at))
	for _, s := range p.single {
		if s.at > at && s.branch < last && p.short(s) {
			n += s.rounds * s.weight
		}
	}
	return min(n, p.o.Interval)
}
