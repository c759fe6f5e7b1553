package virgl

import (
	"sync/atomic"
	"time"
)

type counters struct {
	commands, failed, submits, workers, lost atomic.Uint64
	busy                                     atomic.Int64
}

// Stats are counters of a Renderer since it was made.
type Stats struct {
	Commands uint64        `json:"commands"`
	Failed   uint64        `json:"failed"`  // commands that were refused or lost
	Submits  uint64        `json:"submits"` // rows of commands of the guest
	Restarts uint64        `json:"restarts"`
	Lost     uint64        `json:"lost"` // renderers that ended by themselves or did not answer
	Busy     time.Duration `json:"busy"` // for which something was being rendered
}

// Stats returns the counters.
func (r *Renderer) Stats() Stats {
	return Stats{
		Commands: r.stats.commands.Load(), Failed: r.stats.failed.Load(), Submits: r.stats.submits.Load(),
		Restarts: r.stats.workers.Load(), Lost: r.stats.lost.Load(), Busy: time.Duration(r.stats.busy.Load()),
	}
}
