package sched_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"pvdrm/backend/sched"
	"pvdrm/backend/sched/schedtest"
)

func TestClasses(t *testing.T) {
	for i, name := range sched.ClassNames() {
		c := sched.Class(i)
		require.Equal(t, name, c.String())
		b, err := json.Marshal(sched.Share{Class: c})
		require.NoError(t, err)
		require.Contains(t, string(b), `"`+name+`"`)
		var s sched.Share
		require.NoError(t, json.Unmarshal(b, &s))
		require.Equal(t, c, s.Class)
	}
	_, err := sched.Class(7).MarshalText()
	require.ErrorIs(t, err, sched.ErrShare)
	var c sched.Class
	require.ErrorIs(t, c.UnmarshalText([]byte("urgent")), sched.ErrShare)
}

// The higher priority has the engine while it has work, equals divide it by
// weight, and a guest that waits for a window gets a turn, but one in a window.
func TestPriority(t *testing.T) {
	busy := func(s sched.Share) schedtest.Guest {
		return schedtest.Guest{Kernel: ms, Depth: 4, Jitter: 0.02, Share: s}
	}
	report := simulate(t, "priority", []schedtest.Guest{
		busy(sched.Share{Priority: 2}), busy(sched.Share{Priority: 2, Weight: 3}),
		busy(sched.Share{Priority: 1}), busy(sched.Share{}), busy(sched.Share{}),
	})
	for i, want := range []float64{0.25, 0.75} {
		mean, _ := measured(report.Guests[i], 500*ms, want)
		require.InDelta(t, want, mean, 0.01)
	}
	turns := 0
	for _, r := range report.Guests[2:] {
		require.Less(t, r.LongestWait, 4*sched.DefaultWindow, "it starves")
		turns += r.Commands
	}
	require.InDelta(t, 20, turns, 10, "a turn of a slice in each window")
}

// A turn that was longer than a window does not bring the next one nearer.
func TestReliefOfLongCommands(t *testing.T) {
	report := simulate(t, "priority", []schedtest.Guest{
		{Kernel: ms, Depth: 4, Share: sched.Share{Priority: 1}},
		{Kernel: 2 * time.Second, Depth: 2}, {Kernel: 2 * time.Second, Depth: 2},
	})
	mean, _ := measured(report.Guests[0], time.Second, 0)
	require.InDelta(t, 1./3, mean, 0.05)
}

// The engine is kept for a guest of high priority that is about to come back, and
// not for one that stays away.
func TestPriorityWaits(t *testing.T) {
	for think, most := range map[time.Duration]float64{40 * us: 0.03, 5 * ms: 1} {
		report := simulate(t, "priority", []schedtest.Guest{
			{Kernel: ms, Think: think, Share: sched.Share{Priority: 1}},
			{Kernel: 15 * ms, Depth: 2},
		})
		mean, _ := measured(report.Guests[1], time.Second, 0)
		require.LessOrEqual(t, mean, most)
		if most == 1 {
			require.Greater(t, mean, 0.6)
			require.LessOrEqual(t, report.LongestIdle, sched.DefaultWait)
		}
	}
}

// elastic serves class latency first, those of the earliest deadline before the
// others, and batch guests by weight in what is left.
func TestElastic(t *testing.T) {
	latency := sched.Share{Class: sched.Latency}
	report := simulate(t, "elastic", []schedtest.Guest{
		{Kernel: 2 * ms, Think: 10 * ms, Share: latency, Jitter: 0.3},
		{Kernel: 2 * ms, Think: 10 * ms, Share: latency, Jitter: 0.3},
		{Kernel: 5 * ms, Depth: 2, Share: sched.Share{Weight: 3}},
		{Kernel: 5 * ms, Depth: 2},
	})
	for _, r := range report.Guests[:2] {
		require.Less(t, r.LongestWait, 13*ms, "a command of each of the others, and a turn of one that starved")
	}
	three, one := report.Guests[2].Busy, report.Guests[3].Busy
	require.InEpsilon(t, 3, float64(three)/float64(one), 0.02)

	s := newScheduler(t, "elastic", sched.Settings{Slice: sched.NoWait}, sched.Share{},
		sched.Share{Class: sched.Latency}, sched.Share{Class: sched.Latency, SLA: 50 * ms})
	require.NoError(t, s.Arrive(1, 0))
	require.NoError(t, s.Arrive(2, ms))
	require.NoError(t, s.Arrive(3, 100*ms))
	now := serve(t, s, 3, 100*ms, ms, ms, false)
	now = serve(t, s, 2, now+sched.DefaultWait, ms, ms, false)
	serve(t, s, 1, now+sched.DefaultWait, ms, ms, false)
}

// A batch guest among guests of class latency that saturate the engine gets a
// turn after a window.
func TestElasticStarvesNobody(t *testing.T) {
	report := simulate(t, "elastic", []schedtest.Guest{
		{Kernel: ms, Depth: 4, Share: sched.Share{Class: sched.Latency}}, {Kernel: ms, Depth: 2}})
	require.Less(t, report.Guests[1].LongestWait, sched.DefaultWindow+10*ms)
	require.Greater(t, report.Guests[1].Commands, 10)
}

func TestNeeded(t *testing.T) {
	for _, c := range []struct {
		mean        time.Duration
		outstanding int
		sla         time.Duration
		gpus, want  int
	}{
		{mean: 50 * ms, outstanding: 0, sla: 200 * ms, gpus: 4, want: 0},
		{mean: 50 * ms, outstanding: 1, sla: 200 * ms, gpus: 4, want: 1},
		{mean: 50 * ms, outstanding: 4, sla: 200 * ms, gpus: 4, want: 1},
		{mean: 50 * ms, outstanding: 5, sla: 200 * ms, gpus: 4, want: 2},
		{mean: 50 * ms, outstanding: 500, sla: 200 * ms, gpus: 4, want: 4},
		{mean: 150 * ms, outstanding: 2, sla: 0, gpus: 4, want: 2},
		{mean: 0, outstanding: 9, sla: 200 * ms, gpus: 4, want: 0},
	} {
		require.Equal(t, c.want, sched.Needed(c.mean, c.outstanding, c.sla, c.gpus), "%+v", c)
	}
}

func TestVictim(t *testing.T) {
	tasks := []sched.Running{{Started: 1 * ms}, {Started: 9 * ms}, {Started: 5 * ms}}
	require.Equal(t, 1, sched.Victim(tasks, 10*ms, ms, 0), "the latest start")
	tasks[1].Expected = 2 * ms
	require.Equal(t, 1, sched.Victim(tasks, 10*ms, ms, 0), "it goes on for as long as a revocation takes")
	require.Equal(t, 2, sched.Victim(tasks, 10*ms+1, ms, 0), "it ends before that")
	tasks[2].Revocations = 3
	require.Equal(t, 2, sched.Victim(tasks, 10*ms+1, ms, 4))
	require.Equal(t, 0, sched.Victim(tasks, 10*ms+1, ms, 3), "it was revoked often enough")
	require.Equal(t, 2, sched.Victim(tasks, 10*ms+1, ms, 0), "there is no limit")
	require.Equal(t, -1, sched.Victim(nil, 0, ms, 0))

	rapid.Check(t, func(t *rapid.T) {
		now := time.Second
		tasks := make([]sched.Running, rapid.IntRange(0, 8).Draw(t, "tasks"))
		for i := range tasks {
			tasks[i] = sched.Running{Started: time.Duration(rapid.Int64Range(0, int64(now)).Draw(t, "started")),
				Expected:    time.Duration(rapid.Int64Range(0, int64(2*now)).Draw(t, "expected")),
				Revocations: rapid.IntRange(0, 3).Draw(t, "revocations")}
		}
		i := sched.Victim(tasks, now, 10*ms, 2)
		may := func(r sched.Running) bool {
			return r.Revocations < 2 && (r.Expected == 0 || r.Started+r.Expected-now >= 10*ms)
		}
		for _, r := range tasks {
			if may(r) {
				require.GreaterOrEqual(t, i, 0)
				require.GreaterOrEqual(t, tasks[i].Started, r.Started)
			}
		}
		if i >= 0 {
			require.True(t, may(tasks[i]))
		}
	})
}
