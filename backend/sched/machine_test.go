package sched_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/backend/sched"
)

// machine drives a Scheduler with random events and keeps a model of who waits
// and who runs.
type machine struct {
	s       *sched.Scheduler
	set     sched.Settings
	now     time.Duration
	guests  map[sched.ID]*model
	next    sched.ID
	running []sched.ID
	longest time.Duration // that somebody had the engine: credits are bounded by it
	idle    time.Duration // since when somebody waits for the idle engine; -1 if not
	alone   bool          // nothing ever goes on beside anything
}

// processors is what the engine's work runs on.
const processors = 4

type model struct {
	waiting bool
	turns   bool // the GPU serves it in turn with others
	beside  bool // what it waits for, or runs, may go on beside such work
	part    int  // of the processors, if it may go on beside work that uses the others
	has     int  // of them while it runs; 0 if they are not counted
	fills   bool // it can do with fewer
	stops   bool // its commands can be preempted
	asked   bool // the one that runs is to be

	standing bool          // it has the engine for as long as no other waits
	granted  time.Duration // when it got the engine
	since    time.Duration // when it was last charged
	busy     time.Duration // charged at most
}

func (m *machine) ids(waiting bool) (out []sched.ID) {
	for id, g := range m.guests {
		if !slices.Contains(m.running, id) && g.waiting == waiting {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func pick(t *rapid.T, from []sched.ID) sched.ID {
	if len(from) == 0 {
		t.Skip("none")
	}
	return rapid.SampledFrom(from).Draw(t, "guest")
}

func (m *machine) pass(t *rapid.T) {
	d := rapid.OneOf(rapid.Int64Range(0, int64(100*us)), rapid.Int64Range(0, int64(20*ms)), rapid.Int64Range(0, int64(3*time.Second))).Draw(t, "pass")
	m.now += time.Duration(d)
}

// used is what a guest that runs claims to have used since it was charged last.
func (m *machine) used(t *rapid.T, id sched.ID) time.Duration {
	g := m.guests[id]
	used := time.Duration(float64(m.now-g.since) * rapid.Float64Range(0, 1).Draw(t, "used"))
	m.longest = max(m.longest, m.now-g.granted)
	g.busy += used
	g.since = m.now // a model of the engine: what is charged now cannot be charged again
	return used
}

// over is that a guest no longer runs.
func (m *machine) over(id sched.ID) {
	m.running = slices.DeleteFunc(m.running, func(o sched.ID) bool { return o == id })
}

// decide does what Next says.
func (m *machine) decide(t *rapid.T) {
	d := m.s.Next(m.now)
	require.GreaterOrEqual(t, d.Again, m.now)
	require.False(t, d.Run != 0 && d.Revoke != 0)
	if d.Revoke != 0 {
		require.Contains(t, m.running, d.Revoke)
		m.decide(t)
		return
	}
	if d.Share != 0 {
		require.Contains(t, m.running, d.Share)
		require.True(t, m.guests[d.Share].standing, "guest %d", d.Share)
		m.guests[d.Share].standing = false
		m.decide(t)
		return
	}
	if d.Preempt != 0 {
		require.Contains(t, m.running, d.Preempt)
		g := m.guests[d.Preempt]
		require.True(t, g.stops && !g.asked && (!g.beside || g.has > 0), "guest %d", d.Preempt)
		require.GreaterOrEqual(t, m.now, g.granted+m.set.Preempt/4)
		g.asked = true
		m.decide(t)
		return
	}
	if d.Run != 0 {
		g := m.guests[d.Run]
		for _, id := range m.running {
			o := m.guests[id]
			require.True(t, g.beside && o.beside && o.has == 0 || d.Processors > 0 && o.has > 0, "the engine was not free")
		}
		require.True(t, g.waiting, "guest %d does not wait", d.Run)
		g.waiting, g.asked, g.granted, g.since, g.standing = false, false, m.now, m.now, d.Standing
		m.running = append(m.running, d.Run)
		g.has = d.Processors
		if d.Fills {
			require.True(t, g.fills && !d.Standing && (g.part == 0 || d.Processors < g.part))
		} else {
			require.True(t, d.Processors == 0 || d.Processors == g.part)
		}
		sum := 0
		for _, id := range m.running {
			sum += m.guests[id].has
		}
		require.LessOrEqual(t, sum, processors)
		require.False(t, d.Standing && g.has == 0 && (len(m.ids(true)) > 0 || len(m.running) > 1), "standing while others wait or run")
		if d.Standing {
			for _, id := range m.ids(true) {
				require.LessOrEqual(t, sum+m.guests[id].part, processors, "standing while others wait")
			}
		}
		m.decide(t)
		return
	}
	// The engine does not stay idle while somebody waits, but for a moment.
	if len(m.running) == 0 && len(m.ids(true)) > 0 {
		if m.idle < 0 {
			m.idle = m.now
		}
		require.LessOrEqual(t, d.Again, m.idle+max(m.set.Wait, sched.PauseMost))
		m.now = max(m.now, d.Again)
		m.decide(t)
		return
	}
	m.idle = -1
}

func (m *machine) check(t *rapid.T) {
	fractions, usage, total := 0.0, 0.0, time.Duration(0)
	for _, st := range m.s.Stats(m.now) {
		g := m.guests[st.ID]
		require.NotNil(t, g)
		require.Equal(t, g.waiting, st.Waiting)
		require.LessOrEqual(t, st.Busy, g.busy)
		if m.alone {
			require.Equal(t, g.busy, st.Busy)
		}
		usage += st.Usage
		total += st.Busy
		bound := max(m.set.CreditBound, m.longest)
		require.LessOrEqual(t, st.Credit, bound)
		require.GreaterOrEqual(t, st.Credit, -bound)
		fractions += st.Fraction
	}
	require.LessOrEqual(t, usage, 1.0001)
	require.LessOrEqual(t, total, m.now, "more was charged than the engine has")
	if fractions > 0 {
		require.InDelta(t, 1, fractions, 1e-6)
	}
}

// arrive has a guest wait for work of some kind.
func (m *machine) arrive(t *rapid.T) {
	m.pass(t)
	id := pick(t, m.ids(false))
	for _, id := range m.running {
		require.NoError(t, m.s.Charge(id, m.used(t, id), 1, m.now))
	}
	m.guests[id].beside = !m.alone && rapid.Bool().Draw(t, "beside")
	m.s.Beside(id, m.guests[id].beside)
	if m.guests[id].part = 0; !m.alone && !m.guests[id].beside && rapid.Bool().Draw(t, "counted") {
		m.guests[id].part = rapid.IntRange(1, processors-1).Draw(t, "processors")
	}
	m.s.Processors(id, m.guests[id].part)
	m.guests[id].fills = !m.alone && !m.guests[id].beside && rapid.Bool().Draw(t, "fills")
	m.s.Fills(id, m.guests[id].fills)
	require.NoError(t, m.s.Arrive(id, m.now))
	m.guests[id].waiting = true
	m.decide(t)
}

func TestMachine(t *testing.T) {
	for _, policy := range sched.Names() {
		t.Run(policy, func(t *testing.T) { checkMachine(t, policy, true) })
		t.Run(policy+" side by side", func(t *testing.T) { checkMachine(t, policy, false) })
	}
}

func disengages(policy string) bool { return strings.HasPrefix(policy, "dfq") }

func checkMachine(t *testing.T, policy string, alone bool) {
	rapid.Check(t, func(t *rapid.T) {
		s, err := sched.New(policy, sched.Settings{}, 0)
		require.NoError(t, err)
		s.SetProcessors(processors)
		m := &machine{s: s, set: s.Settings(), guests: map[sched.ID]*model{}, idle: -1, alone: alone}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				if len(m.guests) == 6 {
					t.Skip("enough")
				}
				m.next++
				share := sched.Share{Weight: rapid.Uint32Range(1, 20).Draw(t, "weight"), Reserve: rapid.Float64Range(0, 0.15).Draw(t, "reserve")}
				require.NoError(t, s.Add(m.next, share, m.now))
				m.guests[m.next] = &model{stops: rapid.Bool().Draw(t, "preemptible"), turns: m.alone && !disengages(policy) && rapid.Bool().Draw(t, "turns")}
				s.Preemptible(m.next, m.guests[m.next].stops)
				s.Turns(m.next, m.guests[m.next].turns)
			},
			"remove": func(t *rapid.T) {
				id := pick(t, append(m.ids(true), m.ids(false)...))
				s.Remove(id, m.now)
				delete(m.guests, id)
			},
			"remove running": func(t *rapid.T) {
				id := pick(t, m.running)
				s.Remove(id, m.now)
				delete(m.guests, id)
				m.over(id)
				m.decide(t)
			},
			"arrive": m.arrive,
			"withdraw": func(t *rapid.T) {
				id := pick(t, m.ids(true))
				require.NoError(t, s.Withdraw(id, m.now))
				m.guests[id].waiting = false
				m.decide(t)
			},
			"complete": func(t *rapid.T) {
				id := pick(t, m.running)
				m.pass(t)
				more := rapid.Bool().Draw(t, "more")
				require.NoError(t, s.Complete(id, m.used(t, id), rapid.Uint64Range(0, 9).Draw(t, "commands"), more, m.now))
				m.over(id)
				m.guests[id].waiting = more
				m.decide(t)
			},
			"reclaim": func(t *rapid.T) {
				id := pick(t, m.running)
				require.NoError(t, s.Reclaim(id, m.used(t, id), 1, m.now))
				m.over(id)
				m.decide(t)
			},
			"overhead": func(t *rapid.T) {
				s.Overhead(time.Duration(rapid.Int64Range(0, int64(50*us)).Draw(t, "overhead")), m.now)
			},
			"tick": func(t *rapid.T) {
				m.pass(t)
				m.decide(t)
			},
			"switch": func(t *rapid.T) {
				to := rapid.SampledFrom(sched.Names()).Draw(t, "policy")
				if m.alone && disengages(to) {
					to = policy // with it guests whose work the GPU serves in turn are together
				}
				require.NoError(t, s.Switch(to, sched.Settings{}, m.now))
			},
			"": m.check,
		})
	})
}

// Whoever waits runs, however the others behave: no later than when its share of
// what was used since has made up for the most that can be owed.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := rapid.SampledFrom(sched.Names()).Draw(t, "policy")
		s, err := sched.New(policy, sched.Settings{}, 0)
		require.NoError(t, err)
		n := rapid.IntRange(2, 6).Draw(t, "guests")
		lengths := make([]time.Duration, n)
		since := make([]time.Duration, n) // it waits; -1 if not
		weights, sum := make([]uint32, n), uint32(0)
		longest := time.Duration(0)
		now := time.Duration(0)
		for i := range n {
			lengths[i] = time.Duration(rapid.Int64Range(int64(100*us), int64(200*ms)).Draw(t, "command"))
			longest = max(longest, lengths[i])
			weights[i] = rapid.Uint32Range(1, 10).Draw(t, "weight")
			sum += weights[i]
			require.NoError(t, s.Add(sched.ID(i+1), sched.Share{Weight: weights[i]}, 0))
			require.NoError(t, s.Arrive(sched.ID(i+1), 0))
		}
		for range 500 {
			d := s.Next(now)
			if d.Run == 0 {
				require.Less(t, d.Again, sched.Never)
				now = d.Again
				continue
			}
			i := int(d.Run - 1)
			bound := max(sched.DefaultCreditBound, longest)
			limit := time.Duration(float64(sum)/float64(weights[i])*float64(3*bound)) + sched.DefaultWindow + time.Duration(n)*longest
			require.Less(t, now-since[i], limit, "guest %d of %d, weight %d of %d, under %s", i, n, weights[i], sum, policy)
			now += lengths[i]
			require.NoError(t, s.Complete(d.Run, lengths[i], 1, true, now))
			since[i] = now
		}
	})
}
