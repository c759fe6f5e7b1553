package sched

import "time"

func init() {
	Register("priority", "the highest --priority first, shares by weight among equals; no guest starves",
		func() Policy { return &ordered{before: priority, over: priority} })
}

// priority is the order of guests by Share.Priority, the highest first, and among equals by
// virtual time, as in wfq.
func priority(a, b *Guest) bool {
	if a.Share.Priority != b.Share.Priority {
		return a.Share.Priority > b.Share.Priority
	}
	return a.virtual.time < b.virtual.time
}

// ordered runs the guest that goes before all others in an order. The engine is kept for a
// guest that goes before those that wait for as long as Settings.Wait after its last command.
// A guest that has waited for Settings.Window gets a turn; see relief.
type ordered struct {
	before func(a, b *Guest) bool
	over   func(a, b *Guest) bool // for a, which waits, the command of b is stopped
	clock  clock
	relief relief
}

func (p *ordered) Pick(v *View, ready []*Guest) (*Guest, time.Duration) {
	p.clock.settle(v)
	if g := p.relief.due(v, ready); g != nil {
		return g, Never
	}
	return v.first(ready, p.before)
}

func (p *ordered) Arrived(v *View, g *Guest) { p.clock.activate(v, g) }

func (p *ordered) Beside(v *View, g *Guest) time.Duration {
	p.clock.settle(v)
	return v.overtaken(g)
}

// Preempt stops a command for a guest that goes before the one that runs, or whose turn it is
// because it starves.
func (p *ordered) Preempt(v *View, running *Guest, ready []*Guest) (now bool, again time.Duration) {
	p.clock.settle(v)
	if p.relief.due(v, ready) != nil {
		return true, v.Now()
	}
	return v.outrun(running, ready, p.over)
}

func (p *ordered) Completed(v *View, g *Guest) {
	p.clock.settle(v)
	p.relief.completed(v, g)
}

func (p *ordered) Slice(v *View) time.Duration { return v.Settings().Slice }

// relief keeps guests that others go before from starving: one that has waited for
// Settings.Window gets a turn, but never two such turns within a window. So n
// guests that starve wait for n windows at most, and cost those that go before
// them no more than a turn in each window.
type relief struct {
	guest ID            // got such a turn last
	ended time.Duration // when that was over; 0 if there was none yet
}

// due returns the guest whose turn it is, if it is time for one.
func (r *relief) due(v *View, ready []*Guest) *Guest {
	longest := ready[0]
	for _, g := range ready {
		if g.since < longest.since {
			longest = g
		}
	}
	window := v.Settings().Window
	if v.Now()-longest.since < window || r.ended > 0 && v.Now()-r.ended < window {
		return nil
	}
	r.guest = longest.ID
	return longest
}

// completed notes when such a turn ends: it may have taken longer than a window.
func (r *relief) completed(v *View, g *Guest) {
	if g.ID == r.guest {
		r.guest, r.ended = 0, v.Now()
	}
}
