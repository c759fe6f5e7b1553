package ref

import (
	"fmt"

	"pvdrm/gpu"
	"pvdrm/gpu/ptx"
)

// Lanes of a warp run apart, as on Volta and later, and meet in the
// instructions below (section 9.7.12): each waits until its group is complete,
// which then runs the instruction at once.

// waitWarp makes t wait at i.
func (t *thread) waitWarp(i *ptx.Instr) {
	t.state, t.wait, t.since = atWarp, i, t.b.turn
}

// meet runs the instructions for which lanes wait and whose groups are complete,
// and reports whether there were any. Where no thread can go on otherwise,
// force runs one group without the lanes that are missing; what that gives is
// not defined.
func (b *block) meet(force bool) bool {
	met := false
	for _, t := range b.threads {
		if t.state != atWarp {
			continue
		}
		group, complete := t.group()
		if !complete && !force {
			continue
		}
		together(group)
		for _, o := range group {
			o.state = running
		}
		if force {
			return true
		}
		met = true
	}
	return met
}

// syncs reports whether an instruction names the lanes that take part.
func syncs(i *ptx.Instr) bool { return i.Mods.Has(ptx.Sync) }

// members is the mask of the lanes that take part in what t waits for.
func (t *thread) members() uint64 {
	if !syncs(t.wait) || t.wait.Mods.Has(ptx.Aligned) {
		return 1<<warpSize - 1
	}
	return t.get(&t.wait.Args[len(t.wait.Args)-1], ptx.U32)
}

// warp are the threads of t's warp; fewer than 32 at the end of a block.
func (t *thread) warp() []*thread {
	first := t.n / warpSize * warpSize
	return t.b.threads[first:min(first+warpSize, len(t.b.threads))]
}

// group returns the lanes that run what t waits for together with it, and
// whether all are here. With .sync these are the lanes of its mask, which wait at
// an instruction with the same modifiers and mask; without it, those that wait at
// the same place, as soon as no lane of the warp can come there soon.
func (t *thread) group() (group []*thread, complete bool) {
	complete = true
	mask := t.members()
	for lane, o := range t.warp() {
		switch {
		case o == t:
			group = append(group, o)
		case o.state == exited || mask>>lane&1 == 0:
		case o.state == atWarp && t.meets(o, mask):
			group = append(group, o)
		case syncs(t.wait):
			complete = false
		case o.state == running && t.b.turn-t.since < patience:
			complete = false
		}
	}
	if t.wait.Op == ptx.OpWgmma && t.wait.Mods.Step == ptx.StepWait {
		complete = t.groupsDone() && complete
	}
	return group, complete
}

// meets reports whether o waits for the same as t.
func (t *thread) meets(o *thread, mask uint64) bool {
	if !syncs(t.wait) {
		return o.wait == t.wait && len(o.frames) == len(t.frames)
	}
	return o.wait.Op == t.wait.Op && o.wait.Mods == t.wait.Mods && o.members() == mask
}

// together runs one instruction for a group of lanes, which are in order.
func together(group []*thread) {
	switch op := group[0].wait.Op; op {
	case ptx.OpShfl:
		shuffle(group)
	case ptx.OpVote:
		vote(group)
	case ptx.OpMatch:
		match(group)
	case ptx.OpRedux:
		reduce(group)
	case ptx.OpActivemask:
		for _, t := range group {
			t.set(&t.wait.Args[0], lanes(group), ptx.U32)
		}
	case ptx.OpElect:
		for _, t := range group {
			d, p := pair(&t.wait.Args[0])
			t.set(d, uint64(group[0].n%warpSize), ptx.U32)
			t.set(p, bit(t == group[0]), ptx.Pred)
		}
	case ptx.OpMma:
		multiplyMatrices(group)
	case ptx.OpWmma:
		if group[0].wait.Mods.Mode == ptx.ModeMMA {
			multiplyMatrices(group)
			break
		}
		for _, t := range group {
			t.transferMatrix(t.wait)
		}
	case ptx.OpWgmma:
		wgmma(group)
	case ptx.OpLdmatrix:
		loadMatrices(group)
	case ptx.OpStmatrix:
		storeMatrices(group)
	case ptx.OpMovmatrix:
		transposeMatrix(group)
	case ptx.OpBar: // bar.warp.sync: to meet is all
	default:
		group[0].fail(gpu.LostInstruction, fmt.Sprintf("the reference interpreter does not have %s", op))
	}
}

// lanes is the mask of a group.
func lanes(group []*thread) (m uint64) {
	for _, t := range group {
		m |= 1 << (t.n % warpSize)
	}
	return m
}

// shuffle is shfl (9.7.8). A lane that names one that takes no part gets 0, as from exec; PTX
// does not define it.
func shuffle(group []*thread) {
	var values [warpSize]uint64
	for _, t := range group {
		values[t.n%warpSize] = t.get(&t.wait.Args[1], ptx.B32)
	}
	for _, t := range group {
		lane := t.n % warpSize
		b, c := int(t.get(&t.wait.Args[2], ptx.U32)&31), int(t.get(&t.wait.Args[3], ptx.U32))
		clamp, segment := c&31, c>>8&31
		low, high := lane&segment, lane&segment|clamp&^segment
		from, in := 0, false
		switch t.wait.Mods.Mode {
		case ptx.ModeUp:
			from = lane - b
			in = from >= high
		case ptx.ModeDown:
			from = lane + b
			in = from <= high
		case ptx.ModeBfly:
			from = lane ^ b
			in = from <= high
		case ptx.ModeIdx:
			from = low | b&^segment
			in = from <= high
		}
		if !in {
			from = lane
		}
		d, p := pair(&t.wait.Args[0])
		t.set(d, values[from], ptx.B32)
		t.set(p, bit(in), ptx.Pred)
	}
}

// vote is vote (9.7.12).
func vote(group []*thread) {
	yes := uint64(0)
	for _, t := range group {
		yes |= t.get(&t.wait.Args[1], ptx.Pred) << (t.n % warpSize)
	}
	all, some := yes == lanes(group), yes != 0
	for _, t := range group {
		d := &t.wait.Args[0]
		switch t.wait.Mods.Mode {
		case ptx.ModeAll:
			t.set(d, bit(all), ptx.Pred)
		case ptx.ModeAny:
			t.set(d, bit(some), ptx.Pred)
		case ptx.ModeUni:
			t.set(d, bit(all || !some), ptx.Pred)
		default:
			t.set(d, yes, ptx.B32)
		}
	}
}

// match is match (9.7.12).
func match(group []*thread) {
	values := make([]uint64, len(group))
	for n, t := range group {
		values[n] = t.get(&t.wait.Args[1], t.wait.Mods.Type())
	}
	for n, t := range group {
		same := uint64(0)
		for k, o := range group {
			same |= bit(values[k] == values[n]) << (o.n % warpSize)
		}
		d, p := pair(&t.wait.Args[0])
		if t.wait.Mods.Mode == ptx.ModeAll {
			all := same == lanes(group)
			same *= bit(all)
			t.set(p, bit(all), ptx.Pred)
		}
		t.set(d, same, ptx.B32)
	}
}

// reduce is redux (9.7.12).
func reduce(group []*thread) {
	ty := group[0].wait.Mods.Type()
	r := uint64(0)
	for n, t := range group {
		x := t.get(&t.wait.Args[1], ty)
		if n == 0 {
			r = x
			continue
		}
		switch t.wait.Mods.Atomic {
		case ptx.AtomicAdd:
			r += x
		case ptx.AtomicAnd:
			r &= x
		case ptx.AtomicOr:
			r |= x
		case ptx.AtomicXor:
			r ^= x
		case ptx.AtomicMin:
			if compare(ptx.CmpLT, ty, x, r) {
				r = x
			}
		case ptx.AtomicMax:
			if compare(ptx.CmpGT, ty, x, r) {
				r = x
			}
		}
	}
	for _, t := range group {
		t.set(&t.wait.Args[0], r, ty)
	}
}
