package sched_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
)

// alternates lets guest 1, whose work needs so many of two processors, and guest 2, which needs one, use the engine in
// turn, for 5 ms each and never at the same time, and returns what the two are owed then.
func alternates(t *testing.T, parts int) (s *sched.Scheduler, now time.Duration, credit map[sched.ID]time.Duration) {
	t.Helper()
	s = newScheduler(t, "band", sched.Settings{}, sched.Share{Weight: 3}, sched.Share{Weight: 1})
	s.SetProcessors(2)
	for i := range 10 {
		for id, n := range []int{parts, 1} {
			id := sched.ID(id + 1)
			s.Processors(id, n)
			s.Preemptible(id, true)
			require.NoError(t, s.Arrive(id, now))
			d := s.Next(now)
			if d.Run == 0 { // the other one may come back
				now = d.Again
				d = s.Next(now)
			}
			require.Equal(t, id, d.Run, "round %d", i)
			now += 5 * ms
			require.NoError(t, s.Complete(id, 5*ms, 1, false, now))
		}
	}
	return s, now, credits(s, now)
}

func credits(s *sched.Scheduler, now time.Duration) map[sched.ID]time.Duration {
	all := map[sched.ID]time.Duration{}
	for _, st := range s.Stats(now) {
		all[st.ID] = st.Credit
	}
	return all
}

// TestPausesAreOwed checks that a guest pays for the processors that it uses while one with which it cannot share them
// pauses, and that the other saves no more than the bound, however long it stays away.
func TestPausesAreOwed(t *testing.T) {
	s, now, credit := alternates(t, 2)
	require.Greater(t, credit[1], credit[2]+10*ms, "it used as much with a third of the share")
	require.NoError(t, s.Arrive(2, now))
	d := s.Next(now)
	if d.Run == 0 {
		now = d.Again
		d = s.Next(now)
	}
	require.Equal(t, sched.ID(2), d.Run)
	for range 100 {
		now += 50 * ms
		require.NoError(t, s.Charge(2, 50*ms, 10, now))
		s.Next(now)
		credit = credits(s, now)
		require.LessOrEqual(t, credit[1], sched.DefaultCreditBound)
		require.GreaterOrEqual(t, credit[2], -2*sched.DefaultCreditBound)
	}
}

// TestNothingIsOwedWhereProcessorsSuffice checks that guests with processors for both owe nothing.
func TestNothingIsOwedWhereProcessorsSuffice(t *testing.T) {
	_, _, credit := alternates(t, 1)
	require.Equal(t, map[sched.ID]time.Duration{1: 0, 2: 0}, credit)
}
