package gpu

import (
	"slices"
	"sync"
	"time"
)

// Split makes two gates out of one, for two users of the same engines in one
// process: each may have one Enter of an engine open. They get an engine in the
// order in which they asked for it.
func Split(g Gate) (a, b Gate) {
	s := &splitter{gate: g}
	return &port{s: s}, &port{s: s}
}

// splitter is what the ports of a gate share.
type splitter struct {
	gate Gate

	mu      sync.Mutex // held while the gate is called, but for Alone, Preempted and Charge
	engines [Engines]struct {
		holder  *port // who is in, or waits at the gate itself
		waiting []*port
	}
}

// port is one user's gate.
type port struct {
	s    *splitter
	wait [Engines]*wait // of an Enter that has to wait; guarded by splitter.mu
}

// wait is an Enter that has to wait.
type wait struct {
	enter              func() <-chan struct{} // at the gate
	admitted, canceled chan struct{}
}

// Enter is part of Gate.
func (p *port) Enter(e Engine, beside bool) <-chan struct{} {
	return p.enter(e, func() <-chan struct{} { return p.s.gate.Enter(e, beside) })
}

// EnterPart is part of Parter.
func (p *port) EnterPart(e Engine, processors, least int) <-chan struct{} {
	return p.enter(e, func() <-chan struct{} { return EnterPart(p.s.gate, e, processors, least) })
}

// Part is part of Parter. Who is in is the gate's own user then.
func (p *port) Part(e Engine) int { return PartOf(p.s.gate, e) }

func (p *port) enter(e Engine, enter func() <-chan struct{}) <-chan struct{} {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	x := &p.s.engines[e]
	if x.holder == nil {
		x.holder = p
		return enter()
	}
	w := &wait{enter, make(chan struct{}), make(chan struct{})}
	p.wait[e] = w
	x.waiting = append(x.waiting, p)
	return w.admitted
}

// Cancel is part of Gate.
func (p *port) Cancel(e Engine) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	x := &p.s.engines[e]
	if w := p.wait[e]; w != nil {
		close(w.canceled)
		p.wait[e] = nil
	}
	if x.holder != p {
		x.waiting = slices.DeleteFunc(x.waiting, func(q *port) bool { return q == p })
		return
	}
	p.s.gate.Cancel(e)
	p.s.next(e)
}

// Wanted is part of Gate.
func (p *port) Wanted(e Engine) bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return len(p.s.engines[e].waiting) > 0 || p.s.gate.Wanted(e)
}

// Turn is part of Gate.
func (p *port) Turn(e Engine) bool {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return len(p.s.engines[e].waiting) == 0 && p.s.gate.Turn(e)
}

// Preempted is part of Gate. Who is in is the gate's own user then.
func (p *port) Preempted(e Engine) bool { return p.s.gate.Preempted(e) }

// Revoked is part of Gate. Who waits for the other port waits for this one's turn to end.
func (p *port) Revoked(e Engine, held time.Duration) bool {
	if p.s.gate.Revoked(e, held) {
		return true
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return len(p.s.engines[e].waiting) > 0 && held >= sharedTurn
}

// sharedTurn is for how long a command that could end has an engine for which another port waits.
const sharedTurn = 10 * time.Millisecond

// Alone is part of Gate. What the ports share is for the other one to use, too.
func (p *port) Alone(e Engine) bool { return p.s.gate.Alone(e) }

// Charge is part of Gate. Who is in is the gate's own user then.
func (p *port) Charge(e Engine, used time.Duration, commands uint64) {
	p.s.gate.Charge(e, used, commands)
}

// Leave is part of Gate.
func (p *port) Leave(e Engine, used time.Duration, commands uint64, more bool) {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.wait[e] = nil
	p.s.gate.Leave(e, used, commands, more || len(p.s.engines[e].waiting) > 0)
	p.s.next(e)
}

// next lets the next user go to the gate. s.mu is held.
func (s *splitter) next(e Engine) {
	x := &s.engines[e]
	x.holder = nil
	if len(x.waiting) == 0 {
		return
	}
	x.holder = x.waiting[0]
	x.waiting = slices.Delete(x.waiting, 0, 1)
	w := x.holder.wait[e]
	open := w.enter()
	if open == nil {
		close(w.admitted)
		return
	}
	go func() {
		select {
		case <-open:
			close(w.admitted)
		case <-w.canceled:
		}
	}()
}
