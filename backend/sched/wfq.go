package sched

import (
	"slices"
	"time"
)

func init() {
	Register("wfq", "shares by weight of the time for which guests hold the engine", func() Policy { return &wfq{} })
}

// wfq is weighted fair queueing. A guest's virtual time advances by the time for
// which it holds the engine, divided by its share, and the guest with the least
// runs next. Time that a guest holds the engine without using it counts, too: it
// keeps the others waiting just the same, and no report of the guest is needed.
//
// A guest that becomes active after a pause starts at the least virtual time of
// the active ones, unless its own is later: it saves nothing while it sleeps, and
// sheds no debt. One that comes back within Settings.Wait was active all the
// time, and the engine is kept for it that long as by BAND if it is behind.
//
// A guest that is still behind all others when its slice is over stays for another one. Its turns are in
// proportion to its share then, however long it takes to come back after one.
type wfq struct{ clock clock }

func (p *wfq) Pick(v *View, ready []*Guest) (*Guest, time.Duration) {
	p.clock.settle(v)
	return v.first(ready, earlier)
}

// earlier reports whether a has less virtual time than b.
func earlier(a, b *Guest) bool { return a.virtual.time < b.virtual.time }

// Arrived starts a guest that was away. One that comes back within a slice keeps its virtual time, as if it had been
// active: launching a loop on the GPU again may take longer than Settings.Wait. So does one whose commands the GPU serves in
// turn with those of others, within an eighth of a round: it has paused between two batches. With many such pauses it saves
// no more than Settings.CreditBound and a slice for each active guest, as long as their turns may take.
func (p *wfq) Arrived(v *View, g *Guest) {
	pause := v.Settings().Slice
	if g.turns && v.s.inTurns() {
		pause = max(pause, v.Settings().Round/8)
	}
	if g.lastDone > 0 && v.Now()-g.lastDone <= pause {
		p.clock.bound(v, g, v.Settings().CreditBound+time.Duration(len(v.s.active))*v.Settings().Slice)
		return
	}
	p.clock.activate(v, g)
}

func (p *wfq) Beside(v *View, g *Guest) time.Duration {
	p.clock.settle(v)
	return v.overtaken(g)
}

// Preempt stops a command as soon as a guest that waits has less virtual time.
func (p *wfq) Preempt(v *View, running *Guest, ready []*Guest) (now bool, again time.Duration) {
	p.clock.settle(v)
	return v.outrun(running, ready, earlier)
}

// Stays implements Stayer. A lead of less than half a slice is none: it would put the others' turn off by a whole one.
func (p *wfq) Stays(v *View, running *Guest, ready []*Guest) bool {
	p.clock.settle(v)
	lead := float64(v.Settings().Slice/2) / running.fraction
	return !slices.ContainsFunc(ready, func(g *Guest) bool { return g.virtual.time < running.virtual.time+lead })
}

func (p *wfq) Completed(v *View, _ *Guest) { p.clock.settle(v) }

func (p *wfq) Slice(v *View) time.Duration { return v.Settings().Slice }
