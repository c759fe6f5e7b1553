package sched_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"pvdrm/backend/sched"
	"pvdrm/backend/sched/schedtest"
)

// Under division guests with long kernels of different lengths share short windows as those with
// short kernels do, if kernels can be cut.
func TestDivisionSharesWindows(t *testing.T) {
	for _, lengths := range [][]time.Duration{{ms, 15 * ms}, {ms, 19 * ms, 15 * ms, ms}, {3 * ms, 200 * ms, 200 * ms}, {endless, endless, endless, endless, endless, endless}} {
		t.Run(fmt.Sprint(lengths), func(t *testing.T) {
			var guests []schedtest.Guest
			for _, d := range lengths {
				guests = append(guests, schedtest.Guest{Kernel: d, Think: 10 * us})
			}
			r := stopping(t, "division", sched.Settings{}, guests...)
			whole := stopping(t, "division", sched.Settings{Preempt: sched.NoWait}, guests...)
			share := 1 / float64(len(guests))
			for i := range guests {
				mean, worst := usage(r, i, 100*ms, share)
				_, uncut := usage(whole, i, 100*ms, share)
				t.Logf("guest %d of %v: mean %4.1f %%, worst %4.1f points, uncut %4.1f", i, lengths[i], 100*mean, 100*worst, 100*uncut)
				require.LessOrEqual(t, worst, 0.03, "guest %d", i)
				require.InDelta(t, share, mean, 0.02, "guest %d", i)
				if lengths[i] > 10*ms {
					require.Greater(t, uncut, 0.15, "guest %d", i)
				}
			}
		})
	}
}

// A guest that was idle for long is owed nothing for that time, and pauses no other.
func TestDivisionAfterIdle(t *testing.T) {
	r := stopping(t, "division", sched.Settings{}, schedtest.Guest{Kernel: endless}, schedtest.Guest{Kernel: 15 * ms, Start: 6 * time.Second})
	for i := range r.Guests {
		late := r.Guests[i].Usage(100*ms, 6100*ms, 11*time.Second)
		_, worst := schedtest.Summary(late, 0.5)
		require.Less(t, worst, 0.08, "guest %d", i)
	}
}

// Six equal tasks of one long command each end at almost the same time where they are cut; else the
// last ends when six are done, and the first when one is.
func TestEqualTasksEndTogether(t *testing.T) {
	for policy, most := range map[string]float64{"division": 1.05, "band": 1.05, "wfq": 1.05, "fifo": 6.1} {
		guests := make([]schedtest.Guest, 6)
		for i := range guests {
			guests[i] = schedtest.Guest{Kernel: 400 * ms, Count: 1, Start: ms}
		}
		r := stopping(t, policy, sched.Settings{}, guests...)
		first, last := time.Hour, time.Duration(0)
		for _, g := range r.Guests {
			require.Equal(t, 1, g.Commands, policy)
			end := g.Spans[len(g.Spans)-1].To - ms
			first, last = min(first, end), max(last, end)
		}
		ratio := last.Seconds() / first.Seconds()
		t.Logf("%s: first after %v, last after %v, ratio %.3f", policy, first, last, ratio)
		require.LessOrEqual(t, ratio, most, policy)
		if policy == "fifo" {
			require.Greater(t, ratio, 5.9)
		}
	}
}
