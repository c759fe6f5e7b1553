package sched

import "time"

func init() {
	Register("fifo", "the order of arrival, whatever the shares", func() Policy { return fifo{} })
}

// fifo runs commands in the order in which they arrived. Guests get time by how
// long their commands are, whatever their shares.
type fifo struct{}

func (fifo) Pick(_ *View, ready []*Guest) (*Guest, time.Duration) {
	first := ready[0]
	for _, g := range ready {
		if g.arrival < first.arrival {
			first = g
		}
	}
	return first, Never
}

func (fifo) Beside(*View, *Guest) time.Duration { return 0 }
func (fifo) Completed(*View, *Guest)            {}
func (fifo) Slice(*View) time.Duration          { return 0 }
