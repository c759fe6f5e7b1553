package softgpu

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
)

// engine runs one command at a time. A channel that wants it waits for its
// turn; whose turn it is, choose decides. Where processes share the engine, the
// gate then says when.
type engine struct {
	kind gpu.Engine
	gate gpu.Gate // nil without

	modelled bool // times are not those of the host

	yield func() bool // yields
	saved saved       // of launches
	parts parts       // likewise

	waiters atomic.Int32 // len(waiting)

	mu      sync.Mutex
	held    bool          // somebody has the turn
	using   bool          // and is past the gate
	since   time.Time     // then
	user    *context      // who has the turn, or had it last
	busy    time.Duration // before that
	times   gpu.Histogram // of the commands that have ended
	ran     time.Duration // the sum of these times
	waiting []*turn       // in order of arrival
}

// use is some use of an engine by a command.
type use struct {
	took     time.Duration
	whole    time.Duration // what the command took in all, once it has ended
	commands uint64        // as in gpu.Gate
	again    bool          // the command goes on later
	keep     bool          // and before any other of the device
}

// turn is a channel that waits for an engine.
type turn struct {
	channel *channel
	granted chan struct{}
}

// choose picks who is next among those that wait, of which there is at least
// one. This is the only place where an engine is given to one channel or another
// of this device.
func choose([]*turn) int { return 0 } // first come, first served

// acquire waits for the engine. It returns false if the channel or its context ended first, or
// the context was stopped so that the channel must not go on from such a place.
func (e *engine) acquire(c *channel, at rest) bool {
	return e.turn(c, at) && e.pass(c, at)
}

// pass is acquire for a channel whose turn it is.
func (e *engine) pass(c *channel, at rest) bool {
	if e.gate == nil {
		return true
	}
	if admitted := e.enterGate(c); admitted != nil {
		if !c.await(admitted, at) {
			return e.withdraw()
		}
	}
	e.mu.Lock()
	e.using, e.since = true, time.Now()
	e.mu.Unlock()
	return true
}

// withdraw gives up a turn that waits at the gate.
func (e *engine) withdraw() bool {
	e.gate.Cancel(e.kind)
	e.next()
	return false
}

// await waits for an event, and returns false if the channel has to give up before.
func (c *channel) await(event <-chan struct{}, at rest) bool {
	for {
		changed, stop := c.mustStop(at)
		if stop {
			return false
		}
		select {
		case <-event:
			return true
		case <-changed:
		case <-c.ctx.over:
			return false
		case <-c.stop:
			return false
		}
	}
}

// turn waits for this channel's turn among those of the device.
func (e *engine) turn(c *channel, at rest) bool {
	t := e.ask(c)
	if t == nil || c.await(t.granted, at) {
		return true
	}
	e.mu.Lock()
	i := slices.Index(e.waiting, t)
	if i >= 0 {
		e.drop(i)
	}
	e.mu.Unlock()
	if i < 0 { // granted meanwhile
		e.next()
	}
	return false
}

// ask takes the engine, or else gets in line.
func (e *engine) ask(c *channel) *turn {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.held {
		e.take(c)
		return nil
	}
	t := &turn{c, make(chan struct{})}
	e.waiting = append(e.waiting, t)
	e.waiters.Store(int32(len(e.waiting)))
	return t
}

// drop removes a turn that waits, and returns it. e.mu is held.
func (e *engine) drop(i int) *turn {
	t := e.waiting[i]
	e.waiting = slices.Delete(e.waiting, i, i+1)
	e.waiters.Store(int32(len(e.waiting)))
	return t
}

// release leaves the engine to the next.
func (e *engine) release(u use) {
	e.mu.Lock()
	e.busy += u.took
	e.user.busy[e.kind] += u.took
	if u.whole > 0 { // else nothing ran, or it goes on
		e.times.Add(u.whole)
		e.ran += u.whole
	}
	e.using = false
	more := u.again || len(e.waiting) > 0
	e.mu.Unlock()
	if e.gate != nil {
		e.gate.Leave(e.kind, u.took, u.commands, more)
	}
	if !u.keep {
		e.next()
	}
}

// next ends a turn and begins that of the next channel.
func (e *engine) next() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held, e.using = false, false
	if len(e.waiting) > 0 {
		t := e.drop(choose(e.waiting))
		e.take(t.channel)
		close(t.granted)
	}
}

// take begins a turn of a channel. e.mu is held.
func (e *engine) take(c *channel) {
	e.held, e.user = true, c.ctx
	if e.gate == nil {
		e.using, e.since = true, time.Now()
	}
}

// contextSlice is for how long a command of a context keeps the engine while another context of
// the device waits for it.
const contextSlice = time.Millisecond

// yields reports whether the command that uses the engine is to stop at its next preemption
// point, because another process is to have the engine, or another context has waited for long
// enough. Who uses the engine calls it, also from several goroutines.
func (e *engine) yields() bool {
	if e.gate != nil && e.gate.Preempted(e.kind) {
		return true
	}
	if e.waiters.Load() == 0 || e.modelled || e.saved.full() { // modelled times must not depend on the host
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return time.Since(e.since) >= contextSlice && slices.ContainsFunc(e.waiting, func(t *turn) bool { return t.channel.ctx != e.user })
}

// contended reports whether somebody waits.
func (e *engine) contended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.waiting) > 0
}

// wanted reports whether a context other than c waits for the engine, or another process does.
func (e *engine) wanted(c *context) bool {
	if e.gate != nil && !e.gate.Alone(e.kind) {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.ContainsFunc(e.waiting, func(t *turn) bool { return t.channel.ctx != c })
}

// ended returns the times of the commands that have ended, and their sum.
func (e *engine) ended() (gpu.Histogram, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.times, e.ran
}

// busyFor is how long the engine has been held for a context.
func (e *engine) busyFor(c *context) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.using && e.user == c && !e.modelled {
		return c.busy[e.kind] + time.Since(e.since)
	}
	return c.busy[e.kind]
}

// busyTime is how long the engine has been held since the device was opened.
func (e *engine) busyTime() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.using && !e.modelled {
		return e.busy + time.Since(e.since)
	}
	return e.busy
}
