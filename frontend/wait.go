package frontend

import (
	"bytes"
	"fmt"
	"slices"
	"syscall"
	"time"

	"pvdrm/drm"
	"pvdrm/hypercall"
	"pvdrm/internal/yield"
)

const (
	// glances is how often a caller looks for its answer before it waits in
	// earnest: some microseconds.
	glances = 1024
	// looks is how often a leader looks before it yields the processor, which the
	// device may need for what is waited for.
	looks = 64
	// firstLooks are those of a leader where processors are ample before it yields for
	// the first time: some 20 µs, in which a GPU ends a short kernel.
	firstLooks = 4096
)

// errTimeout is what wait returns when its time is over.
var errTimeout error = syscall.ETIME

// wait returns when cond is true, which it becomes by something the backend
// stores. Timeout 0 asks once, a negative one waits without limit.
func (l *link) wait(cond func() bool, timeout time.Duration) error {
	return l.waitFor(cond, drm.Point{}, timeout)
}

// waitFor is wait for a condition that only one point of a channel makes true;
// the zero Point stands for any event. What was completed before that is delivered
// when it returns, or somebody else does so now: failures of asynchronous requests are
// published before the points that come after them.
func (l *link) waitFor(cond func() bool, point drm.Point, timeout time.Duration) error {
	if cond() {
		return l.settle()
	}
	var deadline time.Time
	var expired <-chan time.Time
	if timeout == 0 {
		return errTimeout
	}
	if timeout > 0 {
		deadline = time.Now().Add(timeout)
		t := time.NewTimer(timeout)
		defer t.Stop()
		expired = t.C
	}
	l.followers.Add(1)
	defer l.followers.Add(-1)
	for {
		l.progressMu.Lock()
		progress := l.progress
		l.progressMu.Unlock()
		l.wantAll()
		// Looked at after progress was taken: what comes in from here on closes it.
		if cond() {
			return l.settle()
		}
		if err := l.err(); err != nil {
			return err
		}
		if l.takeLead() {
			err := l.lead(cond, point, deadline)
			l.giveLead()
			return err
		}
		l.aboutToWait()
		select {
		case <-progress:
		case <-expired:
			if cond() {
				return l.settle()
			}
			return errTimeout
		}
	}
}

// settle delivers the completions that are there, unless somebody leads and does so.
func (l *link) settle() error {
	if !l.takeLead() {
		return nil
	}
	l.followers.Add(1)
	err := l.deliver()
	l.giveLead()
	l.followers.Add(-1)
	return err
}

// takeLead makes the caller the leader, if there is none.
func (l *link) takeLead() bool { return l.leading.CompareAndSwap(false, true) }

// giveLead ends the caller's leadership; one of those who wait takes it. The
// caller is still counted among them. Somebody who counts himself later than it
// is looked at here takes the lead by himself: it is free by then.
func (l *link) giveLead() {
	l.leading.Store(false)
	if l.followers.Load() > 1 {
		l.report()
	}
}

// quick sends a request and looks for its answer for as long as a backend takes
// that polls and is not busy. It is put, publish and wait without all that a long
// wait needs: in an emulated guest each call and each allocation takes longer than
// the request travels. Caller holds the leadership; quick gives it up.
//
// If nothing was sent, the caller is to do it in the general way, which also tells
// why. Late is the call of a request that has no answer yet.
func (l *link) quick(op hypercall.Op, payload []byte, room *room) (answer []byte, errno syscall.Errno, late *call, sent bool) {
	l.mu.Lock()
	if l.broken.Load() == nil {
		sent, _ = l.req.Put(hypercall.Header{Op: op, Flags: hypercall.FlagAnswer, ID: l.nextID + 1}, payload)
	}
	if !sent {
		l.mu.Unlock()
		l.dropLead()
		return nil, 0, nil, false
	}
	l.nextID++
	id := l.nextID
	err := l.publish()
	l.mu.Unlock()
	for look := 0; look < glances && err == nil; look++ {
		if !l.cpl.Ready() {
			continue
		}
		h, p, ok, bad := l.cpl.Get(l.buf)
		switch {
		case bad != nil:
			err = l.fail(fmt.Errorf("%w: %w", syscall.EIO, bad))
		case ok && h.ID == id:
			if room != nil && len(p) <= len(room) {
				*room = *(*[hypercall.ShortPayload]byte)(l.buf[hypercall.HeaderBytes:])
				answer = room[:len(p)]
			} else {
				answer = bytes.Clone(p)
			}
			l.dropLead()
			return answer, syscall.Errno(h.Errno), nil, true
		case ok:
			l.hand(h, p)
		}
	}
	// What went wrong is kept: who waits for the call gets it.
	late = &call{id: id}
	l.mu.Lock()
	l.calls = append(l.calls, late)
	l.mu.Unlock()
	l.dropLead()
	return nil, 0, late, true
}

// dropLead is giveLead for a leader that is not counted among those who wait.
func (l *link) dropLead() {
	l.leading.Store(false)
	if l.followers.Load() > 0 {
		l.report()
	}
}

// report tells the waiting that something came in.
func (l *link) report() {
	l.progressMu.Lock()
	close(l.progress)
	l.progress = make(chan struct{})
	l.progressMu.Unlock()
}

// wantOnly makes the backend wake a leader for its point only, if nobody else
// waits. It comes before the sleep is announced.
func (l *link) wantOnly(p drm.Point) {
	if p.Channel == 0 {
		return
	}
	l.wanted.Store(p.Channel)
	l.ring.SetWanted(p.Channel, p.Seqno)
	// Whoever begins to wait counts itself first and calls wantAll then: if it is
	// not seen here, it sees the channel there.
	if l.followers.Load() > 1 {
		l.wantAll()
	}
}

// wantAll undoes wantOnly.
func (l *link) wantAll() {
	if channel := l.wanted.Load(); channel != 0 {
		l.ring.SetWanted(channel, 0)
	}
}

// lead waits until cond is true: it polls, naps, then sleeps. Caller holds the
// leadership.
func (l *link) lead(cond func() bool, point drm.Point, deadline time.Time) error {
	nap, spin, n := napTime, spinTime, looks
	if yield.Ample && !l.cfg.NoPoll {
		n = firstLooks
	}
	// What is there at once takes no look at the clock, and is not counted.
	if ok, err := l.look(cond, deadline, n); ok || err != nil {
		return err
	}
	start := time.Now()
	defer func() { l.polling.Add(int64(time.Since(start))) }()
	for turn := 0; ; turn++ {
		if turn > 0 {
			if ok, err := l.look(cond, deadline, looks); ok || err != nil {
				return err
			}
		}
		switch waited := time.Since(start); {
		case l.cfg.NoPoll:
		case waited < spin:
			if l.cfg.Bound {
				yield.Thread()
			} else {
				yield.Turn(turn + 1)
			}
			continue
		case waited < nap && l.carrier.SleepExits():
			l.aboutToWait()
			if l.followers.Load() > 1 {
				l.report() // look was for this waiter's condition only
			}
			time.Sleep(min(max(waited/napPart, minNap), maxNap))
			continue
		}
		l.aboutToWait()
		asleep := time.Now()
		l.polling.Add(int64(asleep.Sub(start)))
		l.wantOnly(point)
		done, err := l.sleep(cond, deadline)
		l.wantAll()
		start = time.Now()
		l.sleeping.Add(int64(start.Sub(asleep)))
		l.sleeps.Add(1)
		if done || err != nil {
			return err
		}
		// Work is being done, only not all of it yet: each batch that ends wakes
		// us. Look longer before the next sleep, so that a long wait for many
		// batches does not take a doorbell for each; and do not spin, which would
		// take the processor from that work.
		nap *= 2
		spin = 0
	}
}

func (l *link) aboutToWait() {
	if l.cfg.Waits != nil {
		l.cfg.Waits()
	}
}

// sleep sleeps in the carrier until the backend notifies. It reports whether
// cond is true.
func (l *link) sleep(cond func() bool, deadline time.Time) (bool, error) {
	// Announce the sleep, then look once more at everything: what the backend
	// stores after that, it notifies.
	if !l.cpl.Sleep() {
		return false, nil
	}
	if l.followers.Load() > 1 {
		// What came in while the flag was clear was not notified, and the
		// looks before were for this waiter's condition only.
		l.report()
	}
	err := l.err()
	if err == nil && !cond() {
		left := time.Duration(-1)
		if !deadline.IsZero() {
			left = max(time.Until(deadline), 0)
		}
		err = l.carrier.Sleep(left)
	}
	l.cpl.Awake()
	if l.followers.Load() > 1 {
		l.report() // the event may have been theirs: a channel record
	}
	if cond() {
		return true, l.deliver()
	}
	if err != nil {
		return false, l.fail(err)
	}
	return false, nil
}

// look delivers completions and looks at cond, some times. It reports whether
// cond is true.
func (l *link) look(cond func() bool, deadline time.Time, n int) (bool, error) {
	for range n {
		if l.cpl.Ready() {
			if err := l.deliver(); err != nil {
				return false, err
			}
		}
		if cond() {
			return true, l.deliver()
		}
	}
	if err := l.err(); err != nil {
		return false, err
	}
	if !deadline.IsZero() && time.Now().After(deadline) {
		return false, errTimeout
	}
	return false, nil
}

// deliver hands the completions that are there to their callers. Caller holds
// the leadership.
func (l *link) deliver() error {
	delivered := false
	for l.cpl.Ready() {
		h, payload, ok, err := l.cpl.Get(l.buf)
		if err != nil {
			return l.fail(fmt.Errorf("%w: %w", syscall.EIO, err))
		}
		if !ok {
			break
		}
		delivered = true
		l.hand(h, payload)
	}
	if delivered && l.followers.Load() > 1 {
		l.report()
	}
	return nil
}

// hand hands one completion to its caller. Caller holds the leadership.
func (l *link) hand(h hypercall.Header, payload []byte) {
	l.mu.Lock()
	c := l.takeCall(h.ID)
	l.mu.Unlock()
	if c == nil && h.Errno != 0 {
		err := asyncError(h, payload)
		l.async.CompareAndSwap(nil, &err)
	}
	if c != nil {
		c.errno = h.Errno
		c.answer = bytes.Clone(payload)
		c.done.Store(true)
	}
}

// takeCall removes the call with an id from those that are awaited, or returns
// nil if there is none. Caller holds mu.
func (l *link) takeCall(id uint32) *call {
	i := slices.IndexFunc(l.calls, func(c *call) bool { return c.id == id })
	if i < 0 {
		return nil
	}
	c := l.calls[i]
	l.calls = slices.Delete(l.calls, i, i+1)
	return c
}

// asyncError describes the failure of a request that nobody waited for.
func asyncError(h hypercall.Header, payload []byte) error {
	err := error(syscall.Errno(h.Errno))
	if h.Op == hypercall.OpVMBind {
		if r, bad := hypercall.DecodeBindResult(payload); bad == nil {
			return fmt.Errorf("earlier %s, operation %d: %w", h.Op, r.Index, err)
		}
	}
	return fmt.Errorf("earlier %s: %w", h.Op, err)
}
