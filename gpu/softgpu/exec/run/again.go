package run

import "pvdrm/gpu/softgpu/exec/jit"

// A block whose warps have all ended in one ring, or in one chain, before anything else has run of them, leaves them as start has made
// them: native code changes only their registers and frames. The next block of the worker begins with them as they are.

// endedTogether puts down that all warps of a block have ended together, in a ring or in a chain, where that is so and the next
// block can begin with them. It reports whether it did.
func (b *block) endedTogether(n *jit.Code, ring []*warp) bool {
	w := b.warps[0].worker
	if b.begun || ring != nil && len(ring) != len(b.warps) || n.Counts() || len(w.blocks) != 1 || w.met || w.awaiting || w.counts != nil || w.Model != nil {
		return false
	}
	for i := range b.warps {
		if one := &b.warps[i]; !n.Ended(&one.frame0) || len(one.Rest) != 0 || one.Frame != &one.root {
			return false
		}
	}
	for i := range b.warps {
		one := &b.warps[i]
		one.frame0.Out()
		one.PC, one.Mask, one.Live, one.Grace = b.kernel.fn.Entry, one.exist, one.exist, grace
	}
	b.left, b.Ended, b.again = 0, true, true
	return true
}

// beginAgain prepares the warps of a block that has ended so for the next one.
func (b *block) beginAgain() {
	fn := b.kernel.fn
	if len(fn.Zero32)+len(fn.Zero64)+len(fn.ZeroPr)+fn.LocalBytes == 0 {
		return
	}
	for i := range b.warps {
		b.warps[i].clear(&b.warps[i].root)
	}
}

// ringAgain is inRing for a block that begins so. It reports false if all is to be prepared.
func (b *block) ringAgain(n *jit.Code) bool {
	if !b.linkAgain(func(i int, by jit.Link) bool {
		count := len(b.warps)
		by.Before, by.Next, by.Fresh = &b.warps[(i+count-1)%count].frame0, &b.warps[(i+1)%count].frame0, count > 1
		return n.Again(&b.warps[i].frame0, quantum, by)
	}) {
		return false
	}
	b.passRing(n)
	return true
}

// chainAgain is inChain for a block that begins so. It reports false if all is to be prepared.
func (b *block) chainAgain(n *jit.Code) bool {
	budget, count := quantum, len(b.warps)
	if count > 1 {
		budget = 0
	}
	if !b.linkAgain(func(i int, by jit.Link) bool {
		if i > 0 {
			by.Before = &b.warps[i-1].frame0
		}
		return n.AgainBehind(&b.warps[i].frame0, budget, by)
	}) {
		return false
	}
	b.passChain(n, count)
	return true
}

// linkAgain prepares all warps by a function. It reports false if the block is to begin as others do.
func (b *block) linkAgain(link func(i int, by jit.Link) bool) bool {
	if b.begun {
		return false
	}
	b.again = false
	for i := range b.warps {
		if !link(i, jit.Link{Place: i, Warps: len(b.warps), Seen: b.warps[0].worker.seen}) {
			for i := range b.warps {
				b.warps[i].frame0.Out()
			}
			return false
		}
	}
	return true
}
