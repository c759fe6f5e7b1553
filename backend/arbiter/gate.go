package arbiter

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"pvdrm/gpu"
)

// Gate lets the commands of one backend begin when the arbiter's policy allows it.
// For each engine, each Enter must be followed by Leave or Cancel before the next one:
// the device runs one command at a time on an engine.
//
//	            granted at once             Leave
//	outside ──Enter────────────────► inside ─────► outside
//	    ▲ │                            ▲
//	    │ └──Enter──► waiting ─granted─┘
//	    └────Cancel──────┘
type Gate struct {
	cfg  GateConfig
	log  *zap.Logger
	page atomic.Pointer[page] // the current one
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
	in   atomic.Pointer[page] // by which the command that runs got in; nil outside
	work work                 // what runs or waits; the caller's own

	// Guarded by Gate.mu.
	wait  chan struct{} // of the command that waits; nil if none does
	since time.Time     // it waits
	asked bool          // a grant is expected
	kind  work          // for what that was asked
	waits gpu.Histogram // of those that could not begin at once
	total time.Duration // waited
}

// Enter asks for an engine. It returns nil if a command may begin at once, and
// otherwise a channel that is closed as soon as it may. A caller that stops waiting
// calls Cancel; otherwise Leave follows. With beside, commands of others that were
// entered with beside may run concurrently.
func (g *Gate) Enter(e Engine, beside bool) <-chan struct{} {
	return g.enter(e, work{beside: beside})
}

// EnterPart is Enter for work that uses at most so many processors, and can run on as few as least: such work of others
// runs concurrently as long as all of it has processors (gpu.Parter).
func (g *Gate) EnterPart(e Engine, processors, least int) <-chan struct{} {
	return g.enter(e, work{part: min(max(processors, 0), maxPart), least: least})
}

// Part returns, between an Enter that was admitted and its Leave, how many processors the work may use; 0 if it may use
// all that it asked for.
func (g *Gate) Part(e Engine) int {
	if p := g.ends[e].in.Load(); p != nil {
		return p.granted(e)
	}
	return 0
}

func (g *Gate) enter(e Engine, k work) <-chan struct{} {
	x := &g.ends[e]
	if p := g.page.Load(); p.begin(e, k) {
		x.work = k
		x.in.Store(p)
		return nil
	}
	return g.enterSlowly(e, k)
}

func (g *Gate) enterSlowly(e Engine, k work) <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	x := &g.ends[e]
	if x.wait != nil || x.in.Load() != nil {
		panic("arbiter: second Enter of an engine")
	}
	x.work = k
	p := g.page.Load()
	if p.begin(e, k) { // it changed meanwhile
		x.in.Store(p)
		return nil
	}
	x.wait, x.since = make(chan struct{}), time.Now()
	g.ask(e, p)
	return x.wait
}

// ask asks for the token for the command that waits, if there is an arbiter and it was not
// asked already. A token that is here must be for other work, and is exchanged. g.mu is held.
func (g *Gate) ask(e Engine, p *page) {
	x := &g.ends[e]
	if g.link == nil {
		return
	}
	switch {
	case p.drop(e):
		g.yield(e, p.grant(e), true) // only now: the token may have come meanwhile
	case !x.asked || x.kind != x.work:
		x.asked, x.kind = true, x.work
		g.send(message{op: opRequest, engine: e, value: g.flags(x)})
	}
}

// flags returns the flags of a message that asks for the token.
func (g *Gate) flags(x *end) (flags uint32) {
	if g.cfg.Preemptible {
		flags |= flagPreempt
	}
	if x.work.beside {
		flags |= flagBeside
	}
	if x.work.part > 0 {
		flags |= flagPart | uint32(x.work.part)<<partShift
		if x.work.least == 1 {
			flags |= flagFill
		}
	}
	if g.cfg.Turns {
		flags |= flagTurns
	}
	return flags
}

// yield reports to the arbiter that the token of a grant is no longer here; with more it
// asks for the token again. g.mu is held.
func (g *Gate) yield(e Engine, grant uint64, more bool) {
	m := message{op: opYield, engine: e, grant: grant}
	if more {
		x := &g.ends[e]
		m.value = flagMore | g.flags(x)
		x.asked, x.kind = true, x.work
	}
	g.send(m)
}

// send sends a message. On failure it ends the connection, which notifies the reader. g.mu is held.
func (g *Gate) send(m message) {
	if err := g.link.send(m); err != nil {
		g.log.Warn("the arbiter is lost", zap.Error(err))
		g.link.close()
	}
}

// Cancel ends the wait of an Enter. If the engine was granted meanwhile, Cancel leaves it.
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

// Leave ends the use that Enter began, which took this long and ran this many commands since it was charged last.
// more announces that another Enter follows at once; it saves time, and a wrong
// announcement costs other guests a little.
func (g *Gate) Leave(e Engine, used time.Duration, commands uint64, more bool) {
	p := g.ends[e].in.Load()
	if p == nil {
		panic("arbiter: Leave without Enter")
	}
	p.addUsed(e, used, commands)
	g.leave(e, more)
}

// Wanted reports, between an Enter that was admitted and its Leave, whether
// others may be waiting for the engine.
func (g *Gate) Wanted(e Engine) bool {
	p := g.ends[e].in.Load()
	return p != nil && p.load(e)&(bitShared|bitOnce|bitRevoked) != 0
}

// Turn reports, between an Enter that was admitted and its Leave, whether others wait, and the token is
// for more than one command but was not given for a time of the policy's own.
func (g *Gate) Turn(e Engine) bool {
	p := g.ends[e].in.Load()
	return p != nil && p.load(e)&(bitShared|bitOnce) == bitShared
}

// Preempted reports, between an Enter that was admitted and its Leave, whether the command has to
// stop where it can go on later: because the arbiter asks for that, or because it began under another
// arbiter, or without one, and this one knows nothing of it.
func (g *Gate) Preempted(e Engine) bool {
	p := g.ends[e].in.Load()
	return p != nil && (p.load(e)&bitPreempt != 0 || p != g.page.Load())
}

// onceTurn is for how long a command that has the token for itself alone may run while others wait before
// it is to end if it can do so without loss.
const onceTurn = 10 * time.Millisecond

// Revoked reports, between an Enter that was admitted and its Leave, whether the command, which has held
// the engine for a time, is to end soon if it can do so without loss.
func (g *Gate) Revoked(e Engine, held time.Duration) bool {
	p := g.ends[e].in.Load()
	if p == nil {
		return false
	}
	w := p.load(e)
	return w&(bitRevoked|bitPreempt) != 0 || w&bitOnce != 0 && held >= onceTurn || p != g.page.Load()
}

// Promised returns what the arbiter keeps for the guest of the GPU: the most that the backend may let
// it have. An amount of 0 is not limited, as where there is no arbiter.
func (g *Gate) Promised() Amounts { return g.page.Load().promised() }

// Single reports whether the arbiter has no other guest at the GPU. It is false where that is not known.
func (g *Gate) Single() bool { return g.page.Load().told() == 1 }

// Alone reports whether the token is here and stays, because no other backend waits for it.
func (g *Gate) Alone(e Engine) bool {
	w := g.page.Load().load(e)
	if w&bitFill != 0 { // the others that it shares with run
		w &^= bitShared
	}
	return w&(bitHeld|bitShared|bitOnce|bitRevoked) == bitHeld
}

// Charge reports a part of a use that goes on, between an Enter that was admitted and its Leave.
func (g *Gate) Charge(e Engine, used time.Duration, commands uint64) {
	if p := g.ends[e].in.Load(); p != nil {
		p.addUsed(e, used, commands)
	}
}

func (g *Gate) leave(e Engine, more bool) {
	x := &g.ends[e]
	p := x.in.Swap(nil)
	if p.end(e, more) {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.giveBack(e, p, more)
}

// giveBack returns the token that p marks as held. g.mu is held.
func (g *Gate) giveBack(e Engine, p *page, more bool) {
	grant := p.grant(e)
	p.store(e, 0)
	if p == g.page.Load() && g.link != nil { // and the arbiter of p is not gone
		g.yield(e, grant, more)
	}
}

// granted handles a Grant of the arbiter.
func (g *Gate) granted(e Engine) {
	g.mu.Lock()
	defer g.mu.Unlock()
	x, p := &g.ends[e], g.page.Load()
	asked := x.asked
	x.asked = false
	switch {
	case x.wait != nil && p.begin(e, x.work):
		g.admit(e, p)
	case x.wait != nil: // it was taken back meanwhile, or is for other work
		g.ask(e, p)
	case !asked && p.load(e)&(bitHeld|bitBegun|bitRevoked) == bitHeld: // canceled
		g.giveBack(e, p, false)
	}
}

// admit lets the command that waits begin. g.mu is held.
func (g *Gate) admit(e Engine, p *page) {
	x := &g.ends[e]
	x.in.Store(p)
	waited := time.Since(x.since)
	x.waits.Add(waited)
	x.total += waited
	close(x.wait)
	x.wait = nil
}

// change switches to another page and its link; the link is nil if there is no arbiter.
// g.mu is held.
func (g *Gate) change(p *page, l link) {
	p.turns = g.cfg.Turns
	old := g.page.Swap(p)
	g.link = l
	for e := range Engines {
		old.or(e, bitRevoked) // for goroutines that have just loaded it
		x := &g.ends[e]
		x.asked = false
		if x.wait == nil {
			continue
		}
		if p.begin(e, x.work) {
			g.admit(e, p)
		} else {
			g.ask(e, p)
		}
	}
}

// openPage returns a page that lets every command begin, for use without an arbiter.
func openPage() *page {
	p := privatePage()
	for e := range Engines {
		p.store(e, bitHeld)
	}
	return p
}

// GateStats are the counts of a Gate.
type GateStats struct {
	Joined bool                   // there is an arbiter
	Lost   uint64                 // connections
	Waits  [Engines]gpu.Histogram // of commands that could not begin at once
	Waited [Engines]time.Duration
}

// Stats returns the counts.
func (g *Gate) Stats() GateStats {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := GateStats{Joined: g.link != nil, Lost: g.lost}
	for e := range g.ends {
		st.Waits[e], st.Waited[e] = g.ends[e].waits, g.ends[e].total
	}
	return st
}
