package frontend

import (
	"fmt"
	"runtime"
	"syscall"
	"time"

	"pvdrm/hypercall"
)

// errTimeout is what wait returns when its time is over.
var errTimeout error = syscall.ETIME

// wait returns when cond is true, which it becomes by something the backend
// stores. Timeout 0 asks once, a negative one waits for ever.
func (l *link) wait(cond func() bool, timeout time.Duration) error {
	if cond() {
		return nil
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
		// Looked at after progress was taken: what comes in from here on closes it.
		if cond() {
			return nil
		}
		if err := l.err(); err != nil {
			return err
		}
		select {
		case l.leader <- struct{}{}:
			err := l.lead(cond, deadline)
			<-l.leader
			return err
		case <-progress:
		case <-expired:
			if cond() {
				return nil
			}
			return errTimeout
		}
	}
}

// report tells the waiting that something came in.
func (l *link) report() {
	l.progressMu.Lock()
	close(l.progress)
	l.progress = make(chan struct{})
	l.progressMu.Unlock()
}

// lead polls, then sleeps, until cond is true. Caller holds the leadership.
func (l *link) lead(cond func() bool, deadline time.Time) error {
	for {
		if ok, err := l.poll(cond, deadline); ok || err != nil {
			return err
		}
		// Announce the sleep, then look once more at everything: what the backend
		// stores after that, it notifies.
		if !l.cpl.Sleep() {
			continue
		}
		if l.followers.Load() > 1 {
			// What came in while the flag was clear was not notified, and the
			// poll above looked for this waiter's condition only.
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
		if err != nil {
			if cond() {
				return nil
			}
			return l.fail(err)
		}
		if l.followers.Load() > 1 {
			l.report() // the event may have been theirs: a channel record
		}
	}
}

// poll delivers completions and looks at cond for a while. It reports whether
// cond is true.
func (l *link) poll(cond func() bool, deadline time.Time) (bool, error) {
	const looksPerYield = 64
	for end := time.Now().Add(spinTime); ; {
		for range looksPerYield {
			if l.cpl.Ready() {
				if err := l.deliver(); err != nil {
					return false, err
				}
			}
			if cond() {
				return true, nil
			}
		}
		if err := l.err(); err != nil {
			return false, err
		}
		now := time.Now()
		if !deadline.IsZero() && now.After(deadline) {
			return false, errTimeout
		}
		if now.After(end) {
			return false, nil
		}
		runtime.Gosched()
	}
}

// deliver hands the completions that are there to their callers. Caller holds
// the leadership.
func (l *link) deliver() error {
	delivered := false
	for {
		h, payload, ok, err := l.cpl.Get(l.buf)
		if err != nil {
			return l.fail(fmt.Errorf("%w: %w", syscall.EIO, err))
		}
		if !ok {
			break
		}
		delivered = true
		l.mu.Lock()
		c := l.calls[h.ID]
		delete(l.calls, h.ID)
		if c == nil && h.Errno != 0 && l.async == nil {
			l.async = asyncError(h, payload)
		}
		l.mu.Unlock()
		if c != nil {
			c.errno = h.Errno
			c.answer = append([]byte(nil), payload...)
			c.done.Store(true)
		}
	}
	if delivered && l.followers.Load() > 1 {
		l.report()
	}
	return nil
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
