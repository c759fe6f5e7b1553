package sched

import (
	"slices"
	"time"
)

func init() {
	Register("timeslice", "30 ms each in turn with overuse control, a grant for each command; NEON's",
		func() Policy { return &timeslice{overuse: map[ID]time.Duration{}} })
	Register("dtimeslice", "30 ms each in turn with overuse control, without a grant for each command; NEON's",
		func() Policy { return &dtimeslice{timeslice{overuse: map[ID]time.Duration{}, disengaged: true}} })
}

// TimeSlice is the slice of timeslice and dtimeslice.
const TimeSlice = 30 * time.Millisecond

// timeslice is NEON's timeslice scheduling with overuse control: guests have the engine for a slice
// each, in turn. What a guest uses beyond its slice, because a command cannot be stopped, is its
// overuse; one whose overuse is a slice or more leaves out its next turn, which takes a slice off.
//
// Engaged, the guest needs a grant for each command. When it has no command for Settings.Wait, its turn
// ends, unless Settings.Keep is set: the original leaves the engine idle then. Disengaged, the guest
// has the engine for its slice and needs no grant, and so it keeps it while it is idle.
type timeslice struct {
	disengaged bool
	holder     ID            // whose turn it is
	until      time.Duration // its end
	overuse    map[ID]time.Duration
}

func (p *timeslice) Pick(v *View, ready []*Guest) (*Guest, time.Duration) {
	if len(v.s.running) > 0 { // work that could be beside that of others is not
		return nil, Never
	}
	if v.Now() < p.until {
		for _, g := range ready {
			if g.ID == p.holder {
				return g, Never
			}
		}
		if until := p.hold(v); until > v.Now() {
			return nil, until
		}
	}
	// Those who are to leave out their turns do so for a guest that has just been served, too.
	if !slices.ContainsFunc(ready, p.may) {
		if until := v.expected(p.may); until > v.Now() {
			return nil, until
		}
	}
	g := p.next(ready)
	p.holder, p.until = g.ID, v.Now()+TimeSlice
	return g, Never
}

// hold returns until when the engine is kept for the guest whose turn it is, which has no command.
func (p *timeslice) hold(v *View) time.Duration {
	if v.Settings().Keep {
		return p.until
	}
	return min(v.expected(func(g *Guest) bool { return g.ID == p.holder }), p.until)
}

// may reports whether a guest has its next turn.
func (p *timeslice) may(g *Guest) bool { return p.overuse[g.ID] < TimeSlice }

// next returns the guest whose turn comes next: in the order of their numbers, but for those with too
// much overuse.
func (p *timeslice) next(ready []*Guest) *Guest {
	order := slices.SortedFunc(slices.Values(ready), func(a, b *Guest) int {
		// Those after the holder come first.
		if x, y := a.ID > p.holder, b.ID > p.holder; x != y {
			if x {
				return -1
			}
			return 1
		}
		return int(int64(a.ID) - int64(b.ID))
	})
	for {
		for _, g := range order {
			if p.may(g) {
				return g
			}
			p.overuse[g.ID] -= TimeSlice
		}
	}
}

// Hold gives a command when engaged, and else the rest of the slice.
func (p *timeslice) Hold(v *View, _ *Guest) (d time.Duration, keep bool) {
	if p.disengaged {
		return max(p.until-v.Now(), 1), true
	}
	return 0, false
}

// Completed notes what was used beyond the slice.
func (p *timeslice) Completed(v *View, g *Guest) {
	if g.ID == p.holder && v.Now() > p.until {
		p.overuse[g.ID] += v.Now() - p.until
		p.until = v.Now()
	}
	if len(p.overuse) > len(v.List()) {
		for id := range p.overuse {
			if !slices.ContainsFunc(v.List(), func(g *Guest) bool { return g.ID == id }) {
				delete(p.overuse, id)
			}
		}
	}
}

// dtimeslice is disengaged timeslice scheduling. Where commands can be stopped, one that goes on for
// longer than flights of short commands take to end leaves the engine soon after the end of the slice.
type dtimeslice struct{ timeslice }

// Preempt is part of Preemptive.
func (p *dtimeslice) Preempt(v *View, running *Guest, _ []*Guest) (now bool, again time.Duration) {
	at := running.tenure.over() + marginSlices*v.Settings().Preempt
	return at <= v.Now(), at
}

func (p *timeslice) Beside(*View, *Guest) time.Duration { return Never }
func (p *timeslice) Slice(*View) time.Duration          { return 0 }
