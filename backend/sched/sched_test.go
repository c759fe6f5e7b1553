package sched_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
	"pvdrm/backend/sched/schedtest"
)

func TestNames(t *testing.T) {
	require.Equal(t, []string{"band", "credit", "dfq", "dfq-roundrobin", "division", "dtimeslice", "elastic", "fifo", "gdev-band", "gpuvm-band", "priority",
		"timeslice", "wfq"}, sched.Names())
	_, err := sched.New("lottery", sched.Settings{}, 0)
	require.ErrorIs(t, err, sched.ErrPolicy)
	require.ErrorContains(t, err, "band, credit, dfq, ")
	require.Panics(t, func() { sched.Register("band", "", nil) })
}

func TestSettings(t *testing.T) {
	s, err := sched.New("band", sched.Settings{Wait: sched.NoWait, Window: 2 * time.Second}, 0)
	require.NoError(t, err)
	require.Equal(t, sched.Settings{Period: 30 * ms, CreditBound: 30 * ms, Window: 2 * time.Second, Slice: ms, Preempt: ms, Round: 32 * ms}, s.Settings())
	for _, bad := range []sched.Settings{
		{Period: us}, {Period: time.Hour}, {CreditBound: us}, {Window: ms}, {Window: time.Hour},
		{Wait: -2}, {Wait: 2 * time.Second}, {Wait: 500 * ms, Window: 100 * ms}, {Slice: -5 * ms}, {Slice: time.Minute},
		{Preempt: -5 * ms}, {Preempt: time.Minute}, {Round: us}, {Round: time.Minute},
	} {
		_, err := sched.New("band", bad, 0)
		require.ErrorIs(t, err, sched.ErrSettings, "%+v", bad)
	}
}

func TestShares(t *testing.T) {
	s, err := sched.New("band", sched.Settings{}, 0)
	require.NoError(t, err)
	for _, bad := range []sched.Share{
		{Weight: sched.MaxWeight + 1}, {Cap: -1}, {Cap: 1.5}, {Cap: 0.0001}, {Cap: math.NaN()},
		{Reserve: -0.1}, {Reserve: 1.1}, {Reserve: math.NaN()}, {Reserve: 0.5, Cap: 0.4},
		{Class: 2}, {Priority: sched.MaxPriority + 1}, {SLA: 100 * ms}, {Class: sched.Latency, SLA: us},
		{Class: sched.Latency, SLA: time.Hour}, {Class: sched.Latency, SLA: -ms},
	} {
		require.ErrorIs(t, s.Add(1, bad, 0), sched.ErrShare, "%+v", bad)
	}
	require.NoError(t, s.Add(1, sched.Share{Reserve: 0.7}, 0))
	require.ErrorIs(t, s.Add(2, sched.Share{Reserve: 0.4}, 0), sched.ErrShare)
	require.NoError(t, s.Add(2, sched.Share{Reserve: 0.3}, 0))
	require.ErrorIs(t, s.SetShare(2, sched.Share{Reserve: 0.31}, 0), sched.ErrShare)
	require.NoError(t, s.SetShare(1, sched.Share{Reserve: 0.1}, 0))
	require.NoError(t, s.SetShare(2, sched.Share{Reserve: 0.9}, 0))
}

// Work that may go on beside other work waits for work that may not, also when what waited before
// it is withdrawn.
func TestBesideWaitsForTheOthers(t *testing.T) {
	for _, policy := range sched.Names() {
		s, err := sched.New(policy, sched.Settings{}, 0)
		require.NoError(t, err)
		for id := sched.ID(1); id <= 3; id++ {
			require.NoError(t, s.Add(id, sched.Share{Weight: 1}, 0))
		}
		require.NoError(t, s.Arrive(1, 0))
		require.Equal(t, sched.ID(1), s.Next(0).Run, policy)
		require.NoError(t, s.Arrive(2, 0))
		require.Zero(t, s.Next(0).Run, policy)
		s.Beside(3, true)
		require.NoError(t, s.Arrive(3, 0))
		require.Zero(t, s.Next(0).Run, policy)
		require.NoError(t, s.Withdraw(2, 0))
		require.Zero(t, s.Next(0).Run, policy)
		require.NoError(t, s.Complete(1, ms, 1, false, ms))
		now, d := ms, s.Next(ms)
		for d.Run == 0 && now < time.Second { // policies may wait for the first a little
			now = d.Again
			d = s.Next(now)
		}
		require.Equal(t, sched.ID(3), d.Run, policy)
	}
}

// Events that do not fit are refused and change nothing.
func TestEventsOutOfOrder(t *testing.T) {
	s, err := sched.New("band", sched.Settings{}, 0)
	require.NoError(t, err)
	require.ErrorIs(t, s.Add(0, sched.Share{}, 0), sched.ErrGuest)
	require.NoError(t, s.Add(1, sched.Share{}, 0))
	require.ErrorIs(t, s.Add(1, sched.Share{}, 0), sched.ErrGuest)
	for _, id := range []sched.ID{1, 7} {
		require.ErrorIs(t, s.Withdraw(id, 0), sched.ErrGuest)
		require.ErrorIs(t, s.Charge(id, ms, 1, 0), sched.ErrGuest)
		require.ErrorIs(t, s.Complete(id, ms, 1, true, 0), sched.ErrGuest)
		require.ErrorIs(t, s.Reclaim(id, ms, 1, 0), sched.ErrGuest)
	}
	require.ErrorIs(t, s.Arrive(7, 0), sched.ErrGuest)
	require.ErrorIs(t, s.SetShare(7, sched.Share{}, 0), sched.ErrGuest)
	s.Remove(7, 0)
	require.NoError(t, s.Arrive(1, 0))
	require.ErrorIs(t, s.Arrive(1, 0), sched.ErrGuest)
	require.Equal(t, sched.ID(1), s.Next(0).Run)
	require.ErrorIs(t, s.Arrive(1, 0), sched.ErrGuest, "it has the engine")
	require.NoError(t, s.Complete(1, ms, 1, false, ms))
	require.Equal(t, ms, s.Stats(ms)[0].Busy)
}

// Alone, a guest gets the engine to keep; it is asked for it when another comes.
func TestStanding(t *testing.T) {
	for _, policy := range sched.Names() {
		s, err := sched.New(policy, sched.Settings{}, 0)
		require.NoError(t, err)
		require.NoError(t, s.Add(1, sched.Share{}, 0))
		require.NoError(t, s.Add(2, sched.Share{}, 0))
		require.NoError(t, s.Arrive(1, 0))
		require.Equal(t, sched.Decision{Run: 1, Standing: true, Again: sched.Never}, s.Next(0))
		require.Equal(t, sched.Decision{Again: sched.Never}, s.Next(time.Hour))

		now := 2 * time.Hour
		require.NoError(t, s.Charge(1, time.Hour, 1000, now))
		require.NoError(t, s.Arrive(2, now))
		require.Equal(t, sched.Decision{Revoke: 1, Again: sched.Never}, s.Next(now))
		require.Equal(t, sched.Decision{Again: sched.Never}, s.Next(now), "it is said once")
		require.NoError(t, s.Reclaim(1, 0, 0, now))
		d := s.Next(now)
		require.Equal(t, sched.ID(2), d.Run)
		// Among several, a guest has a time under these policies, or one command.
		timed := slices.Contains([]string{"timeslice", "dtimeslice", "dfq", "dfq-roundrobin"}, policy)
		require.Equal(t, !timed, d.Standing, policy)
		require.GreaterOrEqual(t, s.Stats(now)[0].Credit, time.Duration(0), "nothing is owed for time that nobody else wanted")
	}
}

// While others wait, the engine is given for a slice.
func TestSlice(t *testing.T) {
	s, err := sched.New("credit", sched.Settings{Slice: 2 * ms}, 0)
	require.NoError(t, err)
	for id := range sched.ID(2) {
		require.NoError(t, s.Add(id+1, sched.Share{}, 0))
		require.NoError(t, s.Arrive(id+1, 0))
	}
	require.Equal(t, sched.Decision{Run: 1, Slice: 2 * ms, Again: 2 * ms}, s.Next(0))
	require.Equal(t, sched.Decision{Again: 2 * ms}, s.Next(ms))
	require.Equal(t, sched.Decision{Revoke: 1, Again: sched.Never}, s.Next(2*ms))
	require.NoError(t, s.Complete(1, 3*ms, 3, true, 3*ms))
	require.Equal(t, sched.ID(2), s.Next(3*ms).Run)
	require.NoError(t, s.Withdraw(1, 3*ms))
	require.Equal(t, sched.Decision{Again: sched.Never}, s.Next(time.Second), "nobody waits at its end")
}

// BAND keeps the engine for a guest that has just been served and is behind,
// until it was late twice in a row.
func TestBandWaits(t *testing.T) {
	s, err := sched.New("band", sched.Settings{}, 0)
	require.NoError(t, err)
	require.NoError(t, s.Add(1, sched.Share{}, 0))
	require.NoError(t, s.Add(2, sched.Share{}, 0))
	require.NoError(t, s.Arrive(1, 0))
	require.Equal(t, sched.ID(1), s.Next(0).Run)
	now, done := time.Duration(0), time.Duration(0)
	// 2 comes while a long command of 1 runs, and runs when that ends.
	behind := func() {
		require.NoError(t, s.Arrive(2, now))
		s.Next(now)
		now += 100 * ms
		require.NoError(t, s.Complete(1, 100*ms, 1, true, now))
	}
	serve := func() {
		require.Equal(t, sched.ID(2), s.Next(now).Run)
		now += ms
		require.NoError(t, s.Complete(2, ms, 1, false, now))
		done = now
	}
	waits := func() {
		require.Equal(t, sched.Decision{Again: done + sched.DefaultWait}, s.Next(now))
	}
	behind()
	serve()
	waits()
	now += 200 * us // it comes in time
	require.NoError(t, s.Arrive(2, now))
	serve()
	waits()
	for late := range 2 { // it does not
		now = done + sched.DefaultWait
		require.Equal(t, sched.ID(1), s.Next(now).Run, "late %d times", late)
		now++
		behind()
		serve()
		if late == 0 {
			waits()
		}
	}
	require.Equal(t, sched.ID(1), s.Next(now).Run, "nobody waits for it any longer")
	now += 100 * us // in time again
	behind()
	serve()
	waits()
}

func TestRemoveFreesTheEngine(t *testing.T) {
	s, err := sched.New("band", sched.Settings{}, 0)
	require.NoError(t, err)
	for id := range sched.ID(2) {
		require.NoError(t, s.Add(id+1, sched.Share{}, 0))
		require.NoError(t, s.Arrive(id+1, 0))
	}
	require.Equal(t, sched.ID(1), s.Next(0).Run)
	s.Remove(1, ms)
	require.Equal(t, sched.ID(2), s.Next(ms).Run)
	s.Remove(2, ms)
	require.Equal(t, sched.Decision{Again: sched.Never}, s.Next(ms))
	require.Empty(t, s.Stats(ms))
}

// The policy can change while guests wait and run. Usage stays; credit stays when
// only settings change, and another policy begins with empty accounts.
func TestSwitchWhileRunning(t *testing.T) {
	report, err := schedtest.Run(schedtest.Config{
		Policy: "fifo", Guests: half(2, ms, 40*us), Length: 60 * time.Second,
		Check: func(s *sched.Scheduler, now time.Duration) {
			want := []string{"fifo", "band", "credit"}[int(now/(10*time.Second))%3]
			if s.Policy() == want {
				return
			}
			before := s.Stats(now)
			require.NoError(t, s.Switch(s.Policy(), sched.Settings{Slice: ms / 2}, now))
			require.Equal(t, before, s.Stats(now))
			require.NoError(t, s.Switch(want, sched.Settings{}, now))
			require.Equal(t, want, s.Policy())
			for i := range before {
				before[i].Credit = 0
			}
			require.Equal(t, before, s.Stats(now))
		},
	})
	require.NoError(t, err)
	for i, u := range report.Guests[0].Usage(5*time.Second, 0, 60*time.Second) {
		if i%2 == 0 {
			continue // the window in which the policy changed
		}
		want := []float64{1. / 16, 0.49, 1. / 16}[i/2%3]
		require.InDelta(t, want, u, 0.02, "window %d", i)
	}
	s, err := sched.New("fifo", sched.Settings{}, 0)
	require.NoError(t, err)
	require.ErrorIs(t, s.Switch("none", sched.Settings{}, 0), sched.ErrPolicy)
	require.ErrorIs(t, s.Switch("band", sched.Settings{Wait: -3}, 0), sched.ErrSettings)
	require.Equal(t, "fifo", s.Policy())
}
