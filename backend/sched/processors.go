package sched

import (
	"slices"
	"time"
)

// A kernel of a few blocks keeps a few of the processors of a software GPU busy. Such work of several
// guests may run at the same time as long as the processors suffice for all of it (Scheduler.Processors): then
// no guest has less because of another, and none owes another anything. As soon as a guest waits for which no
// processors are left, those that run owe the time from then on, each in proportion to the processors that it
// has, so that the parts add up to the time that passes; and the policy decides who goes on. One that begins in a pause of
// an active guest with which it could not run owes from the start: that guest pays for all that it uses, and would lose
// its share with each pause otherwise.

// SetProcessors sets the number of processors that the engine's work runs on. Work that uses some of them
// may run beside such work of others; without a number, or with one, no work may.
func (s *Scheduler) SetProcessors(n int) { s.processors = max(n, 0) }

// Processors sets how many of the engine's processors the work uses for which a guest waits, or will wait. 0, or all
// of them, stands for work that runs alone. Only policies that can take the engine from a guest by an order let
// work run beside other work. The setting applies from the guest's next tenure on, until the next call.
func (s *Scheduler) Processors(id ID, n int) {
	if g := s.guests[id]; g != nil {
		if n <= 0 || n >= s.processors {
			n = 0
		}
		g.processors = n
	}
}

// part returns how many processors a guest's work uses if it may run beside such work of others, else 0.
func (s *Scheduler) part(g *Guest) int {
	if g.beside || !s.inTurns() {
		return 0
	}
	return g.processors
}

// idle returns how many processors those that run leave idle.
func (s *Scheduler) idle() int {
	n := s.processors
	for _, c := range s.running {
		if c.processors == 0 {
			return 0
		}
		n -= c.processors
	}
	return max(n, 0)
}

// fits reports whether a guest's work may run beside that of those that run.
func (s *Scheduler) fits(g *Guest) bool {
	n := s.part(g)
	return n > 0 && n <= s.idle()
}

// next returns the guest that gets processors that those that run leave idle; nil if there is none, or if the
// policy's next one does not fit: it is not to wait for ever for guests behind it.
func (s *Scheduler) next(ready []*Guest) *Guest {
	if !slices.ContainsFunc(ready, s.fits) {
		return nil
	}
	if s.suffices() {
		return ready[0]
	}
	if len(s.running) == 0 {
		return nil // nothing is special about that
	}
	if g, _ := s.policy.Pick(&View{s}, s.want(ready, nil)); g != nil && g.Waiting && s.fits(g) {
		return g
	}
	return nil
}

// Fills sets whether a guest's work can run on fewer processors than it uses at most. Such work fills those that others
// leave idle while it waits for more. The setting applies as that of Processors does.
func (s *Scheduler) Fills(id ID, can bool) {
	if g := s.guests[id]; g != nil {
		g.fills = can
	}
}

// fills reports whether one that runs has fewer processors than it asked for.
func (t *tenure) fills() bool { return t.processors > 0 && t.processors < t.wants }

// filler returns a guest that waits for more processors than are idle, and gets those that are; nil if there is none. One
// at a time does.
func (s *Scheduler) filler(ready []*Guest) *Guest {
	if s.idle() == 0 || len(s.running) == 0 || !s.inTurns() || s.settings.Preempt == 0 || slices.ContainsFunc(s.running, (*tenure).fills) {
		return nil
	}
	can := slices.DeleteFunc(slices.Clone(ready), func(g *Guest) bool {
		return !g.fills || g.beside || !g.preemptible || g.Share.Cap > 0 || s.fits(g)
	})
	if len(can) == 0 {
		return nil
	}
	g, _ := s.policy.Pick(&View{s}, can)
	return g
}

// want returns the guests that want processors: those that wait, and those that have fewer than they asked for, but
// not one. The latter have not waited since now.
func (s *Scheduler) want(ready []*Guest, but *tenure) []*Guest {
	for _, c := range s.running {
		if c.fills() && c != but {
			c.guest.since = s.now
			ready = append(slices.Clip(ready), c.guest)
		}
	}
	return ready
}

// grows returns when one that has fewer processors than it asked for has to stop, so that it goes on with more: when it
// has been alone for as long as another may take to come back, or when it is the policy's next. Never while there is
// another one.
func (s *Scheduler) grows(c *tenure, ready []*Guest) time.Duration {
	if !c.fills() || len(s.running) > 1 {
		return Never
	}
	from := max(c.since+time.Duration(leastSlice*float64(s.settings.Preempt)), s.now)
	switch {
	case !s.inTurns(): // the policy has changed
		return from
	case len(ready) == 0:
		return max(c.lone+s.settings.Wait, from)
	}
	if g, _ := s.policy.Pick(&View{s}, s.want(ready, nil)); g == c.guest {
		return from
	}
	return Never
}

// suffices reports whether there are processors for all active guests, so that no policy has to choose.
func (s *Scheduler) suffices() bool {
	sum := 0
	for _, g := range s.active {
		n := s.part(g)
		if g.tenure != nil {
			n = g.tenure.wants
		}
		if n == 0 {
			return false
		}
		sum += n
	}
	return sum <= s.processors
}

// contend notes that a guest waits for which those that run leave no processors.
func (s *Scheduler) contend() {
	for _, c := range s.running {
		if c.processors > 0 && c.contended == Never {
			c.contended, c.owes = s.now, s.now
		}
	}
}

// shares returns what part of the time that passes belongs to one of those that run.
func (s *Scheduler) shares(t *tenure) float64 {
	sum := 0
	for _, c := range s.running {
		sum += c.processors
	}
	if sum == 0 || t.processors == 0 {
		return 1 / float64(len(s.running))
	}
	return float64(t.processors) / float64(sum)
}

// counted reports whether those that run have some of the processors.
func (s *Scheduler) counted() bool {
	return len(s.running) > 0 && s.running[0].processors > 0
}
