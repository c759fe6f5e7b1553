package sched

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Shares add up, keep their bounds, and are by weight where nothing binds them.
func TestDivide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 20).Draw(t, "guests")
		guests := make([]*Guest, n)
		left, caps := 1.0, 0.0
		for i := range guests {
			g := &Guest{Share: Share{Weight: rapid.Uint32Range(1, MaxWeight).Draw(t, "weight")}}
			if rapid.IntRange(0, 2).Draw(t, "reserves") == 0 {
				g.Share.Reserve = rapid.Float64Range(0, left).Draw(t, "reserve")
				left -= g.Share.Reserve
			}
			if rapid.IntRange(0, 2).Draw(t, "caps") == 0 {
				g.Share.Cap = rapid.Float64Range(max(g.Share.Reserve, MinCap), 1).Draw(t, "cap")
			}
			caps += g.most()
			guests[i] = g
		}
		divide(guests)
		sum, unit := 0.0, -1.0
		for _, g := range guests {
			sum += g.fraction
			require.GreaterOrEqual(t, g.fraction, g.Share.Reserve-1e-9)
			require.LessOrEqual(t, g.fraction, g.most()+1e-9)
			if g.fraction > g.Share.Reserve+1e-6 && g.fraction < g.most()-1e-6 {
				u := g.fraction / float64(g.Share.Weight)
				if unit >= 0 {
					require.InEpsilon(t, unit, u, 1e-6)
				}
				unit = u
			}
		}
		require.InDelta(t, min(1, caps), sum, 1e-6)
	})
}

// The window has what was added within it, to a bucket.
func TestWindow(t *testing.T) {
	const length = 320 * time.Millisecond
	rapid.Check(t, func(t *rapid.T) {
		w := newWindow(length, 0)
		type piece struct{ used, from, to time.Duration }
		var all []piece
		now := time.Duration(0)
		for range rapid.IntRange(1, 40).Draw(t, "pieces") {
			p := piece{from: now + time.Duration(rapid.Int64Range(0, int64(length)).Draw(t, "gap"))}
			p.to = p.from + time.Duration(rapid.Int64Range(1, int64(2*length)).Draw(t, "span"))
			p.used = time.Duration(rapid.Int64Range(0, int64(p.to-p.from)).Draw(t, "used"))
			now = p.to
			all = append(all, p)
			w.add(p.used, p.from, p.to)
			within := func(length time.Duration) (sum time.Duration) {
				for _, p := range all {
					if from := max(p.from, now-length); from < p.to {
						sum += time.Duration(float64(p.used) * float64(p.to-from) / float64(p.to-p.from))
					}
				}
				return sum
			}
			total := w.total(now)
			require.LessOrEqual(t, total, within(length)+100)
			require.GreaterOrEqual(t, total, within(length-w.step)-100)
			require.LessOrEqual(t, w.part(now), 1.0001)
		}
		require.Zero(t, w.total(now+2*length))
	})
}

// A guest is settled when it owes no time and its cap keeps it from nothing.
func TestSettled(t *testing.T) {
	const ms = time.Millisecond
	use := func(s *Scheduler, id ID, from, d time.Duration) {
		require.NoError(t, s.Arrive(id, from))
		require.Equal(t, id, s.Next(from).Run)
		require.NoError(t, s.Complete(id, d, 1, false, from+d))
	}
	s, err := New("band", Settings{}, 0)
	require.NoError(t, err)
	require.NoError(t, s.Add(1, Share{}, 0))
	require.NoError(t, s.Add(2, Share{}, 0))
	require.True(t, s.Settled(1, 0))
	require.True(t, s.Settled(3, 0), "who is not there owes nothing")
	use(s, 2, 0, ms) // it is active, so that the other takes something from it
	use(s, 1, ms, 10*ms)
	require.False(t, s.Settled(1, 11*ms))
	for at := 11 * ms; s.Debt(1) > 0; at += 10 * ms {
		use(s, 2, at, 10*ms)
		require.Less(t, at, time.Second)
	}
	require.True(t, s.Settled(1, 2*time.Second))

	s, err = New("band", Settings{}, 0)
	require.NoError(t, err)
	require.NoError(t, s.Add(1, Share{Cap: 0.1}, 0))
	use(s, 1, 0, 100*ms)
	require.Zero(t, s.Debt(1), "there is no guest to owe it to")
	require.False(t, s.Settled(1, 900*ms))
	require.True(t, s.Settled(1, 1000*ms))
}

// A guest that had the engine alone and let that time pass is charged its part of the time that it
// shares afterwards, and no more: the others get theirs of the same time.
func TestChargesThePartOfTheTimeSince(t *testing.T) {
	s, err := New("fifo", Settings{}, 0)
	require.NoError(t, err)
	now := time.Duration(0)
	start := func(id ID) {
		require.NoError(t, s.Add(id, Share{Weight: 1}, now))
		s.Beside(id, true)
		require.NoError(t, s.Arrive(id, now))
		d := s.Next(now)
		if d.Revoke != 0 {
			d = s.Next(now)
		}
		require.Equal(t, id, d.Run)
	}
	start(1)
	now = 2 * s.settings.Window
	require.NoError(t, s.Charge(1, 0, 1, now))
	start(2)
	start(3)
	shared := s.settings.Window
	now += shared
	for id := ID(1); id <= 3; id++ {
		require.InDelta(t, shared/3, s.Part(id, shared, now), 1)
		require.NoError(t, s.Charge(id, shared, 1, now))
	}
	usage := 0.0
	for _, st := range s.Stats(now) {
		require.InDelta(t, shared/3, st.Busy, 1)
		usage += st.Usage
	}
	require.LessOrEqual(t, usage, 1.0001)

	require.NoError(t, s.Charge(1, shared, 1, now), "what it let pass can be claimed later")
	require.InDelta(t, shared/3+shared, s.Stats(now)[0].Busy, 1)
}
