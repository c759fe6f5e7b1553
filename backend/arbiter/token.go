package arbiter

import (
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"pvdrm/backend/sched"
)

// Bounds on the time for which a backend may keep others waiting without being charged,
// because messages and wake-ups take time: a part of that time, and an amount that it can
// save up for when the host is busy. The rest is charged as use of the engine.
const (
	trustPart = 0.1
	trustMost = 2 * time.Millisecond
)

// maxMissed is how often the time to begin a command doubles.
const maxMissed = 4

// token is the right to run on one engine. Its arena's mutex guards it. One member
// holds it, or several whose work runs concurrently; the states are those of each hold.
//
//	free ──grant──► held ──revoke──► free        nothing ran
//	                 │ └───revoke──► wanted ──yield, or expelled──► free
//	                 └──yield──► free
type token struct {
	arena  *arena
	engine Engine
	sched  *sched.Scheduler
	byID   map[sched.ID]*member
	alarm  *alarm // calls tick
	holds  []*hold
	grant  uint64 // number of the last grant

	grants, revokes, expelled uint64
}

// hold is the possession of the token by a member.
type hold struct {
	member   *member
	grant    uint64
	granted  time.Duration
	standing bool
	keep     bool          // the policy lets the holder keep the token while it has nothing to do
	wanted   bool          // the holder was asked to return it
	wantedAt time.Duration // when others began to wait while it was held; Never if none did
	seen     time.Duration // use charged since then
	begins   time.Duration // deadline to begin a command or send Yield, if it is wanted
	answers  time.Duration // deadline to return it, if it is wanted
	preempts time.Duration // when to look whether there is a command to preempt; Never if that need not be
}

func newToken(a *arena, e Engine, s *sched.Scheduler) *token {
	t := &token{arena: a, engine: e, sched: s, byID: map[sched.ID]*member{}}
	t.alarm = newAlarm(t.tick)
	return t
}

// must reports an event that the scheduler refuses: a bug, which costs a log
// entry and not the service.
func (t *token) must(err error) {
	if err != nil {
		t.arena.log.Error("the scheduler refuses an event", zap.Stringer("engine", t.engine), zap.Error(err))
	}
}

// kind records for which kind of work, by flags of its message, a member waits.
func (t *token) kind(m *member, flags uint32) {
	t.sched.Beside(m.id, flags&flagBeside != 0)
	t.sched.Turns(m.id, flags&flagTurns != 0)
	part := 0
	if flags&flagPart != 0 {
		part = int(flags >> partShift)
	}
	t.sched.Processors(m.id, part)
	t.sched.Fills(m.id, part > 0 && flags&flagFill != 0)
	t.sched.Preemptible(m.id, flags&flagPreempt != 0)
}

// request records that a member waits for the engine, for the kind of work of some flags.
func (t *token) request(m *member, flags uint32) {
	s := &m.seats[t.engine]
	if s.hold != nil {
		return // it was granted meanwhile
	}
	t.kind(m, flags)
	if s.waiting {
		return // perhaps for another kind of work than before
	}
	now := t.arena.now()
	t.settle(now)
	t.must(t.sched.Arrive(m.id, now))
	s.waiting, s.since = true, now
}

// cancel records that a member no longer waits.
func (t *token) cancel(m *member) {
	s := &m.seats[t.engine]
	if s.waiting {
		s.waiting = false
		t.must(t.sched.Withdraw(m.id, t.arena.now()))
	}
}

// yielded records that a member returns the token, or has noticed that it lost it. With
// flagMore it waits again, as by request.
func (t *token) yielded(m *member, grant uint64, flags uint32) {
	s := &m.seats[t.engine]
	more := flags&flagMore != 0
	if s.hold == nil || s.hold.grant != grant {
		if more {
			t.request(m, flags)
		}
		return
	}
	now := t.arena.now()
	used, commands := t.owed(s.hold, now)
	s.missed = 0
	t.free(s.hold)
	if more {
		t.kind(m, flags)
		s.waiting, s.since = true, now
	}
	t.must(t.sched.Complete(m.id, used, commands, more, now))
}

func (t *token) free(h *hold) {
	t.holds = slices.DeleteFunc(t.holds, func(o *hold) bool { return o == h })
	h.member.seats[t.engine].hold = nil
}

// settle charges the holders for their use until now, before another member joins them.
func (t *token) settle(now time.Duration) {
	for _, h := range t.holds {
		t.look(h, now)
		h.waited(now)
	}
}

// waited notes that others wait, unless the holder may keep them waiting.
func (h *hold) waited(now time.Duration) {
	if !h.keep && h.wantedAt > now {
		h.wantedAt, h.seen = now, 0
	}
}

// look charges a holder for its use since the last look.
func (t *token) look(h *hold, now time.Duration) {
	used, commands := t.delta(h, now)
	h.seen += used
	t.must(t.sched.Charge(h.member.id, used, commands, now))
}

// delta returns the use of a holder since the last look, bounded by the time that has passed.
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

// owed returns the final charge of a holder: its use since the last look and, beyond
// its trust, the time for which it kept others waiting without using the engine.
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

// decide executes the scheduler's decision, and sets the timer for the next one.
func (t *token) decide() {
	now := t.arena.now()
	if t.engine == Compute {
		t.arena.joint.plan(t, now)
	}
	t.decideAlone(now)
}

// decideAlone is decide, of this engine alone.
func (t *token) decideAlone(now time.Duration) {
	again := sched.Never
	if t.sched.Observes() {
		for _, h := range t.holds {
			t.look(h, now)
		}
	}
	for !t.arena.closed {
		d := t.sched.Next(now)
		if d.Run != 0 {
			t.give(d, now)
		} else if d.Share != 0 {
			t.share(t.byID[d.Share].seats[t.engine].hold, now)
		} else if d.Revoke != 0 {
			t.revoke(t.byID[d.Revoke].seats[t.engine].hold, now)
		} else if d.Preempt != 0 {
			t.preempt(t.byID[d.Preempt].seats[t.engine].hold, now)
		} else {
			again = d.Again
			break
		}
	}
	for _, h := range t.holds {
		if h.wanted {
			again = min(again, h.begins, h.answers, h.preempts)
		}
	}
	if again != sched.Never {
		t.alarm.set(again - now)
	}
}

// give grants the token to a member.
func (t *token) give(d sched.Decision, now time.Duration) {
	m := t.byID[d.Run]
	s := &m.seats[t.engine]
	s.waits.Add(now - s.since)
	s.waiting = false
	t.grant++
	t.grants++
	h := &hold{member: m, grant: t.grant, granted: now, standing: d.Standing, wantedAt: sched.Never, answers: sched.Never, begins: sched.Never,
		preempts: sched.Never}
	s.hold = h
	t.holds = append(t.holds, h)
	s.used, s.commands = m.page.usage(t.engine) // this grant does not pay for earlier use without the token
	word := bitHeld
	if d.Beside {
		word |= bitBeside
	}
	if d.Turns {
		word |= bitTurns
	}
	if d.Fills {
		word |= bitFill
	}
	if !d.Standing {
		// A program that computes and copies in turn would wait for the copy engine that another keeps, which waits for the
		// compute engine that this one keeps, and the other way round: they would do a step in each slice.
		if h.keep = d.Keep && t.engine == Compute; !h.keep {
			h.wantedAt = now
			word |= bitShared
		}
		if d.Slice == 0 {
			word |= bitOnce
			h.wanted, h.begins = true, t.patience(h)
		}
	}
	m.page.setPart(t.engine, d.Processors)
	m.page.setGrant(t.engine, t.grant)
	m.page.store(t.engine, word)
	if err := m.link.send(message{op: opGrant, engine: t.engine, grant: t.grant}); err != nil {
		t.arena.expel(m, err.Error()) // which frees the token
	}
}

// share leaves the token to a holder that has it for as long as no other waits, until it has nothing to do.
func (t *token) share(h *hold, now time.Duration) {
	h.standing = false
	if h.member.page.or(t.engine, bitShared)&bitBusy == 0 {
		t.revoke(h, now) // it has nothing to do
	}
}

// revoke takes the token back at once if no command runs. Otherwise the holder returns it,
// or loses it at a tick.
func (t *token) revoke(h *hold, now time.Duration) {
	p := h.member.page
	t.revokes++
	h.wanted, h.keep = true, false
	h.waited(now)
	if p.load(t.engine)&bitBegun == 0 && now < t.patience(h) {
		p.or(t.engine, bitOnce) // it may be about to wake up
		h.begins = t.patience(h)
		return
	}
	t.reclaim(h, now, false)
}

// preempt has a holder stop the command that runs. Where none has begun yet, it waits for that:
// a command that had to stop at once would never make progress.
func (t *token) preempt(h *hold, now time.Duration) {
	p := h.member.page
	if p.load(t.engine)&bitBegun == 0 {
		h.preempts = now + max(t.sched.Settings().Preempt, time.Millisecond)
		return
	}
	h.preempts = sched.Never
	h.member.seats[t.engine].preempted++
	p.or(t.engine, bitPreempt)
}

// patience returns the deadline for a holder to begin a command. The time doubles with
// each grant that went unused: otherwise, on a host so busy that wake-ups take longer than
// the limit, a backend would never run.
func (t *token) patience(h *hold) time.Duration {
	return h.granted + t.arena.limits.use<<min(h.member.seats[t.engine].missed, maxMissed)
}

// reclaim takes the token from an idle holder. It leaves the token if it has to wait: for a
// command that runs, which has until the limit; or, unless forced, for a Yield that must
// be on its way, because that reports the end of the command.
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

// tick runs when the timer fires.
func (t *token) tick() {
	t.arena.mu.Lock()
	defer t.arena.mu.Unlock()
	began := time.Now()
	now := t.arena.now()
	for _, h := range slices.Clone(t.holds) { // expelled members are removed meanwhile
		switch {
		case !h.wanted || h.member.seats[t.engine].hold != h: // another holder's expulsion ended this hold
		case now >= h.answers:
			t.expelled++
			t.arena.expel(h.member, fmt.Sprintf("the %v engine was wanted by others and not given back within %v",
				t.engine, t.arena.limits.answer))
		case now >= h.begins:
			t.reclaim(h, now, true)
		case now >= h.preempts:
			t.preempt(h, now)
		}
	}
	t.decide()
	t.sched.Overhead(time.Since(began), t.arena.now())
}

// remove ends the holds and waits of a member. The caller then calls decide.
func (t *token) remove(m *member) {
	t.cancel(m)
	if h := m.seats[t.engine].hold; h != nil {
		now := t.arena.now()
		used, commands := t.owed(h, now) // a disconnected member pays, too
		t.free(h)
		t.must(t.sched.Complete(m.id, used, commands, false, now))
	}
	delete(t.byID, m.id)
}
