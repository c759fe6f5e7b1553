package softgpu

import (
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"pvdrm/gpu"
	"pvdrm/gpu/check"
	"pvdrm/gpu/softgpu/hw"
)

// signal asks the kernel that a channel runs to end soon (gpu.Launch.Signal). Workers of the kernel look
// whether it has to, as they look whether it is to be preempted, and so does a timer: a worker may be
// in a long block without a loop, and a timer may be late where workers have all processors.
type signal struct {
	next atomic.Int64 // when to look again, nanoseconds since epoch

	mu     sync.Mutex
	va     uint64        // of the word; 0: the kernel that runs has none
	since  time.Time     // it has the engine
	used   time.Duration // before that
	stored time.Time     // when the word was first set; zero: not since then
	timer  *time.Timer   // calls look; nil before the first launch with a signal
}

// epoch is what signal.next is relative to.
var epoch = time.Now()

// signals begins a run of a launch that is to be asked to end. The launch has used some time before.
func (c *channel) signals(va uint64, used time.Duration) {
	s := &c.signal
	s.mu.Lock()
	defer s.mu.Unlock()
	s.va, s.since, s.used, s.stored = va, time.Now(), used, time.Time{}
	s.next.Store(int64(s.since.Sub(epoch)))
	if s.timer == nil {
		s.timer = time.AfterFunc(gpu.SignalPeriod, c.lookAtSignal)
		return
	}
	s.timer.Reset(gpu.SignalPeriod)
}

// ends ends the run: when it returns nothing is stored any more.
func (s *signal) ends() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.va = 0
	s.timer.Stop()
}

// lookAtSignal is what the timer calls.
func (c *channel) lookAtSignal() {
	s := &c.signal
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.va == 0 {
		return // the run has ended
	}
	c.nudge()
	s.timer.Reset(gpu.SignalPeriod)
}

// yieldsOr is engine.yields for a kernel with a signal: such a kernel gets time to end.
func (c *channel) yieldsOr() bool {
	e, s := &c.ctx.dev.compute, &c.signal
	now := int64(time.Since(epoch))
	if next := s.next.Load(); now >= next && s.next.CompareAndSwap(next, now+int64(gpu.SignalPeriod)) {
		s.mu.Lock()
		if s.va != 0 {
			c.nudge()
		}
		s.mu.Unlock()
	}
	if !e.yields() {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.stored.IsZero() && time.Since(s.stored) >= gpu.SignalGrace
}

// nudge stores the word if the kernel is to end soon. Preconditions: s.mu is held, and the kernel runs.
func (c *channel) nudge() {
	s := &c.signal
	if s.stored.IsZero() && !c.isToEnd(time.Since(s.since)) {
		return
	}
	_ = c.store(s.va) // where it is not mapped any more the kernel is stopped like any other
	if s.stored.IsZero() {
		s.stored = time.Now()
	}
}

// isToEnd reports whether a kernel that has had the engine for a time is to end soon.
func (c *channel) isToEnd(held time.Duration) bool {
	e, config := &c.ctx.dev.compute, &c.ctx.dev.config
	switch {
	case e.yields() || e.gate != nil && e.gate.Revoked(e.kind, held):
		return true
	case e.waiters.Load() > 0 && !e.modelled && held >= signalTurn:
		return true // another channel of the device, of this context or another one
	case config.LaunchLimit <= 0:
		return false
	case config.LimitWaiting:
		return time.Duration(c.patience.Load()) < config.LaunchLimit/2
	}
	return held+c.signal.used > config.LaunchLimit/2
}

// signalTurn is for how long a kernel with a signal keeps the engine from other channels of its device.
const signalTurn = 10 * time.Millisecond

// store sets a word of granted memory to 1.
func (c *channel) store(va uint64) (fault *gpu.LostError) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // as for the copy engine
	s := c.ctx.space
	s.mu.RLock()
	defer s.mu.RUnlock()
	defer touch(&fault)
	if _, bad := (&hw.Word{VA: va, Value: 1, Size: 4, Write: true}).Step(hw.NewSlice(c.view().View)); bad != nil {
		return &gpu.LostError{Cause: gpu.LostAddress, Addr: bad.Addr, Write: true, Detail: "no writable granted memory"}
	}
	return nil
}

// checkSignal reports whether a launch may begin: its signal, if it has one, lies in granted memory that it
// may write.
func (c *channel) checkSignal(f *function, l *gpu.Launch) error {
	if l.Signal == 0 || c.from != nil { // or it has begun
		return nil
	}
	s := c.ctx.space
	s.mu.RLock()
	defer s.mu.RUnlock()
	if _, _, prot, ok := c.view().lookup(l.Signal); !ok || prot&gpu.ProtWrite == 0 {
		return check.BadLaunch(f.attrs, "its signal at 0x%x is not mapped, or read-only", l.Signal)
	}
	return nil
}
