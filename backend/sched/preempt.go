package sched

import "time"

// leastSlice is the part of Settings.Preempt that every guest gets, however small its share.
const leastSlice = 0.25

// marginSlices is the margin in slices; see View.margin.
const marginSlices = 2

// preempts returns the time at which the command of a tenure that was revoked has to stop, or at
// which to ask again; Never if it may run to its end.
//
// A command that runs while others wait has at least its slice. Then the policy decides. At the
// latest it stops after Settings.Window: those who wait are counted by the policy again, and the
// limits on the time for which a command keeps others waiting begin again.
func (s *Scheduler) preempts(c *tenure, ready []*Guest) time.Duration {
	p, can := s.policy.(Preemptive)
	if !can || !c.preemptible || c.preempted || s.settings.Preempt == 0 {
		return Never
	}
	slice := s.slice(c.guest)
	if len(ready) == 0 && (len(s.running) == 1 || c.processors > 0) {
		switch {
		case c.guest.Share.Cap == 0 && c.processors > 0 && c.contended < Never: // those who waited have left
			return max(c.contended+s.settings.Window, s.now)
		case c.guest.Share.Cap == 0:
			return Never
		}
		// A guest with a cap has to rest even while no other waits.
		return max(c.since+max(slice, time.Duration(c.guest.Share.Cap*float64(s.settings.Period))), s.now)
	}
	from := c.since + slice
	if c.standing {
		from = max(from, c.contended+slice/2) // a command that is about to end is left
	}
	last := min(c.contended, s.now) + s.settings.Window
	switch {
	case s.now < from:
		return from
	case s.now >= last:
		return s.now
	}
	now, again := p.Preempt(&View{s}, c.guest, ready)
	if now {
		return s.now
	}
	return min(max(again, s.now+slice/4), last)
}

// over returns when the time of a tenure is over: at the end of its slice or, if it was given for as long as
// no other guest waited, when one came.
func (t *tenure) over() time.Duration {
	if t.standing {
		return t.contended
	}
	return t.end
}

// margin returns the engine time by which a guest that waits has to be ahead of one that runs, by
// the policy's order, before it takes the engine. Without a margin, two guests that always have work
// would hand the engine over after each slice. A guest whose last commands came late after one
// another needs none: it does not wait for the next margin after this one.
func (v *View) margin(g, running *Guest) time.Duration {
	if g.late > 0 {
		return 0
	}
	if running.tenure.streams && g.turns {
		return v.s.turn(running, g) / 2
	}
	return marginSlices * v.s.slice(running)
}

const (
	meanTurn     = 6 * time.Millisecond // at least
	shallowRound = 2 * meanTurn
)

// turn returns the time for which a guest goes on before another has its turn, if both use all that they get. The
// guest begins when it is half of that behind.
func (s *Scheduler) turn(running, g *Guest) time.Duration {
	round := s.settings.Round
	if running.shallow == maxShallow || g.shallow == maxShallow {
		round = min(round, shallowRound)
	}
	round = max(round, meanTurn*time.Duration(len(s.active)))
	return time.Duration(float64(round) * running.fraction)
}

// inTurns reports whether the policy preempts by an order of guests, and so can tell when a turn is over.
func (s *Scheduler) inTurns() bool {
	switch s.policy.(type) {
	case Divider, Holder, Observer:
		return false
	case Preemptive:
		return true
	}
	return false
}

// turnEnds returns the time until which a guest that streams goes on, although its slice is over; not after now if its
// turn is over.
func (s *Scheduler) turnEnds(c *tenure, ready []*Guest) time.Duration {
	last := min(c.contended, s.now) + s.settings.Window
	if s.now >= last || c.guest.Share.Cap > 0 || len(s.running) > 1 || len(ready) == 0 {
		return s.now
	}
	now, again := s.policy.(Preemptive).Preempt(&View{s}, c.guest, ready)
	if now {
		return s.now
	}
	return min(max(again, s.now+s.slice(c.guest)/4), last)
}

// slice returns the time for which a guest's command may run while others wait.
func (s *Scheduler) slice(g *Guest) time.Duration {
	if p, ok := s.policy.(Divider); ok {
		return max(p.Part(&View{s}, g), 1)
	}
	part := max(g.fraction*float64(len(s.active)), leastSlice)
	return max(time.Duration(part*float64(s.settings.Preempt)), 1)
}
