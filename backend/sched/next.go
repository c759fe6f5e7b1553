package sched

import (
	"slices"
	"time"
)

// Next decides. Call it after every event, at the time that the last decision named,
// and again after a decision that gives the engine or asks for it.
func (s *Scheduler) Next(now time.Duration) Decision {
	s.advance(now)
	ready, again := s.eligible()
	for _, c := range s.running {
		if !c.revoked {
			end := s.ends(c, len(ready) > 0)
			if p, ok := s.policy.(Observer); ok && !c.standing {
				end = min(end, max(p.Enough(&View{s}, c.guest), s.now))
			}
			if end <= s.now && s.stays(c, ready) {
				end = s.now + s.settings.Slice
				c.end = end
			}
			if end <= s.now {
				c.revoked = true
				return Decision{Revoke: c.guest.ID, Again: Never}
			}
			again = min(again, end)
			continue
		}
		at := s.preempts(c, ready)
		if at <= s.now {
			c.preempted = true
			return Decision{Preempt: c.guest.ID, Again: Never}
		}
		again = min(again, at)
	}
	if len(ready) == 0 || slices.ContainsFunc(s.running, func(c *tenure) bool { return !c.beside }) {
		return Decision{Again: again}
	}
	v := &View{s}
	g, later := s.policy.Pick(v, ready)
	switch {
	case g == nil:
		return Decision{Again: min(again, max(later, s.now+1))}
	case len(s.running) > 0 && !s.joins(g):
		return Decision{Again: again}
	case len(s.running) > 0:
		if from := s.policy.Beside(v, g); from > s.now {
			return Decision{Again: min(again, from)}
		}
	}
	return s.run(v, g)
}

// ends returns the time at which a tenure has to end; Never if no guest needs the engine yet.
func (s *Scheduler) ends(c *tenure, wanted bool) time.Duration {
	_, stays := s.policy.(Stayer)
	switch {
	case c.standing && wanted && stays && c.preemptible: // as if another had waited from the start
		return max(c.since+s.settings.Slice, c.end, s.now)
	case c.standing && wanted:
		return s.now
	case c.standing, !wanted && len(s.running) == 1 && c.guest.Share.Cap == 0 && c.end <= s.now:
		return Never
	}
	return max(c.end, s.now)
}

// stays reports whether a guest whose slice is over has the engine for another one, because the policy would
// give it the engine again. It would lose time otherwise: a loop on the GPU leaves, and is launched again. A guest whose
// commands cannot be stopped loses none: it returns the engine between two of them, and asks for it again.
func (s *Scheduler) stays(c *tenure, ready []*Guest) bool {
	p, ok := s.policy.(Stayer)
	return ok && c.preemptible && len(s.running) == 1 && c.guest.Share.Cap == 0 && s.settings.Slice > 0 && len(ready) > 0 &&
		p.Stays(&View{s}, c.guest, ready)
}

// run gives the engine to a guest.
func (s *Scheduler) run(v *View, g *Guest) Decision {
	g.Waiting = false
	g.stats.Runs++
	g.stats.Waited += s.now - g.since
	contended := s.contended() || len(s.running) > 0
	// The use of a guest with a cap has to be known even while no other guest waits.
	h, holds := s.policy.(Holder)
	d := Decision{Run: g.ID, Standing: g.Share.Cap == 0 && !contended, Beside: s.joins(g), Again: Never}
	d.Turns = d.Beside && g.turns
	d.Standing = d.Standing && !(holds && len(s.active) > 1) // its time is not over when another arrives
	if holds && !d.Standing {
		d.Slice, d.Keep = h.Hold(v, g)
	} else if !d.Standing {
		d.Slice = s.policy.Slice(v)
	}
	if d.Slice > 0 {
		d.Again = s.now + d.Slice
	}
	g.tenure = &tenure{guest: g, beside: d.Beside, preemptible: g.preemptible && !g.beside, since: s.now, standing: d.Standing, end: s.now + d.Slice,
		revoked: !d.Standing && d.Slice == 0, looked: s.now, contended: Never, owes: s.now}
	if contended {
		g.tenure.contended = s.now
	}
	s.running = append(s.running, g.tenure)
	return d
}

// eligible are the guests that wait and may run, and the time at which a cap
// allows another one.
func (s *Scheduler) eligible() (ready []*Guest, again time.Duration) {
	ready, again = s.ready[:0], Never
	for _, g := range s.list {
		switch {
		case !g.Waiting:
		case g.Share.Cap == 0 || g.allowed <= s.now:
			ready = append(ready, g)
		default:
			again = min(again, g.allowed)
		}
	}
	s.ready = ready
	return ready, again
}

// contended reports whether a guest waits.
func (s *Scheduler) contended() bool {
	return slices.ContainsFunc(s.list, func(g *Guest) bool { return g.Waiting })
}
