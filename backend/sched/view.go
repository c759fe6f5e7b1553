package sched

import (
	"slices"
	"time"
)

// View is a policy's view of its Scheduler.
type View struct{ s *Scheduler }

// Now returns the time of the event.
func (v *View) Now() time.Duration { return v.s.now }

// Settings returns the constants, with the defaults filled in.
func (v *View) Settings() Settings { return v.s.settings }

// List returns all guests, in an order that the policy can change.
func (v *View) List() []*Guest { return v.s.list }

// ToTail moves a guest to the end of the list.
func (v *View) ToTail(g *Guest) {
	l := v.s.list
	if i := slices.Index(l, g); i >= 0 {
		copy(l[i:], l[i+1:])
		l[len(l)-1] = g
	}
}

// Over reports whether the guest has used more than its share of the time that all
// guests used within the window.
func (v *View) Over(g *Guest) bool {
	return float64(g.use.total(v.s.now)) > g.fraction*float64(v.s.total.total(v.s.now))
}

// Behind returns the time at which the guests that have the engine will have caught up with a
// guest that has had more of it for its share, within a tolerance; a time not after v.Now() if
// they have. Guests that use the same are a little ahead and behind in turn. Behind assumes that
// the guests use the engine for as long as they have it.
func (v *View) Behind(g *Guest) time.Duration {
	until := v.s.now
	for _, t := range v.s.running {
		ahead := v.lead(t.guest) - float64(t.part)/t.guest.fraction - v.lead(g) - float64(v.s.settings.CreditBound)
		if ahead > 0 {
			until = max(until, v.s.now+time.Duration(ahead*t.guest.fraction*float64(len(v.s.running)))+1)
		}
	}
	return until
}

// lead returns the guest's credit for each unit of its share.
func (v *View) lead(g *Guest) float64 { return float64(g.Credit) / g.fraction }
