package sched

import "time"

func init() {
	Register("gdev-band", "BAND as Gdev published it, to compare band with",
		func() Policy { return &gdevBand{accounts: map[ID]*gdevAccount{}} })
}

// gdevBand is BAND as in the Gdev paper and its released scheduler, one command at
// a time. Its accounts are its own: credit comes by the clock and not by what was
// used, and is reset, not clamped, at its bounds; utilization is measured since
// the last full second; and the engine is left free although guests wait, for as
// long as Settings.Wait, when the next one is ahead of its share, or when a guest
// that has had too much comes back to an engine that was its own.
type gdevBand struct {
	accounts    map[ID]*gdevAccount
	replenished time.Duration
	window      time.Duration // when the utilization's window began
	current     ID            // had the engine last
	done        bool          // current completed at doneAt, and no guest was picked yet
	doneAt      time.Duration
	free        freeWait
}

// gdevAccount is a virtual GPU in Gdev's terms.
type gdevAccount struct {
	bandwidth float64 // its share by weight, of all guests
	credit    time.Duration
	busy      time.Duration // used since the window began
	used      float64       // the same as a part of the window until now
	charged   time.Duration // of Stats.Busy
}

// over reports whether the guest has neither credit nor utilization left.
func (a *gdevAccount) over() bool { return a.credit <= 0 && a.used > a.bandwidth }

// freeWait is a time for which a published policy leaves the engine free.
type freeWait struct {
	until time.Duration // 0 is none
	last  uint64        // number of the last arrival before it
	next  ID            // runs at its end
}

// replenish gives out credit for the periods that have passed.
func (p *gdevBand) replenish(v *View) {
	set, sum := v.Settings(), 0.0
	for _, g := range v.List() {
		sum += float64(g.Share.Weight)
	}
	for _, g := range v.List() {
		a := p.accounts[g.ID]
		if a == nil {
			a = &gdevAccount{charged: g.stats.Busy}
			p.accounts[g.ID] = a
		}
		a.bandwidth = float64(g.Share.Weight) / sum
	}
	if len(p.accounts) > 2*len(v.List()) {
		p.forget(v)
	}
	const most = 100 // after a longer pause only the last periods matter
	if behind := v.Now() - p.replenished - most*set.Period; behind > 0 {
		p.replenished += behind / set.Period * set.Period
	}
	for ; v.Now()-p.replenished >= set.Period; p.replenished += set.Period {
		at := p.replenished + set.Period
		for _, a := range p.accounts {
			a.credit += time.Duration(float64(set.Period) * a.bandwidth)
			if a.credit > set.CreditBound || a.credit < -set.CreditBound {
				a.credit = 0
			}
		}
		if at-p.window >= set.Window {
			p.window = at
			for _, a := range p.accounts {
				a.busy = 0
			}
		}
	}
	for _, a := range p.accounts {
		p.measure(v, a)
	}
}

// measure brings a guest's utilization up to date.
func (p *gdevBand) measure(v *View, a *gdevAccount) {
	a.used = float64(a.busy) / float64(max(v.Now()-p.window, 1))
}

// forget drops the accounts of guests that have gone.
func (p *gdevBand) forget(v *View) {
	kept := map[ID]*gdevAccount{}
	for _, g := range v.List() {
		kept[g.ID] = p.accounts[g.ID]
	}
	p.accounts = kept
}

func (p *gdevBand) Pick(v *View, ready []*Guest) (*Guest, time.Duration) {
	p.replenish(v)
	if p.free.until > v.Now() {
		for _, g := range ready {
			if g.arrival > p.free.last && (g.ID != p.current || !p.accounts[g.ID].over()) {
				return p.take(g)
			}
		}
		return nil, p.free.until
	}
	next := ready[0]
	if p.free.until != 0 {
		for _, g := range ready {
			if g.ID == p.free.next {
				next = g
			}
		}
		return p.take(next)
	}
	completed := p.done && p.doneAt == v.Now()
	p.done = false
	a := p.accounts[next.ID]
	switch {
	case v.Settings().Wait == 0:
	case completed && next.ID != p.current && a.used > a.bandwidth,
		!completed && next.ID == p.current && a.over() && len(v.s.active) > 1:
		p.free = freeWait{until: v.Now() + v.Settings().Wait, last: v.s.count, next: next.ID}
		return nil, p.free.until
	}
	return p.take(next)
}

// take gives the engine to a guest.
func (p *gdevBand) take(g *Guest) (*Guest, time.Duration) {
	p.current, p.done, p.free = g.ID, false, freeWait{}
	return g, Never
}

func (p *gdevBand) Completed(v *View, g *Guest) {
	p.replenish(v)
	a := p.accounts[g.ID]
	used := g.stats.Busy - a.charged
	a.charged = g.stats.Busy
	a.credit -= used
	a.busy += used
	p.measure(v, a)
	if a.over() {
		v.ToTail(g)
	}
	p.current, p.done, p.doneAt = g.ID, true, v.Now()
}

func (p *gdevBand) Beside(*View, *Guest) time.Duration { return Never }
func (p *gdevBand) Slice(*View) time.Duration          { return 0 }
