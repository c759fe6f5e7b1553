package sched

import "time"

func init() {
	Register("band", "shares by weight, also of short commands among long ones; the default", func() Policy { return band{} })
}

// band is the bandwidth-aware non-preemptive device scheduler. Guests are in
// three classes: those with credit that have not used more than their share of
// the window; those with credit that have; those without credit. The first class
// with a waiting guest is served, most credit for the weight first.
//
// When the best that waits is not of the first class, and a guest that would go
// before it, and has more credit for its weight, has just been served and is about
// to come with its next command, the engine stays idle for a moment
// (Settings.Wait). A guest that waits for each of its short commands would lose to
// the long ones of another otherwise, because it has nothing queued at the instant
// at which its command ends. The engine is kept only until that time has passed
// since the guest's last command ended, and not for a guest whose last commands
// came later than that after one another, so guests without work cost next to
// nothing. Utilization alone is no reason to wait: guests that use the
// same are a little above or below their shares in turn.
type band struct{}

func (band) Pick(v *View, ready []*Guest) (*Guest, time.Duration) {
	best := ready[0]
	for _, g := range ready[1:] {
		if v.before(g, best) {
			best = g
		}
	}
	if v.class(best) == 0 {
		return best, Never
	}
	until := v.Now()
	for _, g := range v.List() {
		if !g.Waiting && g.tenure == nil && !g.excluded && v.before(g, best) && v.lead(g) > v.lead(best) {
			until = max(until, v.s.comesBack(g))
		}
	}
	if until > v.Now() {
		return nil, until
	}
	return best, Never
}

// before reports whether a goes before b.
func (v *View) before(a, b *Guest) bool {
	if ca, cb := v.class(a), v.class(b); ca != cb {
		return ca < cb
	}
	return v.lead(a) > v.lead(b)
}

// class is the class of a guest: the smaller, the better.
func (v *View) class(g *Guest) int {
	switch {
	case g.Credit <= 0:
		return 2
	case v.Over(g):
		return 1
	}
	return 0
}

// Preempt stops a command when a guest goes before the one that runs, and leads by View.margin.
func (band) Preempt(v *View, running *Guest, ready []*Guest) (now bool, again time.Duration) {
	again = Never
	for _, g := range ready {
		behind := (v.leadNow(running)-v.lead(g))*running.fraction + float64(v.margin(g, running))
		if behind <= 0 && (v.class(g) < v.classNow(running) || v.class(g) == v.classNow(running) && v.lead(g) > v.leadNow(running)) {
			return true, v.Now()
		}
		again = min(again, v.Now()+time.Duration(max(behind, 0))+1)
	}
	return false, again
}

// leadNow is lead of a guest that runs, less what it has not been charged for yet.
func (v *View) leadNow(g *Guest) float64 {
	return float64(g.Credit-g.tenure.owed(v.Now())) / g.fraction
}

// classNow is class of a guest that runs, as if it were charged now.
func (v *View) classNow(g *Guest) int {
	part := g.tenure.part
	switch {
	case g.Credit-g.tenure.owed(v.Now()) <= 0:
		return 2
	case float64(g.use.total(v.Now())+part) > g.fraction*float64(v.s.total.total(v.Now())+part):
		return 1
	}
	return 0
}

func (band) Beside(v *View, g *Guest) time.Duration { return v.Behind(g) }

func (band) Completed(v *View, g *Guest) {
	if g.Credit <= 0 && v.Over(g) {
		v.ToTail(g)
	}
}

func (band) Slice(v *View) time.Duration { return v.Settings().Slice }
