package run

import (
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
)

// inCrew has the warps of a block run in native code as a crew (package jit) for as long as they are there, or come back to it
// soon, and puts down where they are then. It does nothing unless all can. It reports whether it did.
func (b *block) inCrew() bool {
	w := b.warps[0].worker
	n := w.run.native
	if n == nil || !n.Crews(len(b.warps)) || !b.assembled(n) {
		return false
	}
	c := &b.crew
	c.Begin(len(b.warps))
	var waiting [barriers]uint32
	for _, one := range b.ring {
		waits := false
		if len(one.Rest) != 0 {
			f := one.Rest[0]
			if one.Frame != f.Frame {
				one.view(f.Frame)
			}
			one.Mask, one.PC, one.Rest = f.Mask, f.PC, one.Rest[:0]
			if waits = f.State == ir.AtBarrier; waits {
				waiting[f.Barrier] |= 1 << one.Index
			}
		}
		one.Budget = quantum
		n.Enlist(c, &one.frame0, &one.Warp, w.seen, len(b.ring), waits, one.fresh)
		one.native = n // its calls are open in native code
		if w.counts != nil {
			w.counts.entered++
		}
	}
	for id := range b.bars {
		if bar := &b.bars[id]; bar.used {
			m := jit.Met{Waiting: waiting[id], Need: bar.need, Trues: bar.reduce.count, Falses: !bar.reduce.and}
			for i, here := range bar.arrived {
				if here != 0 {
					m.Arrived |= 1 << i
				}
			}
			c.Meet(id, m)
		}
	}
	left := b.left
	for f := c.Next(maxWarp); f != nil; {
		f = b.relieve(n, n.Pass(f))
	}
	b.waited = true
	b.disband(n)
	if b.left != left {
		b.exited()
	}
	return true
}

// maxWarp is the number of the last warp that a crew may have.
const maxWarp = 31

// assembled lists the warps of the block that have not ended in b.ring. It reports whether each of them can run in a crew: its
// lanes that have not exited are all together, ready or at a barrier, and one can run.
func (b *block) assembled(n *jit.Code) bool {
	b.ring = b.ring[:0]
	some := false
	for i := range b.warps {
		w := &b.warps[i]
		if w.Live == 0 {
			continue
		}
		if w.boost || w.sleepers != 0 {
			return false
		}
		at, pc, waits := w.Frame, w.PC, false
		switch {
		case w.Mask == w.Live && len(w.Rest) == 0:
		case w.Mask == 0 && len(w.Rest) == 1 && w.Rest[0].Mask == w.Live:
			at, pc = w.Rest[0].Frame, w.Rest[0].PC
			if waits = w.Rest[0].State == ir.AtBarrier; waits && w.Rest[0].Barrier >= barriers || !waits && w.Rest[0].State != ir.Ready {
				return false
			}
		default:
			return false
		}
		if !n.Enters(at, pc, w.Live, waits) {
			return false
		}
		some = some || !waits
		b.ring = append(b.ring, w)
	}
	for id := range b.bars {
		for i, here := range b.bars[id].arrived {
			if live := b.warps[i].Live; here != 0 && here&live != live {
				return false
			}
		}
	}
	return some
}

// relieve has the interpreter run what made a warp of a crew leave native code, or end it. It returns the frame of the warp that
// goes on, or nil where the crew ends.
func (b *block) relieve(n *jit.Code, f *jit.Frame) (next *jit.Frame) {
	if f.Stuck() {
		return nil
	}
	one := b.ring[slices.IndexFunc(b.ring, func(w *warp) bool { return &w.frame0 == f })]
	w := one.worker
	pc := n.Leave(f, &one.Warp, w.sites)
	kind := one.code[pc].Kind
	switch {
	case one.Mask != one.Live && f.Called():
		return nil // lanes are in several functions, or may be
	case one.Mask != one.Live:
		return b.gather(n, f, one, pc)
	case kind == ir.KExit, kind == ir.KRet && !f.Called():
		b.retire(n, one, pc)
		return b.crew.Next(one.Index)
	case !f.Called():
		return b.goOnInCrew(n, f, one, pc)
	}
	f.InCalled(&one.Warp, func() {
		one.native = w.run.nativeOf(one.Frame.Fn)
		next = b.goOnInCrew(n, f, one, pc)
		one.native = n
	})
	return next
}

// goOnInCrew has the interpreter run some operations of a warp of a crew from a position on. It returns the frame of the warp that
// goes on, or nil where the crew ends.
func (b *block) goOnInCrew(n *jit.Code, f *jit.Frame, one *warp, pc int32) *jit.Frame {
	w := one.worker
	if one.code[pc].Kind == ir.KCall {
		return b.callInCrew(n, f, one, pc)
	}
	for range maxMended {
		if w.control.word.Load() != w.seen {
			break
		}
		next, ok := one.simple(pc)
		others := false
		if ok && next <= pc {
			w.control.look()
			if !n.MayTurn(f) {
				others = f.EndTurn()
				ok = others
			}
		}
		if !ok {
			break
		}
		if c := w.counts; c != nil {
			c.interpret(one, pc, false)
		}
		pc = next
		if n.GoOn(f, &one.Warp, pc, len(b.ring)) {
			return b.entered(f, one, pc, others)
		}
	}
	return nil
}

// callInCrew has native code make a call that it has left before because its time was over, or the warp's first turn.
func (b *block) callInCrew(n *jit.Code, f *jit.Frame, one *warp, pc int32) *jit.Frame {
	w := one.worker
	spent, others := f.Spent(), false
	w.control.look()
	switch {
	case w.control.word.Load() != w.seen:
		return nil
	case !spent && !n.MayTurn(f):
		others = f.EndTurn()
	}
	if !spent && !others || !n.GoOn(f, &one.Warp, pc, len(b.ring)) {
		return nil
	}
	return b.entered(f, one, pc, others)
}

// entered counts that a warp of a crew has entered native code again, and returns the frame of the warp that goes on: another one
// where others have their turns first.
func (b *block) entered(f *jit.Frame, one *warp, pc int32, others bool) *jit.Frame {
	if c := one.worker.counts; c != nil {
		c.entered++
	}
	if others {
		one.PC = pc
		return b.crew.Next(one.Index)
	}
	return f
}

// gather has lanes of a warp of a ring or crew that have left native code wait for others of theirs. It returns the frame of the
// warp if it goes on.
func (b *block) gather(n *jit.Code, f *jit.Frame, one *warp, pc int32) *jit.Frame {
	w := one.worker
	if w.control.word.Load() != w.seen {
		return nil
	}
	if next, ok := n.Gather(f, &one.Warp, pc); ok && n.GoOn(f, &one.Warp, next, len(b.ring)) {
		return f
	}
	return nil
}

// retire ends a warp of a crew, at a position where all its lanes exit.
func (b *block) retire(n *jit.Code, one *warp, pc int32) {
	n.Discharge(&one.frame0, &one.Warp, one.worker.sites)
	one.see()
	if c := one.worker.counts; c != nil {
		c.interpret(one, pc, false)
	}
	one.PC, one.Live, one.Mask, one.fresh = pc, 0, 0, false
	b.left--
	b.crew.End(&one.Warp)
}

// disband puts down where the warps of a crew are, and who has come to which barrier.
func (b *block) disband(n *jit.Code) {
	var waits [32]int // by warp: one more than the number of a barrier
	for id := range b.bars {
		bar, m := &b.bars[id], b.crew.Met(id)
		if bar.used {
			bar.reset()
		}
		if m.Arrived == 0 {
			continue
		}
		bar.used, bar.need = true, m.Need
		bar.reduce = reduction{count: m.Trues, and: !m.Falses, or: m.Trues != 0}
		for i := range b.warps {
			if m.Arrived>>i&1 != 0 {
				if bar.arrived[i] = b.warps[i].Live; bar.arrived[i] == 0 {
					bar.arrived[i] = b.warps[i].exist
				}
			}
			if m.Waiting>>i&1 != 0 {
				waits[i] = id + 1
			}
		}
	}
	for _, one := range b.ring {
		if one.Live == 0 {
			continue
		}
		p := n.Discharge(&one.frame0, &one.Warp, one.worker.sites)
		one.see()
		one.limit, one.fresh = p.Limit, p.Fresh
		switch id := waits[one.Index]; {
		case p.Left >= 0:
			one.PC, b.next = p.Left, one.Index
			one.arriveHeld(p.Held, p.HeldAt)
		case id != 0:
			if p.Passed >= 0 {
				one.PC = p.Passed
			}
			one.suspendAt(&one.code[one.PC-1], uint32(id-1))
		case p.Passed >= 0:
			one.PC = p.Passed
			b.tell(one)
		}
	}
}

// tell gives a warp what the barrier before its position has told native code, which it has not gone on with.
func (b *block) tell(one *warp) {
	in := &one.code[one.PC-1]
	if in.D == ir.NoReg {
		return
	}
	trues, falses := one.frame0.Told()
	one.deliver(&ir.Fragment{Mask: one.Mask, Frame: one.Frame, Wait: in}, &reduction{count: int(trues), and: !falses, or: trues != 0})
}
