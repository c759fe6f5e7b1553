package gang

import (
	"cmp"
	"slices"
	"time"

	"pvdrm/backend/sched"
)

// Plan decides whose turn it is at a time that does not go back. Again is when to call it if no event comes before;
// changed reports whether the other schedulers have to decide again, too.
func (c *Coordinator) Plan(now time.Duration) (again time.Duration, changed bool) {
	if len(c.gangs) == 0 || slices.ContainsFunc(c.devices, func(s *sched.Scheduler) bool { return !s.Joint() }) {
		return sched.Never, c.release(now)
	}
	c.pass(now)
	c.look()
	again = min(c.finish(), c.begin())
	return again, c.apply()
}

// release leaves all decisions to the schedulers.
func (c *Coordinator) release(now time.Duration) (changed bool) {
	c.now = now
	for e := range c.all {
		e.up, e.late, e.waiting, e.has = false, false, false, false
	}
	c.order = c.order[:0]
	return c.apply()
}

// pass charges for the time until now, by what was so since the last call.
func (c *Coordinator) pass(now time.Duration) {
	d := now - c.now
	c.now = now
	if d <= 0 {
		return
	}
	for e := range c.all {
		switch {
		case e.late:
		case e.up && c.held(e):
			e.end += d
			continue
		case e.up:
		case !e.gang() && e.has && c.cover(e.seats[0].device, e) == nil: // it uses what is kept for another
		default:
			continue
		}
		charged := max(d-e.free, 0)
		e.free -= d - charged
		e.virtual += time.Duration(float64(charged) / max(e.share, minShare))
	}
}

// minShare bounds what a turn costs at the least share.
const minShare = 1e-4

// held reports whether a guest whose turn is over keeps an entity from one of its devices.
func (c *Coordinator) held(e *entity) bool {
	for o := range c.all {
		if o != e && o.late && slices.ContainsFunc(o.seats, func(s seat) bool {
			return s.has && slices.ContainsFunc(e.seats, func(t seat) bool { return s.device == t.device })
		}) {
			return true
		}
	}
	return false
}

// cover returns the entity whose turn it is on a device, other than one.
func (c *Coordinator) cover(device int, but *entity) *entity {
	for e := range c.all {
		if e != but && e.up && slices.ContainsFunc(e.seats, func(s seat) bool { return s.device == device }) {
			return e
		}
	}
	return nil
}

// look brings what entities want and their shares up to date.
func (c *Coordinator) look() {
	of := make([]map[sched.ID]bool, len(c.devices))
	for d := range of {
		of[d] = map[sched.ID]bool{}
	}
	left := make([]float64, len(c.devices))
	for d := range left {
		left[d] = 1
	}
	for _, e := range c.gangs {
		was, wanted := e.active, e.waiting || e.has
		e.share, e.active, e.waiting, e.has = 1, false, false, false
		for i := range e.seats {
			s := &e.seats[i]
			of[s.device][s.id] = true
			d := c.devices[s.device].Demand(s.id, c.now)
			e.note(s, d)
			if d.Fraction > 0 {
				e.share, e.active = min(e.share, d.Fraction), true
			}
		}
		for _, s := range e.seats {
			if e.active {
				left[s.device] -= e.share
			}
		}
		c.wake(e, was, wanted)
	}
	for n, e := range c.rests {
		was, wanted := e.active, e.waiting || e.has
		d := c.devices[n].Rest(of[n], c.now)
		e.waiting, e.has = false, false
		e.note(&e.seats[0], d)
		e.share, e.active = max(left[n], d.Fraction), d.Fraction > 0 // what gangs do not use because of other devices, too
		c.wake(e, was, wanted)
	}
}

// note takes over what an entity wants of a device.
func (e *entity) note(s *seat, d sched.Demand) {
	s.waiting, s.has = d.Waiting, d.Has
	e.waiting, e.has = e.waiting || s.waiting, e.has || s.has
}

// wake is called when the wants of an entity were looked at. One that wants a device after a pause has saved half a round at
// most, and nothing if it was away for longer than its scheduler counts it as active. What it was kept waiting for before
// the pause, because another did not return a device, it does not lose by that.
func (c *Coordinator) wake(e *entity, was, wanted bool) {
	wants := e.waiting || e.has
	if wants && !wanted {
		most := c.floor(e)
		if was {
			most -= c.rounds(e) / 2
		}
		e.virtual = max(e.virtual, min(e.virtual+c.now-e.wanted, most))
	}
	if wants || wanted {
		e.wanted = c.now
	}
}

// rounds is the length of a round of an entity and those that share a device with it.
func (c *Coordinator) rounds(e *entity) time.Duration {
	n := time.Duration(0)
	for o := range c.all {
		if o.active && o.meets(e) {
			n++
		}
	}
	return max(c.round, MeanTurn*n)
}

// contended reports whether an active entity shares a device with one.
func (c *Coordinator) contended(e *entity) bool {
	for o := range c.all {
		if o != e && o.active && o.meets(e) {
			return true
		}
	}
	return false
}

// wants reports whether an entity has work, or has had until a moment ago.
func (c *Coordinator) wants(e *entity) bool { return e.waiting || e.has || e.up && c.now < c.idle(e) }

// idle returns when the turn of an entity is over that has no work.
func (c *Coordinator) idle(e *entity) time.Duration {
	return e.wanted + max(Patience, min((e.wanted-e.since)/patiencePart, PatienceMost))
}

// finish ends the turns that are over, and returns when the next one is to be looked at.
func (c *Coordinator) finish() (again time.Duration) {
	again = sched.Never
	for e := range c.all {
		if !e.up {
			continue
		}
		if e.up = c.wants(e) && (c.now < e.end || !c.awaited(e)); !e.up {
			e.free = min((c.now-e.since)/leavePart, LeaveMost)
			continue
		}
		if c.now < e.end {
			again = min(again, e.end)
		}
		if !e.waiting && !e.has {
			again = min(again, c.idle(e))
		}
	}
	return again
}

// awaited reports whether another entity wants a device of one.
func (c *Coordinator) awaited(e *entity) bool {
	for o := range c.all {
		if o != e && c.wants(o) && o.meets(e) {
			return true
		}
	}
	return false
}

// begin gives turns to those that want them and find their devices free, in the order of virtual time.
func (c *Coordinator) begin() (again time.Duration) {
	c.order = c.order[:0]
	taken := make([]bool, len(c.devices))
	for e := range c.all {
		switch {
		case e.up:
			e.take(taken)
		case c.wants(e):
			c.order = append(c.order, e)
		}
	}
	slices.SortStableFunc(c.order, func(a, b *entity) int { return cmp.Compare(a.virtual, b.virtual) })
	again = sched.Never
	for _, e := range c.order {
		if !slices.ContainsFunc(e.seats, func(s seat) bool { return taken[s.device] }) {
			e.up, e.since, e.free = true, c.now, c.handOver(e)
			e.end = c.now + e.free + c.turn(e)
			again = min(again, e.end)
		}
		e.take(taken) // if it has to wait, those behind it do, too
	}
	return again
}

// handOver is what it takes to give an entity its devices, and notes that it gets them.
func (c *Coordinator) handOver(e *entity) (d time.Duration) {
	for _, s := range e.seats {
		if last := &c.last[s.device]; *last != e {
			*last, d = e, HandOver
		}
	}
	return d
}

// take marks an entity's devices as taken.
func (e *entity) take(taken []bool) {
	for _, s := range e.seats {
		taken[s.device] = true
	}
}

// turn returns how long a turn is: until the entity is half a round ahead of those on average that it shares devices with, and
// want them. If each is behind when it begins, and so far ahead at its end, the turns are a round.
func (c *Coordinator) turn(e *entity) time.Duration {
	round := c.rounds(e)
	sum, n := 0.0, 0.0
	for o := range c.all {
		if o != e && o.active && o.meets(e) && c.wants(o) {
			sum, n = sum+float64(o.virtual-e.virtual), n+1
		}
	}
	mean := float64(round) * e.share
	return time.Duration(max(min((sum/max(n, 1)+float64(round)/2)*e.share, 2*mean), mean/4, float64(leastTurn)))
}

// apply reserves the engines and excludes guests. It reports whether that changes anything.
func (c *Coordinator) apply() (changed bool) {
	for d, s := range c.devices {
		up, owner := c.cover(d, nil), sched.ID(0)
		if up != nil && up.gang() && c.contended(up) {
			owner = up.at(d).id
		}
		changed = s.Reserve(owner) || changed
		for _, e := range c.gangs {
			if i := e.at(d); i != nil {
				changed = s.Exclude(i.id, up != e && (up != nil || c.kept(d))) || changed
			}
		}
	}
	for e := range c.all {
		e.late = !e.up && slices.ContainsFunc(e.seats, func(s seat) bool { return s.has && c.keeps(e, s) })
	}
	return changed
}

// kept reports whether an entity that waits for another device keeps one from those behind it.
func (c *Coordinator) kept(device int) bool {
	return slices.ContainsFunc(c.order, func(e *entity) bool { return !e.up && e.at(device) != nil })
}

// keeps reports whether an entity has a device that another one waits for in its turn.
func (c *Coordinator) keeps(e *entity, s seat) bool {
	up := c.cover(s.device, e)
	if up == nil {
		return false
	}
	return e.gang() || up.at(s.device).waiting
}

// at returns an entity's seat at a device.
func (e *entity) at(device int) *seat {
	for i := range e.seats {
		if e.seats[i].device == device {
			return &e.seats[i]
		}
	}
	return nil
}
