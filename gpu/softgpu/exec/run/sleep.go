package run

import (
	"runtime"
	"time"

	"pvdrm/gpu/softgpu/exec/ir"
)

// maxSleep is the longest nanosleep (section 9.7.12.1 of the PTX manual).
const maxSleep = time.Millisecond

// Sleeps shorter than shortNap only offer the processor to others, but for a kernel that
// has done so manyNaps times in a row: a processor that wakes from a sleep takes longer.
const (
	shortNap = 20 * time.Microsecond
	manyNaps = 100
)

// epoch is when the clock of sleeps starts.
var epoch = time.Now()

// clock counts microseconds, and wraps.
func clock() uint32 { return uint32(time.Since(epoch) / time.Microsecond) }

// sleep puts the running fragment to sleep for a time that suits all its lanes: at most
// twice what each asks for. It reports false when no other fragment can run.
func (w *warp) sleep(in *ir.Inst) bool {
	shortest, longest := maxSleep, time.Duration(0)
	for m := w.Mask; m != 0; m &= m - 1 {
		d := min(time.Duration(w.R32[in.A][ir.FirstOf(m)]), maxSleep)
		shortest, longest = min(shortest, d), max(longest, d)
	}
	d := min(longest, 2*shortest)
	if d == 0 {
		w.Budget = 0 // others run
		return true
	}
	w.passHead()
	wake := clock() + uint32((d+time.Microsecond-1)/time.Microsecond)
	w.Rest = append(w.Rest, ir.Fragment{Mask: w.Mask, PC: w.PC, Frame: w.Frame, State: ir.Asleep, Barrier: wake})
	w.Mask = 0
	w.sleepers++
	return w.pick()
}

// wake makes those fragments ready whose time has come. It reports whether any of the
// warp is ready now.
func (w *warp) wake() bool {
	now, awake := clock(), w.Mask != 0
	for i := range w.Rest {
		f := &w.Rest[i]
		if f.State == ir.Asleep && int32(now-f.Barrier) >= 0 {
			f.State = ir.Ready
			w.sleepers--
		}
		awake = awake || f.State == ir.Ready
	}
	return awake
}

// sleep gives the processor away until the first thread of the cluster wakes, or the
// Control has something to say. Precondition: no thread of the cluster can run.
func (w *worker) sleep() {
	now, first := clock(), int32(maxSleep/time.Microsecond)
	for _, b := range w.blocks {
		for i := range b.warps {
			for _, f := range b.warps[i].Rest {
				if f.State == ir.Asleep {
					first = min(first, int32(f.Barrier-now))
				}
			}
		}
	}
	w.nap(time.Duration(max(first, 0)) * time.Microsecond)
}

// nap gives the processor away for a time.
func (w *worker) nap(d time.Duration) {
	c := w.control
	if w.naps++; d < shortNap && w.naps < manyNaps {
		c.sleeps.Add(1)
		runtime.Gosched()
	} else {
		if !c.Deadline.IsZero() {
			d = min(d, time.Until(c.Deadline))
		}
		c.sleep(d, w.seen)
		c.look()
	}
	if c.word.Load() != w.seen {
		w.poll()
	}
}
