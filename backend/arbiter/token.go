package arbiter

import (
	"fmt"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/sched"
)

// How much of the time for which a backend keeps others waiting it need not
// account for, because messages and wake-ups take time: a part of that time,
// and some to save up for when the host is busy. All else is charged as if the
// engine had been used.
const (
	trustPart = 0.1
	trustMost = 2 * time.Millisecond
)

// maxMissed is how often the time to begin a command doubles.
const maxMissed = 4

// token is the right to run on one engine. Its arena's mutex guards it. One member
// holds it, or several whose work goes on side by side; the states are those of each hold.
//
//	free ──grant──► held ──revoke──► free        nothing ran
//	                 │ └───revoke──► wanted ──yield, or expelled──► free
//	                 └──yield──► free
type token struct {
	arena  *arena
	engine Engine
	sched  *sched.Scheduler
	byID   map[sched.ID]*member
	timer  *time.Timer // calls tick
	holds  []*hold
	grant  uint64 // number of the last grant

	grants, revokes, expelled uint64
}

// hold is that a member has the token.
type hold struct {
	member   *member
	grant    uint64
	granted  time.Duration
	standing bool
	wanted   bool          // the holder was told to give it back
	wantedAt time.Duration // since when others waited while it was held; Never if nobody did
	seen     time.Duration // use that was charged since then
	begins   time.Duration // until when a command has to have begun, or a Yield to have come, if it is wanted
	answers  time.Duration // until when the holder has to give it back, if it is wanted
}

func newToken(a *arena, e Engine, s *sched.Scheduler) *token {
	t := &token{arena: a, engine: e, sched: s, byID: map[sched.ID]*member{}}
	t.timer = time.AfterFunc(math.MaxInt64, t.tick)
	return t
}

// must reports an event that the scheduler refuses: a bug, which costs a log
// entry and not the service.
func (t *token) must(err error) {
	if err != nil {
		t.arena.log.Error("the scheduler refuses an event", zap.Stringer("engine", t.engine), zap.Error(err))
	}
}

// request is that a member waits, for work that may go on beside such work of others or not.
func (t *token) request(m *member, beside bool) {
	s := &m.seats[t.engine]
	if s.hold != nil {
		return // it was granted meanwhile
	}
	t.sched.Beside(m.id, beside)
	if s.waiting {
		return // for something else than before, perhaps
	}
	now := t.arena.now()
	t.settle(now)
	t.must(t.sched.Arrive(m.id, now))
	s.waiting, s.since = true, now
}

// cancel is that a member no longer waits.
func (t *token) cancel(m *member) {
	s := &m.seats[t.engine]
	if s.waiting {
		s.waiting = false
		t.must(t.sched.Withdraw(m.id, t.arena.now()))
	}
}

// yielded is that a member gives the token back, or notices that it has it no longer. With
// more it waits again, as request says.
func (t *token) yielded(m *member, grant uint64, more, beside bool) {
	s := &m.seats[t.engine]
	if s.hold == nil || s.hold.grant != grant {
		if more {
			t.request(m, beside)
		}
		return
	}
	now := t.arena.now()
	used, commands := t.owed(s.hold, now)
	s.missed = 0
	t.free(s.hold)
	if more {
		t.sched.Beside(m.id, beside)
		s.waiting, s.since = true, now
	}
	t.must(t.sched.Complete(m.id, used, commands, more, now))
}

func (t *token) free(h *hold) {
	t.holds = slices.DeleteFunc(t.holds, func(o *hold) bool { return o == h })
	h.member.seats[t.engine].hold = nil
}

// settle charges what the holders have used until now, before another comes.
func (t *token) settle(now time.Duration) {
	for _, h := range t.holds {
		t.look(h, now)
		if h.wantedAt > now {
			h.wantedAt, h.seen = now, 0
		}
	}
}

// look charges what a holder has used since the last look.
func (t *token) look(h *hold, now time.Duration) {
	used, commands := t.delta(h, now)
	h.seen += used
	t.must(t.sched.Charge(h.member.id, used, commands, now))
}

// delta is what a holder has used since the last look, as far as it can be.
func (t *token) delta(h *hold, now time.Duration) (used time.Duration, commands uint64) {
	m := h.member
	s := &m.seats[t.engine]
	u, c := m.page.usage(t.engine)
	wall := now - h.granted
	if u-s.used > uint64(wall) { // backwards, too
		s.implausible++
		used = wall
	} else {
		used = time.Duration(u - s.used)
	}
	commands = min(c-s.commands, uint64(wall)) // none is shorter than a nanosecond
	s.used, s.commands = u, c
	if t.arena.observe != nil && used > 0 {
		t.arena.observe(Use{GPU: t.arena.number, Guest: m.name, Engine: t.engine, At: t.arena.start.Add(now),
			Used: t.sched.Part(m.id, used, now), Commands: commands})
	}
	return used, commands
}

// owed is what a holder is charged at the end: what it has used since the last
// look and, beyond what it is trusted with, the time for which it kept others
// waiting without using the engine.
func (t *token) owed(h *hold, now time.Duration) (used time.Duration, commands uint64) {
	used, commands = t.delta(h, now)
	if h.wantedAt > now {
		return used, commands
	}
	s := &h.member.seats[t.engine]
	wall := now - h.wantedAt
	s.trust = min(s.trust+time.Duration(trustPart*float64(wall)), trustMost)
	unused := max(wall-h.seen-used, 0)
	excused := min(unused, s.trust)
	s.trust -= excused
	return used + unused - excused, commands
}

// decide does what the scheduler says, and sets the timer for when it has to be
// asked again.
func (t *token) decide() {
	now := t.arena.now()
	again := sched.Never
	for !t.arena.closed {
		d := t.sched.Next(now)
		if d.Run != 0 {
			t.give(d, now)
		} else if d.Revoke != 0 {
			t.revoke(t.byID[d.Revoke].seats[t.engine].hold, now)
		} else {
			again = d.Again
			break
		}
	}
	for _, h := range t.holds {
		if h.wanted {
			again = min(again, h.begins, h.answers)
		}
	}
	if again != sched.Never {
		t.timer.Reset(max(again-now, 0))
	}
}

// give grants the token.
func (t *token) give(d sched.Decision, now time.Duration) {
	m := t.byID[d.Run]
	s := &m.seats[t.engine]
	s.waits.add(now - s.since)
	s.waiting = false
	t.grant++
	t.grants++
	h := &hold{member: m, grant: t.grant, granted: now, standing: d.Standing, wantedAt: sched.Never, answers: sched.Never, begins: sched.Never}
	s.hold = h
	t.holds = append(t.holds, h)
	s.used, s.commands = m.page.usage(t.engine) // what it used without the token is not this grant's
	word := bitHeld
	if d.Beside {
		word |= bitBeside
	}
	if !d.Standing {
		h.wantedAt = now
		word |= bitShared
		if d.Slice == 0 {
			word |= bitOnce
			h.wanted, h.begins = true, t.patience(h)
		}
	}
	m.page.setGrant(t.engine, t.grant)
	m.page.store(t.engine, word)
	if err := m.link.send(message{op: opGrant, engine: t.engine, grant: t.grant}); err != nil {
		t.arena.expel(m, err.Error()) // which frees the token
	}
}

// revoke takes the token back at once if nothing runs. Otherwise the holder gives it
// back, or loses it at a tick.
func (t *token) revoke(h *hold, now time.Duration) {
	p := h.member.page
	t.revokes++
	h.wanted = true
	if p.load(t.engine)&bitBegun == 0 && now < t.patience(h) {
		p.or(t.engine, bitOnce) // it is about to wake up, perhaps
		h.begins = t.patience(h)
		return
	}
	t.reclaim(h, now, false)
}

// patience is until when a holder may take to begin a command. It doubles with
// each grant that came to nothing: on a host so busy that wake-ups take longer
// than the limit, a backend would never get to run otherwise.
func (t *token) patience(h *hold) time.Duration {
	return h.granted + t.arena.limits.use<<min(h.member.seats[t.engine].missed, maxMissed)
}

// reclaim takes the token from a holder that does nothing with it. It does not
// when it has to wait: for a command that runs, which has until the limit;
// or, unless it is forced, for a Yield that must be on its way, because it says
// when the command ended.
func (t *token) reclaim(h *hold, now time.Duration, force bool) {
	m := h.member
	h.begins = sched.Never
	word := m.page.or(t.engine, bitRevoked)
	switch {
	case word&bitBusy != 0:
		h.answers = now + t.arena.limits.answer
		return
	case word&bitHeld == 0 && !force:
		h.begins = now + t.arena.limits.use
		return
	}
	if s := &m.seats[t.engine]; word&bitBegun == 0 {
		s.missed++
	} else {
		s.missed = 0
	}
	used, commands := t.owed(h, now)
	t.free(h)
	t.must(t.sched.Reclaim(m.id, used, commands, now))
}

// tick is the timer's.
func (t *token) tick() {
	t.arena.mu.Lock()
	defer t.arena.mu.Unlock()
	began := time.Now()
	now := t.arena.now()
	for _, h := range slices.Clone(t.holds) { // those who are expelled go
		switch {
		case !h.wanted || h.member.seats[t.engine].hold != h: // the latter went with another one
		case now >= h.answers:
			t.expelled++
			t.arena.expel(h.member, fmt.Sprintf("the %v engine was wanted by others and not given back within %v",
				t.engine, t.arena.limits.answer))
		case now >= h.begins:
			t.reclaim(h, now, true)
		}
	}
	t.decide()
	t.sched.Overhead(time.Since(began), t.arena.now())
}

// remove ends what a member has or waits for. The token is to be decided on then.
func (t *token) remove(m *member) {
	t.cancel(m)
	if h := m.seats[t.engine].hold; h != nil {
		now := t.arena.now()
		used, commands := t.owed(h, now) // whoever was disconnected pays for it, too
		t.free(h)
		t.must(t.sched.Complete(m.id, used, commands, false, now))
	}
	delete(t.byID, m.id)
}
