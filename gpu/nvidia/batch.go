package nvidia

import (
	"slices"
	"time"

	"pvdrm/gpu"
)

// batch is what Submit was given, and how far it has come.
type batch struct {
	cmds         []gpu.Command
	done         func(gpu.Result)
	seq          uint64      // among those that the channel has taken, from 1 on
	behind       []following // must end first
	begun, ended int         // commands; those that failed have not ended
	task         bool        // may be run again
	replays      int         // times that it was begun again
	counted      int         // the worker, of those that the context has had, with which it was lost last; from 1 on

	plan plan // how commands go from the one on that is begun next, or before

	// Of a launch in parts, the command after those that have begun: where the next part begins, and
	// what those that have ended took.
	from uint64
	took time.Duration

	// Of the first command, which is often the only one: here they take no allocation.
	first flying
	entry [1]entry
}

// of makes b a batch of what Submit was given, whatever it was before.
func (b *batch) of(cmds []gpu.Command, done func(gpu.Result)) {
	*b = batch{cmds: cmds, done: done}
	if len(cmds) > 0 {
		_, b.task = cmds[0].(*gpu.Task)
	}
}

// again makes a batch that was lost one that was never begun, if it is a task, or else one of which
// those commands were begun that have ended. Built tells one worker of the context from another: until another has taken
// over, a channel comes here each time that it looks, and the batch was lost once.
func (b *batch) again(built int) {
	if !b.started() {
		return
	}
	if b.task {
		b.ended, b.from, b.took = 0, 0, 0
	}
	b.begun, b.plan = b.ended, plan{}
	if b.counted != built+1 {
		b.replays++
		b.counted = built + 1
	}
}

// started reports whether a command of the batch has begun, or a part of one.
func (b *batch) started() bool { return b.begun > 0 || b.from > 0 }

// complete completes the oldest batch.
func (c *channel) complete(b *batch, r gpu.Result) {
	b.done(r)
	c.drop(b)
}

// drop removes the oldest batch, which has completed, from the flight and keeps its memory for reuse.
func (c *channel) drop(b *batch) {
	c.flight.batches = slices.Delete(c.flight.batches, 0, 1)
	c.dropped.Store(b.seq)
	if b != c.watched {
		c.mu.Lock()
		b.cmds, b.done, b.behind = nil, nil, nil
		c.spare = b
		c.mu.Unlock()
	}
}
