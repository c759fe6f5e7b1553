//go:build amd64 && linux

package jit

import (
	"maps"
	"slices"

	"pvdrm/gpu/softgpu/exec/ir"
	"pvdrm/gpu/softgpu/exec/jit/internal/x86"
)

// regRef names a register of the warp.
type regRef struct {
	kind  ir.RegKind
	index uint32
}

// saved is the value of a register at some point of the code.
type saved struct {
	regRef
	value
}

// unsaved lists the registers that memory does not have, of those in live; nil
// stands for all.
func (e *emitter) unsaved(live []uint64) (list []saved) {
	for i := range e.owners {
		o := &e.owners[i]
		if o.file == ir.InMemory || live != nil && !e.isAlive(live, o.file, o.reg) {
			continue
		}
		v := e.at(o.file, o.reg)
		if v.dirty != 0 && firstPart(v) == x86.Z(i) {
			list = append(list, saved{regRef: regRef{kind: o.file, index: o.reg}, value: *v})
		}
	}
	return list
}

// firstPart is the first vector register of a value, so that each is seen once.
func firstPart(v *value) x86.Z {
	for _, z := range v.z {
		if z != noZ {
			return z
		}
	}
	return noZ
}

// save writes registers to memory.
func (e *emitter) save(list []saved) {
	for _, s := range list {
		if s.uniform && s.raw {
			e.canonical(s.z[0], 0)
			s.raw = false
		}
		for p := range parts(s.kind) {
			z := s.part(p)
			if s.dirty>>p&1 != 0 && z == noZ && s.stride != 0 {
				z = t3
				e.derive(s.kind, z, s.z[0], p, s.stride)
			}
			if s.dirty>>p&1 != 0 && z != noZ {
				e.store(s.kind, s.index, p, z, s.raw)
			}
		}
	}
}

// exit leaves native code: the interpreter is to go on at pc.
func (e *emitter) exit(pc int32) { e.exitWith(pc, e.unsaved(nil)) }

func (e *emitter) exitWith(pc int32, list []saved) {
	e.save(list)
	e.a.MI(x86.MOV, false, frameAt(offPC), pc)
	e.a.Jump(e.leave)
}

// aside is a label for an exit off the main path, with the registers as they are
// now. No vector register may be taken before the jump to it.
func (e *emitter) aside(pc int32) x86.Label {
	l, list := e.a.NewLabel(), e.unsaved(nil)
	e.later = append(e.later, func() {
		e.a.Bind(l)
		e.exitWith(pc, list)
	})
	return l
}

// edge goes from the operation at pc to the block at target; jump says that this is
// a jump, of which the interpreter may have more to know: whether another fragment
// is next, and at the head of a loop, whether the warp's turn is over.
func (e *emitter) edge(pc, target int32, jump bool) { e.edgeWith(pc, target, jump, e.unsaved(nil)) }

// edgeWith is edge with the registers of another point of the code.
func (e *emitter) edgeWith(pc, target int32, jump bool, list []saved) {
	if jump && (e.masked || target <= pc) {
		out := e.a.NewLabel()
		if e.masked {
			e.meetAt(pc, target, list, out)
		}
		e.later = append(e.later, func() {
			e.a.Bind(out)
			if target <= pc {
				e.leaveHead(pc, target, list)
			} else {
				e.exitWith(pc, list)
			}
		})
		e.goesBack(pc, target, out)
	}
	e.saveFor(list, target, target)
	e.a.Jump(e.labels[e.block(target)])
}

// saveFor writes those registers to memory that are alive at the start of one of two blocks.
func (e *emitter) saveFor(list []saved, target, other int32) {
	live, more := e.blocks[e.block(target)].live, e.blocks[e.block(other)].live
	for _, s := range list {
		if e.isAlive(live, s.kind, s.index) || e.isAlive(more, s.kind, s.index) {
			e.save([]saved{s})
		}
	}
}

// goesBack counts a loop head if an edge leads back, and leaves where the interpreter has to look at it. It changes rcx.
func (e *emitter) goesBack(pc, target int32, out x86.Label) {
	if target > pc {
		return
	}
	e.a.MI(x86.CMP, true, frameAt(offBudget), 1)
	e.a.JumpIf(x86.LessEqual, out)
	e.a.MI(x86.SUB, true, frameAt(offFuel), pc-target+headCost)
	e.a.JumpIf(x86.Negative, out)
	e.a.RM(x86.MOV, true, x86.RCX, frameAt(offWord))
	e.a.RM(x86.MOV, true, x86.RCX, x86.Mem{Base: x86.RCX})
	e.a.RM(x86.CMP, true, x86.RCX, frameAt(offSeen))
	e.a.JumpIf(x86.NotEqual, out)
	e.a.MI(x86.SUB, true, frameAt(offBudget), 1)
}

// branch compiles a branch. It reports whether the code of the block after it
// follows; then the registers are as they are.
func (e *emitter) branch(pc int32, in *ir.Inst) bool {
	e.mode = allOfThem
	if e.masked {
		e.mode = active
	}
	if e.parksAt(pc, in) {
		e.resume(pc)
	}
	if in.Kind == ir.KBranch {
		e.a.RM(x86.MOV, false, x86.RAX, pred(in.A))
	} else {
		e.comparison(in)
		e.setPred(in.D, x86.RAX)
		e.unpin()
	}
	if in.Neg {
		e.a.Not(x86.RAX)
	}
	taken, out := e.a.NewLabel(), e.aside(pc)
	if e.masked {
		e.a.RR(x86.AND, false, x86.RAX, rMask)
	}
	e.a.RR(x86.CMP, false, x86.RAX, rMask)
	e.a.JumpIf(x86.Equal, taken)
	e.a.RR(x86.TEST, false, x86.RAX, x86.RAX)
	list := e.unsaved(nil)
	disagree := e.a.NewLabel()
	e.a.JumpIf(x86.NotEqual, disagree)
	e.later = append(e.later, func() {
		e.a.Bind(disagree)
		if in.E != 0 {
			e.edgeWith(pc, int32(in.E), true, list)
		} else {
			e.part(pc, in, list, out)
		}
	}, func() {
		e.a.Bind(taken)
		e.edgeWith(pc, in.Target, true, list)
	})
	if in.Other == pc+1 && e.blocks[e.block(in.Other)].chained {
		if e.masked {
			e.meetAt(pc, in.Other, list, out)
		}
		return true
	}
	e.edgeWith(pc, in.Other, true, list)
	return false
}

// resume makes this place, after an access that the interpreter may have done, one
// where it enters at pc. What is in vector registers comes from memory.
func (e *emitter) resume(pc int32) {
	at := &e.entries[pc-e.fn.Entry]
	if *at != 0 || pc <= e.early.closed {
		return
	}
	*at = e.a.NewLabel()
	entry, here := *at, e.a.NewLabel()
	e.a.Entry(entry)
	e.a.Bind(here)
	var list []saved
	for i := range e.owners {
		if o := &e.owners[i]; o.file != ir.InMemory {
			if v := e.at(o.file, o.reg); firstPart(v) == x86.Z(i) {
				list = append(list, saved{regRef: regRef{kind: o.file, index: o.reg}, value: *v})
			}
		}
	}
	var places []int
	for p := range maps.Values(e.places) {
		places = append(places, p.at)
	}
	slices.Sort(places)
	out := e.a.NewLabel()
	e.later = append(e.later, func() {
		e.a.Bind(entry)
		for _, at := range places { // what they hold is from another time
			e.forgetPlace(at)
		}
		checked := false
		for _, s := range list {
			for p, z := range s.z {
				switch {
				case z == noZ:
				case s.uniform && s.kind == ir.In64:
					e.a.VM(&x86.BROADCASTQ, z, 0, home(s.kind, s.index, 0), x86.Arg{})
				case s.uniform:
					e.a.VM(&x86.BROADCASTD, z, 0, home(s.kind, s.index, 0), x86.Arg{})
				default:
					e.a.VM(&x86.LOADD, z, 0, home(s.kind, s.index, p), x86.Arg{})
				}
			}
			if s.stride != 0 && !s.sure {
				e.verify(&s, out)
				checked = true
			}
		}
		e.a.Jump(here)
		if checked {
			e.a.Bind(out)
			e.exitWith(pc, nil)
		}
	})
}
