package x86

import "math/bits"

// Where halves are, in narrow code.

// store makes memory have a half that is in a register.
func (n *lowering) store(r y, half int) {
	if n.sse != nil && int(n.own[r]) == half {
		n.settle(2 * r)
		n.settle(2*r + 1)
		return
	}
	n.ym(&STORED, r, 0, slot(half), 0)
}

// vacate makes a register hold nothing that is needed.
func (n *lowering) vacate(r y) {
	n.empty(r)
	if n.sse != nil {
		n.sse.drop(2 * r)
		n.sse.drop(2*r + 1)
	}
}

// inSlots makes memory have all that registers have, in narrow code, which has it in memory at labels.
func (n *lowering) inSlots() {
	if n.sse == nil || n.dead {
		return
	}
	for m := n.full; m != 0; m &= m - 1 {
		r := y(bits.TrailingZeros16(m))
		n.store(r, int(n.own[r]))
		n.at[n.own[r]].slot = true
	}
}
