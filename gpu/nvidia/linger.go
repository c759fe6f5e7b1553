package nvidia

import (
	"time"

	"pvdrm/internal/yield"
)

// lingerTime is for how long a channel keeps its engine, for which others wait, when it has nothing to do:
// a program that waits for each kernel launches the next one within some 10 µs, or 100 if it was asleep. To
// hand the engine over leaves it idle for as long, and a GPU that serves two guests by turns after each
// command does little else.
//
// One that kept the engine busy for some milliseconds, as a step of training does, may take longer before the next: a
// lingerPart of that time, at most lingerMost times lingerTime. The engine loses less than by handing it over twice.
var lingerTime = 120 * time.Microsecond

const (
	lingerPart = 16
	lingerMost = 4
)

// After lingerMisses times in vain in a row, a channel lingers only one of lingerTries times.
const (
	lingerMisses = 2
	lingerTries  = 16
)

// lingers reports whether the engine is worth keeping for the next command. The flight is empty. c.run is
// held.
func (c *channel) lingers() bool {
	f := &c.flight
	if f.engine == nil || f.engine.gate == nil || !f.engine.gate.Turn(f.engine.kind) { // most are alone
		return false
	}
	if f.engine.waiting.Load() > 0 || c.halted(c.stop) != nil || c.ctx.halt.on.Load() || f.engine.over(time.Since(f.since)) {
		return false
	}
	if c.missed >= lingerMisses {
		c.missed++
	}
	return c.missed < lingerMisses || c.missed%lingerTries == 0
}

// linger waits for the next command if the engine is kept for it. It returns false if none came. c.run is
// held, except while it waits: Submit may begin the command.
func (c *channel) linger(seen uint32) bool {
	f := &c.flight
	if f.engine == nil || c.halted(c.stop) != nil {
		return false // work releases it
	}
	begin := time.Now()
	most := min(max(begin.Sub(f.rested)/lingerPart, lingerTime), lingerMost*lingerTime)
	c.run.Unlock()
	for c.news.Load() == seen && time.Since(begin) < most {
		for n := 0; n < looks/64 && c.news.Load() == seen; n++ {
		}
		yield.Processor()
	}
	c.run.Lock()
	if f.empty() && c.news.Load() == seen {
		c.missed++
		f.release(false)
		return false
	}
	c.missed, f.rested = 0, time.Now()
	return true
}
