package sched

import "time"

// ID names a guest. 0 is none.
type ID uint32

// Guest is what a Scheduler knows about a guest. Policies read it; Credit is
// theirs to write.
type Guest struct {
	ID      ID
	Share   Share
	Credit  time.Duration // engine time owed to the guest; negative when it owes
	Waiting bool          // it has work and has not the engine

	tenure *tenure // nil while it has not the engine
	beside bool    // see Scheduler.Beside

	arrival  uint64        // number of its last Arrive; the smaller, the earlier
	since    time.Duration // when that was
	lastSeen time.Duration // its last event
	lastDone time.Duration // when it last gave the engine back with nothing more to do
	late     int           // commands in a row that came later than Settings.Wait after the one before, up to maxLate
	idle     bool          // it had the engine, and it is not known how long it did nothing with it

	active   bool    // is in Scheduler.active
	fraction float64 // of the engine's time; of all active guests 1 together

	use     window        // engine time used
	allowed time.Duration // from when on its cap allows it to run

	stats Stats
}

// maxLate is how many commands in a row have to be late until a guest is one
// that nobody waits for. The first of each burst is late.
const maxLate = 2

// comesBack is until when the next command of a guest that does not wait is
// expected: in the past for one that nobody waits for.
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
}
