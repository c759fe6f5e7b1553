package jit

import (
	"math/bits"

	"pvdrm/gpu/softgpu/exec/ir"
)

// A crew is the warps of a block that run in native code where a ring (ring.go) cannot be: their barriers are for some
// of the threads, are named by a register, let warps arrive and go on, or combine predicates, or some lanes of a warp do not exist
// or have exited. Native code puts down who has come to which barrier, and has the next warp run that can, in their order; the last
// one that comes to a barrier goes on. A warp comes to a barrier with all its lanes that have not exited: those that are there
// before the others are held (hold.go).
//
// Where a warp leaves native code, the interpreter may run some operations of it, or end it, and the crew goes on. Else the
// crew ends, and what it knows of barriers is the block's.

// maxWarps is how many warps a crew may have.
const maxWarps = 32

// Crew is what native code knows of the barriers of a block.
type Crew struct {
	live     uint32 // warps that have not exited
	ready    uint32 // those of them that run, or can
	most     uint32 // the largest number of threads that a barrier may name
	_        uint32
	meetings [maxBarriers]meeting
	frames   [maxWarps]*Frame
}

// meeting is one barrier.
type meeting struct {
	arrived uint32 // warps that have
	waiting uint32 // those of them that wait
	need    uint32 // threads that it waits for; 0: all
	threads uint32 // that have arrived, where a warp is 32
	trues   uint32 // of them that have a true predicate
	falses  uint32 // not 0: some have a false one
	_       [2]uint32
}

// Met is what is known of a barrier in Go.
type Met struct {
	Arrived uint32 // warps
	Waiting uint32 // warps
	Need    int    // threads; 0: all
	Trues   int    // threads with a true predicate
	Falses  bool   // some have a false one
}

// crewKind says what is known of the barriers of a kernel.
type crewKind struct {
	some    bool // warps may run in a crew
	reduces bool // a barrier combines predicates
	counts  bool // a barrier names a number of threads
}

// crewOf finds whether warps may run in a crew: those of a kernel with barriers, or one that calls functions with them. A function
// does not know which kernels call it, whose barriers may combine predicates.
func crewOf(p *ir.Program, fn *ir.Function) (c crewKind) {
	list := []*ir.Function{fn}
	if fn.Kernel {
		list, _ = reached(p, fn)
	}
	for _, fn := range list {
		for pc := fn.Entry; pc < fn.End; pc++ {
			if in := &p.Code[pc]; inCrew(in) {
				op := in.X.Barrier
				c = crewKind{some: true, reduces: c.reduces || op.Pred != ir.NoReg, counts: c.counts || op.Count != ir.NoReg}
			}
		}
	}
	c.reduces = c.reduces || c.some && !fn.Kernel
	return c
}

// inCrew reports whether an operation is a barrier of a block.
func inCrew(in *ir.Inst) bool {
	return in.Kind == ir.KBarrier && !in.X.Barrier.Cluster && in.Guard == 0
}

// Crews reports whether so many warps of n's kernel can run in a crew.
func (n *Code) Crews(warps int) bool { return n.crew.some && warps <= maxWarps }

// Begin prepares a crew of a block of so many warps.
func (c *Crew) Begin(warps int) { *c = Crew{most: uint32(32 * warps)} }

// Meet puts down who has come to a barrier. Those that wait are Enlisted.
func (c *Crew) Meet(id int, m Met) {
	to := &c.meetings[id]
	*to = meeting{arrived: m.Arrived, waiting: m.Waiting, need: uint32(m.Need), trues: uint32(m.Trues), threads: uint32(32 * bits.OnesCount32(m.Arrived))}
	if m.Falses {
		to.falses = 1
	}
	c.ready &^= m.Waiting
}

// Met returns who has come to a barrier.
func (c *Crew) Met(id int) Met {
	m := &c.meetings[id]
	return Met{Arrived: m.arrived, Waiting: m.waiting, Need: int(m.need), Trues: int(m.trues), Falses: m.falses != 0}
}

// Enters reports whether a warp with the given lanes, all of which are in a frame, can enter native code at a position, or, if it
// waits at the barrier before, once that is complete.
func (n *Code) Enters(at *ir.Frame, pc int32, mask uint32, waits bool) bool {
	n, ok := n.reopens(at, mask)
	if !ok {
		return false
	}
	code, to := n.EntryAt(pc, mask)
	return to != 0 && (!waits || code.told[pc] != 0)
}

// Enlist makes a warp ready to run in a crew. It reports false if native code cannot be entered where it is. One that waits is
// at the position behind its barrier. The first turn of a fresh one ends at a barrier, or where it goes back in a loop.
func (n *Code) Enlist(c *Crew, f *Frame, w *ir.Warp, seen uint64, warps int, waits, fresh bool) bool {
	here, ok := n.reopens(w.Frame, w.Mask)
	if !ok {
		return false
	}
	code, at := here.EntryAt(w.PC, w.Mask)
	if at == 0 || waits && code.told[w.PC] == 0 || !here.prepare(f, w, seen) {
		return false
	}
	n.reopen(f, w)
	if f.fresh = 0; fresh {
		f.fresh, f.budget = f.budget, 0
	}
	f.fuel, f.bit, f.crew = f.fuel/int64(warps), 1<<w.Index, c
	f.join(nil, nil)
	if waits {
		f.target, f.passed = code.told[w.PC], w.PC
	}
	c.frames[w.Index] = f
	c.live |= f.bit
	c.ready |= f.bit
	return true
}

// Next returns the frame of the first warp that can run of those behind one, and then of those before, or nil.
func (c *Crew) Next(behind int) *Frame {
	set := c.ready &^ (2<<behind - 1)
	if set == 0 {
		set = c.ready
	}
	if set == 0 {
		return nil
	}
	return c.frames[bits.TrailingZeros32(set)%maxWarps]
}

// End takes a warp of which all lanes have exited from its crew.
func (c *Crew) End(w *ir.Warp) {
	bit := uint32(1) << w.Index
	c.live &^= bit
	c.ready &^= bit
	for i := range c.meetings {
		m := &c.meetings[i]
		if m.arrived == 0 || m.need != 0 || c.live&^m.arrived != 0 {
			continue
		}
		for left := m.waiting; left != 0; left &= left - 1 {
			f := c.frames[bits.TrailingZeros32(left)%maxWarps]
			f.trues, f.falses = m.trues, m.falses
		}
		c.ready |= m.waiting
		*m = meeting{}
	}
}

// Stuck reports whether the warp of f has not left native code: it waits, as all others of its crew do.
func (f *Frame) Stuck() bool { return f.pc < 0 }

// Spent reports whether the warp of f has left native code because it had run there for long enough.
func (f *Frame) Spent() bool { return f.fuel < 0 }

// EndTurn ends the first turn of the warp of f in a crew, and reports whether it was that. Others have theirs then.
func (f *Frame) EndTurn() bool {
	if f.fresh == 0 {
		return false
	}
	f.budget, f.fresh, f.passed = f.fresh, 0, nowhere
	return true
}

// Discharge takes a warp from its crew.
func (n *Code) Discharge(f *Frame, w *ir.Warp, sites *Sites) Parted {
	p := Parted{Left: f.pc, Limit: f.limit, Passed: f.passed, Parked: nowhere, Fresh: f.fresh != 0, Held: f.held, HeldAt: f.heldAt}
	if n.giveBackCalled(f, w, sites); p.Left < 0 {
		p.Limit = noLimit
	}
	f.crew, f.fresh, f.held = nil, 0, 0
	f.join(nil, nil)
	return p
}

// Told returns what the warp of f has been told at the last barrier that combines predicates: how many threads have a true one,
// and whether some have a false one.
func (f *Frame) Told() (trues uint32, falses bool) { return f.trues, f.falses != 0 }
