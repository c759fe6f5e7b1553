package nvidia

import (
	"math"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
)

// flight is what a channel has begun and what has not ended yet. Channel.run guards
// it.
//
// A command is handed to the GPU before the one ahead of it has ended, so that
// preparing it costs no time of the GPU, as long as those ahead are expected to
// take no longer than aheadTime together: what is begun cannot be dropped when the
// channel is closed, and keeps the engine from others. How long a kernel is
// expected to take is how long it took the last time; the first time it runs alone.
type flight struct {
	batches []*batch  // that were taken, oldest first
	flying  []*flying // commands, oldest first
	room    [maxFlight]*flying
	number  uint32 // of the command that was begun last
	cost    time.Duration

	users  *[gpu.Engines]usage // what the engines do for the context; nil if it is not counted
	engine *engine             // on which all in flight run; nil if it is not held
	since  time.Time           // it is held
	rested time.Time           // since when it was never idle for longer than a channel lingers
	left   time.Time           // the engine was given back while commands are in flight; zero if it was not
	shared time.Time           // when others wanted it, too
	turned bool                // others had it before, and no command of this turn has ended
	used   time.Duration       // of it
	ran    uint64              // commands that used it and have ended
	landed time.Time           // when the last command ended, or those in flight went on
	spent  time.Duration       // that those in flight had the GPU before they were preempted

	delayed atomic.Int64 // when the oldest was last seen to wait for another channel, since processStart

	// What commands did after their engine was given back. The next hold counts it.
	owed    time.Duration
	owedRan uint64
}

// flying is a command in flight.
type flying struct {
	batch  *batch
	number uint32
	work
	engine *engine // on which it runs; nil if it does nothing
	begun  time.Time
	asked  asked // to end
}

const (
	maxFlight = 16 // commands, far fewer than the lane has room for
	aheadTime = 2 * time.Millisecond
	quietTime = 20 * time.Microsecond                          // a command that is expected to take no longer may end, for us, with the one behind it
	unknown   = time.Duration(math.MaxInt64 / (2 * maxFlight)) // cost of a kernel that never ran
)

func (f *flight) empty() bool { return len(f.flying) == 0 }

// oldest is the command that runs or runs next; nil if there is none.
func (f *flight) oldest() *flying {
	if f.empty() {
		return nil
	}
	return f.flying[0]
}

// takes reports whether a command may be begun now.
func (f *flight) takes(w *work, e *engine) bool {
	switch {
	case f.empty():
		return true
	case w.waits() || f.oldest().waits(): // no engine is held meanwhile
		return false
	case len(f.flying) == maxFlight || w.cost == unknown || f.cost > f.ahead(e):
		return false
	case len(w.entries) == 0:
		return true
	case f.engine == nil:
		return f.left.IsZero()
	case f.engine != e:
		return false
	case w.from > 0 && e.gate.Preempted(e.kind): // where it is divided there is a gate
		return false
	}
	return e.gate == nil || !e.wanted() || !e.over(time.Since(f.since)+f.cost)
}

// hold begins the use of an engine, which is the channel's since a time. With a gate the channel has
// entered.
func (f *flight) hold(e *engine, since time.Time) {
	e.usage.begin(since)
	if f.users != nil {
		f.users[e.kind].begin(since)
	}
	f.engine, f.since, f.rested, f.left, f.used, f.ran = e, since, since, time.Time{}, f.owed, f.owedRan
	f.owed, f.owedRan = 0, 0
	f.turned = e.gate != nil && e.gate.Turn(e.kind)
}

// release ends the use of the engine, if it is held. With more, the channel enters again at once.
func (f *flight) release(more bool) {
	if f.engine != nil {
		now := time.Now()
		if f.users != nil {
			f.users[f.engine.kind].end(now)
		}
		f.engine.usage.end(now)
		f.engine.release(f.used, f.ran, more)
		f.engine = nil
	}
}

// add begins the next command of a batch.
func (f *flight) add(b *batch, w *work, now time.Time) *flying {
	c := &b.first
	if b.started() {
		c = new(flying)
	}
	*c = flying{batch: b, work: *w, begun: now}
	if len(w.entries) > 0 {
		f.number++
		c.engine = f.engine
	}
	c.number = f.number
	if c.more {
		b.from += c.blocks
	} else {
		b.from = 0
		b.begun += w.commands()
	}
	if f.empty() {
		f.flying = f.room[:0]
	}
	f.flying = append(f.flying, c)
	f.cost += c.cost
	return c
}

// start is when the oldest command had the GPU for itself.
func (f *flight) start() time.Time {
	since := f.landed
	if begun := f.flying[0].begun; begun.After(since) {
		since = begun
	}
	if len(f.flying[0].behind) > 0 {
		if delayed := processStart.Add(time.Duration(f.delayed.Load())); delayed.After(since) {
			return delayed
		}
	}
	return since
}

// arrived counts the commands in flight up to a number, the oldest at least, as ended
// in their batches, and returns how many these are. Land must follow.
func (f *flight) arrived(number uint32) int {
	n := 0
	for n == 0 || n < len(f.flying) && reached(number, f.flying[n].number) {
		if !f.flying[n].more {
			f.flying[n].batch.ended += f.flying[n].commands()
		}
		n++
	}
	return n
}

// land takes the oldest n commands, which have ended without an error, out of the flight.
// Those that are seen to end at once are taken to have shared the time evenly.
func (f *flight) land(n int) {
	now := time.Now()
	last := now.Sub(f.start()) / time.Duration(n)
	took := last + f.spent/time.Duration(n)
	f.landed, f.spent = now, 0
	free := f.turning(last*time.Duration(n), n)
	for _, c := range f.flying[:n] {
		f.cost -= c.cost
		ran := uint64(1)
		if c.more {
			ran = 0 // the last part counts
		}
		switch {
		case len(c.entries) == 0 || c.waits():
		case f.engine == nil:
			f.owed += last
			f.owedRan += ran
		default:
			f.used += last
			f.ran += ran
		}
		switch {
		case c.fn != nil:
			c.ended(took)
		case c.call != nil:
			c.call.cost.Store(int64(took))
		case c.graph != nil:
			c.graph.ended(c.engine, took)
		}
	}
	f.used = max(f.used-free, 0)
	f.flying = f.flying[n:]
}

// ended notes what a launch, or a part of one, took.
func (c *flying) ended(took time.Duration) {
	c.fn.learn(took, c.blocks)
	all := c.batch.took + took
	if c.more {
		c.batch.took = all
		return
	}
	c.batch.took = 0
	c.fn.cost.Store(int64(all))
	c.engine.count(all)
}

// pause ends the use of the engine by commands that go on, or do so later.
func (f *flight) pause(now time.Time, more bool) {
	took := now.Sub(f.start())
	f.used += took
	f.spent += took
	f.landed = now
	f.release(more)
}

// stops counts the time that commands in flight took to leave the GPU since pause.
func (f *flight) stops(now time.Time) {
	took := now.Sub(f.start())
	f.owed += took
	f.spent += took
}

// charge reports the use of the engine so far, of commands that have ended.
func (f *flight) charge() {
	if f.engine != nil && f.engine.gate != nil {
		f.engine.gate.Charge(f.engine.kind, f.used, f.ran)
		f.used, f.ran = 0, 0
	}
}

// abandon ends all that is in flight: the oldest has failed.
func (f *flight) abandon() {
	f.used += time.Since(f.start())
	f.ran++
	f.spent = 0
	for !f.empty() {
		f.remove()
	}
}

func (f *flight) remove() {
	f.cost -= f.flying[0].cost
	f.flying[0] = nil
	f.flying = f.flying[1:]
}

// name is the kernel that a command launches; "" for another one.
func (w *work) name() string {
	if w.call != nil {
		return w.call.name()
	}
	if w.graph != nil {
		return w.graph.kernel
	}
	if w.fn == nil {
		return ""
	}
	return w.fn.attrs.Name
}

// commands is how many commands of its batch a work is.
func (w *work) commands() int {
	if w.graph != nil {
		return w.graph.n
	}
	return 1
}

// expected is the time that a copy takes: bytes through PCIe, or within VRAM, and a constant.
func expected(bytes uint64, local bool) time.Duration {
	perMicrosecond := uint64(20 << 10)
	if local {
		perMicrosecond = 1 << 20
	}
	return 10*time.Microsecond + time.Duration(bytes/perMicrosecond)*time.Microsecond
}

// ran reports the time that a kernel took the last time.
func (f *function) ran() time.Duration {
	if t := time.Duration(f.cost.Load()); t > 0 {
		return min(t, unknown-1)
	}
	return unknown
}
