package jit

import (
	"math"

	"pvdrm/gpu/softgpu/exec/ir"
)

// Lanes that part at a branch stay in native code. The fragments of a warp that wait are in its frame then,
// those of the lowest position last; which one runs, and where fragments meet, is what package run does with them:
// the lowest position runs first, and one that comes to the position of another, or beyond it, by a jump, joins it or
// waits for it. Fragments with fewer than all lanes run in the masked variant of the code, and in the other one
// as soon as they are all together again.
//
// No more runs for it between two looks at the fuel than without: the lowest position goes back at heads of loops only,
// which count, and in code that only goes ahead each block runs once, for all lanes that come there.

// noLimit is the limit of a fragment that waits for no other.
const noLimit = math.MaxInt32

// maxFragments is how many fragments a warp may have.
const maxFragments = 32

// waiting is a fragment that waits for its turn. The first of Frame.waits is none, and has the highest position.
type waiting struct {
	pc   int32
	mask uint32
}

// Turn is what native code knows of a warp's turn.
type Turn struct {
	Limit   int32  // the lowest position of another ready fragment in the same frame
	Boosted bool   // the fragment runs before its turn
	Seen    uint64 // what Control.word was
}

// takeOver takes over the fragments that wait for one that enters native code. Where the masked variant is not
// made yet, or others than the lowest position may be next, lanes do not part in native code.
func (f *Frame) takeOver(n *Code, w *ir.Warp, by Turn) {
	f.limit, f.count, f.waits[0].pc = by.Limit, 0, noLimit
	f.full.holds(n.full.code.Load())
	f.masked.holds(nil)
	masked, ok := n.masked.code.Load(), f.takeWaiting(w, by)
	f.calls.takeOver(w, ok && (masked != nil || f.count == 0))
	if masked == nil || !ok {
		f.count = 0
		return
	}
	f.limit = f.waits[f.count/int64(waitBytes)].pc
	f.masked.holds(masked)
}

// takeWaiting takes over the fragments that wait. It reports false if others than the lowest position may be next.
func (f *Frame) takeWaiting(w *ir.Warp, by Turn) bool {
	f.turn = uint64(len(w.Rest))
	if by.Boosted {
		return false
	}
	for i := range w.Rest {
		switch o := &w.Rest[i]; {
		case o.State != ir.Ready:
		case o.Frame == w.Frame:
			f.wait(o.PC, o.Mask, uint64(i))
		case o.Frame.Depth >= w.Frame.Depth:
			return false
		}
	}
	return by.Limit <= f.waits[f.count/int64(waitBytes)].pc
}

// wait adds a fragment to those that wait.
func (f *Frame) wait(pc int32, mask uint32, turn uint64) {
	at := int(f.count) / int(waitBytes)
	last := at
	for f.waits[at].pc < pc {
		at--
	}
	if f.waits[at].pc == pc {
		f.waits[at].mask |= mask
		return
	}
	copy(f.waits[at+2:], f.waits[at+1:last+1])
	copy(f.turns[at+2:], f.turns[at+1:last+1])
	f.waits[at+1], f.turns[at+1] = waiting{pc: pc, mask: mask}, turn
	f.count += int64(waitBytes)
}

// giveBack gives fragments back when native code has left, in the order in which they began to wait.
func (f *Frame) giveBack(w *ir.Warp) {
	w.Mask, w.Live = f.mask, f.live
	base := w.Frame
	list := f.unwind(w)
	if f.masked.at == nil || len(w.Rest) == 0 && f.count == 0 {
		addWaiting(w, list)
		return
	}
	had := uint64(len(w.Rest))
	kept := w.Rest[:0]
	for i, o := range w.Rest {
		if o.State == ir.Ready && o.Frame == base {
			at := f.waitsSince(uint64(i))
			if f.turns[at] != uint64(i) || at == 0 {
				continue // it runs, or waits with others
			}
			o.Mask = f.waits[at].mask
		}
		kept = append(kept, o)
	}
	w.Rest = kept
	for at := f.waitsSince(had); at != 0; at = f.waitsSince(f.turns[at] + 1) {
		list = append(list, waited{f.turns[at], ir.Fragment{Mask: f.waits[at].mask, PC: f.waits[at].pc, Frame: base}})
	}
	addWaiting(w, list)
}

// waitsSince is the number of the fragment that has waited longest of those that do since a turn, or 0.
func (f *Frame) waitsSince(turn uint64) (first int) {
	for at := 1; at <= int(f.count)/int(waitBytes); at++ {
		if f.turns[at] >= turn && (first == 0 || f.turns[at] < f.turns[first]) {
			first = at
		}
	}
	return first
}
