package nvidia

import (
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/internal/yield"
)

// A batch that waits for one of another channel of its context is given to the worker behind waits
// of its stream for the fence of that channel (entryBehind), once all commands of the other batch
// lie in the lane. The lane is one queue, and a wait is for entries before it, so no circle forms.
// The fence's word does for that, since numbers of a slot go on when another channel gets it
// (openStream): a wait that the GPU sees late holds then, too.
//
// What has to be able to leave the GPU by itself is not waited for so: with a gate each channel takes
// turns of its own, and with Config.Replays work may begin again on another worker. Nor do commands
// that wait for words: they may take for ever, and are alone in flight.

// order is how far a channel has come, for others, and for what it waits.
type order struct {
	taken   uint64                      // batches; under channel.mu
	dropped atomic.Uint64               // batches that have ended; written under channel.run
	passed  [maxPassed]passed           // batches, by their seq; under context.laneMu
	behind  atomic.Pointer[[]following] // what the oldest command in flight waits for; written under context.laneMu
}

// following is a batch of another channel, which must end first.
type following struct {
	ch     *channel
	seq    uint64 // of the batch
	number uint32 // of its last command, once that lies in the lane
}

// passed says that all commands of a batch lie in the lane of a worker.
type passed struct {
	seq    uint64
	number uint32 // of the last one
	built  int    // the context.built that it belongs to
}

// conditionReached is CU_STREAM_WAIT_VALUE_GEQ, which compares like reached.
const conditionReached = 0

// maxPassed is how many batches a channel remembers. No more than maxFlight can be in flight that
// have commands.
const maxPassed = 2 * maxFlight

// Follows implements gpu.Follower.
func (c *channel) Follows() bool {
	d := c.ctx.dev
	return !d.config.NoFollowing && !d.config.Replays && d.props.Words && d.compute.gate == nil && d.copy.gate == nil
}

// SubmitBehind implements gpu.Follower.
func (c *channel) SubmitBehind(points []gpu.Point, cmds []gpu.Command, done func(gpu.Result)) (bool, error) {
	if !c.mayFollow(cmds) {
		return false, nil
	}
	list := make([]following, len(points))
	for i, p := range points {
		ch, ok := p.Channel.(*channel)
		if !ok || ch == c || ch.ctx != c.ctx {
			return false, nil
		}
		list[i] = following{ch: ch, seq: p.Batch}
	}
	if !c.ctx.gen.TryRLock() {
		return false, nil
	}
	ready := c.resolve(list)
	c.ctx.gen.RUnlock()
	if !ready {
		return false, nil
	}
	return true, c.submit(list, cmds, done)
}

// mayFollow reports whether a batch of these commands may wait on the GPU.
func (c *channel) mayFollow(cmds []gpu.Command) bool {
	if !c.Follows() || len(cmds) == 0 {
		return false
	}
	switch cmd := cmds[0].(type) {
	case *gpu.Task:
		return false
	case *gpu.Word:
		return cmd != nil && cmd.Op == gpu.WordWrite
	case *gpu.Launch:
		return cmd != nil && cmd.Signal == 0
	}
	return true
}

// resolve finds the numbers of batches that have not ended. It returns false if one of them does not lie in
// the lane yet. c.ctx.gen is read-locked.
func (c *channel) resolve(list []following) bool {
	c.ctx.laneMu.Lock()
	defer c.ctx.laneMu.Unlock()
	for i := range list {
		x := &list[i]
		p := x.ch.passed[x.seq%maxPassed]
		switch {
		case x.ch.dropped.Load() >= x.seq:
		case p.seq != x.seq || p.built != c.ctx.built:
			return false
		default:
			x.number = p.number
		}
	}
	return true
}

// pass remembers that the last command of a batch lies in the lane. A wait for a word may take for ever:
// what waits for its batch waits for its end. c.ctx.laneMu is held.
func (c *channel) pass(b *batch, f *flying) {
	if b.begun == len(b.cmds) && !f.waits() {
		c.passed[b.seq%maxPassed] = passed{seq: b.seq, number: f.number, built: c.built}
	}
}

// follow puts waits for other channels before the first command of a batch. It returns false if the
// command cannot begin now, which is rare: a worker was lost meanwhile. If it may wait, and nothing is
// in flight, it waits until that is possible. c.run is held, and c.ctx.gen for reading.
func (c *channel) follow(b *batch, w *work, mayWait bool) (ready bool, err error) {
	if len(b.behind) == 0 || b.started() {
		return true, nil
	}
	for !c.resolve(b.behind) {
		if !mayWait || !c.flight.empty() {
			return false, nil
		}
		if err := c.halted(c.stop); err != nil {
			return false, err
		}
		yield.Nap(pollTime)
	}
	var waits []entry
	for i := range b.behind {
		if x := &b.behind[i]; x.pending(c.ctx.worker.lane) {
			waits = append(waits, entry{kind: entryBehind, words: [7]uint64{uint64(x.ch.slot), uint64(x.number)}})
			w.behind = b.behind
		}
	}
	w.entries = append(waits, w.entries...)
	return true, nil
}

// pending reports whether a batch may not have ended. A worker that a guest has taken over may set a
// fence back: what this process has seen to end counts.
func (x *following) pending(l lane) bool {
	return x.ch.dropped.Load() < x.seq && !reached(l.fence(x.ch.slot), x.number)
}

// follows returns what a command in flight, or none, waits for; nil for nothing.
func (f *flying) follows() *[]following {
	if f == nil || len(f.behind) == 0 {
		return nil
	}
	list := f.behind // another goroutine may look at it when the batch is another one
	return &list
}

// delayed reports whether the oldest command in flight waits for another channel, and notes the time if
// so: what a command takes, and the launch limit, count from the end of that on.
func (c *channel) delayed() bool {
	list := c.behind.Load()
	if list == nil {
		return false
	}
	for i := range *list {
		if (*list)[i].pending(c.ctx.worker.lane) {
			c.flight.delayed.Store(int64(time.Since(processStart)))
			return true
		}
	}
	return false
}

// behind has a stream wait until a channel has come as far as a command. One that was refused, or is
// behind such a one, ends with the command before that. P.mu is held.
func (p *path) behind(slot uint64, number uint32, stream uintptr) result {
	slot %= maxChannels
	if s := &p.streams[slot]; s.failed && reached(number, s.last) {
		number = s.last - 1
	}
	if reached(p.w.lane.fence(int(slot)), number) {
		return resultOK
	}
	return p.w.drv.streamWaitValue(stream, p.fences+slot*fenceStride, uint64(number), 4, conditionReached)
}
