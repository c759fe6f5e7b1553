package sched

import "time"

// A guest that uses several engines together, such as two GPUs whose kernels wait for each other, makes progress only while
// it has all of them. A coordinator of several Schedulers (package gang) gives such guests turns: for a time it reserves each
// engine that the guest uses for it, and excludes the guests whose turn it is not. Within that, the policy decides.

// Joint reports whether a coordinator may reserve the engine: the policy shares it by weight, and can take it
// from a guest whose turn is over.
func (s *Scheduler) Joint() bool {
	switch s.policy.(type) {
	case band, *wfq:
		return true
	}
	return false
}

// Reserve gives a guest precedence over all others, until the next call: while it waits or has the engine, no other gets
// it, and those that have it have to return it. When it has had no work for a moment, the policy chooses among the others. 0 is none. Reserve
// reports whether that is a change, after which Next is to be called.
func (s *Scheduler) Reserve(owner ID) (changed bool) {
	changed, s.owner = s.owner != owner, owner
	return changed
}

// Exclude sets whether a guest is not to get the engine. One that has it when it is excluded has to return it. Exclude reports
// whether that is a change, after which Next is to be called.
func (s *Scheduler) Exclude(id ID, out bool) (changed bool) {
	if g := s.guests[id]; g != nil {
		changed, g.excluded = g.excluded != out, out
	}
	return changed
}

// Demand is what a guest wants of the engine now.
type Demand struct {
	Waiting, Has bool
	// Fraction is the part of the engine's time to which the guest is entitled; 0 if it is not active.
	Fraction float64
}

// Demand returns what a guest wants at a time.
func (s *Scheduler) Demand(id ID, now time.Duration) Demand {
	s.advance(now)
	g := s.guests[id]
	if g == nil {
		return Demand{}
	}
	d := Demand{Waiting: g.Waiting && (g.Share.Cap == 0 || g.allowed <= s.now), Has: g.tenure != nil}
	if g.active {
		d.Fraction = g.fraction
	}
	return d
}

// Rest returns what all other guests together want than those of a set.
func (s *Scheduler) Rest(of map[ID]bool, now time.Duration) (d Demand) {
	s.advance(now)
	for _, g := range s.list {
		if of[g.ID] {
			continue
		}
		one := s.Demand(g.ID, now)
		d.Waiting, d.Has, d.Fraction = d.Waiting || one.Waiting, d.Has || one.Has, d.Fraction+one.Fraction
	}
	return d
}

// owning returns the guest for which the engine is reserved and that wants it now; nil if there is none.
func (s *Scheduler) owning() *Guest {
	g := s.guests[s.owner]
	if g == nil || g.excluded || g.tenure == nil && (!g.Waiting || g.Share.Cap > 0 && g.allowed > s.now) {
		return nil
	}
	return g
}

// reserved removes the guests from those that are ready that may not have the engine now. Again is as for eligible.
func (s *Scheduler) reserved(ready []*Guest, again time.Duration) (kept []*Guest, until time.Duration) {
	owner := s.owning()
	if g := s.guests[s.owner]; g != nil && owner == nil && len(s.running) == 0 {
		if back := g.lastDone + s.patience(g); back > s.now { // it may be about to go on
			return ready[:0], min(again, back)
		}
	}
	kept = ready[:0]
	for _, g := range ready {
		if !g.excluded && (owner == nil || owner == g) {
			kept = append(kept, g)
		}
	}
	return kept, again
}

// evicted reports whether one that has the engine has to return it for the guest for which it is reserved, or because it
// is excluded.
func (s *Scheduler) evicted(c *tenure) bool {
	owner := s.owning()
	return c.guest.excluded || owner != nil && owner != c.guest
}

// evict returns the decision by which an evicted guest returns the engine, if one is to be taken now.
func (s *Scheduler) evict() (d Decision, decided bool) {
	for _, c := range s.running {
		switch {
		case !s.evicted(c):
		case !c.revoked:
			c.revoked = true
			return Decision{Revoke: c.guest.ID, Again: Never}, true
		case !c.preempted && c.preemptible && s.settings.Preempt > 0:
			c.preempted = true
			return Decision{Preempt: c.guest.ID, Again: Never}, true
		}
	}
	return Decision{}, false
}
