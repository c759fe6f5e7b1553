package sched

import "time"

func init() {
	Register("gpuvm-band", "BAND as GPUvm published it, with equal shares, to compare band with",
		func() Policy { return &gpuvmBand{accounts: map[ID]*gpuvmAccount{}} })
}

// gpuvmBand is BAND as in GPUvm's released scheduler, one command at a time and
// with equal shares. Each period every guest is given an equal part of the time
// that went by, busy or idle. Guests with a budget that are not over-using come
// first, then those with a budget, then the others, each in the order of the list.
// When the chosen one is over-using and the guest that has just completed is not
// and has used less, the engine is kept for that one for Settings.Wait.
type gpuvmBand struct {
	accounts    map[ID]*gpuvmAccount
	replenished time.Duration
	all, last   time.Duration // used by all in this period and in the last
	completed   ID            // just now, and no guest was picked yet
	until       time.Duration // the engine is kept for completed; 0 if not
}

type gpuvmAccount struct {
	budget  time.Duration
	used    time.Duration // in this period
	charged time.Duration // of Stats.Busy
}

// over reports whether a guest has used more than its part of the time used by all.
func (p *gpuvmBand) over(a *gpuvmAccount, guests int) bool {
	n := time.Duration(guests)
	return a.used > p.last/n || a.used*n > p.all
}

// replenish gives out the time that has gone by, at the end of a period.
func (p *gpuvmBand) replenish(v *View) {
	n, period := time.Duration(len(v.List())), v.Settings().Period
	for _, g := range v.List() {
		if p.accounts[g.ID] == nil {
			p.accounts[g.ID] = &gpuvmAccount{charged: g.stats.Busy}
		}
	}
	passed := v.Now() - p.replenished
	if passed < period {
		return
	}
	kept := map[ID]*gpuvmAccount{}
	for _, g := range v.List() {
		a := p.accounts[g.ID]
		kept[g.ID] = a
		a.budget += passed / n
		switch {
		case p.all == 0:
			a.budget = min(a.budget, period/n)
		case a.budget > period:
			a.budget /= 2
		}
		a.budget = max(a.budget, -period)
		a.used = 0
	}
	p.accounts, p.last, p.all, p.replenished = kept, p.all, 0, v.Now()
}

// class is the class of a guest: the smaller, the better.
func (p *gpuvmBand) class(g *Guest, guests int) int {
	switch a := p.accounts[g.ID]; {
	case a.budget < 0:
		return 2
	case p.over(a, guests):
		return 1
	}
	return 0
}

func (p *gpuvmBand) Pick(v *View, ready []*Guest) (*Guest, time.Duration) {
	p.replenish(v)
	n := len(v.List())
	best, done := ready[0], (*Guest)(nil)
	for _, g := range ready {
		if g.ID == p.completed {
			done = g
		}
		if p.class(g, n) < p.class(best, n) {
			best = g
		}
	}
	if p.until != 0 {
		switch {
		case done != nil:
			best = done
		case p.until > v.Now():
			return nil, p.until
		}
	} else if c := p.accounts[p.completed]; c != nil && done == nil && v.Settings().Wait > 0 {
		if a := p.accounts[best.ID]; p.over(a, n) && !p.over(c, n) && c.used < a.used {
			p.until = v.Now() + v.Settings().Wait
			return nil, p.until
		}
	}
	p.completed, p.until = 0, 0
	return best, Never
}

func (p *gpuvmBand) Completed(v *View, g *Guest) {
	p.replenish(v)
	a := p.accounts[g.ID]
	used := g.stats.Busy - a.charged
	a.charged = g.stats.Busy
	a.budget -= used
	a.used += used
	p.all += used
	if a.budget < 0 && p.over(a, len(v.List())) {
		v.ToTail(g)
	}
	p.completed, p.until = g.ID, 0
}

func (p *gpuvmBand) Beside(*View, *Guest) time.Duration { return Never }
func (p *gpuvmBand) Slice(*View) time.Duration          { return 0 }
