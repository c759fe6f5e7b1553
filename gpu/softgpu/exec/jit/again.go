package jit

import "pvdrm/gpu/softgpu/exec/ir"

// Most blocks of a launch end where they began: in one ring, or one chain. Then Go has nothing to put down of their warps, and
// those of the worker's next block begin with the same frames, of which only what native code changes is set again.

// Again prepares the warp of f, which has ended in a ring or a chain as Ended says, to begin once more. It reports false if its frame
// does not know of all code that there is now.
func (n *Code) Again(f *Frame, budget int, by Link) bool {
	full := n.full.code.Load()
	if full == nil || full.entry == 0 || full.entry != f.full.entry || f.masked.at == nil && n.masked.code.Load() != nil {
		return false
	}
	f.entry, f.target, f.mask, f.live, f.limit = full.entry, full.at[0], ir.AllLanes, ir.AllLanes, noLimit
	f.count, f.turn, f.seen, f.fuel = 0, 0, by.Seen, int64(fuel/by.Warps)
	f.kept = n.keeps() // of the code that there is, which the frame knows of
	f.forgetKept()
	if f.budget, f.fresh = int64(budget), 0; by.Fresh {
		f.fresh, f.budget = f.budget, 0
	}
	f.place, f.barrier = int32(by.Place), nowhere
	f.join(by.Before, by.Next)
	return true
}

// AgainBehind is Again for a chain, behind the warp of by.Before, if there is one.
func (n *Code) AgainBehind(f *Frame, budget int, by Link) bool {
	before := by.Before
	if by.Before = nil; !n.Again(f, budget, by) {
		return false
	}
	f.link(before)
	return true
}

// Ended reports whether all lanes of the warp of f have ended in native code together, and are all that there was of it.
func (n *Code) Ended(f *Frame) bool {
	return f.pc >= 0 && f.mask == ir.AllLanes && f.count == 0 && f.held == 0 && !n.calls && endsWarp(&n.prog.Code[f.pc])
}

// Out takes a frame from its ring or its chain.
func (f *Frame) Out() {
	f.fresh = 0
	f.unlink()
	f.join(nil, nil)
}
