package run

import (
	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit"
)

// inChain has the warps of a block that begins run to their ends in native code, one after the other (package jit), and
// puts down where they are then. It reports whether any has run.
func (b *block) inChain() bool {
	w := b.warps[0].worker
	n := w.run.native
	if n == nil || !n.Chains(len(b.warps)) || w.Model != nil {
		return false
	}
	if b.again && b.chainAgain(n) {
		return true
	}
	count := 0
	for i := range b.warps {
		one := &b.warps[i]
		if one.Mask != ir.AllLanes || one.Live != ir.AllLanes || one.PC != b.kernel.fn.Entry {
			break
		}
		if one.Budget = quantum; one.fresh {
			one.Budget = 0 // no warp goes back in a loop before others have begun
		}
		before := &b.warps[max(i-1, 0)].frame0
		if i == 0 {
			before = nil
		}
		if !n.Link(&one.frame0, before, &one.Warp, w.seen, len(b.warps)) {
			break
		}
		count++
	}
	if count == 0 {
		return false
	}
	b.passChain(n, count)
	return true
}

// passChain runs a chain of the first warps of a block until it ends.
func (b *block) passChain(n *jit.Code, count int) {
	w := b.warps[0].worker
	n.Pass(&b.warps[0].frame0)
	if b.endedTogether(n, nil) {
		return
	}
	ended := 0
	for i := range count {
		one := &b.warps[i]
		left, limit, end := n.Unlink(&one.frame0, &one.Warp, w.sites)
		one.see()
		if left < 0 {
			continue
		}
		one.PC, one.limit = left, limit
		if w.counts != nil {
			w.counts.entered++
		}
		if !end {
			continue
		}
		if w.counts != nil {
			w.counts.interpret(one, left, false)
		}
		one.Live, one.Mask = 0, 0
		ended++
	}
	if ended != 0 {
		b.left -= ended
		b.exited()
	}
}
