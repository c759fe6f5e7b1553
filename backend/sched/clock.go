package sched

import "time"

// virtual is a guest's virtual time: nanoseconds for which it held the engine,
// divided by its share. held is the part of Guest.held that is contained in it.
type virtual struct {
	time float64
	held time.Duration
}

// clock is the virtual time of an engine: the least of the active guests, which
// never goes back.
type clock struct{ now float64 }

// settle brings the virtual times of all guests up to date.
func (c *clock) settle(v *View) {
	for _, g := range v.s.list {
		if d := g.held - g.virtual.held; d > 0 && g.fraction > 0 {
			g.virtual.time += float64(d) / g.fraction
			g.virtual.held = g.held
		}
	}
}

// activate starts a guest at the engine's virtual time if it was inactive and is
// behind. On an idle engine that is the latest time of all guests: no guest is owed
// time then.
func (c *clock) activate(v *View, g *Guest) {
	c.settle(v)
	wanted, least, latest := false, 0.0, 0.0
	for _, o := range v.s.list {
		latest = max(latest, o.virtual.time)
		if v.s.wants(o) && (!wanted || o.virtual.time < least) {
			wanted, least = true, o.virtual.time
		}
	}
	if !wanted {
		least = latest
	}
	c.now = max(c.now, least)
	g.virtual.time = max(g.virtual.time, c.now) // no change for one that still counts as active
}

// bound leaves a guest that comes back at most a time behind the others that want the engine.
func (c *clock) bound(v *View, g *Guest, most time.Duration) {
	c.settle(v)
	wanted, least := false, 0.0
	for _, o := range v.s.list {
		if o != g && v.s.wants(o) && (!wanted || o.virtual.time < least) {
			wanted, least = true, o.virtual.time
		}
	}
	if wanted && g.fraction > 0 {
		g.virtual.time = max(g.virtual.time, least-float64(most)/g.fraction)
	}
}

// first chooses the guest that goes before all others. If a guest that goes before it is
// expected back soon, first returns nil and the time until which to wait.
func (v *View) first(ready []*Guest, before func(a, b *Guest) bool) (*Guest, time.Duration) {
	best := ready[0]
	for _, g := range ready[1:] {
		if before(g, best) {
			best = g
		}
	}
	if until := v.expected(func(g *Guest) bool { return before(g, best) }); until > v.Now() {
		return nil, until
	}
	return best, Never
}

// expected returns the latest time at which a guest that goes before those that wait, and
// has just been served, is expected back; a time not after v.Now() if there is none.
func (v *View) expected(before func(g *Guest) bool) time.Duration {
	until := v.Now()
	for _, g := range v.s.list {
		if !g.Waiting && g.tenure == nil && !g.excluded && before(g) {
			until = max(until, v.s.comesBack(g))
		}
	}
	return until
}

// outrun is Preemptive.Preempt by an order that contains virtual time. The margin counts as
// virtual time.
func (v *View) outrun(running *Guest, ready []*Guest, before func(a, b *Guest) bool) (now bool, again time.Duration) {
	again = Never
	for _, g := range ready {
		later := *running
		later.virtual.time -= float64(v.margin(g, running)) / running.fraction
		if before(g, &later) {
			return true, v.Now()
		}
		if behind := g.virtual.time - later.virtual.time; behind >= 0 {
			again = min(again, v.Now()+time.Duration(behind*running.fraction)+1)
		}
	}
	return false, again
}

// overtaken is View.Behind by virtual time.
func (v *View) overtaken(g *Guest) time.Duration {
	until := v.Now()
	for _, t := range v.s.running {
		ahead := g.virtual.time - t.guest.virtual.time - float64(v.s.settings.CreditBound)
		if ahead > 0 {
			until = max(until, v.Now()+time.Duration(ahead*t.guest.fraction*float64(len(v.s.running)))+1)
		}
	}
	return until
}
