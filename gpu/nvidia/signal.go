package nvidia

import (
	"runtime/debug"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/internal/hostmem"
)

// signalGrace is gpu.SignalGrace, but in tests of what becomes of a command that ends in time.
var signalGrace = gpu.SignalGrace

// asked is how a command in flight was asked to end, by its signal (gpu.Launch.Signal). The channel's
// goroutine stores that, without a hop through the guest or the worker: granted pages are mapped here,
// too. It alone uses this.
type asked struct {
	looked time.Time // last, whether it is to be asked
	stored time.Time // first; zero: not yet
}

// checkSignal reports whether a launch may begin: its signal, if it has one, lies in granted memory that
// it may write.
func (c *channel) checkSignal(f *function, l *gpu.Launch) error {
	if l.Signal == 0 {
		return nil
	}
	if _, fault := c.ctx.space.reach(l.Signal, 4, true); fault != nil {
		return check.BadLaunch(&f.attrs, "its signal at 0x%x is %s", l.Signal, fault.Detail)
	}
	return nil
}

// nudge stores the signal of a command in flight if that is to end soon. The command has the GPU for
// itself since a time, had it for some before, and its channel the engine since another time.
func (c *channel) nudge(f *flying, since, held time.Time, spent time.Duration) {
	if f.signal == 0 {
		return
	}
	now, s := time.Now(), &f.asked
	if now.Sub(s.looked) < gpu.SignalPeriod {
		return
	}
	s.looked = now
	if s.stored.IsZero() && !c.isToEnd(f, now.Sub(since), now.Sub(held), spent) {
		return
	}
	if !c.run.TryLock() { // somebody begins a command, or ends this one
		return
	}
	defer c.run.Unlock()
	if c.flight.oldest() != f {
		return // it has ended, and the program knows
	}
	c.ctx.space.set(f.signal)
	if s.stored.IsZero() {
		s.stored = now
	}
}

// isToEnd reports whether a command that could is to end soon.
func (c *channel) isToEnd(f *flying, ran, held, spent time.Duration) bool {
	e, limit := f.engine, c.ctx.dev.config.LaunchLimit
	switch {
	case e == nil || c.ctx.halt.on.Load():
		return false
	case e.gate != nil && (e.gate.Preempted(e.kind) || e.gate.Revoked(e.kind, held)):
		return true
	case e.waiting.Load() > 0 && held >= contextSlice:
		return true // another channel of the device
	}
	if since := c.ctx.calls.Load(); since != 0 && time.Since(processStart)-time.Duration(since) >= contextSlice {
		return true // a call of its context waits in the driver, perhaps for this kernel
	}
	return limit > 0 && c.ctx.limited(ran+spent) > limit/2
}

// defers reports whether a command that others want off the GPU still has time to end on its own.
func (f *flying) defers() bool {
	return f.signal != 0 && (f.asked.stored.IsZero() || time.Since(f.asked.stored) < signalGrace)
}

// set stores 1 to a word of granted memory, if it is mapped for writing. Where its owner has cut the file
// there is none.
func (s *space) set(va uint64) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		p := recover()
		if _, ok := p.(interface{ Addr() uintptr }); p != nil && !ok {
			panic(p)
		}
	}()
	s.mu.RLock() // the pages stay while it is held
	defer s.mu.RUnlock()
	i := s.from(va)
	if i == len(s.maps) || s.maps[i].va > va || s.maps[i].mem == nil || !s.maps[i].write {
		return
	}
	off := s.maps[i].off + va - s.maps[i].va
	for _, r := range s.maps[i].mem.runs {
		if off < r.Len {
			hostmem.SwapUint32(r.Bytes(), int(off), 1)
			return
		}
		off -= r.Len
	}
}
