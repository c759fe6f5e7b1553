// Package schedtest simulates guests that share an engine under a policy, in
// virtual time: it is exact, repeatable, and takes no time to speak of.
package schedtest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"pvdrm/backend/sched"
)

// Guest is a workload: command after command of one length.
type Guest struct {
	Name   string
	Share  sched.Share
	Kernel time.Duration // engine time of a command
	Think  time.Duration // from the end of a command to the next one's arrival
	Depth  int           // commands kept queued; 0 stands for 1, which is to wait for each
	Count  int           // commands in all; 0 is without end
	Start  time.Duration // of the first command
	Pause  time.Duration // after each Burst commands, if not 0
	Burst  int
	Jitter float64 // Kernel and Think vary by so much, 0 to 1
}

// Config is what to simulate.
type Config struct {
	Policy   string
	Settings sched.Settings
	Guests   []Guest
	Length   time.Duration
	// Dispatch is the time from a decision to the start of the command when the
	// engine passes from one guest to another, and Overhead the part of it that
	// is charged to all.
	Dispatch, Overhead time.Duration
	Seed               uint64
	// Preemption is the time that it takes to stop a command, during which the command makes no
	// progress. 0 means that commands cannot be preempted.
	Preemption time.Duration
	// Check is called after each event, if it is set.
	Check func(s *sched.Scheduler, now time.Duration)
}

// Span is a time in which a guest used the engine.
type Span struct{ From, To time.Duration }

// Report is the outcome of a simulation.
type Report struct {
	Guests []*Result // in the order of Config
	Busy   time.Duration
	// LongestIdle is the longest time for which a policy left the engine idle
	// although somebody waited. Caps cause it, too.
	LongestIdle time.Duration
}

// Result is what a guest got.
type Result struct {
	Guest       Guest
	Commands    int
	Busy        time.Duration
	Spans       []Span        // when
	Preempted   int           // commands that had to stop
	LongestWait time.Duration // from being ready until it ran
}

// worker is a guest in the simulation.
type worker struct {
	Guest
	id      sched.ID
	coming  []time.Duration // when commands become ready
	issued  int             // commands that are ready or coming, or were
	queued  int             // commands ready
	waits   bool            // the scheduler knows that it waits
	since   time.Duration   // it does
	started time.Duration   // of the command that runs
	left    time.Duration   // of the next command, which was preempted; 0 if it was not
	result  *Result
}

// next is when a command becomes ready.
func (w *worker) next() time.Duration {
	if len(w.coming) == 0 {
		return sched.Never
	}
	return slices.Min(w.coming)
}

type simulation struct {
	Config
	s       *sched.Scheduler
	rng     *rand.Rand
	workers []*worker
	now     time.Duration
	again   time.Duration // when the scheduler wants to be asked

	holder   *worker // has the engine
	last     *worker // had it before
	standing bool
	once     bool // for one command
	revoked  bool
	ends     time.Duration // when the command of the holder ends; Never if none runs
	stops    time.Duration // when it has stopped before that; Never if it does not
	used     time.Duration // by the holder and not charged yet
	commands uint64
	idle     time.Duration // since when somebody waits for the idle engine; Never if not
	report   *Report
}

// Run simulates. It fails when the policy does not exist or a share is refused.
func Run(c Config) (*Report, error) {
	s, err := sched.New(c.Policy, c.Settings, 0)
	if err != nil {
		return nil, err
	}
	m := &simulation{Config: c, s: s, rng: rand.New(rand.NewPCG(c.Seed, 1)), report: &Report{},
		again: sched.Never, ends: sched.Never, stops: sched.Never, idle: sched.Never}
	for i, g := range c.Guests {
		w := &worker{Guest: g, id: sched.ID(i + 1), result: &Result{Guest: g}}
		if err := s.Add(w.id, g.Share, 0); err != nil {
			return nil, fmt.Errorf("guest %d: %w", i, err)
		}
		s.Preemptible(w.id, c.Preemption > 0)
		for range max(g.Depth, 1) {
			w.issue(g.Start)
		}
		m.workers, m.report.Guests = append(m.workers, w), append(m.report.Guests, w.result)
	}
	for {
		more, err := m.step()
		if err != nil {
			return nil, fmt.Errorf("after %v: %w", m.now, err)
		}
		if !more {
			break
		}
	}
	for _, r := range m.report.Guests {
		m.report.Busy += r.Busy
	}
	return m.report, nil
}

// issue makes a command come at a time, unless all have come.
func (w *worker) issue(at time.Duration) {
	if w.Count != 0 && w.issued == w.Count {
		return
	}
	w.issued++
	w.coming = append(w.coming, at)
}

// step goes to the next event. It reports false at the end.
func (m *simulation) step() (bool, error) {
	at := min(m.again, m.ends, m.stops)
	for _, w := range m.workers {
		at = min(at, w.next())
	}
	if at >= m.Length {
		if m.ends != sched.Never {
			m.holder.result.span(m.holder.started, m.Length)
		}
		return false, nil
	}
	m.now = at
	if m.ends <= m.now {
		if err := m.ended(); err != nil {
			return false, err
		}
	}
	if m.stops <= m.now {
		if err := m.stopped(); err != nil {
			return false, err
		}
	}
	for _, w := range m.workers {
		if w.next() <= m.now {
			if err := m.ready(w); err != nil {
				return false, err
			}
		}
	}
	if err := m.decide(); err != nil {
		return false, err
	}
	m.watch()
	if m.Check != nil {
		m.Check(m.s, m.now)
	}
	return true, nil
}

// watch measures how long the engine is idle while somebody waits.
func (m *simulation) watch() {
	waits := slices.ContainsFunc(m.workers, func(w *worker) bool { return w.waits })
	if m.idle != sched.Never {
		m.report.LongestIdle = max(m.report.LongestIdle, m.now-m.idle)
	}
	switch {
	case m.holder != nil || !waits:
		m.idle = sched.Never
	case m.idle == sched.Never:
		m.idle = m.now
	}
}

// ready takes in the commands of w that have become ready.
func (m *simulation) ready(w *worker) error {
	w.coming = slices.DeleteFunc(w.coming, func(t time.Duration) bool {
		if t <= m.now {
			w.queued++
		}
		return t <= m.now
	})
	switch {
	case w == m.holder && m.ends == sched.Never:
		m.start(0)
	case w != m.holder && !w.waits:
		if m.holder != nil {
			if err := m.s.Charge(m.holder.id, m.used, m.commands, m.now); err != nil {
				return err
			}
			m.used, m.commands = 0, 0
		}
		w.waits, w.since = true, m.now
		return m.s.Arrive(w.id, m.now)
	}
	return nil
}

// start begins the next command of the holder.
func (m *simulation) start(delay time.Duration) {
	w := m.holder
	w.queued--
	w.started = m.now + delay
	m.ends = w.started + cmp.Or(w.left, m.vary(w.Kernel))
	w.left = 0
}

func (m *simulation) vary(d time.Duration) time.Duration {
	j := m.holder.Jitter
	return time.Duration(float64(d) * (1 - j + 2*j*m.rng.Float64()))
}

// stopped is the stop of the holder's command, which is preempted.
func (m *simulation) stopped() error {
	w := m.holder
	w.result.span(w.started, m.now)
	w.result.Preempted++
	w.left = m.ends - m.now + m.Preemption
	m.used += max(m.now-w.started, 0)
	w.queued++
	return m.yield()
}

// ended is the end of the holder's command.
func (m *simulation) ended() error {
	w := m.holder
	w.result.span(w.started, m.now)
	w.result.Commands++
	m.used += m.now - w.started
	m.commands++
	m.ends, m.stops = sched.Never, sched.Never
	think := m.vary(w.Think)
	if w.Burst > 0 && w.result.Commands%w.Burst == 0 {
		think += w.Pause
	}
	w.issue(m.now + think)
	switch {
	case m.revoked || m.once || !m.standing && w.queued == 0:
		return m.yield()
	case w.queued > 0:
		m.start(0)
	}
	return nil
}

// yield gives the engine back.
func (m *simulation) yield() error {
	w := m.holder
	more := w.queued > 0
	if more {
		w.waits, w.since = true, m.now
	}
	err := m.s.Complete(w.id, m.used, m.commands, more, m.now)
	m.free()
	return err
}

// reclaim takes the engine from a holder that does nothing with it.
func (m *simulation) reclaim() error {
	err := m.s.Reclaim(m.holder.id, m.used, m.commands, m.now)
	m.free()
	return err
}

func (m *simulation) free() {
	m.holder, m.last, m.used, m.commands, m.ends, m.stops = nil, m.holder, 0, 0, sched.Never, sched.Never
}

func (m *simulation) decide() error {
	for {
		d := m.s.Next(m.now)
		m.again = d.Again
		switch {
		case d.Share != 0 && m.ends != sched.Never:
			m.standing = false
			continue
		case d.Share != 0, d.Revoke != 0 && m.ends == sched.Never:
			if err := m.reclaim(); err != nil {
				return err
			}
			continue
		case d.Revoke != 0:
			m.revoked = true
			continue
		case d.Preempt != 0:
			if m.ends != sched.Never {
				m.stops = m.now + m.Preemption
			}
			continue
		case d.Run != 0:
			w := m.workers[d.Run-1]
			w.waits = false
			w.result.LongestWait = max(w.result.LongestWait, m.now-w.since)
			m.holder, m.standing, m.once, m.revoked = w, d.Standing, !d.Standing && d.Slice == 0, false
			delay := time.Duration(0)
			if w != m.last {
				delay = m.Dispatch
				m.s.Overhead(m.Overhead, m.now)
			}
			m.start(delay)
		}
		return nil
	}
}

func (r *Result) span(from, to time.Duration) {
	if to > from {
		r.Spans = append(r.Spans, Span{from, to})
		r.Busy += to - from
	}
}

// Usage is the part of each window in [from, to) for which the guest used the
// engine. A window that does not fit is left out.
func (r *Result) Usage(window, from, to time.Duration) []float64 {
	out := make([]float64, (to-from)/window)
	for _, sp := range r.Spans {
		for t := max(sp.From, from); t < sp.To; {
			i := int((t - from) / window)
			if i >= len(out) {
				break
			}
			end := min(sp.To, from+time.Duration(i+1)*window)
			out[i] += float64(end-t) / float64(window)
			t = end
		}
	}
	return out
}

// Summary is the mean of the windows' usage and the largest distance of one
// from what was expected.
func Summary(usage []float64, expected float64) (mean, worst float64) {
	for _, u := range usage {
		mean += u / float64(len(usage))
		worst = max(worst, math.Abs(u-expected))
	}
	return mean, worst
}
