package sched_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// newStreams makes a scheduler of guests that keep commands queued on a GPU which serves them in turn. All of them wait.
func newStreams(t *testing.T, policy string, shares ...sched.Share) *sched.Scheduler {
	t.Helper()
	s := newScheduler(t, policy, sched.Settings{}, shares...)
	for i := range shares {
		id := sched.ID(i + 1)
		s.Turns(id, true)
		s.Preemptible(id, true)
		require.NoError(t, s.Arrive(id, 0))
	}
	return s
}

// turn lets the next guest have the engine until it has to leave it, and returns which and when.
func turn(t *testing.T, s *sched.Scheduler, now time.Duration) (sched.ID, time.Duration) {
	t.Helper()
	d := s.Next(now)
	require.NotZero(t, d.Run)
	id := d.Run
	for d.Preempt == 0 {
		if d = s.Next(now); d.Run == 0 && d.Revoke == 0 && d.Preempt == 0 {
			require.Less(t, d.Again, sched.Never)
			now = d.Again
		}
	}
	require.Equal(t, id, d.Preempt, "right after it was revoked")
	return id, now
}

// Guests that stream have turns by share, a round of 32 ms in all, and keep the engine for each without a message.
func TestTurnsByShare(t *testing.T) {
	for _, policy := range []string{"band", "wfq"} {
		s := newStreams(t, policy, sched.Share{Weight: 3}, sched.Share{Weight: 1})
		now, had := time.Duration(0), map[sched.ID]time.Duration{}
		turns := 0
		for now < 2*time.Second {
			id, end := turn(t, s, now)
			if now > time.Second {
				had[id] += end - now
				turns++
			}
			require.NoError(t, s.Complete(id, end-now, 100, true, end))
			now = end
		}
		require.InDelta(t, 0.75, had[1].Seconds()/(had[1]+had[2]).Seconds(), 0.015, policy)
		require.InDelta(t, 2/0.032, turns, 6, policy)
	}
}

// One that waits for each of its commands has turns of 6 ms beside another.
func TestTurnsOfGuestsThatWait(t *testing.T) {
	s := newStreams(t, "band", sched.Share{}, sched.Share{})
	now, turns := time.Duration(0), 0
	for ; now < time.Second; turns++ {
		id, end := turn(t, s, now)
		require.NoError(t, s.Complete(id, end-now, 100, false, end))
		require.NoError(t, s.Arrive(id, end+10*us))
		now = end + 10*us
	}
	require.InDelta(t, 1/0.006, turns, 20)
}

// A guest that had the engine alone keeps it when another comes that does not go before it, until it has nothing to do.
func TestShareOfAnEngine(t *testing.T) {
	s := newScheduler(t, "band", sched.Settings{}, sched.Share{}, sched.Share{})
	s.Turns(1, true)
	s.Turns(2, true)
	require.NoError(t, s.Arrive(2, 0))
	now := serve(t, s, 2, 0, 20*ms, 20*ms, true)
	require.NoError(t, s.Withdraw(2, now))
	require.NoError(t, s.Arrive(1, now))
	require.True(t, s.Next(now).Standing)
	now += 100 * us
	require.NoError(t, s.Charge(1, 100*us, 1, now))
	require.NoError(t, s.Arrive(2, now))
	d := s.Next(now)
	require.Equal(t, sched.ID(1), d.Share, "%+v", d)
	d = s.Next(now)
	require.Zero(t, d.Revoke)
	require.Less(t, d.Again, sched.Never)
	require.NoError(t, s.Reclaim(1, 0, 0, now), "it was idle")
	require.Equal(t, sched.ID(2), s.Next(now).Run)
}
