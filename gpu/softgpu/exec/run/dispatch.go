package run

import (
	"sync/atomic"
	"time"
)

// Workers take clusters in order from a common counter. Many processors with clusters of less than a
// microsecond would wait for its cache line more than they work, so a worker that finds its clusters short
// takes several of them at once, as does one that is alone. It runs them in order: a block that waits for an earlier one gets to go on,
// since the earliest that has not ended runs, but it waits longer than if its worker had only that one, and
// the worker takes single clusters then.

// A worker takes twice as many clusters as before if those took less than shortTurn, and one if they took
// more than longTurn. Of those left it takes at most its share of an endShare-th, so that workers end together.
const (
	maxTaken  = 16
	shortTurn = 2 * time.Microsecond
	longTurn  = 8 * time.Microsecond
	endShare  = 8
)

// counter has a cache line of its own: workers read what lies beside it for each block. Some processors
// fetch lines in pairs.
type counter struct {
	_ [128]byte
	atomic.Uint64
	_ [120]byte
}

// part is the clusters that a worker has taken and not begun, and how it takes more.
type part struct {
	at, end uint64
	many    uint64    // to take at once
	since   time.Time // when it took some
}

// take takes a cluster that no worker has begun. It reports false if there is none.
func (w *worker) take() (n uint64, ok bool) {
	p := &w.part
	if p.at == p.end && !w.refill() {
		return 0, false
	}
	p.at++
	return p.at - 1, true
}

// refill takes clusters from the counter.
func (w *worker) refill() bool {
	r, p := w.run, &w.part
	many := uint64(1)
	switch {
	case w.control.Divide:
	case r.workers == 1:
		many = maxTaken
	default:
		now := time.Now()
		if p.many == 0 { // the first
			p.many = 1
		} else {
			p.many = next(p.many, now.Sub(p.since))
		}
		many, p.since = p.many, now
	}
	all := r.blocks / r.size
	if many > 1 {
		many = fair(many, all, r.next.Load(), r.workers)
	}
	p.end = r.next.Add(many)
	p.at, p.end = p.end-many, min(p.end, all)
	if p.at >= p.end {
		p.at = p.end
		return false
	}
	return true
}

// next is how many clusters to take after so many that took this long.
func next(many uint64, took time.Duration) uint64 {
	switch {
	case took < shortTurn:
		return min(2*many, maxTaken)
	case took > longTurn:
		return 1
	}
	return many
}

// fair bounds how many clusters a worker takes by what is left.
func fair(many, all, taken uint64, workers int) uint64 {
	if taken >= all {
		return 1
	}
	return max(min(many, (all-taken)/uint64(endShare*workers)), 1)
}

// leave puts down the clusters that the worker has taken and not begun, because it is preempted.
func (w *worker) leave() {
	for p := &w.part; p.at < p.end; p.at++ {
		w.keep(unbegun(p.at*w.run.size, w.run.size)...)
	}
}

// unbegun is the state of a cluster that has not begun.
func unbegun(first, size uint64) []blockState {
	blocks := make([]blockState, size)
	for i := range blocks {
		blocks[i].number = first + uint64(i)
	}
	return blocks
}
