package sched

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// longAgo is before all times, and far enough from the ends of the type to be
// subtracted.
const longAgo = -Never / 2

// ErrGuest is the error of an event that does not fit the guest's state.
var ErrGuest = errors.New("no such guest, or not in that state")

// Decision is the action that the caller has to take now.
type Decision struct {
	// Run is the guest that gets the engine; 0 is none. It has the engine until
	// Complete, Remove or a Revoke.
	Run ID
	// Standing reports, with Run, that no other guest waits: the guest may run
	// command after command and may keep the engine while it has none.
	Standing bool
	// Beside restricts Run to work that may run concurrently with such work of others.
	Beside bool
	// Turns counts, with Beside, work that the GPU serves in turn with that of others as such work.
	Turns bool
	// Processors restricts Run, with Beside, to work that uses so many processors at most; 0 does not.
	Processors int
	// Fills says that Processors is less than what Run asked for.
	Fills bool
	// Slice bounds, with Run and without Standing, the time for which the guest may
	// go on while it has the next command ready. 0 is one command.
	Slice time.Duration
	// Keep reports, with Slice, that the guest keeps the engine until the slice is over, even while it
	// has no command.
	Keep bool
	// Share is a guest that got the engine with Standing, and keeps it although others wait now: it has to return
	// it as soon as it has no command. 0 is none. Next names it once.
	Share ID
	// Revoke is a guest that has to return the engine when its command ends; 0 is
	// none. Next names it once, and not at all if it has the engine for one command.
	Revoke ID
	// Preempt is a guest whose command has to stop, so that it returns the engine; 0 is none.
	// Next names it once, after Revoke or if it has the engine for one command.
	Preempt ID
	// Again is the time at which the caller has to call Next again if no event comes
	// before. If Run, Share, Revoke or Preempt is set, it has to call Next again at once.
	Again time.Duration
}

// Scheduler decides for one engine. See the package comment.
type Scheduler struct {
	name     string
	policy   Policy
	settings Settings

	guests map[ID]*Guest
	list   []*Guest // the order that policies change with View.ToTail
	now    time.Duration
	count  uint64 // of arrivals

	processors int // see SetProcessors

	owner ID // see Reserve

	running []*tenure // those who have the engine: one, or several whose work runs concurrently

	replenished time.Duration // when credit was given out last
	spent       time.Duration // credit taken off since then
	total       window        // engine time used by all
	longest     [2]time.Duration
	longestFrom time.Duration // since when longest[0] is the longest run

	stale  bool     // the shares changed
	active []*Guest // in the order of list
	ready  []*Guest // scratch
	poor   []*Guest // scratch
}

// tenure is the time for which a guest has the engine.
type tenure struct {
	guest  *Guest
	beside bool // others may have the engine at the same time
	// preemptible reports that its commands can be stopped: see Scheduler.Preemptible.
	preemptible bool
	streams     bool // its guest has turns: see Scheduler.Turns
	processors  int  // that it may use, with beside; 0 if they are not counted
	wants       int  // processors that it asked for

	since     time.Duration
	standing  bool
	end       time.Duration // of its slice
	revoked   bool
	preempted bool
	accounted time.Duration // engine time used since
	part      time.Duration // its part of the time since, not charged yet; equal for all that run
	before    time.Duration // what of part lies before looked
	looked    time.Duration // when it was charged last, or began
	contended time.Duration // since when others waited, for whom there was no room; Never if none did
	lone      time.Duration // since when no other has the engine
	owes      time.Duration // since when its use is taken off its credit; Never while it takes nothing from others
}

// New makes a Scheduler at the given time, with a registered policy.
func New(policy string, settings Settings, now time.Duration) (*Scheduler, error) {
	s := &Scheduler{guests: map[ID]*Guest{}, now: now, replenished: now, longestFrom: now}
	if err := s.Switch(policy, settings, now); err != nil {
		return nil, err
	}
	return s, nil
}

// Switch changes the policy and the settings. The guests, their states and their usage
// stay. Credit stays under the same policy; another policy begins with empty accounts:
// usage under the previous policy is forgiven. A window of another length begins empty.
func (s *Scheduler) Switch(policy string, settings Settings, now time.Duration) error {
	p, err := newPolicy(policy)
	if err != nil {
		return err
	}
	settings, err = settings.normal()
	if err != nil {
		return err
	}
	s.advance(now)
	if settings.Window != s.settings.Window {
		s.total = newWindow(settings.Window, s.now)
		for _, g := range s.list {
			g.use = newWindow(settings.Window, s.now)
		}
	}
	if policy != s.name {
		s.replenish() // so that the spent time is in the accounts
		for _, g := range s.list {
			g.Credit, g.virtual = 0, virtual{held: g.held}
		}
	}
	s.name, s.policy, s.settings = policy, p, settings
	return nil
}

// Observes reports whether the caller has to call Charge for those who have the engine before each
// Next; see Observer.
func (s *Scheduler) Observes() bool {
	_, ok := s.policy.(Observer)
	return ok
}

// Policy returns the name of the policy.
func (s *Scheduler) Policy() string { return s.name }

// Settings returns the settings, with the defaults filled in.
func (s *Scheduler) Settings() Settings { return s.settings }

// Add adds a guest that has no work yet.
func (s *Scheduler) Add(id ID, share Share, now time.Duration) error {
	if id == 0 || s.guests[id] != nil {
		return fmt.Errorf("adding guest %d: %w", id, ErrGuest)
	}
	g := &Guest{ID: id, lastSeen: longAgo, lastDone: longAgo, shallow: maxShallow, idle: true}
	if err := s.admit(g, share); err != nil {
		return err
	}
	s.advance(now)
	g.use = newWindow(s.settings.Window, s.now)
	g.allowed = s.now
	s.guests[id] = g
	s.list = append(s.list, g)
	return nil
}

// SetShare changes the share of a guest.
func (s *Scheduler) SetShare(id ID, share Share, now time.Duration) error {
	g := s.guests[id]
	if g == nil {
		return fmt.Errorf("share of guest %d: %w", id, ErrGuest)
	}
	s.advance(now)
	return s.admit(g, share)
}

// admit sets the share if there is room for its reserve.
func (s *Scheduler) admit(g *Guest, share Share) error {
	share, err := share.normal()
	if err != nil {
		return err
	}
	reserved := share.Reserve
	for _, other := range s.list {
		if other != g {
			reserved += other.Share.Reserve
		}
	}
	if reserved > 1+1e-9 {
		return fmt.Errorf("%w: with it, %.1f %% of the engine would be reserved", ErrShare, 100*reserved)
	}
	g.Share, s.stale = share, true
	return nil
}

// Remove removes a guest in any state. If it has the engine, the engine becomes free.
func (s *Scheduler) Remove(id ID, now time.Duration) {
	g := s.guests[id]
	if g == nil {
		return
	}
	s.advance(now)
	s.free(g)
	delete(s.guests, id)
	s.list = slices.DeleteFunc(s.list, func(o *Guest) bool { return o == g })
	s.stale = true
}

// free ends the tenure of a guest, if it has one.
func (s *Scheduler) free(g *Guest) {
	s.running = slices.DeleteFunc(s.running, func(t *tenure) bool { return t == g.tenure })
	g.tenure = nil
	if len(s.running) == 1 {
		s.running[0].lone = s.now
	}
}

// Beside sets whether the work for which a guest waits, or will wait, may run concurrently with
// such work of other guests: then several have the engine at once, as processes have a processor,
// and each is charged its part of the time. The setting applies from the guest's next tenure on,
// until the next call.
func (s *Scheduler) Beside(id ID, may bool) {
	if g := s.guests[id]; g != nil {
		g.beside = may
	}
}

// Turns sets whether the GPU serves the work for which a guest waits, or will wait, in turn with such
// work of other guests when it has work of several. Policies that are Disengaged let them have the engine
// together then. The others do not, but those that preempt by the order of guests give such guests turns of some
// milliseconds (Settings.Round), because the GPU takes long to pass from one guest to another, and what is queued is
// lost on the way. The setting applies as that of Beside does.
func (s *Scheduler) Turns(id ID, may bool) {
	if g := s.guests[id]; g != nil {
		g.turns = may
	}
}

// joins reports whether a guest's work may be on the GPU with such work of others.
func (s *Scheduler) joins(g *Guest) bool {
	p, disengaged := s.policy.(Disengaged)
	return g.beside || s.part(g) > 0 || g.turns && disengaged && p.Disengages(s.now)
}

// Preemptible sets whether the commands for which a guest waits, or will wait, can be stopped to go
// on later. The setting applies from the guest's next tenure on, until the next call.
func (s *Scheduler) Preemptible(id ID, can bool) {
	if g := s.guests[id]; g != nil {
		g.preemptible = can
	}
}

// Arrive reports that a guest has work and waits. If others have the engine, the caller calls
// Charge for each of them first. A guest does not owe the time that it used while no other guest
// was active.
func (s *Scheduler) Arrive(id ID, now time.Duration) error {
	g := s.guests[id]
	if g == nil || g.Waiting || g.tenure != nil {
		return fmt.Errorf("arrival of guest %d: %w", id, ErrGuest)
	}
	s.advance(now)
	if w, ok := s.policy.(Watcher); ok {
		w.Arrived(&View{s}, g)
	}
	for _, c := range s.running {
		if c.processors > 0 {
			continue // see contend
		}
		c.contended = min(c.contended, s.now)
		if len(s.active) == 1 {
			c.owes = s.now
		}
	}
	s.arrive(g)
	switch {
	case g.idle: // the end of its last command is unknown
	case s.now-g.lastDone <= s.patience(g):
		g.late = 0
	case g.late < maxLate:
		g.late++
	}
	g.idle = false
	return nil
}

func (s *Scheduler) arrive(g *Guest) {
	s.count++
	g.arrival, g.since, g.lastSeen, g.Waiting = s.count, s.now, s.now, true
}

// Withdraw reports that a guest no longer waits.
func (s *Scheduler) Withdraw(id ID, now time.Duration) error {
	g := s.guests[id]
	if g == nil || !g.Waiting {
		return fmt.Errorf("withdrawal of guest %d: %w", id, ErrGuest)
	}
	s.advance(now)
	g.Waiting, g.lastSeen = false, s.now
	return nil
}

// Charge reports for how long, and with how many commands, a guest that has the engine
// used it since it got it or was last charged.
func (s *Scheduler) Charge(id ID, used time.Duration, commands uint64, now time.Duration) error {
	g := s.guests[id]
	if g == nil || g.tenure == nil {
		return fmt.Errorf("charge of guest %d: %w", id, ErrGuest)
	}
	s.charge(g.tenure, used, commands, now)
	s.advance(now)
	return nil
}

// Complete reports that a guest returned the engine and, with more, waits again. It charges
// the guest as Charge does.
func (s *Scheduler) Complete(id ID, used time.Duration, commands uint64, more bool, now time.Duration) error {
	g := s.guests[id]
	if g == nil || g.tenure == nil {
		return fmt.Errorf("completion of guest %d: %w", id, ErrGuest)
	}
	since := g.tenure.since
	s.complete(g, used, commands, now)
	held := s.now - since
	g.lastSeen = s.now
	if more {
		s.arrive(g)
		g.late, g.shallow = 0, 0
	} else {
		g.lastDone, g.lastHeld = s.now, held
		g.shallow = min(g.shallow+1, maxShallow)
	}
	return nil
}

// Reclaim reports that the engine was taken from a guest that was idle, and charges it as
// Charge does.
func (s *Scheduler) Reclaim(id ID, used time.Duration, commands uint64, now time.Duration) error {
	g := s.guests[id]
	if g == nil || g.tenure == nil {
		return fmt.Errorf("engine of guest %d: %w", id, ErrGuest)
	}
	standing := g.tenure.standing
	s.complete(g, used, commands, now)
	if standing {
		g.idle = true // for an unknown time
	} else {
		g.lastDone = s.now // within its slice
	}
	return nil
}

// complete ends the tenure of a guest.
func (s *Scheduler) complete(g *Guest, used time.Duration, commands uint64, now time.Duration) {
	s.charge(g.tenure, used, commands, now)
	s.advance(now)
	s.free(g)
	s.policy.Completed(&View{s}, g)
}

// Debt returns the engine time that a guest owes.
func (s *Scheduler) Debt(id ID) time.Duration {
	if g := s.guests[id]; g != nil {
		return max(-g.Credit, 0)
	}
	return 0
}

// Settled reports whether removing a guest would cost the others nothing: it owes no engine time,
// and does not wait for its cap.
func (s *Scheduler) Settled(id ID, now time.Duration) bool {
	s.advance(now)
	g := s.guests[id]
	return g == nil || g.Credit >= 0 && g.allowed <= s.now
}

// Overhead charges time that scheduling itself took to all active guests, by
// share, as if it were time of the engine. Credit is given out by share: if each
// were charged the same, those with small shares would pay for the others.
func (s *Scheduler) Overhead(d, now time.Duration) {
	s.advance(now)
	for _, g := range s.active {
		s.debit(g, time.Duration(float64(d)*g.fraction))
	}
}

// Stats returns the counts of all guests, in no particular order.
func (s *Scheduler) Stats(now time.Duration) []Stats {
	s.advance(now)
	out := make([]Stats, 0, len(s.list))
	for _, g := range s.list {
		st := g.stats
		st.ID, st.Share, st.Credit, st.Waiting = g.ID, g.Share, g.Credit, g.Waiting
		st.Usage = g.use.part(s.now)
		if g.active {
			st.Fraction = g.fraction
		}
		out = append(out, st)
	}
	return out
}
