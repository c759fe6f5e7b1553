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

	preemptible bool // see Scheduler.Preemptible

	arrival  uint64        // number of its last Arrive; the smaller, the earlier
	since    time.Duration // when that was
	lastSeen time.Duration // its last event
	lastDone time.Duration // when it last returned the engine without more work
	late     int           // commands in a row that came later than Settings.Wait after the one before, up to maxLate
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

// comesBack returns the latest time at which the next command of a guest that does not
// wait is expected; a past time if policies no longer wait for it.
func (g *Guest) comesBack(wait time.Duration) time.Duration {
	if g.late == maxLate {
		return longAgo
	}
	return g.lastDone + wait
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
