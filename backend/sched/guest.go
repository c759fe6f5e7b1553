package sched

import "time"

// ID names a guest. 0 is none.
type ID uint32

// Guest is a Scheduler's state of a guest. Policies read it, and write Credit.
type Guest struct {
	ID      ID
	Share   Share
	Credit  time.Duration // engine time owed to the guest; negative when it owes
	Waiting bool          // it has work and does not have the engine

	tenure *tenure // nil while it does not have the engine
	beside bool    // see Scheduler.Beside
	turns  bool    // see Scheduler.Turns

	processors int  // see Scheduler.Processors
	fills      bool // see Scheduler.Fills

	preemptible bool // see Scheduler.Preemptible
	excluded    bool // see Scheduler.Exclude

	arrival  uint64        // number of its last Arrive; the smaller, the earlier
	since    time.Duration // when that was
	lastSeen time.Duration // its last event
	lastDone time.Duration // when it last returned the engine without more work
	late     int           // commands in a row that came later than Settings.Wait after the one before, up to maxLate
	lastHeld time.Duration // for how long it had it then
	shallow  int           // tenures in a row after which it had nothing queued, up to maxShallow
	idle     bool          // it had the engine, and was idle for an unknown part of that time

	active   bool    // is in Scheduler.active
	fraction float64 // of the engine's time; of all active guests 1 together

	// claimed is the time that its backend said it used the engine, of which its part is in stats.Busy
	// where others had the engine at the same time.
	claimed time.Duration

	held    time.Duration // time for which it had the engine, whether it used it or not
	virtual virtual       // of policies with virtual time

	use     window        // engine time used
	allowed time.Duration // when its cap allows it to run

	stats Stats
}

// maxLate is the number of late commands in a row after which policies no longer wait
// for a guest. The first command of each burst is late.
const maxLate = 2

// maxShallow is the number of tenures in a row without queued commands after which a guest is taken to wait for each.
const maxShallow = 4

// comesBack returns the latest time at which the next command of a guest that does not
// wait is expected; a past time if policies no longer wait for it.
func (s *Scheduler) comesBack(g *Guest) time.Duration {
	if g.late == maxLate {
		return longAgo
	}
	return g.lastDone + s.patience(g)
}

// PauseMost bounds the time for which an engine is kept for a guest whose commands the GPU serves in turn with those of
// others (Scheduler.Turns), which has paused and goes before those that wait: half of the time for which it had the engine
// before, since to hand the engine over twice costs as much.
const (
	PauseMost = 2 * time.Millisecond
	pausePart = 2
)

// patience returns for how long a guest that has returned the engine is expected back.
func (s *Scheduler) patience(g *Guest) time.Duration {
	if g.turns && s.inTurns() {
		return max(s.settings.Wait, min(g.lastHeld/pausePart, PauseMost))
	}
	return s.settings.Wait
}

// Stats are the counts of a guest since it was added.
type Stats struct {
	ID       ID
	Share    Share
	Busy     time.Duration // engine time used
	Waited   time.Duration // from Arrive to the decision to run it
	Runs     uint64        // decisions to run it
	Commands uint64
	Credit   time.Duration // now
	Fraction float64       // of the engine's time it is entitled to now; 0 while not active
	Usage    float64       // used of the last window; 0 to 1
	Waiting  bool
	Denied   uint64 // times that the policy left it out, because it had used too much
}
