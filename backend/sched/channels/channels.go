// Package channels simulates, in virtual time, guests that share a GPU which serves their channels in
// turn: one request of each channel with pending work, none of which can be stopped. It is the model
// of NEON's authors. Guests may submit at any time (Direct), or as a policy of package sched allows:
// with a grant for each request, or for a time in which they need none.
package channels

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"pvdrm/backend/sched"
)

// Direct is the policy of no scheduler: the GPU alone decides.
const Direct = "direct"

// Guest is a workload: request after request, each of which is waited for.
type Guest struct {
	Request time.Duration // engine time of a request
	Off     float64       // part of the time for which the guest, alone, leaves the GPU idle: 0 to 0.99
	Weight  uint32
}

// think is the time from the end of a request to the next.
func (g Guest) think() time.Duration {
	return max(time.Duration(float64(g.Request)*g.Off/(1-g.Off)), leastThink)
}

// leastThink is what a program takes between two requests.
const leastThink = 5 * time.Microsecond

// Config is what to simulate. Zero values stand for the defaults.
type Config struct {
	Policy   string
	Settings sched.Settings
	Guests   []Guest
	Length   time.Duration // 0 is 10 s
	// Switch is the time that the GPU takes to pass to another guest's channel; 0 is 5 µs.
	Switch time.Duration
	// Grant is the time from a decision until the guest that it names submits; 0 is 20 µs.
	Grant time.Duration
	// Exclusive keeps the guests' work from being on the GPU together.
	Exclusive bool
	Seed      uint64
}

// Result is what a guest got.
type Result struct {
	Requests int
	Busy     time.Duration
	Longest  time.Duration // from a request until it ended
	Denied   uint64        // times that the policy left it out
}

// ErrConfig is what a Config is refused with.
var ErrConfig = errors.New("no such simulation")

// MaxGuests bounds the guests of a simulation.
const MaxGuests = 64

func (c Config) normal() (Config, error) {
	c.Length = cmp.Or(c.Length, 10*time.Second)
	c.Switch, c.Grant = cmp.Or(c.Switch, 5*time.Microsecond), cmp.Or(c.Grant, 20*time.Microsecond)
	if len(c.Guests) == 0 || len(c.Guests) > MaxGuests || c.Length < 0 || c.Switch < 0 || c.Grant < 0 {
		return c, fmt.Errorf("%w: %d guests, %v; choose 1 to %d guests, and times that are not negative", ErrConfig, len(c.Guests), c.Length, MaxGuests)
	}
	for _, g := range c.Guests {
		if g.Request < time.Microsecond || g.Request > time.Minute || !(g.Off >= 0 && g.Off <= 0.99) {
			return c, fmt.Errorf("%w: requests of %v, %g of the time off; choose 1 µs to 1 min, and 0 to 0.99", ErrConfig, g.Request, g.Off)
		}
	}
	return c, nil
}

// worker is a guest in the simulation.
type worker struct {
	Guest
	id      sched.ID
	next    time.Duration // its next request comes; Never while it has one
	since   time.Duration // that was
	wants   bool          // it has a request that it may not submit yet
	submits time.Duration // the request reaches the GPU; Never if it has none on its way
	pending bool          // on the GPU

	waits   bool // for the token
	token   bool
	once    bool
	keep    bool // it has the token until it is asked for it
	revoked bool
	began   time.Duration // the request reached the GPU
	used    time.Duration // since it was charged last, by requests that have ended
	count   uint64

	result Result
}

// simulation is a run.
type simulation struct {
	Config
	s       *sched.Scheduler // nil with Direct
	workers []*worker
	rng     *rand.Rand
	now     time.Duration
	again   time.Duration // the scheduler is to be asked
	serves  *worker       // whose request runs
	ends    time.Duration
	last    int // worker that was served last
}

// Run simulates.
func Run(c Config) ([]Result, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	m := &simulation{Config: c, again: sched.Never, ends: sched.Never, rng: rand.New(rand.NewPCG(c.Seed, 3))}
	if c.Policy != Direct {
		if m.s, err = sched.New(c.Policy, c.Settings, 0); err != nil {
			return nil, err
		}
	}
	for i, g := range c.Guests {
		w := &worker{Guest: g, id: sched.ID(i + 1), submits: sched.Never, next: time.Duration(m.rng.Int64N(int64(time.Millisecond)))}
		m.workers = append(m.workers, w)
		if m.s != nil {
			if err := m.s.Add(w.id, sched.Share{Weight: g.Weight}, 0); err != nil {
				return nil, err
			}
			m.s.Turns(w.id, !c.Exclusive)
		}
	}
	for m.step() {
		if err := m.events(); err != nil {
			return nil, err
		}
		if err := m.decide(); err != nil {
			return nil, err
		}
		m.serve()
	}
	var out []Result
	for _, w := range m.workers {
		out = append(out, w.result)
	}
	if m.s != nil {
		for _, st := range m.s.Stats(m.now) {
			out[st.ID-1].Denied = st.Denied
		}
	}
	return out, nil
}

// step goes to the next event. It reports false at the end.
func (m *simulation) step() bool {
	next := min(m.again, m.ends)
	for _, w := range m.workers {
		next = min(next, w.next, w.submits)
	}
	m.now = max(next, m.now)
	return m.now < m.Length
}

// events handles what happens now.
func (m *simulation) events() error {
	if m.ends <= m.now {
		w := m.serves
		m.serves, m.ends = nil, sched.Never
		w.pending = false
		w.used += m.now - w.began
		w.count++
		w.result.Requests++
		w.result.Busy += w.Request
		w.result.Longest = max(w.result.Longest, m.now-w.since)
		think := w.think()
		w.next = m.now + think/2 + time.Duration(m.rng.Int64N(int64(think)))
		if w.token && (w.once || w.revoked || !w.keep) {
			if err := m.giveBack(w); err != nil {
				return err
			}
		}
	}
	for _, w := range m.workers {
		if w.submits <= m.now {
			w.submits, w.pending, w.began = sched.Never, true, m.now
		}
		if w.next > m.now {
			continue
		}
		w.next, w.since, w.wants = sched.Never, m.now, true
		switch {
		case m.s == nil, w.token && !w.revoked:
			w.wants, w.pending, w.began = false, true, m.now
		case !w.waits:
			if err := m.arrive(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// arrive has a guest wait for the token.
func (m *simulation) arrive(w *worker) error {
	if err := m.charge(); err != nil {
		return err
	}
	w.waits = true
	return m.s.Arrive(w.id, m.now)
}

// charge charges those who have the token.
func (m *simulation) charge() error {
	for _, w := range m.workers {
		if !w.token {
			continue
		}
		if err := m.s.Charge(w.id, w.used, w.count, m.now); err != nil {
			return err
		}
		w.used, w.count = 0, 0
	}
	return nil
}

// giveBack returns the token of a guest that has no request on the GPU.
func (m *simulation) giveBack(w *worker) error {
	w.token, w.waits = false, w.wants
	err := m.s.Complete(w.id, w.used, w.count, w.wants, m.now)
	w.used, w.count = 0, 0
	return err
}

// decide follows the scheduler.
func (m *simulation) decide() error {
	if m.s == nil {
		return nil
	}
	if m.s.Observes() {
		if err := m.charge(); err != nil {
			return err
		}
	}
	for {
		d := m.s.Next(m.now)
		m.again = d.Again
		switch {
		case d.Run != 0:
			w := m.workers[d.Run-1]
			w.waits, w.token, w.wants = false, true, false
			w.once, w.keep, w.revoked = !d.Standing && d.Slice == 0, d.Standing || d.Keep, false
			w.submits = m.now + m.Grant
		case d.Revoke != 0:
			w := m.workers[d.Revoke-1]
			w.revoked = true
			if w.pending || w.submits != sched.Never {
				continue
			}
			w.token = false
			if err := m.s.Reclaim(w.id, w.used, w.count, m.now); err != nil {
				return err
			}
			w.used, w.count = 0, 0
		default:
			return nil
		}
	}
}

// serve begins the next request, if the GPU is idle: channels with pending work come in turn.
func (m *simulation) serve() {
	if m.serves != nil {
		return
	}
	for i := range m.workers {
		at := (m.last + 1 + i) % len(m.workers)
		w := m.workers[at]
		if !w.pending {
			continue
		}
		start := m.now
		if at != m.last {
			start += m.Switch
		}
		m.serves, m.ends, m.last = w, start+w.Request, at
		return
	}
}
