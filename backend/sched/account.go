package sched

import (
	"time"
)

// pass moves the clock on. All guests that run get parts of the time: equal ones, or by the processors that they have.
func (s *Scheduler) pass(now time.Duration) {
	if now <= s.now {
		return
	}
	for _, t := range s.running {
		part := time.Duration(float64(now-s.now) * s.shares(t))
		t.part += part
		if t.owes < Never {
			t.guest.held += part
		}
	}
	s.now = now
}

// advance moves the clock on and gives out credit when a period has passed.
func (s *Scheduler) advance(now time.Duration) {
	s.pass(now)
	s.refresh()
	if s.now-s.replenished >= s.settings.Period {
		s.replenish()
		s.replenished = s.now
	}
}

// isActive reports whether a guest is active: see the package comment.
func (s *Scheduler) isActive(g *Guest) bool {
	return g.Waiting || g.tenure != nil || s.now-s.settings.Window <= g.lastSeen
}

// refresh divides the engine's time again if the set of active guests has changed.
func (s *Scheduler) refresh() {
	changed := s.stale
	for _, g := range s.list {
		if active := s.isActive(g); active != g.active {
			g.active, changed = active, true
		}
	}
	if !changed {
		return
	}
	s.replenish() // for the time before, to those that were active then
	s.stale = false
	s.active = s.active[:0]
	for _, g := range s.list {
		if g.active {
			s.active = append(s.active, g)
		}
	}
	divide(s.active)
}

// wants reports whether a guest would use the engine if it got it: it waits, or
// runs, or has the next command ready at any moment.
func (s *Scheduler) wants(g *Guest) bool {
	return g.Waiting || g.tenure != nil || s.now <= s.comesBack(g)
}

// saving returns the most credit that a guest can save.
func (s *Scheduler) saving(g *Guest) time.Duration {
	if s.wants(g) {
		return s.bound()
	}
	return s.settings.CreditBound
}

// bound returns the most credit that a guest can owe or save.
func (s *Scheduler) bound() time.Duration {
	return max(s.settings.CreditBound, s.longest[0], s.longest[1])
}

// replenish distributes the spent time as credit. The parts of idle guests that have
// saved enough go to the others.
func (s *Scheduler) replenish() {
	d := s.spent
	s.spent = 0
	poor := append(s.poor[:0], s.active...)
	left := d
	for left > 0 && len(poor) > 0 {
		sum := 0.0
		for _, g := range poor {
			sum += g.fraction
		}
		next, given := poor[:0], time.Duration(0)
		for _, g := range poor {
			part := time.Duration(float64(left) * g.fraction / sum)
			room := max(s.saving(g)-g.Credit, 0)
			g.Credit += min(part, room)
			if part < room || s.wants(g) {
				next = append(next, g)
				given += part
			} else {
				given += room
			}
		}
		left -= given
		if len(next) == len(poor) || given == 0 {
			break // all took their parts; the rest is rounding
		}
		poor = next
	}
	s.poor = poor
	// Idle guests repay their debts, and save, without cost to others.
	weights := 0.0
	for _, g := range s.active {
		weights += float64(g.Share.Weight)
	}
	for _, g := range s.list {
		if g.active {
			continue
		}
		weight := float64(g.Share.Weight)
		part := time.Duration(float64(d) * max(weight/(weights+weight), g.Share.Reserve))
		g.Credit += min(part, max(s.settings.CreditBound-g.Credit, 0))
	}
}

// charge takes used time off the credit of a guest that has the engine. It comes before
// the credit of the same time is distributed, so that a guest with a long run does not
// lose credit for which it would have had no room.
func (s *Scheduler) charge(t *tenure, says time.Duration, commands uint64, now time.Duration) {
	s.pass(now)
	g := t.guest
	all, used := t.bounded(says, s.now)
	t.accounted += all
	t.part -= used
	t.before = t.part
	g.stats.Busy += used
	g.claimed += all
	g.stats.Commands += commands
	g.use.add(used, t.looked, s.now)
	s.total.add(used, t.looked, s.now)
	t.looked = s.now
	s.cap(g, used)

	owed := min(used, s.now-min(t.owes, s.now))
	if used > 0 || commands > 0 {
		g.lastSeen = s.now
	}
	if t.contended <= s.now && (t.processors == 0 || s.contended()) {
		s.noteRun(s.now - t.contended)
	}
	s.debit(g, owed)
}

// bounded limits the use that a guest claims to the time that has passed since its last charge.
// part is the guest's part of that, if others had the engine at the same time. A claim is for the
// time since the last charge first, and for time before it, which the guest let pass, after that:
// the number of those that had the engine may have been another.
func (t *tenure) bounded(says, now time.Duration) (used, part time.Duration) {
	open := now - t.since - t.accounted
	used = min(max(says, 0), open)
	recent := now - t.looked
	of := min(used, recent)
	return used, portion(of, t.part-t.before, recent) + portion(used-of, t.before, open-recent)
}

// portion returns the part of a use of a time that belongs to a guest whose part of that time is given.
func portion(used, part, of time.Duration) time.Duration {
	if used > 0 && part < of {
		return time.Duration(float64(used) * float64(part) / float64(of))
	}
	return used
}

// owed returns what a tenure would be charged of its guest's credit, if it had used the engine since
// it was charged last.
func (t *tenure) owed(now time.Duration) time.Duration { return min(t.part, now-min(t.owes, now)) }

// Part returns the time that Charge would charge.
func (s *Scheduler) Part(id ID, used, now time.Duration) time.Duration {
	g := s.guests[id]
	if g == nil || g.tenure == nil {
		return 0
	}
	s.advance(now)
	_, part := g.tenure.bounded(used, s.now)
	return part
}

// noteRun records the longest time for which a guest had the engine while others
// waited, of this window and of the last one.
func (s *Scheduler) noteRun(d time.Duration) {
	switch age := s.now - s.longestFrom; {
	case age >= 2*s.settings.Window:
		s.longest = [2]time.Duration{}
		s.longestFrom = s.now
	case age >= s.settings.Window:
		s.longest[1], s.longest[0] = s.longest[0], 0
		s.longestFrom = s.now
	}
	s.longest[0] = max(s.longest[0], d)
}

// debit takes credit off. Debts stop growing at the bound, but one that is
// larger, from when the bound was, stays.
func (s *Scheduler) debit(g *Guest, d time.Duration) {
	s.spent += d
	g.Credit = max(g.Credit-d, min(g.Credit, -s.bound()))
}

// cap records the use of a guest with a cap: the guest may run again when enough time
// has passed to keep its cap, of which it can save up a period.
func (s *Scheduler) cap(g *Guest, used time.Duration) {
	if g.Share.Cap > 0 {
		g.allowed = max(g.allowed, s.now-used-s.settings.Period) + time.Duration(float64(used)/g.Share.Cap)
	}
}
