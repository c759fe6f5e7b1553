package sched

import (
	"slices"
	"time"
)

// Next decides. Call it after every event, at the time that the last decision named,
// and again after a decision that gives the engine or asks for it.
func (s *Scheduler) Next(now time.Duration) Decision {
	s.advance(now)
	if d, decided := s.evict(); decided {
		return d
	}
	ready, again := s.eligible()
	if g := s.next(ready); g != nil {
		return s.run(&View{s}, g)
	}
	if len(s.want(ready, nil)) > 0 {
		s.contend()
	}
	for _, c := range s.running {
		wanting := s.want(ready, c)
		if !c.revoked {
			end := min(s.ends(c, len(wanting) > 0), s.grows(c, ready))
			if p, ok := s.policy.(Observer); ok && !c.standing {
				end = min(end, max(p.Enough(&View{s}, c.guest), s.now))
			}
			if end <= s.now && !c.fills() {
				end = s.stays(c, wanting)
			} else if s.gives(c, wanting) {
				end = max(c.since+s.settings.Slice/servedPart, s.now)
			}
			if c.standing && end > s.now && end < Never {
				c.standing, c.end = false, end
				return Decision{Share: c.guest.ID, Again: Never}
			}
			if end <= s.now {
				c.revoked = true
				return Decision{Revoke: c.guest.ID, Again: Never}
			}
			again = min(again, end)
			continue
		}
		at := s.preempts(c, wanting)
		if !c.preempted {
			at = min(at, s.grows(c, ready))
		}
		if at <= s.now {
			c.preempted = true
			return Decision{Preempt: c.guest.ID, Again: Never}
		}
		again = min(again, at)
	}
	if g := s.filler(ready); g != nil {
		return s.run(&View{s}, g)
	}
	if len(ready) == 0 || slices.ContainsFunc(s.running, func(c *tenure) bool { return !c.beside }) {
		return Decision{Again: again}
	}
	v := &View{s}
	g, later := s.owning(), Never // no other goes before it, whether it is expected or waits
	if g == nil {
		g, later = s.policy.Pick(v, ready)
	}
	switch {
	case g == nil:
		return Decision{Again: min(again, max(later, s.now+1))}
	case len(s.running) > 0 && (!s.joins(g) || s.counted() || s.part(g) > 0): // Next has asked for those that fit
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
	case c.standing && wanted && (stays && c.preemptible || c.streams && s.inTurns()): // as if another had waited from the start
		return max(c.since+s.settings.Slice, c.end, s.now)
	case c.standing && wanted:
		return s.now
	case c.processors > 0 && !wanted && c.guest.Share.Cap == 0:
		return Never
	case c.standing, !wanted && len(s.running) == 1 && c.guest.Share.Cap == 0 && c.end <= s.now:
		return Never
	}
	return max(c.end, s.now)
}

// stays returns until when a guest whose slice is over has the engine all the same, because the policy would
// give it the engine again. It would lose time otherwise: a loop on the GPU leaves, and is launched again; a guest that
// streams loses what it has queued on the GPU. A guest whose commands cannot be stopped loses none elsewhere: it returns
// the engine between two of them, and asks for it again.
func (s *Scheduler) stays(c *tenure, ready []*Guest) time.Duration {
	if c.streams && s.inTurns() { // the policy may have changed
		c.end = s.turnEnds(c, ready)
		return c.end
	}
	p, ok := s.policy.(Stayer)
	if ok && c.preemptible && len(s.running) == 1 && c.guest.Share.Cap == 0 && s.settings.Slice > 0 && len(ready) > 0 &&
		p.Stays(&View{s}, c.guest, ready) {
		c.end = s.now + s.settings.Slice
		return c.end
	}
	return s.now
}

// A guest that has used less than servedShare of its share of the last window, and comes after a pause, waits no longer than
// until the one before it has had a servedPart of its slice.
const (
	servedShare = 0.95
	servedPart  = 4
)

// gives reports whether a guest with a slice that a policy would prolong is to leave the engine before the end of that, for
// one that needs less than its share. What a server does waits for its answers: with a whole slice before each it would
// serve less than it is entitled to.
func (s *Scheduler) gives(c *tenure, ready []*Guest) bool {
	if _, ok := s.policy.(Stayer); !ok || c.standing || c.streams || !c.preemptible || len(s.running) > 1 {
		return false
	}
	total := servedShare * float64(s.total.total(s.now))
	return slices.ContainsFunc(ready, func(g *Guest) bool {
		return g.late > 0 && float64(g.use.total(s.now)) < g.fraction*total
	})
}

// run gives the engine to a guest.
func (s *Scheduler) run(v *View, g *Guest) Decision {
	g.Waiting = false
	g.stats.Runs++
	g.stats.Waited += s.now - g.since
	processors := s.part(g)
	wants := processors
	if len(s.running) > 0 && s.counted() && !s.fits(g) {
		processors, wants = s.idle(), s.processors
		if p := s.part(g); p > 0 {
			wants = p
		}
	}
	contended := s.contended() || len(s.running) > 0 || s.owner == g.ID
	if wants > processors {
		contended = true
	} else if processors > 0 {
		contended = s.contended() && !s.suffices()
	}
	// The use of a guest with a cap has to be known even while no other guest waits.
	h, holds := s.policy.(Holder)
	d := Decision{Run: g.ID, Standing: g.Share.Cap == 0 && !contended, Beside: s.joins(g) || processors > 0, Again: Never}
	d.Turns = d.Beside && g.turns && processors == 0
	d.Processors, d.Fills = processors, wants > processors
	d.Standing = d.Standing && !(holds && len(s.active) > 1) // its time is not over when another arrives
	if holds && !d.Standing {
		d.Slice, d.Keep = h.Hold(v, g)
	} else if !d.Standing {
		d.Slice = s.policy.Slice(v)
	}
	if d.Slice > 0 {
		d.Again = s.now + d.Slice
	}
	g.tenure = &tenure{guest: g, beside: d.Beside, preemptible: g.preemptible && !g.beside, since: s.now,
		streams: g.turns && !d.Beside && s.inTurns() && s.settings.Slice > 0, processors: processors, wants: wants, lone: s.now, standing: d.Standing, end: s.now + d.Slice,
		revoked: !d.Standing && d.Slice == 0, looked: s.now, contended: Never, owes: s.now}
	if contended {
		g.tenure.contended = s.now
	} else if processors > 0 && s.suffices() {
		g.tenure.owes = Never
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
	return s.reserved(ready, again)
}

// contended reports whether a guest waits.
func (s *Scheduler) contended() bool {
	return slices.ContainsFunc(s.list, func(g *Guest) bool { return g.Waiting })
}
