package arbiter

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// Gate lets the commands of one backend begin when the arbiter's policy allows
// it. For each engine, at most one Enter at a time may not have been left or
// canceled yet: the device runs one command at a time on an engine.
//
//	            granted at once             Leave
//	outside ──Enter────────────────► inside ─────► outside
//	    ▲ │                            ▲
//	    │ └──Enter──► waiting ─granted─┘
//	    └────Cancel──────┘
type Gate struct {
	cfg  GateConfig
	log  *zap.Logger
	page atomic.Pointer[page] // the one that counts now
	ends [Engines]end

	mu     sync.Mutex
	link   link // nil while there is no arbiter
	closed bool
	lost   uint64 // connections

	stop  chan struct{} // closed by Close
	ended chan struct{} // closed when the goroutine has ended
}

// end is a Gate's side of one engine.
type end struct {
	in     *page // by which the command that runs got in; the caller's own
	beside bool  // what runs or waits may go on beside such work of others; as in

	// Guarded by Gate.mu.
	wait  chan struct{} // of whoever waits; nil if nobody does
	since time.Time     // it waits
	asked bool          // a grant is to come
	kind  bool          // that was asked for: as beside
	waits Histogram     // of those that could not begin at once
	total time.Duration // waited
}

// Enter asks for an engine. It returns nil if a command may begin at once, and
// otherwise a channel that is closed as soon as it may. Whoever does not want to
// wait any longer calls Cancel; otherwise Leave follows. With beside, commands of others
// for which that was said as well may run at the same time.
func (g *Gate) Enter(e Engine, beside bool) <-chan struct{} {
	x := &g.ends[e]
	if p := g.page.Load(); p.begin(e, beside) {
		x.in, x.beside = p, beside
		return nil
	}
	return g.enterSlowly(e, beside)
}

func (g *Gate) enterSlowly(e Engine, beside bool) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := &g.ends[e]
	if x.wait != nil || x.in != nil {
		panic("arbiter: second Enter of an engine")
	}
	x.beside = beside
	p := g.page.Load()
	if p.begin(e, beside) { // it changed meanwhile
		x.in = p
		return nil
	}
	x.wait, x.since = make(chan struct{}), time.Now()
	g.ask(e, p)
	return x.wait
}

// ask asks for the token for whoever waits, if there is an arbiter and it was not
// asked already. A token that is here must be for other work, and is exchanged. g.mu is held.
func (g *Gate) ask(e Engine, p *page) {
	x := &g.ends[e]
	if g.link == nil {
		return
	}
	switch {
	case p.drop(e):
		g.yield(e, p.grant(e), true) // only now: the token may have come meanwhile
	case !x.asked || x.kind != x.beside:
		x.asked, x.kind = true, x.beside
		g.send(message{op: opRequest, engine: e, value: x.flags()})
	}
}

// flags are those of a message that asks for the token.
func (x *end) flags() uint32 {
	if x.beside {
		return flagBeside
	}
	return 0
}

// yield says that the token of a grant is not here any more. more says that it is
// asked for again. g.mu is held.
func (g *Gate) yield(e Engine, grant uint64, more bool) {
	m := message{op: opYield, engine: e, grant: grant}
	if more {
		x := &g.ends[e]
		m.value = flagMore | x.flags()
		x.asked, x.kind = true, x.beside
	}
	g.send(m)
}

// send sends, or else ends the connection: its reader sees it. g.mu is held.
func (g *Gate) send(m message) {
	if err := g.link.send(m); err != nil {
		g.log.Warn("the arbiter is lost", zap.Error(err))
		g.link.close()
	}
}

// Cancel ends the wait of an Enter. If the engine was granted meanwhile, it is
// left.
func (g *Gate) Cancel(e Engine) {
	g.mu.Lock()
	x := &g.ends[e]
	if x.wait == nil {
		g.mu.Unlock()
		g.leave(e, false)
		return
	}
	defer g.mu.Unlock()
	x.wait = nil
	if x.asked && g.link != nil {
		x.asked = false
		g.send(message{op: opCancel, engine: e})
	}
}

// Leave says that the command has ended that Enter was for, and for how long it
// used the engine. more says that another Enter follows at once; it only saves
// time, and a mistake costs others a little of it.
func (g *Gate) Leave(e Engine, used time.Duration, more bool) {
	p := g.ends[e].in
	if p == nil {
		panic("arbiter: Leave without Enter")
	}
	p.addUsed(e, used)
	g.leave(e, more)
}

// Wanted reports, between an Enter that was admitted and its Leave, whether
// others may be waiting for the engine.
func (g *Gate) Wanted(e Engine) bool {
	p := g.ends[e].in
	return p != nil && p.load(e)&(bitShared|bitOnce|bitRevoked) != 0
}

// Alone reports whether the token is here and stays, because nobody else waits for it.
func (g *Gate) Alone(e Engine) bool {
	return g.page.Load().load(e)&(bitHeld|bitShared|bitOnce|bitRevoked) == bitHeld
}

func (g *Gate) leave(e Engine, more bool) {
	x := &g.ends[e]
	p := x.in
	x.in = nil
	if p.end(e, more) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.giveBack(e, p, more)
}

// giveBack gives back the token that p says is held. g.mu is held.
func (g *Gate) giveBack(e Engine, p *page, more bool) {
	grant := p.grant(e)
	p.store(e, 0)
	if p == g.page.Load() && g.link != nil { // and not of an arbiter that is gone
		g.yield(e, grant, more)
	}
}

// granted is that the arbiter has given the token.
func (g *Gate) granted(e Engine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x, p := &g.ends[e], g.page.Load()
	asked := x.asked
	x.asked = false
	switch {
	case x.wait != nil && p.begin(e, x.beside):
		g.admit(e, p)
	case x.wait != nil: // it was taken back meanwhile, or is for other work
		g.ask(e, p)
	case !asked && p.load(e)&(bitHeld|bitBegun|bitRevoked) == bitHeld: // canceled
		g.giveBack(e, p, false)
	}
}

// admit lets whoever waits in. g.mu is held.
func (g *Gate) admit(e Engine, p *page) {
	x := &g.ends[e]
	x.in = p
	waited := time.Since(x.since)
	x.waits.add(waited)
	x.total += waited
	close(x.wait)
	x.wait = nil
}

// change takes another page in use. The link is the one that belongs to it; it
// is nil if there is no arbiter. g.mu is held.
func (g *Gate) change(p *page, l link) {
	old := g.page.Swap(p)
	g.link = l
	for e := range Engines {
		old.or(e, bitRevoked) // for those that looked at it just before
		x := &g.ends[e]
		x.asked = false
		if x.wait == nil {
			continue
		}
		if p.begin(e, x.beside) {
			g.admit(e, p)
		} else {
			g.ask(e, p)
		}
	}
}

// openPage is a page on which all may begin: without an arbiter.
func openPage() *page {
	p := privatePage()
	for e := range Engines {
		p.store(e, bitHeld)
	}
	return p
}

// GateStats are the counts of a Gate.
type GateStats struct {
	Joined bool               // there is an arbiter
	Lost   uint64             // connections
	Waits  [Engines]Histogram // of commands that could not begin at once
	Waited [Engines]time.Duration
}

// Stats are the counts.
func (g *Gate) Stats() GateStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := GateStats{Joined: g.link != nil, Lost: g.lost}
	for e := range g.ends {
		st.Waits[e], st.Waited[e] = g.ends[e].waits, g.ends[e].total
	}
	return st
}
