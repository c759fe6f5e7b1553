package sched

import "time"

func init() {
	Register("credit", "shares by weight; short commands of two guests lose to long ones", func() Policy { return credit{} })
}

// credit runs guests that have credit, in turn, and others only when no guest
// with credit waits. It never leaves the engine idle for a guest: if a guest with
// short commands has none queued at the instant at which one ends, the long
// commands of another run although that one has no credit.
type credit struct{}

func (credit) Pick(_ *View, ready []*Guest) (*Guest, time.Duration) {
	for _, g := range ready {
		if g.Credit > 0 {
			return g, Never
		}
	}
	return ready[0], Never
}

func (credit) Beside(v *View, g *Guest) time.Duration { return v.Behind(g) }

func (credit) Completed(v *View, g *Guest) {
	if g.Credit <= 0 {
		v.ToTail(g)
	}
}

func (credit) Slice(v *View) time.Duration { return v.Settings().Slice }
