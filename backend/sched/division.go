package sched

import "time"

func init() {
	Register("division", "equal parts of long kernels in turn, by thread division, to compare band with",
		func() Policy { return &division{accounts: map[ID]*divided{}} })
}

// division is thread division, as in the text of its paper (its printed algorithm adds a size that
// contains the old one to the old one). Guests take turns; in each round a guest with work runs one
// group of a kernel's threads. Here a group is the time that it may run, because only the device knows
// the speed of a kernel: a number of threads is that time at the speed of the group before.
//
// The usage of a guest grows by the time that a group took, times 1 plus the group's part of all
// groups, while two guests or more have work. A guest whose usage is below the mean gets a larger
// group, by what it lacks, and one above the mean a smaller one. What a round measures is used in the
// round after the next, as the paper does so that nothing waits for the computation. A guest that has
// used more than twice as much as the one that used least leaves out a round.
//
// Three things are ours, as the paper's guests begin together and run one kernel each. What a guest
// lacks is of its last round, where the text has the usage of all rounds: sizes would swing between
// their bounds, because they and the usage that they are made of would both be sums. A guest that was
// idle begins at the least usage of those that are active. And usage is halved now and then, so that
// what was long ago does not pause a guest. All guests have equal shares, as in the paper.
type division struct {
	accounts map[ID]*divided
	picked   *divided // the last that was
}

// divided is the account of a guest.
type divided struct {
	usage   float64 // nanoseconds, weighted
	round   float64 // of that, in its last round
	group   float64 // nanoseconds that it may run this round
	next    float64 // and in the next one, from what the last one measured
	charged time.Duration
	paused  bool // it left out the last round
}

const (
	// divisionGain is the part of what a guest lacks that is added to its group: with two rounds of
	// delay, the largest with which sizes do not swing.
	divisionGain = 0.25
	// divisionMost bounds a group, in first groups, and divisionLeast divides one.
	divisionMost, divisionLeast = 8, 8
	// divisionMemory is the mean usage, in first groups, at which usage is halved.
	divisionMemory = 64
	// divisionPause is how often the least usage a guest may have used before it leaves out a round.
	divisionPause = 2
)

// divisionFirst is the size of the first group.
func divisionFirst(v *View) float64 {
	return float64(max(v.Settings().Slice, DefaultSlice/divisionLeast))
}

// account returns the account of a guest, or a new one.
func (p *division) account(v *View, g *Guest) *divided {
	a := p.accounts[g.ID]
	if a == nil {
		first := divisionFirst(v)
		a = &divided{group: first, next: first, charged: g.stats.Busy, usage: p.least(v, g)}
		p.accounts[g.ID] = a
	}
	return a
}

// least returns the least usage of the guests that have work, but for one.
func (p *division) least(v *View, but *Guest) float64 {
	least, found := 0.0, false
	for _, g := range v.List() {
		if a := p.accounts[g.ID]; a != nil && g != but && v.s.wants(g) && (!found || a.usage < least) {
			least, found = a.usage, true
		}
	}
	return least
}

// Arrived starts a guest that was idle at the usage of the others.
func (p *division) Arrived(v *View, g *Guest) {
	if a := p.account(v, g); !v.s.wants(g) {
		a.usage = max(a.usage, p.least(v, g))
	}
}

// Pick takes guests in the order in which they began to wait, which is in rounds.
func (p *division) Pick(v *View, ready []*Guest) (*Guest, time.Duration) {
	var best *Guest
	for _, g := range ready {
		a := p.account(v, g)
		if rest := len(ready) > 1 && a.usage > divisionPause*p.least(v, g); rest && !a.paused {
			continue
		}
		if best == nil || g.arrival < best.arrival {
			best = g
		}
	}
	if best == nil { // all are to leave out this round, so none is
		best = ready[0]
		for _, g := range ready {
			if g.arrival < best.arrival {
				best = g
			}
		}
	}
	if p.account(v, best).usage > divisionPause*p.least(v, best) {
		// The others have just been served, and are expected back: they go before it.
		if until := v.expected(func(g *Guest) bool { return p.account(v, g).usage < p.account(v, best).usage/divisionPause }); until > v.Now() {
			return nil, until
		}
	}
	for _, g := range ready { // that would have gone before, left out a round
		if g.arrival < best.arrival {
			p.account(v, g).paused = true
		}
	}
	p.picked = p.account(v, best)
	p.picked.paused = false
	p.picked.charged = best.stats.Busy
	return best, Never
}

// Completed accounts for a group.
func (p *division) Completed(v *View, g *Guest) {
	a := p.account(v, g)
	took := float64(g.stats.Busy - a.charged)
	a.charged = g.stats.Busy
	sum, rounds, groups, guests := 0.0, 0.0, 0.0, 0.0
	for _, o := range v.List() {
		if b := p.accounts[o.ID]; b != nil && (o == g || v.s.wants(o)) {
			guests++
			groups += b.group
			sum += b.usage
			rounds += b.round
		}
	}
	if guests < 2 {
		return
	}
	grown := took * (1 + a.group/groups)
	a.usage += grown
	sum += grown
	rounds += grown - a.round
	a.round = grown
	first := divisionFirst(v)
	lacks := rounds/guests - a.round // (1/N - ratio) * sum
	a.group = a.next
	a.next = min(max(a.group+divisionGain*lacks, first/divisionLeast), divisionMost*first)
	if sum > guests*divisionMemory*first {
		for _, b := range p.accounts {
			b.usage /= 2
		}
	}
	p.forget(v)
}

// forget drops the accounts of guests that have left.
func (p *division) forget(v *View) {
	if len(p.accounts) <= len(v.List()) {
		return
	}
	kept := map[ID]*divided{}
	for _, g := range v.List() {
		if a := p.accounts[g.ID]; a != nil {
			kept[g.ID] = a
		}
	}
	p.accounts = kept
}

// Preempt ends a group as soon as its time is over.
func (p *division) Preempt(v *View, running *Guest, _ []*Guest) (now bool, again time.Duration) {
	return true, v.Now()
}

// Part returns the time of the guest's group.
func (p *division) Part(v *View, g *Guest) time.Duration {
	return time.Duration(p.account(v, g).group)
}

func (p *division) Beside(v *View, g *Guest) time.Duration { return v.Behind(g) }

func (p *division) Slice(v *View) time.Duration {
	if p.picked == nil {
		return v.Settings().Slice
	}
	return time.Duration(p.picked.group)
}
