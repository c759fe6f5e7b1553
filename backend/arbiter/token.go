package arbiter

import (
	"fmt"
	"math"
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

// token is the right to run on one engine. Its arena's mutex guards it.
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

	holder   *member // nil while free
	grant    uint64  // number of the last grant
	granted  time.Duration
	standing bool
	wanted   bool          // the holder was told to give it back
	wantedAt time.Duration // since when others waited while it was held; Never if nobody did
	seen     time.Duration // use that was charged since then
	begins   time.Duration // until when a command has to have begun, or a Yield to have come, if it is wanted
	answers  time.Duration // until when the holder has to give it back, if it is wanted

	grants, revokes, expelled uint64
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

// request is that a member waits.
func (t *token) request(m *member) {
	s := &m.seats[t.engine]
	if s.waiting || t.holder == m {
		return // it was granted meanwhile, or asks twice
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

// yielded is that a member gives the token back, or notices that it has it no longer.
func (t *token) yielded(m *member, grant uint64, more bool) {
	if t.holder != m || t.grant != grant {
		if more {
			t.request(m)
		}
		return
	}
	now := t.arena.now()
	used, commands := t.owed(now)
	m.seats[t.engine].missed = 0
	t.free()
	t.must(t.sched.Complete(m.id, used, commands, more, now))
	if s := &m.seats[t.engine]; more {
		s.waiting, s.since = true, now
	}
}

func (t *token) free() { t.holder, t.wanted = nil, false }

// settle charges what the holder has used until now, before another comes.
func (t *token) settle(now time.Duration) {
	if t.holder == nil {
		return
	}
	t.look(now)
	if t.wantedAt > now {
		t.wantedAt, t.seen = now, 0
	}
}

// look charges what the holder has used since the last look.
func (t *token) look(now time.Duration) {
	used, commands := t.delta(now)
	t.seen += used
	t.must(t.sched.Charge(t.holder.id, used, commands, now))
}

// delta is what the holder has used since the last look, as far as it can be.
func (t *token) delta(now time.Duration) (used time.Duration, commands uint64) {
	m := t.holder
	s := &m.seats[t.engine]
	u, c := m.page.usage(t.engine)
	wall := now - t.granted
	if u-s.used > uint64(wall) { // backwards, too
		s.implausible++
		used = wall
	} else {
		used = time.Duration(u - s.used)
	}
	commands = min(c-s.commands, uint64(wall)) // none is shorter than a nanosecond
	s.used, s.commands = u, c
	if t.arena.observe != nil && used > 0 {
		t.arena.observe(Use{GPU: t.arena.number, Guest: m.name, Engine: t.engine, At: t.arena.start.Add(now), Used: used, Commands: commands})
	}
	return used, commands
}

// owed is what the holder is charged at the end: what it has used since the last
// look and, beyond what it is trusted with, the time for which it kept others
// waiting without using the engine.
func (t *token) owed(now time.Duration) (used time.Duration, commands uint64) {
	used, commands = t.delta(now)
	if t.wantedAt > now {
		return used, commands
	}
	s := &t.holder.seats[t.engine]
	wall := now - t.wantedAt
	s.trust = min(s.trust+time.Duration(trustPart*float64(wall)), trustMost)
	unused := max(wall-t.seen-used, 0)
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
		again = d.Again
		if d.Run != 0 && !t.give(d, now) || d.Revoke && t.revoke(now) {
			continue
		}
		break
	}
	if t.holder != nil && t.wanted {
		again = min(again, t.begins, t.answers)
	}
	if again != sched.Never {
		t.timer.Reset(max(again-now, 0))
	}
}

// give grants the token. It returns false if the member is not there.
func (t *token) give(d sched.Decision, now time.Duration) bool {
	m := t.byID[d.Run]
	s := &m.seats[t.engine]
	s.waits.add(now - s.since)
	s.waiting = false
	t.grant++
	t.grants++
	t.holder, t.granted, t.standing = m, now, d.Standing
	t.wanted, t.wantedAt, t.seen, t.answers, t.begins = false, sched.Never, 0, sched.Never, sched.Never
	t.discard() // what it used without the token is not this grant's
	word := bitHeld
	if !d.Standing {
		t.wantedAt = now
		word |= bitShared
		if d.Slice == 0 {
			word |= bitOnce
			t.wanted, t.begins = true, t.patience()
		}
	}
	m.page.setGrant(t.engine, t.grant)
	m.page.store(t.engine, word)
	if err := m.link.send(message{op: opGrant, engine: t.engine, grant: t.grant}); err != nil {
		t.arena.expel(m, err.Error()) // which frees the token
		return false
	}
	return true
}

// discard takes the page's counters as the state from which to count.
func (t *token) discard() {
	s := &t.holder.seats[t.engine]
	s.used, s.commands = t.holder.page.usage(t.engine)
}

// revoke takes the token back, and reports whether it is free now: nothing runs.
// Otherwise the holder gives it back, or loses it at a tick.
func (t *token) revoke(now time.Duration) bool {
	p := t.holder.page
	t.revokes++
	t.wanted = true
	if p.load(t.engine)&bitBegun == 0 && now < t.patience() {
		p.or(t.engine, bitOnce) // it is about to wake up, perhaps
		t.begins = t.patience()
		return false
	}
	return t.reclaim(now, false)
}

// patience is until when the holder may take to begin a command. It doubles with
// each grant that came to nothing: on a host so busy that wake-ups take longer
// than the limit, a backend would never get to run otherwise.
func (t *token) patience() time.Duration {
	return t.granted + t.arena.limits.use<<min(t.holder.seats[t.engine].missed, maxMissed)
}

// reclaim takes the token from a holder that does nothing with it. It returns
// false when it has to wait: for a command that runs, which has until the limit;
// or, unless it is forced, for a Yield that must be on its way, because it says
// when the command ended.
func (t *token) reclaim(now time.Duration, force bool) bool {
	m := t.holder
	t.begins = sched.Never
	word := m.page.or(t.engine, bitRevoked)
	switch {
	case word&bitBusy != 0:
		t.answers = now + t.arena.limits.answer
		return false
	case word&bitHeld == 0 && !force:
		t.begins = now + t.arena.limits.use
		return false
	}
	if s := &m.seats[t.engine]; word&bitBegun == 0 {
		s.missed++
	} else {
		s.missed = 0
	}
	used, commands := t.owed(now)
	t.free()
	t.must(t.sched.Reclaim(m.id, used, commands, now))
	return true
}

// tick is the timer's.
func (t *token) tick() {
	t.arena.mu.Lock()
	defer t.arena.mu.Unlock()
	began := time.Now()
	now := t.arena.now()
	if t.holder != nil && t.wanted {
		switch {
		case now >= t.answers:
			t.expelled++
			t.arena.expel(t.holder, fmt.Sprintf("the %v engine was wanted by others and not given back within %v",
				t.engine, t.arena.limits.answer))
		case now >= t.begins:
			t.reclaim(now, true)
		}
	}
	t.decide()
	t.sched.Overhead(time.Since(began), t.arena.now())
}

// remove ends what a member has or waits for. The token is to be decided on then.
func (t *token) remove(m *member) {
	t.cancel(m)
	if t.holder == m {
		now := t.arena.now()
		used, commands := t.owed(now) // whoever was disconnected pays for it, too
		t.free()
		t.must(t.sched.Complete(m.id, used, commands, false, now))
	}
	delete(t.byID, m.id)
}
