package sched

import (
	"slices"
	"time"
)

func init() {
	Register("dfq", "guests together on the GPU most of the time, corrected by samples and denial; NEON's",
		func() Policy { return &dfq{accounts: map[ID]*dfqAccount{}} })
	Register("dfq-roundrobin", "dfq with NEON's estimate of usage, to compare dfq with",
		func() Policy { return &dfq{accounts: map[ID]*dfqAccount{}, roundRobin: true} })
}

// Constants of dfq.
const (
	dfqSample   = 5 * time.Millisecond // each guest alone, or
	dfqCommands = 32                   // so many commands, whichever is first
	dfqLook     = time.Millisecond     // between two looks at their number
	// dfqFree is the length of a free run, of the time that the engagement before it took, within
	// bounds: the drain of a long command must not put the next correction off for as long.
	dfqFree     = 5
	dfqShortest = 50 * time.Millisecond
	dfqLongest  = 500 * time.Millisecond
	dfqBacklog  = 0.6                  // part of the free run for which a guest that asked for more had commands
	dfqWorth    = 0.8                  // least part of a free run that is used, if guests are to be together
	dfqApart    = 10                   // for how many free runs they are apart where it is not, at first, and
	dfqMostly   = 10                   // at most times as long
	dfqGrace    = 5 * time.Millisecond // for commands to end before they are stopped
	dfqSlice    = time.Millisecond     // of guests that cannot be on the GPU together, or are denied
)

// dfqPhase is what dfq does at a time.
type dfqPhase int

const (
	dfqFreeRun  dfqPhase = iota // those who are admitted have the engine together
	dfqDrain                    // nobody begins a command
	dfqSampling                 // guests with pending work have the engine one after the other
)

// dfq is NEON's disengaged fair queueing, for guests whose work may be on the GPU together
// (Scheduler.Beside).
//
//	free run ──its time is over──► drain ──no guest has the engine──► sampling ──all done──► free run
//
// In a free run all guests that are not denied have the engine, and begin commands without a message.
// Then comes an engagement: nobody begins a command, and those that have begun are waited for. Each
// guest with pending work has the engine alone for a moment, which gives its mean time of a command.
// From these times and the number of commands follows what each used in the free run; that is added to
// its virtual time. A guest that is ahead of the one that is furthest behind by the length of the next
// free run is denied in it. A guest without pending work is not sampled. Nor does one save time that got
// all it asked for: active is who has work pending and had commands for most of the free run. The
// original counts all that issued a command since the last engagement, so that a guest that is idle
// most of the time holds the others back.
//
// Usage is counted: the commands of the free run times their mean time. With roundRobin it is the
// original's estimate, by which the GPU serves the guests with pending work in turn.
//
// The original kills what does not end soon after a free run. Where commands can be stopped, they are,
// and go on when their guest is admitted again. Such a guest is not sampled: it used what the others left,
// but no more than the time for which it had commands.
//
// The original's GPU passes from one guest to the next for nothing. Where that takes as long as a short
// command, guests that wait for each of theirs leave it idle for half of the time. If they used less than
// dfqWorth of a free run, though each had commands all the time, they have the engine one after the other
// for a while, and the next free run shows whether that has changed.
//
// A guest that is alone is not engaged. Guests whose work cannot be on the GPU together have it one
// after the other, by virtual time.
type dfq struct {
	roundRobin bool

	phase     dfqPhase
	began     time.Duration // the free run
	until     time.Duration // its end is due
	interval  time.Duration // the time between
	engaged   time.Duration // when the engagement began
	lasted    time.Duration // the free run, until no guest had the engine
	accounts  map[ID]*dfqAccount
	queue     []ID          // to sample
	sampled   ID            // has the engine alone; 0 if none
	spare     bool          // the guest that was picked is denied, and no other wants the engine
	exclusive bool          // a guest waits whose work cannot be beside that of others
	apart     time.Duration // until when guests whose work the GPU serves in turn are not together
	resumes   bool          // a free run follows
	wasted    int           // free runs in a row that were not worth it
}

// dfqAccount is the account of a guest.
type dfqAccount struct {
	virtual  float64       // nanoseconds, by share
	mean     time.Duration // of a command; 0 if unknown
	active   bool          // it had pending work at the last engagement, and did not get all that it asked for
	denied   bool
	commands uint64        // of Stats, when the free run or the sample began
	did      uint64        // commands in the free run
	claimed  time.Duration // as commands: time for which it had commands
	had      time.Duration // commands in the free run
	long     bool          // a command had to be stopped since the free run began
	busy     time.Duration // of Stats, when last looked at
}

// account returns the account of a guest. A new one is owed nothing for the time before.
func (p *dfq) account(g *Guest) *dfqAccount {
	a := p.accounts[g.ID]
	if a == nil {
		a = &dfqAccount{commands: g.stats.Commands, claimed: g.claimed, busy: g.stats.Busy, virtual: p.system()}
		p.accounts[g.ID] = a
	}
	return a
}

// system is the virtual time of the engine: that of the active guest that is furthest behind, or of
// the one that is furthest ahead if none is active.
func (p *dfq) system() float64 {
	least, latest, found := 0.0, 0.0, false
	for _, a := range p.accounts {
		latest = max(latest, a.virtual)
		if a.active && (!found || a.virtual < least) {
			least, found = a.virtual, true
		}
	}
	if !found {
		return latest
	}
	return least
}

// Arrived opens an account, and lets a guest that was idle save nothing.
func (p *dfq) Arrived(v *View, g *Guest) {
	if a := p.account(g); !v.s.wants(g) && !a.active {
		a.virtual = max(a.virtual, p.system())
	}
}

func (p *dfq) Pick(v *View, ready []*Guest) (*Guest, time.Duration) {
	p.forget(v)
	if len(v.s.active) == 1 {
		return ready[0], Never
	}
	if p.exclusive = slices.ContainsFunc(ready, func(g *Guest) bool { return !v.s.joins(g) }); p.exclusive {
		if len(v.s.running) > 0 {
			return nil, Never
		}
		return v.first(ready, func(a, b *Guest) bool { return p.account(a).virtual < p.account(b).virtual })
	}
	if p.resumes {
		p.resumes = false
		p.free(v, dfqShortest)
	}
	if p.phase == dfqFreeRun && v.Now() >= p.until {
		p.phase, p.engaged = dfqDrain, v.Now()
	}
	switch p.phase {
	case dfqFreeRun:
		return p.admit(v, ready)
	case dfqDrain:
		if len(v.s.running) > 0 {
			return nil, Never
		}
		// Who has had a command in the free run may have been the last to end it.
		if until := v.expected(func(g *Guest) bool { return g.stats.Commands > p.account(g).commands }); until > v.Now() {
			return nil, until
		}
		p.barrier(v, ready)
	}
	if len(v.s.running) > 0 {
		return nil, Never
	}
	for len(p.queue) > 0 {
		id := p.queue[0]
		p.queue = p.queue[1:]
		if i := slices.IndexFunc(ready, func(g *Guest) bool { return g.ID == id }); i >= 0 {
			a := p.account(ready[i])
			a.commands, a.busy, p.sampled = ready[i].stats.Commands, ready[i].stats.Busy, id
			return ready[i], Never
		}
	}
	if p.maintain(v); p.resumes {
		return p.Pick(v, ready) // one after the other
	}
	return p.admit(v, ready)
}

// admit picks the next guest of a free run. If all that wait are denied and no other is expected, one
// of them has the engine for a moment rather than nobody.
func (p *dfq) admit(v *View, ready []*Guest) (*Guest, time.Duration) {
	p.spare = false
	if g := p.furthestBehind(slices.DeleteFunc(slices.Clone(ready), func(g *Guest) bool { return p.account(g).denied })); g != nil {
		return g, Never
	}
	if len(v.s.running) > 0 {
		return nil, p.until
	}
	if until := v.expected(func(g *Guest) bool { return !p.account(g).denied }); until > v.Now() {
		return nil, until
	}
	p.spare = true
	return p.furthestBehind(ready), Never
}

// furthestBehind returns the guest with the least virtual time; nil if there is none.
func (p *dfq) furthestBehind(guests []*Guest) (best *Guest) {
	for _, g := range guests {
		if best == nil || p.account(g).virtual < p.account(best).virtual {
			best = g
		}
	}
	return best
}

// barrier ends a free run: no command of anyone is on the GPU.
func (p *dfq) barrier(v *View, ready []*Guest) {
	p.phase, p.queue, p.lasted = dfqSampling, nil, v.Now()-p.began
	for _, g := range v.List() {
		a := p.account(g)
		a.did, a.had = g.stats.Commands-min(a.commands, g.stats.Commands), g.claimed-min(a.claimed, g.claimed)
		if a.active = slices.Contains(ready, g); a.active && !a.long {
			p.queue = append(p.queue, g.ID)
		}
	}
}

// maintain accounts for the last free run, and begins the next.
func (p *dfq) maintain(v *View) {
	p.interval = min(max(dfqFree*(v.Now()-p.engaged), dfqShortest), dfqLongest)
	if p.roundRobin {
		p.estimate(v)
	} else {
		p.judge(v)
		p.count(v)
	}
	for _, a := range p.accounts {
		// A guest that was admitted and was idle for long got all that it asked for.
		if a.active && !a.denied && !a.long && float64(a.had) < dfqBacklog*float64(p.lasted) {
			a.active = false
		}
	}
	least := p.system()
	for _, g := range v.List() {
		a := p.account(g)
		if !a.active {
			a.virtual = max(a.virtual, least)
		}
		if a.denied = !p.resumes && a.virtual-least >= float64(p.interval); a.denied {
			g.stats.Denied++
		}
	}
	p.free(v, p.interval)
}

// free begins a free run.
func (p *dfq) free(v *View, length time.Duration) {
	p.phase, p.sampled = dfqFreeRun, 0
	p.interval, p.began, p.until = length, v.Now(), v.Now()+length
	for _, g := range v.List() {
		a := p.account(g)
		a.commands, a.claimed, a.did, a.had, a.long = g.stats.Commands, g.claimed, 0, 0, false
	}
}

// judge looks whether it was worth it to have guests together.
func (p *dfq) judge(v *View) {
	used, busy := time.Duration(0), 0
	for _, g := range v.List() {
		switch a := p.account(g); {
		case a.unknown() || a.did > 0 && !g.turns:
			return // it is not known, or the GPU does not serve them in turn
		default:
			used += a.counted()
			if a.active && float64(a.had) >= dfqBacklog*float64(p.lasted) {
				busy++
			}
		}
	}
	if busy < 2 || float64(used) >= dfqWorth*float64(p.lasted) {
		p.wasted = 0
		return
	}
	p.wasted = min(p.wasted+1, dfqMostly)
	p.apart, p.resumes = v.Now()+time.Duration(dfqApart*p.wasted)*p.interval, true
}

// estimate charges guests as if the GPU had served those with pending work in turn.
func (p *dfq) estimate(v *View) {
	means := time.Duration(0)
	for _, a := range p.accounts {
		if a.active && !a.denied {
			means += a.mean
		}
	}
	for _, g := range v.List() {
		if a := p.account(g); a.active && !a.denied && means > 0 {
			a.charge(v, g, float64(p.lasted)*float64(a.mean)/float64(means))
		}
	}
}

// count charges guests by their commands. The GPU did not do more than there was time for.
func (p *dfq) count(v *View) {
	used, long := time.Duration(0), 0
	for _, a := range p.accounts {
		if a.unknown() {
			long++
		}
		used += a.counted()
	}
	part := min(1, float64(p.lasted)/float64(max(used, 1)))
	left := float64(max(p.lasted-used, 0)) / float64(max(long, 1))
	for _, g := range v.List() {
		if a := p.account(g); a.unknown() {
			a.charge(v, g, min(left, float64(a.had)))
		} else {
			a.charge(v, g, part*float64(a.counted()))
		}
	}
}

// unknown reports whether the guest had commands of which no mean time is known.
func (a *dfqAccount) unknown() bool { return a.had > 0 && (a.long || a.mean == 0) }

// counted is the time that the guest's commands took, or 0 if it is not known.
func (a *dfqAccount) counted() time.Duration {
	if a.unknown() {
		return 0
	}
	return min(time.Duration(a.did)*a.mean, a.had)
}

// charge adds engine time to a guest's virtual time, by its share of the active guests.
func (a *dfqAccount) charge(v *View, g *Guest, used float64) {
	if g.fraction > 0 {
		a.virtual += used / (g.fraction * float64(len(v.s.active)))
	}
}

// forget drops the accounts of guests that have left.
func (p *dfq) forget(v *View) {
	if len(p.accounts) > len(v.List()) {
		for id := range p.accounts {
			if v.s.guests[id] == nil {
				delete(p.accounts, id)
			}
		}
	}
}

// Hold gives the rest of a free run, or a sample.
func (p *dfq) Hold(v *View, g *Guest) (d time.Duration, keep bool) {
	switch {
	case p.exclusive || !v.s.joins(g) || p.spare:
		return dfqSlice, false
	case p.sampled == g.ID:
		return dfqSample, true
	}
	return max(p.until-v.Now(), 1), true
}

// Enough ends a sample when it has enough commands, or when its guest leaves the engine idle for half
// of the time: its commands are known then, and the others wait.
func (p *dfq) Enough(v *View, g *Guest) (again time.Duration) {
	if p.sampled != g.ID {
		return Never
	}
	a := p.account(g)
	n, idle := g.stats.Commands-a.commands, (v.Now()-g.tenure.since)-(g.stats.Busy-a.busy)
	if n >= dfqCommands || n > 0 && idle >= dfqLook/2 && idle >= (v.Now()-g.tenure.since)/2 {
		return v.Now()
	}
	return v.Now() + dfqLook
}

// Beside lets guests join a free run.
func (p *dfq) Beside(v *View, g *Guest) time.Duration {
	if p.phase == dfqFreeRun && !p.exclusive {
		return v.Now()
	}
	return Never
}

// Preempt stops commands that keep an engagement waiting.
func (p *dfq) Preempt(v *View, running *Guest, _ []*Guest) (now bool, again time.Duration) {
	at := running.tenure.over() + dfqGrace
	if at > v.Now() {
		return false, at
	}
	p.account(running).long = true
	return true, at
}

// Disengages is part of Disengaged.
func (p *dfq) Disengages(now time.Duration) bool { return now >= p.apart }

// Completed ends a sample, or a turn of a guest that had the engine for itself.
func (p *dfq) Completed(v *View, g *Guest) {
	a := p.account(g)
	used := g.stats.Busy - a.busy
	a.busy = g.stats.Busy
	switch {
	case p.sampled == g.ID:
		p.sampled = 0
		if n := g.stats.Commands - a.commands; n > 0 {
			a.mean = used / time.Duration(n)
		}
		a.charge(v, g, float64(used))
		a.commands = g.stats.Commands
	case !v.s.joins(g):
		a.charge(v, g, float64(used))
		a.commands = g.stats.Commands
	}
}

func (p *dfq) Slice(*View) time.Duration { return dfqSlice }
