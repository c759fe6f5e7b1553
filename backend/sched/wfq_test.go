package sched_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// serve is one command of a guest that waits for it to be given the engine.
func serve(t *testing.T, s *sched.Scheduler, id sched.ID, now, held, used time.Duration, more bool) time.Duration {
	t.Helper()
	require.Equal(t, id, s.Next(now).Run)
	require.NoError(t, s.Complete(id, used, 1, more, now+held))
	return now + held
}

func newScheduler(t *testing.T, policy string, settings sched.Settings, shares ...sched.Share) *sched.Scheduler {
	t.Helper()
	s, err := sched.New(policy, settings, 0)
	require.NoError(t, err)
	for i, share := range shares {
		require.NoError(t, s.Add(sched.ID(i+1), share, 0))
	}
	return s
}

// The time for which a guest holds the engine counts, not what it says it used.
func TestWFQChargesHeldTime(t *testing.T) {
	s := newScheduler(t, "wfq", sched.Settings{Slice: sched.NoWait}, sched.Share{}, sched.Share{Weight: 2})
	require.NoError(t, s.Arrive(1, 0))
	require.NoError(t, s.Arrive(2, 0))
	now := serve(t, s, 1, 0, 10*ms, 0, true) // 1 says that it used nothing
	for range 20 {                           // 2 weighs twice as much
		now = serve(t, s, 2, now, ms, ms, true)
	}
	d := s.Next(now)
	if d.Run == 2 { // both are at the same virtual time, but for rounding
		require.NoError(t, s.Complete(2, ms, 1, true, now+ms))
		d = s.Next(now + ms)
	}
	require.Equal(t, sched.ID(1), d.Run)
}

// A guest that sleeps saves nothing: it takes turns with the others when it is back.
func TestWFQSleeperGainsNothing(t *testing.T) {
	s := newScheduler(t, "wfq", sched.Settings{Slice: sched.NoWait}, sched.Share{}, sched.Share{}, sched.Share{})
	now := time.Duration(0)
	require.NoError(t, s.Arrive(1, now))
	require.NoError(t, s.Arrive(2, now))
	ran := map[sched.ID]int{}
	run := func() {
		id := s.Next(now).Run
		ran[id]++
		now += ms
		require.NoError(t, s.Complete(id, ms, 1, true, now))
	}
	for range 2000 {
		run()
	}
	require.NoError(t, s.Arrive(3, now))
	clear(ran)
	for range 300 {
		run()
	}
	for id, n := range ran {
		require.InDelta(t, 100, n, 2, "guest %d", id)
	}
}

// A guest that has had more than its share still owes it after a pause.
func TestWFQPauseShedsNoDebt(t *testing.T) {
	s := newScheduler(t, "wfq", sched.Settings{Slice: sched.NoWait}, sched.Share{}, sched.Share{})
	require.NoError(t, s.Arrive(1, 0))
	require.NoError(t, s.Arrive(2, 0))
	now := serve(t, s, 1, 0, 100*ms, 100*ms, false) // and sleeps
	for range 20 {
		now = serve(t, s, 2, now, ms, ms, true)
	}
	require.NoError(t, s.Arrive(1, now))
	for range 79 { // 2 has had 20 ms, 1 has had 100
		now = serve(t, s, 2, now, ms, ms, true)
	}
}

// The engine is kept for a guest that is behind and about to come back, no longer
// than Settings.Wait; and use while no other was there is owed to none.
func TestWFQWaitsAndForgives(t *testing.T) {
	s := newScheduler(t, "wfq", sched.Settings{}, sched.Share{}, sched.Share{})
	require.NoError(t, s.Arrive(1, 0))
	require.True(t, s.Next(0).Standing)
	now := time.Hour
	require.NoError(t, s.Charge(1, time.Hour, 1, now))
	require.NoError(t, s.Arrive(2, now))
	require.Equal(t, sched.ID(1), s.Next(now).Revoke)
	require.NoError(t, s.Complete(1, 15*ms, 1, true, now+15*ms))
	now = serve(t, s, 2, now+15*ms, ms, ms, false)
	require.Equal(t, sched.Decision{Again: now + sched.DefaultWait}, s.Next(now), "2 is behind, and expected")
	require.NoError(t, s.Arrive(2, now+100*us))
	now = serve(t, s, 2, now+100*us, 20*ms, 20*ms, false)
	require.Equal(t, sched.ID(1), s.Next(now).Run, "2 is ahead: an hour that it was not there for is not counted")
}

// A guest whose commands can be stopped goes on for another slice while it is behind all others by half of one.
func TestWFQStays(t *testing.T) {
	const slice = 10 * ms
	s := newScheduler(t, "wfq", sched.Settings{Slice: slice}, sched.Share{}, sched.Share{Weight: 2}, sched.Share{})
	s.Preemptible(2, true)
	require.NoError(t, s.Arrive(1, 0))
	require.NoError(t, s.Arrive(2, 0))
	now := serve(t, s, 1, 0, 4*slice, 4*slice, true)
	d := s.Next(now)
	require.Equal(t, sched.Decision{Run: 2, Slice: slice, Again: now + slice}, d)
	for range 7 {
		now += slice
		require.Equal(t, sched.Decision{Again: now + slice}, s.Next(now), "%v", now)
	}
	now += slice
	require.Equal(t, sched.ID(2), s.Next(now).Revoke, "as far as 1, by weight")
	require.NoError(t, s.Complete(2, 8*slice, 1, true, now))

	// One that arrives has its turn after a slice, and at once if the engine was given for as long as no other waits.
	require.NoError(t, s.Complete(s.Next(now).Run, ms, 1, false, now+ms))
	now += time.Second
	require.True(t, s.Next(now).Standing)
	require.NoError(t, s.Arrive(3, now+ms))
	require.Equal(t, sched.ID(2), s.Next(now+ms).Share)
	require.Equal(t, sched.Decision{Again: now + slice}, s.Next(now+ms))
	require.Equal(t, sched.ID(2), s.Next(now+slice).Revoke)
	require.NoError(t, s.Complete(2, slice, 1, true, now+slice))
	now = serve(t, s, 3, now+slice, ms, ms, false)
	require.NoError(t, s.Withdraw(2, now))
	now += 2 * time.Second
	require.NoError(t, s.Arrive(2, now))
	require.True(t, s.Next(now).Standing)
	require.NoError(t, s.Arrive(1, now+time.Second))
	require.Equal(t, sched.ID(2), s.Next(now+time.Second).Revoke)
}

// However often a guest comes back within a slice, it saves no more than the bound: others are not put off for what it did
// not ask for.
func TestWFQShortPausesAreBounded(t *testing.T) {
	s := newScheduler(t, "wfq", sched.Settings{Slice: 10 * ms, Wait: sched.NoWait}, sched.Share{}, sched.Share{})
	require.NoError(t, s.Arrive(2, 0))
	now := time.Duration(0)
	for range 1000 { // a little now and then
		require.NoError(t, s.Arrive(1, now))
		now = serve(t, s, 1, now, 10*us, 10*us, false)
		now = serve(t, s, 2, now, 9*ms, 9*ms, true)
	}
	require.NoError(t, s.Arrive(1, now))
	alone := time.Duration(0)
	for s.Next(now).Run == 1 {
		now += ms
		alone += ms
		require.NoError(t, s.Complete(1, ms, 1, true, now))
		require.Less(t, alone, time.Second)
	}
	require.LessOrEqual(t, alone, sched.DefaultCreditBound+22*ms)
	require.Greater(t, alone, 8*ms)
}

// A guest that comes back within a slice keeps what it is behind; after a longer pause it has saved nothing.
func TestWFQShortPause(t *testing.T) {
	for _, c := range []struct {
		away time.Duration
		want sched.ID
	}{{away: 9 * ms, want: 2}, {away: 11 * ms, want: 1}} {
		s := newScheduler(t, "wfq", sched.Settings{Slice: 10 * ms}, sched.Share{}, sched.Share{})
		require.NoError(t, s.Arrive(1, 0))
		require.NoError(t, s.Arrive(2, 0))
		now := serve(t, s, 1, 0, 50*ms, 50*ms, true)
		now = serve(t, s, 2, now, ms, ms, false)
		now = serve(t, s, 1, now+sched.DefaultWait, c.away, c.away, true)
		require.NoError(t, s.Arrive(2, now))
		require.Equal(t, c.want, s.Next(now).Run, "%v", c.away)
	}
}
