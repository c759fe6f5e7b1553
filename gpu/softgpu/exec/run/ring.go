package run

import "pvdrm/gpu/softgpu/exec/ir"

// inRing has the warps of a block run in a ring (package jit) for as long as all of them are in native code,
// and puts down where they are then. It does nothing unless all can. It reports whether it did.
func (b *block) inRing() bool {
	w := b.warps[0].worker
	n := w.run.native
	if n == nil || !n.Rings() || !b.inStep() {
		return false
	}
	for i := range b.warps {
		one, next := &b.warps[i], &b.warps[(i+1)%len(b.warps)]
		one.Budget = quantum
		if !n.Join(&one.frame0, &next.frame0, &one.Warp, w.seen, len(b.warps)) {
			for k := range i {
				n.Part(&b.warps[k].frame0, &b.warps[k].Warp, w.sites)
			}
			return false
		}
	}
	n.Pass(&b.warps[0].frame0)
	b.waited = true
	if c := w.counts; c != nil {
		c.entered += uint64(len(b.warps))
	}
	arrived := true
	for i := range b.warps {
		one := &b.warps[i]
		left, passed, limit := n.Part(&one.frame0, &one.Warp, w.sites)
		switch {
		case left >= 0:
			one.PC, one.limit, arrived = left, limit, false
		case passed < 0:
		case arrived:
			one.PC = passed
			bar := &b.bars[0]
			bar.used, bar.missing, bar.arrived[i] = true, len(b.warps)-1, one.Mask
			one.suspendAt(&one.code[passed-1], 0)
		default:
			one.PC = passed
		}
	}
	return true
}

// inStep reports whether all warps of the block are ready with all their lanes.
func (b *block) inStep() bool {
	for i := range b.warps {
		w := &b.warps[i]
		if w.Live != ir.AllLanes || w.fresh || w.boost || w.sleepers != 0 || w.Frame.Depth != 0 {
			return false
		}
		switch {
		case w.Mask == ir.AllLanes && len(w.Rest) == 0:
		case w.Mask == 0 && len(w.Rest) == 1 && w.Rest[0].State == ir.Ready && w.Rest[0].Mask == ir.AllLanes:
			w.resumeOnly()
		default:
			return false
		}
	}
	return true
}
