package nvidia

import (
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
)

// engine is the compute or the copy side of the GPU. Without a gate channels use
// it side by side, as the GPU allows; with one, each takes a turn.
type engine struct {
	kind gpu.Engine
	gate gpu.Gate
	turn chan struct{} // holds a token while a channel has the turn

	waiting atomic.Int32

	// Of the kernels that have ended, by gpu.Histogram's buckets and together.
	times [len(gpu.Histogram{})]atomic.Uint64
	ran   atomic.Int64

	usage usage
}

// usage is how long an engine has worked, in all or for one context.
type usage struct {
	mu    sync.Mutex
	users int           // channels that use it now
	since time.Time     // when the first of them began
	busy  time.Duration // before that
}

// begin counts a channel's use, until end.
func (u *usage) begin(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users++; u.users == 1 {
		u.since = now
	}
}

func (u *usage) end(now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users--; u.users == 0 {
		u.busy += now.Sub(u.since)
	}
}

// time is how long the engine has been in use.
func (u *usage) time() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.users > 0 {
		return u.busy + time.Since(u.since)
	}
	return u.busy
}

// enter takes a turn at the gate. It returns false if the context ended first, or stop was closed.
func (e *engine) enter(c *channel, stop <-chan struct{}) bool {
	e.waiting.Add(1)
	c.ctx.waiting[e.kind].Add(1)
	defer func() {
		c.ctx.waiting[e.kind].Add(-1)
		e.waiting.Add(-1)
	}()
	select {
	case e.turn <- struct{}{}:
	case <-c.ctx.over:
		return false
	case <-stop:
		return false
	}
	admitted := e.gate.Enter(e.kind, false)
	if admitted == nil {
		return true
	}
	select {
	case <-admitted:
		return true
	case <-c.ctx.over:
	case <-stop:
	}
	e.gate.Cancel(e.kind)
	<-e.turn
	return false
}

// enterNow takes a turn at the gate if it begins at once and no other guest wants one.
func (e *engine) enterNow() bool {
	if e.waiting.Load() > 0 || !e.gate.Alone(e.kind) {
		return false
	}
	select {
	case e.turn <- struct{}{}:
	default:
		return false
	}
	if e.gate.Enter(e.kind, false) == nil {
		return true
	}
	e.gate.Cancel(e.kind) // others came just now
	<-e.turn
	return false
}

// wanted reports whether somebody waits for the engine while a channel has it.
func (e *engine) wanted() bool {
	return e.waiting.Load() > 0 || e.gate != nil && e.gate.Wanted(e.kind)
}

// release ends a channel's use of the engine, which took that long and ran so many commands.
// With more, the channel enters again at once.
func (e *engine) release(used time.Duration, commands uint64, more bool) {
	if e.gate != nil {
		e.leave(used, commands, more)
	}
}

// leave ends a channel's turn.
func (e *engine) leave(used time.Duration, commands uint64, more bool) {
	e.gate.Leave(e.kind, used, commands, more || e.waiting.Load() > 0)
	<-e.turn
}

// contended reports whether other contexts of the device wait for the engine than the one that has it.
func (e *engine) contended(user *context) bool {
	return e.waiting.Load() > user.waiting[e.kind].Load()
}

// count adds a kernel that has ended.
func (e *engine) count(took time.Duration) {
	e.countAll(took, 1)
}

// countAll adds n kernels that have ended, which took some time together.
func (e *engine) countAll(took time.Duration, n int) {
	if n > 0 {
		e.times[(*gpu.Histogram)(nil).Bucket(took/time.Duration(n))].Add(uint64(n))
		e.ran.Add(int64(took))
	}
}

// ended returns the times of the kernels that have ended, and their sum.
func (e *engine) ended() (h gpu.Histogram, sum time.Duration) {
	for i := range h {
		h[i] = e.times[i].Load()
	}
	return h, time.Duration(e.ran.Load())
}
